"""The stages of a kernel's rings once more, when other buffers have left its shared memory.

Stages were chosen beside everything that a schedule keeps in memory.  Where results move to
registers the tiles have room for more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.channel import BARRIER_BYTES
from mugraph.dialects.sched.structure import loop_iterations
from mugraph.passes.memory.packing.pack import STEP_LIMIT
from mugraph.passes.schedule.chained_products import find_chained_loops
from mugraph.passes.schedule.plan_stensor_memory import (
    BEST_FIT_OF_ALL,
    certified_plan,
    memory_requests,
    registers_wanted,
    with_channels,
)
from mugraph.passes.schedule.schedule_threadblock.channels import (
    BulkLoad,
    Feed,
    place_channel_steps,
    producer_role,
)
from mugraph.passes.schedule.schedule_threadblock.choose import (
    MIN_STAGES,
    Ring,
    Stages,
    asked_stages,
    choose_ring_stages,
    fewer_stages,
)
from mugraph.passes.targets import Target


def producer_of(kernel: sched.KernelOp) -> sched.RoleOp | None:
    """The role whose one thread issues the bulk copies into channels."""
    return next((role for role in sched.roles_of(kernel) if role.is_elected), None)


def feeds_of(kernel: sched.KernelOp) -> Iterator[Feed]:
    """The channels that a kernel's producer feeds, with their loads, in the order of its fills.

    None where there is no producer.
    """
    producer = producer_of(kernel)
    if producer is None:
        return
    loads: dict[sched.ChannelOp, dict[BulkLoad, None]] = {}
    rings: dict[sched.ChannelOp, int] = {}
    for op in producer.body.walk():
        if isinstance(op, sched.BulkCopyOp) and (channel := op.ring()) is not None:
            ring = rings.setdefault(channel, len(rings)) if _moves(op) else None
            load = BulkLoad(op.tile, op.destination, ring)
            loads.setdefault(channel, {})[load] = None
    for channel, found in loads.items():
        yield Feed(channel, tuple(found), channel.stage_count, any(load.moves for load in found))


def _moves(copy: sched.BulkCopyOp) -> bool:
    return isinstance(copy.tile.owner, sched.TileOp) and copy.tile.owner.loop_dim >= 0


def shared_bytes(kernel: sched.KernelOp) -> int:
    """What the buffers and channels of a kernel take, those not alive at once in one place."""
    found = certified_plan(kernel, memory_requests(kernel), BEST_FIT_OF_ALL, STEP_LIMIT)
    return with_channels(kernel, found).plan.peak


def _stage_bytes(feed: Feed) -> int:
    tiles = [load.buffer.owner for load in feed.loads]
    return sum(tile.stage_bytes() for tile in tiles if isinstance(tile, sched.AllocOp))


def kept_stages(kernel: sched.KernelOp) -> dict[sched.ChannelOp, int]:
    """Analysis: how many stages of each ring are in use beside the one that is being read.

    One, of a product that runs beside what is computed in the next iteration; none where only the
    first product of a chain reads the ring, which is released in the same iteration.
    """
    channels = [op for op in kernel.body.block.ops if isinstance(op, sched.ChannelOp)]
    kept = dict.fromkeys(channels, 1)
    for found in find_chained_loops(kernel):
        for channel in channels:
            ops = found.loop.body.block.ops
            readers = [op for op in ops if any(value in channel.buffers for value in op.operands)]
            if readers == [found.first]:
                kept[channel] = 0
    return kept


def fitting_ring_stages(kernel: sched.KernelOp, feeds: Sequence[Feed], target: Target) -> Stages:
    """The stages that rings should have and a block's memory has room for.

    Blocks that registers let share a multiprocessor share its memory, where each then has two
    stages: what one waits for another hides.  What the kernel's plan says is kept.
    """
    asked = kernel.decided.stages or ()
    channels = [feed for feed in feeds if feed.moves]
    kept = kept_stages(kernel)
    rings = [Ring(_stage_bytes(feed), kept[feed.channel]) for feed in channels]
    present = tuple(feed.stages for feed in channels)
    with_barriers = [Ring(ring.stage_bytes + 2 * BARRIER_BYTES, ring.kept) for ring in rings]

    def together(stages: Stages) -> int:
        return sum(
            count * ring.stage_bytes for count, ring in zip(stages, with_barriers, strict=True)
        )

    others = shared_bytes(kernel) - together(present)
    resident = target.resident_blocks(
        math.prod(kernel.grid_dim),
        kernel.threads,
        others + together((MIN_STAGES,) * len(rings)),
        registers_wanted(kernel),
    )
    iterations, share = loop_iterations(kernel), target.shared_memory_per_block
    if asked:
        wanted = asked_stages(asked, len(rings), iterations)
    else:
        wanted = choose_ring_stages(rings, resident, iterations, target)
        of_each = target.shared_memory_per_multiprocessor // resident
        share = min(of_each - target.reserved_shared_memory_per_block, share)
    excess = others + together(wanted) - share
    least = 1 if asked else MIN_STAGES
    return fewer_stages(with_barriers, wanted, excess, least=least) or present


def restage_rings(kernel: sched.KernelOp, target: Target) -> bool:
    """Gives a kernel's rings the stages that there is room for now; whether that changed any."""
    producer, feeds = producer_of(kernel), list(feeds_of(kernel))
    rings = [feed for feed in feeds if feed.moves]
    if producer is None or not rings:
        return False
    stages = fitting_ring_stages(kernel, feeds, target)
    if tuple(feed.stages for feed in rings) == stages:
        return False
    chosen = dict(zip((feed.channel for feed in rings), stages, strict=True))
    restaged: list[Feed] = []
    for feed in feeds:
        if feed.moves:
            count = chosen[feed.channel]
            for load in feed.loads:
                assert isinstance(load.buffer.owner, sched.AllocOp)
                load.buffer.owner.stages = IntegerAttr(count, i64)
            restaged.append(Feed(feed.channel, feed.loads, count, moves=True))
        else:
            restaged.append(feed)
    Rewriter.replace_op(producer, producer_role(restaged, loop_iterations(kernel)), [])
    _remove_fences(kernel)
    place_channel_steps(kernel)
    return True


def present_stages(kernel: sched.KernelOp) -> Stages:
    """The stages of a kernel's rings; what all threads load in its loop has one number."""
    if producer_of(kernel) is not None:
        return tuple(feed.stages for feed in feeds_of(kernel) if feed.moves)
    loaded = [
        op.destination.owner.stage_count
        for op in kernel.body.walk()
        if isinstance(op, sched.CopyOp)
        and isinstance(op.source.owner, sched.TileOp)
        and op.source.owner.loop_dim >= 0
        and isinstance(op.destination.owner, sched.AllocOp)
    ]
    return (max(loaded, default=1),)


def why_not_staged(kernel: sched.KernelOp) -> tuple[str, Stages] | None:
    """Why a kernel has not the stages that its plan says, and the stages that fit."""
    asked, present = kernel.decided.stages or (), present_stages(kernel)
    iterations = loop_iterations(kernel)
    if max(asked, default=0) > iterations:
        return f"its loop has {iterations} iteration{'s' * (iterations > 1)}", present
    if len(asked) > len(present):
        rings = len(present)
        return f"its loop has {rings} ring{'s' * (rings > 1)}", asked[:rings]
    if asked and asked_stages(asked, len(present), iterations) != present:
        return "the shared memory of a block has no room for them", present
    return None


def _remove_fences(kernel: sched.KernelOp) -> None:
    """Takes out the fences that stand before releases, which are placed anew."""
    for op in tuple(kernel.body.walk()):
        if isinstance(op, sched.ProxyFenceOp) and isinstance(_next(op), sched.ReleaseOp):
            Rewriter.erase_op(op)


def _next(op: Operation) -> Operation | None:
    return op.next_op


__all__ = [
    "feeds_of",
    "fitting_ring_stages",
    "present_stages",
    "producer_of",
    "restage_rings",
    "shared_bytes",
    "why_not_staged",
]
