"""Waits for asynchronous products of warp groups, and which products each of them waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import prop_def, var_operand_def

from mugraph.dialects.accessors import number_of
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.sched.accesses import HasThreadAccesses, StageReference, ThreadAccess
from mugraph.dialects.sched.kernel import enclosing_kernel
from mugraph.dialects.sched.role import enclosing_role
from mugraph.dialects.sched.structure import enclosing_loop, loop_iterations
from mugraph.dialects.sched.tile_values import TiedTiles, WritesTiles, registers_of, tile_types
from mugraph.dialects.sched.types import TileType
from mugraph.dialects.sched.warpgroup import WarpgroupMmaOp


class Product(NamedTuple):
    """One asynchronous product: that of an iteration of the loop, or of before or after it.

    ``behind`` counts iterations back from where it is asked, 0 outside the loop.
    """

    op: WarpgroupMmaOp
    behind: int


@irdl_op_definition
class WarpgroupWaitOp(WritesTiles, HasThreadAccesses):
    """Waits until at most ``pending`` of the newest asynchronous products are unfinished.

    Up to it the other products before it may still read their operands.  ``for %sum`` are the tiles
    to which no unfinished product adds behind it; what uses them takes what the wait returns.
    """

    name = "sched.warpgroup_wait"

    TIED: ClassVar[Sequence[str]] = ("sums",)

    pending = prop_def(IntegerAttr.constr(type=i64))
    sums = var_operand_def(TileType)

    assembly_format = (
        "`pending` $pending (`for` $sums^ `:` type($sums))? attr-dict "
        "custom<TiedTiles>(type($tiles))"
    )
    custom_directives = (TiedTiles,)

    def __init__(self, pending: int, sums: Sequence[SSAValue] = ()) -> None:
        super().__init__(
            operands=[sums],
            result_types=[tile_types(*sums)],
            properties={"pending": IntegerAttr(pending, i64)},
        )

    pending_products = number_of("pending")
    """How many products may be unfinished behind it."""

    def verify_(self) -> None:
        """Checks the number."""
        if self.pending_products < 0:
            raise OperatorError(f"pending must not be negative, it is {self.pending_products}")

    def finished(self) -> list[Product]:
        """The products that it waits for and no wait before it did, once the loop is warm."""
        return waited_products(self)[0]

    def complete_sums(self) -> list[SSAValue]:
        """The sums of those products to which no product adds that is unfinished behind it."""
        finished, unfinished = waited_products(self)
        growing = {registers_of(value) for op in unfinished for value in op.accumulators}
        sums = (value for product in finished for value in product.op.accumulators)
        return [value for value in dict.fromkeys(sums) if registers_of(value) not in growing]

    def buffers_read(self) -> Sequence[SSAValue]:
        """The operands and accumulators of the products that it waits for."""
        return list(
            dict.fromkeys(
                value for product in self.finished() for value in product.op.buffers_read()
            )
        )

    def buffers_written(self) -> Sequence[SSAValue]:
        """The accumulators of the products that it waits for."""
        return [value for product in self.finished() for value in product.op.accumulators]

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The last moment at which the products that it waits for may read their operands."""
        accesses: list[ThreadAccess] = []
        for product in self.finished():
            accesses += product.op.reads(self._stage_of(product))
        return accesses

    def _stage_of(self, product: Product) -> StageReference:
        loop = enclosing_loop(product.op)
        if loop is None:
            return product.op.stage
        late = product.op.ahead_of - product.behind * loop.step_of
        if enclosing_loop(self) is not None:
            return StageReference(ahead=late)
        last = loop_iterations(enclosing_kernel(self)) - loop.step_of
        return StageReference(iteration=last + late)


def waited_products(wait: WarpgroupWaitOp) -> tuple[list[Product], list[WarpgroupMmaOp]]:
    """What a wait waits for, and what is unfinished behind it.

    The role is played through, its loop twice more than products last.
    """
    steps = [step for phase in _phases(wait) for step in phase]
    rounds = 2 + sum(isinstance(step, WarpgroupWaitOp) and step.pending_products for step in steps)
    unfinished: deque[tuple[WarpgroupMmaOp, int]] = deque()
    finished: list[Product] = []
    left: list[WarpgroupMmaOp] = []
    for phase in _phases(wait):
        in_loop = any(enclosing_loop(step) is not None for step in phase)
        for iteration in range(rounds if in_loop else 1):
            for step in phase:
                if isinstance(step, WarpgroupMmaOp):
                    unfinished.append((step, iteration))
                    continue
                done: list[tuple[WarpgroupMmaOp, int]] = []
                while len(unfinished) > step.pending_products:
                    done.append(unfinished.popleft())
                if step is wait:
                    here = iteration if in_loop else rounds - 1
                    left = [op for op, _ in unfinished]
                    finished = [
                        Product(op, here - at if enclosing_loop(op) is not None else 0)
                        for op, at in done
                    ]
    return finished, left


def _phases(op: Operation) -> list[list[WarpgroupMmaOp | WarpgroupWaitOp]]:
    """The asynchronous products and the waits of the role around an operator, by phases."""
    scope: Operation = enclosing_role(op) or enclosing_kernel(op)
    return [
        [
            step
            for step in phase.walk()
            if isinstance(step, WarpgroupWaitOp)
            or (isinstance(step, WarpgroupMmaOp) and step.is_async)
        ]
        for phase in scope.regions[0].block.ops
        if phase.regions and enclosing_role(phase) is enclosing_role(op)
    ]
