"""The phases of a kernel, and where data lives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    opt_operand_def,
    opt_prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import (
    NoTerminator,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.accessors import is_given, number_if_given, number_or
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.assembly import TripCount
from mugraph.dialects.bulk import stage_alignment
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.sched.kernel import (
    KernelOp,
    enclosing_kernel,
    with_regions,
)
from mugraph.dialects.sched.role import RoleOp, roles_of
from mugraph.dialects.sched.tile_values import (
    CarriesTiles,
    TiedTiles,
    yielded_types,
)
from mugraph.dialects.sched.types import (
    SharedType,
    TensorMemoryType,
    TileType,
    TokenType,
)
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    op_label,
    physical_elements,
    resolved_layout_of,
    value_label,
)


def enclosing_loop(op: Operation) -> ForloopOp | None:
    """The for-loop around an operator, if it stands in one."""
    return enclosing(op, ForloopOp)


class PhaseOp(CarriesTiles):
    """A part of the kernel: its operators run in order, and leave behind the tiles they yield."""

    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    assembly_format = "$body (`->` type($tiles)^)? attr-dict"

    def __init__(self, body: Region | Block) -> None:
        region = Region(body) if isinstance(body, Block) else body
        super().__init__(result_types=[yielded_types(region.block)], regions=[region])


@irdl_op_definition
class PrologueOp(PhaseOp):
    """What runs before the for-loop: loop-invariant loads, cleared accumulators, first stages."""

    name = "sched.prologue"


@irdl_op_definition
class EpilogueOp(PhaseOp):
    """What runs after the for-loop: write-back of accumulators, outputs."""

    name = "sched.epilogue"


@irdl_op_definition
class ForloopOp(CarriesTiles):
    """Runs its body for iterations 0 to ``range`` - 1, or to ``bound`` - 1.

    ``sched.forloop 16`` runs 16 times, ``sched.forloop %n`` as often as %n, an ``index``, says when
    the kernel runs, outside of roles.  Tiles along the loop are then those that the kernel's
    ``forloop`` cuts, of which %n are used.

    ``carrying %a``: the body's first argument is the tile %a in the first iteration, and in the
    others what the one before it yields; what the last one yields is the result.  Tokens of groups
    of copies are carried likewise.

    ``peeled``: the first iteration has code of its own, so that what does nothing in it leaves no
    branch to the others.

    ``sched.forloop 16 step 4``: the body does four iterations and runs four times, from iteration
    0, 4, 8 and 12 on.  ``ahead 1`` to ``ahead 3`` say of which of them an operator is.
    """

    name = "sched.forloop"

    TIED: ClassVar[Sequence[str]] = ("carried",)
    IS_LOOP: ClassVar[bool] = True

    range = opt_prop_def(IntegerAttr.constr(type=i64))
    step = opt_prop_def(IntegerAttr.constr(type=i64))
    peeled = opt_prop_def(UnitAttr)
    bound = opt_operand_def(IndexType())
    carried = var_operand_def(TileType | TokenType)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    assembly_format = (
        "custom<TripCount>($range, $bound) (`step` $step^)? (`peeled` $peeled^)? "
        "(`carrying` $carried^ `:` type($carried))? $body attr-dict "
        "custom<TiedTiles>(type($tiles))"
    )
    custom_directives = (TripCount, TiedTiles)

    def __init__(
        self,
        trip_count: int | SSAValue,
        body: Region | Block,
        carried: Sequence[SSAValue] = (),
        *,
        peeled: bool = False,
        step: int = 1,
    ) -> None:
        super().__init__(
            operands=[trip_count if isinstance(trip_count, SSAValue) else None, carried],
            result_types=[[value.type for value in carried]],
            properties={
                "range": IntegerAttr(trip_count, i64) if isinstance(trip_count, int) else None,
                "step": IntegerAttr(step, i64) if step > 1 else None,
                "peeled": UnitAttr() if peeled else None,
            },
            regions=[Region(body) if isinstance(body, Block) else body],
        )

    def initial_tiles(self) -> Sequence[SSAValue]:
        """The tiles that the first iteration begins with."""
        return self.carried

    is_peeled = is_given("peeled")
    """Whether the first iteration has code of its own."""

    step_of = number_or("step", 1)
    """How many iterations the body does each time."""

    @property
    def trip_count(self) -> int | SSAValue:
        """The iterations: a number, or the value that says it when the kernel runs."""
        if self.bound is not None:
            return self.bound
        assert self.range is not None  # verified
        return self.range.value.data

    @property
    def iterations(self) -> int:
        """How many iterations there are; the body does :attr:`step_of` of them each time.

        Raises ``VerifyException`` where that is known only when the kernel runs.
        """
        count = self.trip_count
        if isinstance(count, SSAValue):
            raise VerifyException(
                f"{op_label(self)} runs as often as {value_label(count)} says when the kernel is "
                "launched, but its number of iterations is needed here; write 'sched.forloop <n>'"
            )
        return count

    def verify_(self) -> None:
        """Checks the count of iterations."""
        if (self.range is None) == (self.bound is None):
            raise OperatorError("expected a 'range' or a 'bound', which say how often it runs")
        kernel, count = enclosing_kernel(self), self.trip_count
        if self.step is not None and (
            isinstance(count, SSAValue) or self.is_peeled or count % max(self.step_of, 1)
        ):
            raise OperatorError(
                f"its body does {self.step_of} iterations, which must divide their number; this "
                "must be written, and no first one be peeled"
            )
        if self.step is not None and kernel.domain is not None:
            raise OperatorError(
                f"its body does {self.step_of} iterations, and 'where' of {op_label(kernel)} lets "
                "blocks run any number of them, which it may not divide; leave out 'step'"
            )
        if any(loop.trip_count != count for loop in loops_of(kernel)):
            often = value_label(count) if isinstance(count, SSAValue) else count
            raise VerifyException(
                f"{op_label(self)} {often}: the loops of all roles of a kernel run equally often"
            )
        if isinstance(count, SSAValue):
            if enclosing(self, RoleOp) is not None:
                raise VerifyException(
                    f"{op_label(self)} stands in a role, whose rings are "
                    "filled ahead for a known number of iterations; write 'sched.forloop <n>'"
                )
            if self.is_peeled:
                raise OperatorError(
                    f"{value_label(count)} may be 0, so the first iteration cannot be peeled; "
                    "leave out 'peeled'"
                )
            return
        if count < 1:
            raise VerifyException(
                f"{op_label(self)} {count}: the loop must have at least 1 iteration"
            )
        planned = kernel.forloop_range
        if planned is not None and planned != count:
            raise VerifyException(
                f"{op_label(self)} runs {count} times, but the kernel is the schedule of "
                f"a for-loop of {planned}"
            )


def loop_iterations(kernel: KernelOp) -> int:
    """How often the for-loop of a kernel, or those of its roles, run; 1 where it has none.

    Raises ``VerifyException`` where that is known only when the kernel runs.
    """
    return _iterations_of(next(_loops_of(kernel), None))


def _iterations_of(loop: ForloopOp | None) -> int:
    if loop is None:
        return 1
    if loop.iterations < 1:
        loop.verify_()
    return loop.iterations


def most_iterations(kernel: KernelOp) -> int:
    """How often the loops of a kernel run at most: so many tiles are cut along them."""
    if kernel.domain is not None and kernel.forloop_range is not None:
        return kernel.forloop_range
    loop = next(_loops_of(kernel), None)
    if loop is None or isinstance(loop.trip_count, int):
        return _iterations_of(loop)
    if kernel.forloop_range is None:
        raise VerifyException(
            f"{op_label(kernel)}: its loop runs as often as {value_label(loop.trip_count)} says; "
            "say 'forloop <n>', into how many tiles it cuts tensors at most"
        )
    return kernel.forloop_range


def runs_once(kernel: KernelOp) -> bool:
    """Whether a kernel has no loop, or one of a single iteration."""
    return all(loop.trip_count == 1 for loop in _loops_of(kernel))


def verify_fixed_iteration(op: Operation, iteration: int, kernel: KernelOp) -> None:
    """Raises ``VerifyException`` unless the kernel's loop has the iteration that ``op`` names."""
    iterations = most_iterations(kernel)
    if not 0 <= iteration < iterations:
        raise VerifyException(
            f"{op_label(op)}: iteration {iteration} does not exist, the loop has {iterations}"
        )


def loops_of(kernel: KernelOp) -> list[ForloopOp]:
    """The for-loop of a kernel, or those of its roles."""
    return list(_loops_of(kernel))


def _loops_of(kernel: KernelOp) -> Iterator[ForloopOp]:
    holders = with_regions(kernel.body.block)
    yield from (op for op in holders if isinstance(op, ForloopOp))
    for role in holders:
        if isinstance(role, RoleOp):
            yield from (op for op in role.body.block.ops if isinstance(op, ForloopOp))


def loop_and_epilogue(block: Block) -> tuple[ForloopOp, EpilogueOp] | None:
    """The first for-loop and the first epilogue among the phases of a block that has both."""
    loop = next((op for op in block.ops if isinstance(op, ForloopOp)), None)
    epilogue = next((op for op in block.ops if isinstance(op, EpilogueOp)), None)
    return None if loop is None or epilogue is None else (loop, epilogue)


def computing_block(kernel: KernelOp) -> Block:
    """The block with the phases of those threads that compute.

    The kernel's own, or that of its first role in which all threads run.
    """
    roles = [role for role in roles_of(kernel) if not role.is_elected]
    return roles[0].body.block if roles else kernel.body.block


def computing_threads(kernel: KernelOp) -> int:
    """How many threads compute: those that run :func:`computing_block`."""
    roles = [role for role in roles_of(kernel) if not role.is_elected]
    return roles[0].threads if roles else kernel.threads


@irdl_op_definition
class AllocOp(IRDLOperation):
    """A buffer in shared (or tensor) memory, of ``stages`` copies one behind the other.

    In iteration ``it`` an operator of the loop body means copy ``it mod stages``, unless it says
    ``ahead``.  ``offset`` is in bytes from the start of the block's memory; absent until planned.
    """

    name = "sched.alloc"

    stages = opt_prop_def(IntegerAttr.constr(type=i64))
    offset = opt_prop_def(IntegerAttr.constr(type=i64))
    result = result_def(SharedType | TensorMemoryType)

    assembly_format = "(`stages` $stages^)? (`offset` $offset^)? attr-dict `:` type($result)"

    def __init__(self, result_type: Attribute, stages: int = 1) -> None:
        super().__init__(
            result_types=[result_type],
            properties={"stages": IntegerAttr(stages, i64) if stages > 1 else None},
        )

    stage_count = number_or("stages", 1)
    """How many copies of the buffer there are."""

    byte_offset = number_if_given("offset")
    """Where the first copy starts, once planned."""

    def stage_bytes(self) -> int:
        """The size of one copy, its padding included, in whole lines of shared memory.

        The next one begins where the pattern of a swizzle of bulk copies does.
        """
        layout, size = resolved_layout_of(self.result), element_bytes_of(self.result.type)
        aligned = stage_alignment(layout, size)
        return -(-physical_elements(layout) * size // aligned) * aligned

    def total_bytes(self) -> int:
        """The size of all copies."""
        return self.stage_bytes() * self.stage_count

    def verify_(self) -> None:
        """Checks stages and the offset's alignment."""
        if self.stage_count < 1:
            raise OperatorError("stages must be at least 1")
        offset = self.byte_offset
        if offset is not None and (offset < 0 or offset % 16):
            raise OperatorError(f"offset {offset} must be a multiple of 16 bytes")
        smem = enclosing_kernel(self).smem_bytes
        if offset is not None and smem is not None and offset + self.total_bytes() > smem:
            raise VerifyException(
                f"{op_label(self)} ends at byte {offset + self.total_bytes()}, beyond the kernel's "
                f"smem {smem}"
            )


@irdl_op_definition
class EmptyOp(IRDLOperation):
    """A tile in registers of its own that holds nothing yet: a destination to write over."""

    name = "sched.empty"

    result = result_def(TileType)
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, result_type: Attribute) -> None:
        super().__init__(result_types=[result_type])

    def values_per_thread(self) -> int:
        """How many values of the fragment each thread holds."""
        return self.result.type.values_per_thread()

    def registers_per_thread(self) -> int:
        """The registers of each thread that the fragment takes."""
        return self.result.type.registers_per_thread()
