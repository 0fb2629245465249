"""Which buffers may take the bytes of an operand: results that overwrite what they are made of.

Where each thread writes to places of the result that nobody else has read of the operand since the
last barrier, the two buffers can be the same bytes without a barrier between them.  So they can
where one operator is the last to read the operand and the first to write the result, with the same
instruction; or where a thread has read the operand before, as a residual that it adds to what it
holds of a product.  Read from the access streams, never from the kind of operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.interfaces import HasBufferEffects, touched_by
from mugraph.dialects.sched.accesses import AccessError, AccessKind, Proxy
from mugraph.dialects.sched.mappings import IntArray
from mugraph.passes.memory.lifetimes import channel_buffers, ordered_operations


class InPlace(NamedTuple):
    """``result`` may have the offset of ``operand``: bytes are used again within one region."""

    operand: sched.AllocOp
    result: sched.AllocOp


class _Touch(NamedTuple):
    """An operator that uses a buffer, its place in the text, and the region it runs in."""

    operation: HasBufferEffects
    place: int
    region: int


def _touches(kernel: sched.KernelOp) -> dict[sched.AllocOp, list[_Touch]]:
    """Who uses each buffer, in the order of the text, but for what fills channels.

    What channels bring is there before anybody reads it; what brings more of it, as a persistent
    block's producer does, may touch it at any time: such buffers are left out.
    """
    touches: dict[sched.AllocOp, list[_Touch]] = {}
    region = 0
    for place, (op, _) in enumerate(ordered_operations(kernel)):
        if isinstance(op, sched.BarrierOp):
            region += 1
        if isinstance(op, HasBufferEffects):
            for value in touched_by(op):
                if isinstance(value.owner, sched.AllocOp):
                    touches.setdefault(value.owner, []).append(_Touch(op, place, region))
    if kernel.persistent_blocks is not None:
        for buffer in channel_buffers(kernel):
            touches.pop(buffer, None)
    return touches


def _loop_begins_with_a_barrier(kernel: sched.KernelOp) -> bool:
    """Whether no buffer is used in an iteration before all threads have left the one before."""
    for op in kernel.body.walk():
        if isinstance(op, sched.ForloopOp):
            steps = (step for step in op.body.walk())
            first = next(
                (step for step in steps if isinstance(step, sched.BarrierOp | HasBufferEffects)),
                None,
            )
            return isinstance(first, sched.BarrierOp)
    return True


def in_place_pairs(kernel: sched.KernelOp) -> list[InPlace]:
    """The results that may take an operand's bytes, each of one operand, in the order of the text.

    No buffer is the operand of two pairs, and none the result of two.
    """
    touches = _touches(kernel)
    fenced = _loop_begins_with_a_barrier(kernel)
    pairs: list[InPlace] = []
    taken: set[sched.AllocOp] = set()
    for result, uses in touches.items():
        writer = uses[0]
        in_loop = sched.enclosing_loop(writer.operation) is not None
        if (in_loop and not fenced) or not _is_first_written_by(result, writer.operation):
            continue
        for operand, readers in touches.items():
            last = readers[-1]
            if (
                last.region == writer.region
                and last.place <= writer.place
                and operand is not result
                and operand not in taken
                and operand.stage_count == result.stage_count == 1
                and operand.total_bytes() == result.total_bytes()
                and sched.enclosing_loop(last.operation) is sched.enclosing_loop(writer.operation)
                and (not in_loop or _lives_within_an_iteration(touches, operand, result))
                and _threads_agree(readers, writer, operand, result)
            ):
                pairs.append(InPlace(operand, result))
                taken.add(operand)
                break
    return pairs


def _is_first_written_by(result: sched.AllocOp, op: HasBufferEffects) -> bool:
    return result.result in op.buffers_written() and result.result not in op.buffers_read()


def _lives_within_an_iteration(
    touches: dict[sched.AllocOp, list[_Touch]], *buffers: sched.AllocOp
) -> bool:
    """Whether only the loop uses the buffers, and writes each whole before it reads it."""
    return all(
        _is_first_written_by(buffer, touches[buffer][0].operation)
        and all(sched.enclosing_loop(touch.operation) is not None for touch in touches[buffer])
        for buffer in buffers
    )


def _accesses(op: Operation, buffer: sched.AllocOp) -> list[sched.ThreadAccess] | None:
    """An operator's accesses to a buffer; ``None`` where they are not known or not plain."""
    if not isinstance(op, sched.HasThreadAccesses):
        return None
    try:
        found = [access for access in op.thread_accesses() if access.value is buffer.result]
    except AccessError:
        return None
    return found if all(access.proxy is Proxy.GENERIC for access in found) else None


def _threads_agree(
    uses: Sequence[_Touch], writer: _Touch, operand: sched.AllocOp, result: sched.AllocOp
) -> bool:
    """Whether each thread overwrites only what it alone has used since the last barrier."""
    writes = _accesses(writer.operation, result)
    if writes is None or len(writes) != 1 or writes[0].kind is AccessKind.READ:
        return False
    owners = _owners(writes[0], operand)
    for use in uses:
        if use.region != writer.region:
            continue
        others = _accesses(use.operation, operand)
        if not others or not all(
            _is_of_owners(access, owners, operand, writes[0]) for access in others
        ):
            return False
        if use.operation is writer.operation and not (
            all(_same_places(read, writes[0]) for read in others)
            and use.operation.reads_before_it_writes(operand.result, result.result)
        ):
            return False
    return True


def _is_of_owners(
    access: sched.ThreadAccess, owners: IntArray, buffer: sched.AllocOp, write: sched.ThreadAccess
) -> bool:
    """Whether only those threads touch elements that write there."""
    if access.element_bytes != write.element_bytes:
        return False
    theirs = _owners(access, buffer)
    return np.array_equal(np.where(theirs >= 0, theirs, owners), owners)


def _same_places(read: sched.ThreadAccess, write: sched.ThreadAccess) -> bool:
    return (
        read.access_bytes == write.access_bytes
        and read.element_bytes == write.element_bytes
        and not read.warp_collective
        and np.array_equal(read.offsets, write.offsets)
    )


_SHARED = 1 << 30
_NOBODY = -1


def _owners(access: sched.ThreadAccess, buffer: sched.AllocOp) -> IntArray:
    """The one thread that touches each element of a buffer, or that nobody or several do."""
    elements = access.elements()
    thread = np.arange(elements.shape[1], dtype=np.int64)
    threads: IntArray = np.broadcast_to(thread[None, :, None], elements.shape)
    used = elements >= 0
    count = buffer.stage_bytes() // access.element_bytes
    lowest = np.full(count, _SHARED, dtype=np.int64)
    highest = np.full(count, _NOBODY, dtype=np.int64)
    np.minimum.at(lowest, elements[used], threads[used])
    np.maximum.at(highest, elements[used], threads[used])
    if access.warp_collective:
        return np.where(highest >= 0, _SHARED, _NOBODY)
    return np.where(highest < 0, _NOBODY, np.where(lowest == highest, lowest, _SHARED))
