"""The stages of a kernel's rings once more, when other buffers have left its shared memory.

Stages were chosen beside everything that a schedule keeps in memory.  Where results move to
registers the tiles have room for more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from mugraph.dialects import sched
from mugraph.dialects.sched.channel import BARRIER_BYTES
from mugraph.dialects.sched.structure import loop_iterations
from mugraph.passes.plan_stensor_memory import (
    BEST_FIT_OF_ALL,
    certified_plan,
    memory_requests,
    registers_wanted,
    with_channels,
)
from mugraph.passes.plan_stensor_memory.pack import STEP_LIMIT
from mugraph.passes.schedule_threadblock.channels import (
    BulkLoad,
    Feed,
    place_channel_steps,
    producer_role,
)
from mugraph.passes.schedule_threadblock.choose import MIN_STAGES, choose_ring_stages
from mugraph.passes.targets import Target


def producer_of(kernel: sched.KernelOp) -> sched.RoleOp | None:
    """The role whose one thread issues the bulk copies into channels."""
    return next((role for role in sched.roles_of(kernel) if role.is_elected), None)


def feeds_of(producer: sched.RoleOp) -> Iterator[Feed]:
    """The channels that a producer feeds, with their loads, in the order in which it fills them."""
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


def choose_stages(kernel: sched.KernelOp, feeds: Sequence[Feed], target: Target) -> int:
    """The stages that rings should have and a block's memory has room for.

    Blocks that registers let share a multiprocessor share its memory, where each then has two
    stages: what one waits for another hides.
    """
    rings = [feed for feed in feeds if feed.moves]
    tiles = [load.buffer.owner for feed in rings for load in feed.loads]
    tile_bytes = sum(tile.stage_bytes() for tile in tiles if isinstance(tile, sched.AllocOp))
    present = max(feed.stages for feed in rings)
    of_a_stage = tile_bytes + 2 * BARRIER_BYTES * len(rings)
    others = shared_bytes(kernel) - present * of_a_stage
    resident = target.resident_blocks(
        math.prod(kernel.grid_dim),
        kernel.threads,
        others + MIN_STAGES * of_a_stage,
        registers_wanted(kernel),
    )
    share = target.shared_memory_per_multiprocessor // resident
    share = min(share - target.reserved_shared_memory_per_block, target.shared_memory_per_block)
    wanted = choose_ring_stages(tile_bytes, resident, loop_iterations(kernel), target, kept=1)
    fitting = (share - others) // of_a_stage
    return min(wanted, fitting) if fitting >= MIN_STAGES else present


def restage_rings(kernel: sched.KernelOp, target: Target) -> bool:
    """Gives a kernel's rings the stages that there is room for now; whether that changed any."""
    producer = producer_of(kernel)
    feeds = [] if producer is None else list(feeds_of(producer))
    if producer is None or not any(feed.moves for feed in feeds):
        return False
    stages = choose_stages(kernel, feeds, target)
    if all(feed.stages == stages for feed in feeds if feed.moves):
        return False
    restaged: list[Feed] = []
    for feed in feeds:
        if feed.moves:
            for load in feed.loads:
                assert isinstance(load.buffer.owner, sched.AllocOp)
                load.buffer.owner.stages = IntegerAttr(stages, i64)
            restaged.append(Feed(feed.channel, feed.loads, stages, moves=True))
        else:
            restaged.append(feed)
    Rewriter.replace_op(producer, producer_role(restaged, loop_iterations(kernel)), [])
    _remove_fences(kernel)
    place_channel_steps(kernel)
    return True


def _remove_fences(kernel: sched.KernelOp) -> None:
    """Takes out the fences that stand before releases, which are placed anew."""
    for op in tuple(kernel.body.walk()):
        if isinstance(op, sched.ProxyFenceOp) and isinstance(_next(op), sched.ReleaseOp):
            Rewriter.erase_op(op)


def _next(op: Operation) -> Operation | None:
    return op.next_op


__all__ = ["choose_stages", "feeds_of", "producer_of", "restage_rings", "shared_bytes"]
