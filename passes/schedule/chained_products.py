"""Loops whose last product multiplies what is computed of the first, one iteration late.

In the order of the text a product waits for what stands between it and the one before, and the
tensor cores wait with it.  Where the last product of an iteration is issued behind the first one of
the next, what is computed of that one runs beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.interfaces import read_by, touched_by, written_by
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.kernel import WARPGROUP
from mugraph.dialects.sched.role import roles_of
from mugraph.dialects.sched.structure import loop_and_epilogue

FEWEST_OF_ONE_GROUP = 3
"""Iterations of a loop of one warp group of which the second product is issued late: two are
unrolled, and their registers keep other blocks away."""


class ChainedLoop(NamedTuple):
    """A role's loop of two products, with what must wait for the second of the iteration before.

    ``late`` uses the second product's sums or writes its left operand, in the order of the text;
    ``ring`` brings its right one, ``alone`` to nobody else in the loop.
    """

    role: sched.RoleOp
    loop: sched.ForloopOp
    epilogue: sched.EpilogueOp
    first: sched.WarpgroupMmaOp
    second: sched.WarpgroupMmaOp
    late: tuple[Operation, ...]
    ring: sched.ChannelOp
    alone: bool


def find_chained_loops(kernel: sched.KernelOp) -> Iterator[ChainedLoop]:
    """The loops whose second product can be issued one iteration later."""
    for role in roles_of(kernel):
        phases = loop_and_epilogue(role.body.block)
        fewest = FEWEST_OF_ONE_GROUP if role.warp_count == WARPGROUP else 2
        if phases is None or phases[0].iterations < fewest:
            continue
        found = _chained(role, *phases)
        if found is not None:
            yield found


def _chained(
    role: sched.RoleOp, loop: sched.ForloopOp, epilogue: sched.EpilogueOp
) -> ChainedLoop | None:
    body = list(loop.body.block.ops)
    products = [op for op in body if isinstance(op, sched.WarpgroupMmaOp)]
    if len(products) != 2 or any(op.is_async or len(op.accumulators) > 1 for op in products):
        return None
    first, second = products
    if not _writes(body, second.lhs) or _writes(body, first.lhs):
        return None
    ring = _ring_of(second.rhs)
    if ring is None or _ring_of(first.rhs) is ring:
        return None
    late = _late_operators(body, first, second)
    if late is None:
        return None
    others = [op for op in body if any(value in ring.buffers for value in op.operands)]
    return ChainedLoop(role, loop, epilogue, first, second, late, ring, others == [second])


def _ring_of(value: SSAValue) -> sched.ChannelOp | None:
    channels = [use.operation for use in value.uses if isinstance(use.operation, sched.ChannelOp)]
    return channels[0] if channels else None


def _writes(body: Sequence[Operation], value: SSAValue) -> bool:
    return any(value in written_by(op) for op in body)


def _late_operators(
    body: Sequence[Operation], first: sched.WarpgroupMmaOp, second: sched.WarpgroupMmaOp
) -> tuple[Operation, ...] | None:
    """What must wait for the second product, and what depends on that, in order.

    ``None`` where something of it is not on fragments alone, or stands behind the product or
    before the first one.
    """
    late: list[Operation] = []
    read: set[SSAValue] = set()
    written: set[SSAValue] = set()
    since_first = before_second = False
    for op in body:
        if op is first:
            since_first = before_second = True
        if op is second:
            before_second = False
        if op in (first, second) or isinstance(op, sched.EmptyOp):
            continue
        reads, writes = set(read_by(op)), set(written_by(op))
        touches = second.accumulator in reads | writes or second.lhs in reads | writes
        if not touches and not (reads & written or writes & (read | written)):
            continue
        on_fragments = all(isinstance(value.type, sched.TileType) for value in op.operands)
        if not on_fragments or not since_first or (touches and not before_second):
            return None
        late.append(op)
        read |= reads
        written |= writes
    return tuple(late)


def delay_product(found: ChainedLoop) -> None:
    """Issues the second product of an iteration behind the first one of the next.

    Before: ``first``, what is computed of it, ``second``.  After: ``first``, ``second`` of the
    iteration before, a wait for ``first``, what is computed of it, a wait for ``second``, what uses
    its sums or writes its left operand.  The last one stands behind the loop.
    """
    body, ring, second = found.loop.body.block, found.ring.result, found.second
    consume = next(op for op in body.ops if isinstance(op, sched.ConsumeOp) and op.channel is ring)
    held = second.lhs.owner
    if isinstance(held, sched.EmptyOp) and held.parent_block() is body:
        held.detach()
        top = found.role.body.block.first_op
        assert top is not None
        Rewriter.insert_op(held, InsertPoint.before(top))
    found.first.asynchronous = UnitAttr()
    found.loop.peeled = UnitAttr()
    again = sched.WarpgroupMmaOp(
        second.lhs, second.rhs, second.accumulator, asynchronous=True, ahead=-1
    )
    # What the products do not need runs beside them; beside one warp group another block's does,
    # and registers for both would keep that away.
    beside = _not_needed(found) if found.role.warp_count > WARPGROUP else []
    for op in (*beside, *found.late):
        op.detach()
    body.insert_ops_after([again, *beside, sched.WarpgroupWaitOp(1)], found.first)
    if found.alone:
        # Behind the first that is computed: ptxas moves the wait up to here, and no further.  On an
        # H200 prefill attention takes 476 us so, 485 with all before it, and 497 with most.  Masks
        # leave most tiles as they are.
        computes = [op for op in body.ops if sched.computes_on_product(op)]
        computed = next((op for op in computes if not isinstance(op, sched.MaskOp)), computes[-1])
        consume.detach()
        body.insert_op_after(consume, computed)
    body.add_ops([sched.WarpgroupWaitOp(0), *found.late])
    last = sched.WarpgroupMmaOp(
        second.lhs,
        second.rhs,
        second.accumulator,
        asynchronous=True,
        iteration=found.loop.iterations - 1,
    )
    Rewriter.erase_op(second)
    after = [last, sched.WarpgroupWaitOp(0)]
    Rewriter.insert_op(after, InsertPoint.at_start(found.epilogue.body.block))


def _not_needed(found: ChainedLoop) -> list[Operation]:
    """What stands before the first product of an iteration and has nothing to do with either."""
    before: list[Operation] = []
    op = found.first.prev_op
    while op is not None:
        before.insert(0, op)
        op = op.prev_op
    operands = {*found.first.operands, *found.second.operands}
    rings = {ring.result for ring in map(_ring_of, found.first.operands) if ring is not None}

    def is_needed(op: Operation) -> bool:
        if isinstance(op, sched.EmptyOp):
            return op.result in operands
        if isinstance(op, sched.ChannelStepOp):
            return op.channel in rings
        return bool(operands.intersection(written_by(op)))

    others = [op for op in before if not is_needed(op)]
    needed = [op for op in before if op not in others]
    written = {value for op in others for value in written_by(op)}
    crossed = {value for op in needed for value in touched_by(op)}
    sums = {found.first.accumulator, found.second.accumulator}
    read = {value for op in others for value in read_by(op)}
    return [] if written & crossed or read & sums else others
