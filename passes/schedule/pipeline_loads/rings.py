"""The rings of a kernel: what feeds them, and the stages that they get."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import IntegerAttr, i64

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.mbarriers import BARRIER_BYTES
from mugraph.dialects.sched.structure import (
    computing_threads,
    enclosing_loop,
    loop_iterations,
)
from mugraph.dialects.tensor_types import bytes_of
from mugraph.passes.costs.memory import bytes_in_flight
from mugraph.passes.schedule.barriers.proposal import Proposal, propose_barriers
from mugraph.passes.schedule.barriers.trades import Schedule
from mugraph.passes.schedule.chained_products import find_chained_loops
from mugraph.passes.schedule.pipeline_loads.feeds import Feed, Load, producer_role
from mugraph.passes.schedule.pipeline_loads.stages import (
    MIN_STAGES,
    Ring,
    Stages,
    asked_stages,
    choose_ring_stages,
    fewer_stages,
)
from mugraph.passes.schedule.plan_stensor_memory import blocks_that_share
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
    copies: dict[sched.ChannelOp, dict[Load, bool]] = {}
    for op in producer.body.walk():
        if isinstance(op, sched.BulkCopyOp) and (channel := op.ring()) is not None:
            copies.setdefault(channel, {})[op.tile, op.destination] = op.moves
    for channel, loads in copies.items():
        yield Feed(channel, tuple(loads), any(loads.values()))


def _stage_bytes(feed: Feed) -> int:
    buffers = [value.owner for value in feed.channel.buffers]
    return sum(buffer.stage_bytes() for buffer in buffers if isinstance(buffer, sched.AllocOp))


def kept_stages(kernel: sched.KernelOp) -> dict[sched.ChannelOp, int]:
    """Analysis: how many stages of each ring are in use beside the one that is being read.

    One, of a product of warp groups that runs beside what is computed in the next iteration; none
    where only the first product of a chain reads the ring, which is released in the same iteration.
    Products of few rows end long before the next tile is there, and keep no stage from it.

    Two, where numbers of device memory scale each product: the next one is issued before. With five
    stages and not four products of f8 with scales of blocks took 0.94 to 0.99 of the time on an
    H200 (``benchmarks/results/narrow_h200.md``); other sums that threads use were not timed so.
    """
    channels = [op for op in kernel.body.block.ops if isinstance(op, sched.ChannelOp)]
    products = sched.warpgroup_products(kernel)
    stay_behind = any(not op.atom.swaps_operands for op in products)
    in_flight = 2 if len(products) == 1 and _is_scaled_in_loop(products[0]) else 1
    kept = dict.fromkeys(channels, in_flight if stay_behind else 0)
    for found in find_chained_loops(kernel):
        for channel in channels:
            ops = found.loop.body.block.ops
            readers = [op for op in ops if any(value in channel.buffers for value in op.operands)]
            if readers == [found.first]:
                kept[channel] = 0
    return kept


def _is_scaled_in_loop(product: sched.WarpgroupMmaOp) -> bool:
    """Whether threads scale each product of a loop by numbers of device memory, before the next."""
    loop = enclosing_loop(product)
    if loop is None or not product.is_fresh or product.is_async:
        return False
    loads = (op for op in loop.body.block.ops if isinstance(op, sched.LoadOp))
    return any(isinstance(load.source.type, sched.GlobalType) for load in loads)


def set_stages(rings: Sequence[Feed], stages: Stages) -> None:
    """Gives the buffers of rings so many stages."""
    for ring, count in zip(rings, stages, strict=True):
        for buffer in ring.channel.buffers:
            assert isinstance(buffer.owner, sched.AllocOp)
            buffer.owner.stages = IntegerAttr(count, i64) if count > 1 else None


def wanted_stages(
    kernel: sched.KernelOp, moving: Sequence[Feed], resident: int, target: Target
) -> Stages:
    """The stages that rings should have, however much memory a block has."""
    kept = kept_stages(kernel)
    rings = [Ring(_stage_bytes(feed), kept[feed.channel]) for feed in moving]
    iterations, blocks = loop_iterations(kernel), math.prod(kernel.grid_dim)
    tiles = [tile.owner for feed in moving for tile, _ in feed.loads]
    tensors = {tile.source for tile in tiles if isinstance(tile, sched.LocalTileOp)}
    loaded = blocks * iterations * sum(ring.stage_bytes for ring in rings)
    new = sum(bytes_of(tensor.type) for tensor in tensors) / max(loaded, 1)
    flight = bytes_in_flight(new, blocks, resident, target)
    if (kernel.decided.ping_pong or 1) > 1 or any(True for _ in find_chained_loops(kernel)):
        flight = 0  # consumers that alternate need room for results; chains were not measured
    return choose_ring_stages(rings, resident, iterations, target, flight)


def planned_threads(kernel: sched.KernelOp) -> int:
    """The threads of a block once its consumers are as many as the plan says."""
    consumers = kernel.decided.ping_pong or 1
    return kernel.threads + (consumers - 1) * computing_threads(kernel)


def pipeline_rings(kernel: sched.KernelOp, target: Target) -> None:
    """Gives a kernel's rings the stages that they should have and a block's memory has room for.

    Barriers are chosen beside rings of the fewest stages, which then grow.  Blocks that registers
    let share a multiprocessor share its memory, where each then has two stages: what one waits for
    another hides.  What the kernel's plan says is kept.
    """
    producer, feeds = producer_of(kernel), list(feeds_of(kernel))
    assert producer is not None  # asked by the caller
    iterations, asked = loop_iterations(kernel), kernel.decided.stages
    moving = [feed for feed in feeds if feed.moves]
    kept = kept_stages(kernel)
    least = (1 if asked else min(MIN_STAGES, iterations),) * len(moving)
    set_stages(moving, least)
    proposal = propose_barriers(kernel, target)
    schedule = proposal.fitting_schedule()
    if schedule is None:
        least = (1,) * len(moving)
        set_stages(moving, least)
        proposal = propose_barriers(kernel, target)
        schedule = proposal.fitting_schedule() or proposal.smallest_schedule()
    share, resident = target.shared_memory_per_block, 1
    if asked:
        wanted = asked_stages(asked, len(moving), iterations)
    else:
        packed = proposal.packed_bytes(schedule)
        resident = blocks_that_share(kernel, packed, target, planned_threads(kernel))
        wanted = wanted_stages(kernel, moving, resident, target)
        of_each = target.shared_memory_per_multiprocessor // resident
        share = min(of_each - target.reserved_shared_memory_per_block, share)
    with_barriers = [
        Ring(_stage_bytes(feed) + 2 * BARRIER_BYTES, kept[feed.channel]) for feed in moving
    ]
    stages: Stages | None = wanted
    if math.prod(kernel.grid_dim) <= resident * target.multiprocessors:
        schedule = _with_room(proposal, schedule, moving, wanted, share)
    while stages is not None:
        set_stages(moving, stages)
        excess = proposal.packed_bytes(schedule) - share
        if excess <= 0 or stages == least:
            break
        stages = fewer_stages(with_barriers, stages, excess, least=min(least, default=1))
    set_stages(moving, stages or least)
    Rewriter.replace_op(producer, producer_role(feeds, iterations), [])
    proposal.arranged(schedule)


def _with_room(
    proposal: Proposal, schedule: Schedule, moving: Sequence[Feed], wanted: Stages, share: int
) -> Schedule:
    """The schedule, or one that has room for more stages at the price of barriers behind the loop.

    Of blocks that all run at once results may take the place of rings: of those that go on to
    other work tiles rings stay.
    """
    for fewer in range(max(wanted, default=0)):
        set_stages(moving, tuple(max(count - fewer, 1) for count in wanted))
        if proposal.packed_bytes(schedule) <= share:
            return schedule
        for other in proposal.trades:
            if other.barriers.loop > schedule.barriers.loop:
                break
            if proposal.packed_bytes(other) <= share:
                return other
    return schedule


def present_stages(kernel: sched.KernelOp) -> Stages:
    """The stages of a kernel's rings; what all threads load in its loop has one number."""
    if producer_of(kernel) is not None:
        return tuple(feed.stages for feed in feeds_of(kernel) if feed.moves)
    loaded = [
        op.destination.owner.stage_count
        for op in kernel.body.walk()
        if isinstance(op, sched.CopyOp)
        and isinstance(op.source.owner, sched.LocalTileOp)
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
