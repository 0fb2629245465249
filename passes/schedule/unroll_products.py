"""``--unroll-products``: a product runs while what is computed of the one before it is computed.

Partial sums that are scaled, or added up with more bits, are read by threads in each iteration, and
the tensor cores wait meanwhile.  Where a body does several iterations, the next product is issued
first.  The sums of none are in flight where the body begins again: the assembler then puts a wait
behind every instruction.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i64
from xdsl.ir import BlockArgument, Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.sched.channel import RunsAtIteration, channel_of
from mugraph.dialects.sched.kernel import enclosing_kernel
from mugraph.dialects.sched.role import roles_of
from mugraph.dialects.sched.structure import loop_and_epilogue
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    resolved_layout_of,
    shape_of,
    strides_of,
)
from mugraph.passes.costs.kept_sums import register_limit
from mugraph.passes.each import TargetPass
from mugraph.passes.schedule.analysis.registers import registers_needed
from mugraph.passes.schedule.bulk_stores import alignments_of
from mugraph.passes.schedule.lower_rings import is_lowered
from mugraph.passes.schedule.tile_values import tiles_by_registers
from mugraph.passes.targets import Target

MOST_DEPTH = 2048
"""Elements along k that a body multiplies: of 8192 cubed, scaled by blocks of 128, one iteration
took 1,286 us on an H200, two 1,159, four 1,071 and eight 1,003.  Sixteen take 0.96 of eight's time
there, and 0.98 of it for 4096 cubed and 1024 x 8192 x 8192."""
LEAST_ROUNDS = 16
"""How often a block runs a body, at least: the first time it waits for its instructions.

128 x 8192 x 8192 took 38 us with eight of a block's 32 iterations in a body, and 29 with one."""
LOADED_TOGETHER = (4, 2, 1)
"""For how many iterations numbers of device memory may be loaded together, the best first.

A load by a warp of one number for each of eight rows reads eight lines of the cache, of four
numbers as many."""
LEAST_STAGES = 4
"""Of a ring: two products are in flight, and as many tiles on their way.  With three stages of 256
along k two iterations took 969 us, and one 934."""


@dataclass(frozen=True)
class PromotedLoop:
    """A role's loop of one product, which takes the place of what its registers held.

    ``loads`` bring numbers of device memory to registers.  ``issue`` is the product, which waits
    for its tiles, and ``finish`` what uses its sums, with what is computed of the numbers.  A body
    can do ``at_once`` iterations; of ``neighbours`` of them a row's numbers are an aligned vector.
    """

    role: sched.RoleOp
    loop: sched.ForloopOp
    loads: tuple[Operation, ...]
    issue: tuple[Operation, ...]
    finish: tuple[Operation, ...]
    at_once: int
    neighbours: int


def find_promoted_loops(
    kernel: sched.KernelOp, alignments: Sequence[int]
) -> Iterator[PromotedLoop]:
    """The loops whose next product can be issued before the results of one are used.

    Operators name tiles by their registers.  ``alignments`` are those of the kernel's tensors, in
    bytes.
    """
    for role in roles_of(kernel):
        phases = loop_and_epilogue(role.body.block)
        found = None if phases is None else _promoted(role, phases[0], alignments)
        if found is not None:
            yield found


def _promoted(
    role: sched.RoleOp, loop: sched.ForloopOp, alignments: Sequence[int]
) -> PromotedLoop | None:
    body = list(loop.body.block.ops)
    products = [op for op in body if isinstance(op, sched.WarpgroupMmaOp)]
    if len(products) != 1 or loop.is_peeled or loop.step_of > 1:
        return None
    if enclosing_kernel(loop).domain is not None:
        return None  # a block may run any number of iterations
    (product,) = products
    of_tiles = product.through is None and isinstance(product.lhs.type, sched.SharedType)
    is_alone = of_tiles and product.is_fresh and not product.is_async
    if not is_alone or not all(map(_can_move_on, body)):
        return None
    place = body.index(product) + 1
    start, finish = tuple(body[:place]), tuple(body[place:])
    made = {op.result for op in body if isinstance(op, sched.EmptyOp)}
    if not _written_by(start) <= made or not _written_by(finish) - made:
        return None
    if any(isinstance(op, sched.ReleaseOp) for op in start):
        return None
    loads = _with_tiles(start, [op for op in start if _loads_numbers(op)])
    # What is computed of the numbers, such as their products, is not needed before the sums are.
    computed = _with_tiles(start, [op for op in start if isinstance(op, sched.MapOp)])
    issue = tuple(op for op in start if op not in loads and op not in computed)
    finish = (*computed, *finish)
    rings = [channel_of(op, op.channel) for op in issue if isinstance(op, sched.ConsumeOp)]
    if min((ring.stage_count for ring in rings), default=0) < LEAST_STAGES:
        return None
    kernel = enclosing_kernel(loop)
    blocks = math.prod(kernel.grid_dim)
    rounds = loop.iterations * math.ceil(blocks / (kernel.persistent_blocks or blocks))
    depth = shape_of(product.lhs.type)[-1]
    most = min(rounds // LEAST_ROUNDS, MOST_DEPTH // depth)
    at_once = max((n for n in range(1, most + 1) if loop.iterations % n == 0), default=1)
    if at_once == 1:
        return None
    aligned = (_neighbours(op, alignments) for op in loads if isinstance(op, sched.LoadOp))
    neighbours = math.gcd(at_once, min(aligned, default=1))
    return PromotedLoop(role, loop, loads, issue, finish, at_once, neighbours)


def _loads_numbers(op: Operation) -> bool:
    """Whether an operator loads what lies in device memory, which waits for no tile of a ring."""
    return isinstance(op, sched.LoadOp) and isinstance(op.source.type, sched.GlobalType)


def _neighbours(op: sched.LoadOp, alignments: Sequence[int]) -> int:
    """For how many iterations what a thread loads lies side by side, in an aligned vector."""
    tile = op.source.owner
    if not isinstance(tile, sched.LocalTileOp) or not isinstance(tile.source, BlockArgument):
        return 1
    if not tile.is_plain or tile.iteration_stride() != 1 or any(tile.bounds()):
        return 1
    shape, strides = shape_of(tile.result.type), strides_of(resolved_layout_of(tile.result))
    rows = (step for extent, step in zip(shape, strides, strict=True) if extent > 1)
    size, start = element_bytes_of(tile.result.type), alignments[tile.source.index]
    return math.gcd(start, *(size * step for step in (*tile.block_strides(), *rows))) // size


def _with_tiles(ops: tuple[Operation, ...], chosen: Sequence[Operation]) -> tuple[Operation, ...]:
    """Some of the operators, and those that make the registers that they are first to write."""
    before = _written_by(itertools.takewhile(lambda op: op not in chosen, ops))
    written = _written_by(chosen) - before
    return tuple(
        op for op in ops if op in chosen or (isinstance(op, sched.EmptyOp) and op.result in written)
    )


def _can_move_on(op: Operation) -> bool:
    """Whether an operator can be that of one of several iterations."""
    if isinstance(op, RunsAtIteration):
        return op.ahead_of <= 0
    return isinstance(op, sched.EmptyOp | sched.LoadOp | sched.MapOp)


def _written_by(ops: Iterable[Operation]) -> set[SSAValue]:
    written = (op.destinations() for op in ops if isinstance(op, sched.WritesTiles))
    return {tile for tiles in written for tile in tiles}


def unroll(found: PromotedLoop, together: int) -> None:
    """Rewrite: the body does several iterations, each product issued before the last is used.

    Numbers of device memory are loaded for ``together`` iterations at once.  Those of one iteration
    are loaded before its product is issued; those of several take the registers of the ones before,
    once these are used.
    """
    body = found.loop.body.block
    # Two products are in flight: the registers of one are those of the next but one.
    products: list[dict[SSAValue, SSAValue]] = [{}, {}]
    numbers: list[dict[SSAValue, SSAValue]] = [{} for _ in range(max(together, 2))]
    finish: list[Operation] = []
    for number in range(found.at_once):
        values, held = products[number % 2], numbers[number % len(numbers)]
        if together == 1:
            body.add_ops(_of_iteration(found.loads, number, held))
        body.add_ops(_of_iteration(found.issue, number, values))
        if number:
            body.add_ops([sched.WarpgroupWaitOp(1), *finish])
        if together > 1 and number % together == 0:
            body.add_ops(_loads_from(found, number, numbers))
        values |= held
        finish = _of_iteration(found.finish, number, values)
    body.add_ops([sched.WarpgroupWaitOp(0), *finish])
    for op in reversed((*found.loads, *found.issue, *found.finish)):
        op.detach()
        op.erase()
    found.loop.step = IntegerAttr(found.at_once, i64)


def _loads_from(
    found: PromotedLoop, number: int, numbers: Sequence[dict[SSAValue, SSAValue]]
) -> Iterator[Operation]:
    """The loads for as many iterations as there are tiles for numbers, from one on."""
    for beside, held in enumerate(numbers):
        for op in _of_iteration(found.loads, number + beside, held):
            if isinstance(op, sched.LoadOp) and beside == 0:
                size = element_bytes_of(op.source.type) * len(numbers)
                op.aligned = IntegerAttr(size, i64)
            yield op


def _of_iteration(
    ops: tuple[Operation, ...], number: int, values: dict[SSAValue, SSAValue]
) -> list[Operation]:
    """Copies of operators for one of the iterations of a body, in the tiles that there are."""
    copies = [
        op.clone(values)
        for op in ops
        if not isinstance(op, sched.EmptyOp) or op.result not in values
    ]
    for copy in copies:
        if isinstance(copy, sched.LoadOp | RunsAtIteration):
            ahead = copy.ahead_of + number
            copy.ahead = IntegerAttr(ahead, i64) if ahead else None
        if isinstance(copy, sched.WarpgroupMmaOp):
            copy.asynchronous = UnitAttr()
    return copies


def unroll_products(kernel: sched.KernelOp, alignments: Sequence[int], target: Target) -> None:
    """Rewrites a kernel's loops, where registers suffice for the sums of two products.

    ``alignments`` are those of the kernel's tensors, in bytes.
    """
    if not sched.warpgroup_products(kernel):
        return
    together = _loaded_together(kernel, alignments, target)
    if together is None:
        return
    with tiles_by_registers(kernel):
        for each in tuple(find_promoted_loops(kernel, alignments)):
            unroll(each, together)


def _loaded_together(
    kernel: sched.KernelOp, alignments: Sequence[int], target: Target
) -> int | None:
    """For how many iterations at once the numbers that scale products can be loaded.

    They are neighbours, and registers suffice.  ``None`` where registers do not suffice for the
    sums of two products, or where there is no such loop.
    """
    start = register_limit(kernel.threads, target.registers_per_multiprocessor)
    for together in LOADED_TOGETHER:
        trial = kernel.clone()
        with tiles_by_registers(trial):
            found = tuple(find_promoted_loops(trial, alignments))
            if any(each.neighbours % together for each in found):
                continue
            for each in found:
                unroll(each, together)
        if not found:
            return None
        if registers_needed(trial) <= min(each.role.registers_or(start) for each in found):
            return together
    return None


class UnrollProductsPass(TargetPass):
    """Issues the product of the next iteration before the sums of one are scaled or added up.

    The pass takes loops of a role with one product of warp groups that is ``fresh`` and waited for,
    and whose sums threads compute with. The loop body then does several iterations (``step``), of
    up to 2048 elements along k: each product is ``async``, and the operators on its sums come after
    the next product. The last product of a body is waited for in it. Scales in device memory that
    lie side by side are loaded for four or two iterations together, as one vector of each row
    (``sched.load ... aligned 16``).

    A block runs it sixteen times at least.

    A loop stays unchanged if the ring has fewer than four stages, or if ``arch`` has too few
    registers for the sums of two products and the sums that they are added to.
    Pre-condition: ``--set-register-budgets``.
    """

    name = "unroll-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites every kernel of the module."""
        target = self.target
        launches = sched.launches_by_kernel(op)
        for kernel in op.body.block.ops:
            if isinstance(kernel, sched.KernelOp) and is_lowered(kernel):
                unroll_products(kernel, alignments_of(kernel, launches[kernel]), target)
