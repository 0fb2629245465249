"""``--unroll-products``: a product runs while what is computed of the one before it is computed.

Partial sums that are scaled, or added up with more bits, are read by threads in each iteration, and
the tensor cores wait meanwhile.  Where a body does several iterations, the next product is issued
first.  The sums of none are in flight where the body begins again: the assembler then puts a wait
behind every instruction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mugraph.dialects import sched
from mugraph.dialects.sched.channel import RunsAtIteration, channel_of
from mugraph.dialects.sched.kernel import enclosing_kernel
from mugraph.dialects.sched.role import roles_of
from mugraph.dialects.sched.structure import loop_and_epilogue
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.costs.kept_sums import register_limit
from mugraph.passes.schedule.analysis.registers import registers_needed
from mugraph.passes.schedule.lower_rings import is_lowered
from mugraph.passes.schedule.tile_values import tiles_by_registers
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named

MOST_DEPTH = 2048
"""Elements along k that a body multiplies: of 8192 cubed, scaled by blocks of 128, one iteration
took 1,286 us on an H200, two 1,159, four 1,071 and eight 1,003.  Sixteen take 0.96 of eight's time
there, and 0.98 of it for 4096 cubed and 1024 x 8192 x 8192."""
LEAST_ROUNDS = 16
"""How often a block runs a body, at least: the first time it waits for its instructions.

128 x 8192 x 8192 took 38 us with eight of a block's 32 iterations in a body, and 29 with one."""
LEAST_STAGES = 4
"""Of a ring: two products are in flight, and as many tiles on their way.  With three stages of 256
along k two iterations took 969 us, and one 934."""


@dataclass(frozen=True)
class PromotedLoop:
    """A role's loop of one product, which takes the place of what its registers held.

    ``issue`` is what runs up to the product, itself included, and ``finish`` what runs behind it;
    ``at_once`` how many iterations a body can do.
    """

    role: sched.RoleOp
    loop: sched.ForloopOp
    issue: tuple[Operation, ...]
    finish: tuple[Operation, ...]
    at_once: int


def find_promoted_loops(kernel: sched.KernelOp) -> Iterator[PromotedLoop]:
    """The loops whose next product can be issued before the results of one are used.

    Operators name tiles by their registers.
    """
    for role in roles_of(kernel):
        phases = loop_and_epilogue(role.body.block)
        found = None if phases is None else _promoted(role, phases[0])
        if found is not None:
            yield found


def _promoted(role: sched.RoleOp, loop: sched.ForloopOp) -> PromotedLoop | None:
    body = list(loop.body.block.ops)
    products = [op for op in body if isinstance(op, sched.WarpgroupMmaOp)]
    if len(products) != 1 or loop.is_peeled or loop.step_of > 1:
        return None
    (product,) = products
    is_alone = product.is_fresh and not product.is_async and product.through is None
    if not is_alone or not all(map(_can_move_on, body)):
        return None
    place = body.index(product) + 1
    issue, finish = tuple(body[:place]), tuple(body[place:])
    made = {op.result for op in body if isinstance(op, sched.EmptyOp)}
    if not _written_by(issue) <= made or not _written_by(finish) - made:
        return None
    if any(isinstance(op, sched.ReleaseOp) for op in issue):
        return None
    rings = [channel_of(op, op.channel) for op in issue if isinstance(op, sched.ConsumeOp)]
    if min((ring.stage_count for ring in rings), default=0) < LEAST_STAGES:
        return None
    kernel = enclosing_kernel(loop)
    blocks = math.prod(kernel.grid_dim)
    rounds = loop.iterations * math.ceil(blocks / (kernel.persistent_blocks or blocks))
    depth = shape_of(product.lhs.type)[-1]
    most = min(rounds // LEAST_ROUNDS, MOST_DEPTH // depth)
    at_once = max((n for n in range(1, most + 1) if loop.iterations % n == 0), default=1)
    return PromotedLoop(role, loop, issue, finish, at_once) if at_once > 1 else None


def _can_move_on(op: Operation) -> bool:
    """Whether an operator can be that of one of several iterations."""
    if isinstance(op, RunsAtIteration):
        return op.ahead_of <= 0
    return isinstance(op, sched.EmptyOp | sched.LoadOp | sched.MapOp)


def _written_by(ops: tuple[Operation, ...]) -> set[SSAValue]:
    written = (op.destinations() for op in ops if isinstance(op, sched.WritesTiles))
    return {tile for tiles in written for tile in tiles}


def unroll(found: PromotedLoop) -> None:
    """Rewrite: the body does several iterations, each product issued before the last is used."""
    body = found.loop.body.block
    finish: list[Operation] = []
    # Two products are in flight: the registers of one are those of the next but one.
    tiles: list[dict[SSAValue, SSAValue]] = [{}, {}]
    for number in range(found.at_once):
        values = tiles[number % 2]
        body.add_ops(_of_iteration(found.issue, number, values))
        if number:
            body.add_ops([sched.WarpgroupWaitOp(1), *finish])
        finish = _of_iteration(found.finish, number, values)
    body.add_ops([sched.WarpgroupWaitOp(0), *finish])
    for op in reversed((*found.issue, *found.finish)):
        op.detach()
        op.erase()
    found.loop.step = IntegerAttr(found.at_once, i64)


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


def unroll_products(kernel: sched.KernelOp, target: Target) -> None:
    """Rewrites a kernel's loops, where registers suffice for the sums of two products."""
    if not sched.warpgroup_products(kernel):
        return
    trial = kernel.clone()
    with tiles_by_registers(trial):
        found = tuple(find_promoted_loops(trial))
        for each in found:
            unroll(each)
    if not found:
        return
    start = register_limit(kernel.threads, target.registers_per_multiprocessor)
    if registers_needed(trial) > min(each.role.registers_or(start) for each in found):
        return
    with tiles_by_registers(kernel):
        for each in tuple(find_promoted_loops(kernel)):
            unroll(each)


@dataclass(frozen=True)
class UnrollProductsPass(ModulePass):
    """Issues the product of the next iteration before the sums of one are scaled or added up.

    A role's loop has one product of warp groups, which is ``fresh`` and waited for, and threads
    compute with its sums.  Its body then does up to eight iterations (``step``): each product is
    ``async``, and what uses its sums stands behind the next one.  The last one of a body is waited
    for in it.

    A block runs it sixteen times at least.

    Left as it is where the ring has fewer than four stages, and where ``arch`` has too few
    registers for the sums of two products beside what they are added to.
    Pre-condition: ``--set-register-budgets``.
    """

    name = "unroll-products"

    arch: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites every kernel of the module."""
        target = target_named(self.arch)
        for kernel in op.body.block.ops:
            if isinstance(kernel, sched.KernelOp) and is_lowered(kernel):
                unroll_products(kernel, target)
