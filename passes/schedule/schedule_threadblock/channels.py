"""Loads by a warp of their own: which inputs bulk copies can bring, the producer, and its channels.

With a role for the loads the threads that compute find their tiles by waiting at a channel: no
barrier of theirs stands between a load and its readers, nor between these and the next load.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import sched, tb
from mugraph.dialects.bulk import BulkCopyError, require_whole_tiles, tile_layouts
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.launch_extents import MAX_THREADS
from mugraph.dialects.sched.kernel import WARP
from mugraph.dialects.sched.structure import computing_block
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    value_label,
)
from mugraph.passes.schedule.analysis.remarks import Obstacle
from mugraph.passes.schedule.schedule_threadblock.levels import Levels
from mugraph.passes.targets import Target

CONSUMERS, PRODUCER = "consumers", "producer"
"""The roles of a kernel with channels."""


def layouts_of_load(op: tb.InputOp, *, boxes: bool = False) -> list[AnyLayout]:
    """The layouts that bulk copies can give an input's tile, the one to start from first.

    ``boxes``: also several boxes side by side.  Raises :class:`BulkCopyError` where they cannot
    bring it.
    """
    copy = op.resolved_copy()
    require_whole_tiles(op.bounds(), copy.alignment)
    # What cuts a tile in parts finds them by one stride a dimension.
    may_be_nested = all(not isinstance(use.operation, tb.MovingOp) for use in op.result.uses)
    found = tile_layouts(
        copy.shape, copy.strides, copy.tile, copy.element_bytes, boxes=boxes or may_be_nested
    )
    return found if boxes else sorted(found, key=lambda layout: base_layout(layout).depth > 1)


def block_obstacles(threads: int, target: Target) -> Iterator[Obstacle]:
    """Why a block of so many threads, without a producer, has no channels; nothing where it may."""
    if target.bulk_bytes_in_flight is None:
        yield Obstacle(f"{target.arch} has no bulk copies", "choose a later architecture")
    if threads % WARP:
        whole = -(-threads // WARP) * WARP
        yield Obstacle(
            f"its block of {threads} threads is not made of whole warps",
            f"give it whole warps (plan <block = [{whole}]>)",
        )
    if threads + WARP > MAX_THREADS:
        yield Obstacle(
            f"its block of {threads} threads leaves no room for a producer",
            f"leave a warp to it (plan <block = [{MAX_THREADS // 2}]>)",
        )


def loop_obstacles(*, moves: bool, iterations: int) -> Iterator[Obstacle]:
    """Why channels gain nothing in a loop; ``moves``: whether it loads a tile an iteration."""
    mend = "cut what it loads by a for-loop (plan <forloop = ...>)"
    if not moves:
        yield Obstacle("nothing is loaded in its loop", mend)
    if iterations == 1:
        yield Obstacle("its loop has one iteration", mend)


def obstacles(graph: CustomizedOp, levels: Levels, target: Target) -> list[str]:
    """Why the loads of a graph cannot go through channels: a sentence each; none where they can."""
    found = [obstacle.reason for obstacle in block_obstacles(graph.threads, target)]
    if not levels.inputs:
        found.append("it loads nothing")
    for op in levels.inputs:
        try:
            layouts_of_load(op)
        except BulkCopyError as error:
            found.append(f"{value_label(op.dtensor)}: {error}")
    return found


def uses_channels(graph: CustomizedOp, levels: Levels, target: Target) -> list[str]:
    """Why a graph is not scheduled with channels; nothing where it is.

    A plan that says ``loads = tma`` has them wherever they can be.
    """
    loads = graph.decided.loads
    if loads == "cp_async":
        return ["its plan says loads = cp_async"]
    found = obstacles(graph, levels, target)
    if loads is None:
        moves = any(op.loop_dim >= 0 for op in levels.inputs)
        missing = loop_obstacles(moves=moves, iterations=graph.forloop_range)
        found += [obstacle.reason for obstacle in missing]
    return found


@dataclass(frozen=True)
class BulkLoad:
    """The bulk copy of one input, for any iteration, through a channel.

    ``ring``: which of the kernel's rings it goes through; ``None`` for what does not move.
    """

    tile: SSAValue
    buffer: SSAValue
    ring: int | None

    @property
    def moves(self) -> bool:
        """Whether each iteration has a tile of its own."""
        return self.ring is not None

    def at(self, channel: SSAValue, iteration: int) -> sched.BulkCopyOp:
        """The copy before the loop, of the tile of a given iteration."""
        return sched.BulkCopyOp(self.tile, self.buffer, channel, iteration=iteration)

    def ahead(self, channel: SSAValue, distance: int) -> sched.BulkCopyOp:
        """The copy in the loop, of the tile ``distance`` iterations ahead."""
        return sched.BulkCopyOp(self.tile, self.buffer, channel, ahead=distance)


@dataclass(frozen=True)
class Feed:
    """A channel and the loads that go through it; of several stages where they move."""

    channel: sched.ChannelOp
    loads: tuple[BulkLoad, ...]
    stages: int
    moves: bool

    def fill(self, iteration: int) -> list[Operation]:
        """What brings the tiles of an iteration, before the loop."""
        channel = self.channel.result
        return [
            *(load.at(channel, iteration) for load in self.loads),
            sched.PublishOp(channel, iteration=iteration),
        ]

    def refill(self) -> list[Operation]:
        """What brings, in an iteration, the tiles that take the place of those it reads."""
        channel = self.channel.result
        return [
            sched.AcquireOp(channel, self.stages),
            *(load.ahead(channel, self.stages) for load in self.loads),
            sched.PublishOp(channel, self.stages),
        ]


def make_feeds(loads: Sequence[BulkLoad]) -> list[Feed]:
    """The rings of what moves with the loop, in order; then a channel for each other input.

    All have one stage.
    """
    rings: dict[int, list[BulkLoad]] = {}
    for load in loads:
        if load.ring is not None:
            rings.setdefault(load.ring, []).append(load)
    groups = [(tuple(rings[ring]), True) for ring in sorted(rings)]
    groups += [((load,), False) for load in loads if not load.moves]
    feeds: list[Feed] = []
    for group, moves in groups:
        channel = sched.ChannelOp([load.buffer for load in group])
        channel.result.name_hint = "ring" if moves else f"{group[0].buffer.name_hint}_once"
        feeds.append(Feed(channel, group, 1, moves))
    return feeds


def is_needed_first(feed: Feed) -> bool:
    """Whether something before the end of the loop reads what comes once."""
    return not feed.moves and any(
        sched.enclosing_loop(use.operation) is not None
        or isinstance(use.operation.parent_op(), sched.PrologueOp)
        for load in feed.loads
        for use in load.buffer.uses
    )


def producer_role(feeds: Sequence[Feed], iterations: int) -> sched.RoleOp:
    """The role that loads: all stages before the loop, then one for each that is released."""
    prologue: list[Operation] = []
    loop: list[Operation] = []
    once = [feed for feed in feeds if not feed.moves]
    for feed in once:
        if is_needed_first(feed):
            prologue += feed.fill(0)
    rings = [feed for feed in feeds if feed.moves]
    for iteration in range(max((ring.stages for ring in rings), default=0)):
        for ring in rings:
            if iteration < ring.stages:
                prologue += ring.fill(iteration)
    for ring in rings:
        if ring.stages < iterations:
            loop += ring.refill()
    for feed in once:
        if not is_needed_first(feed):
            prologue += feed.fill(0)
    body = Block([sched.PrologueOp(Block(prologue))])
    if loop:
        body.add_op(sched.ForloopOp(iterations, Block(loop)))
    return sched.RoleOp(PRODUCER, 1, body, elected=True)


def _reads(op: Operation, buffers: Sequence[SSAValue]) -> bool:
    return any(operand in buffers for operand in op.operands)


def place_channel_steps(kernel: sched.KernelOp) -> None:
    """Puts the consumers' steps of every channel where they belong in the text.

    They wait for a stage right before the first operator that reads it, and then release the one
    before: what their loads brought from there has been used by now.  Where only products of warp
    groups read a stage it is released behind them.  What comes once is waited for before the loop
    where the loop reads it.  Steps that stand there already are moved.
    """
    channels = [op for op in kernel.body.block.ops if isinstance(op, sched.ChannelOp)]
    for channel in channels:
        for step in channel.steps():
            if isinstance(step, sched.ConsumeOp | sched.ReleaseOp):
                step.detach()
                step.erase()
    for channel in channels:
        _place_steps(channel, computing_block(kernel))


def _place_steps(channel: sched.ChannelOp, block: Block) -> None:
    moves = any(
        isinstance(use.operation, sched.BulkCopyOp) and _moves(use.operation)
        for use in channel.result.uses
    )
    for phase in _phases(block):
        readers = [op for op in phase.body.block.ops if _reads(op, channel.buffers)]
        if not readers:
            continue
        first, last = readers[0], readers[-1]
        if moves:
            steps: list[Operation] = [sched.ConsumeOp(channel.result)]
            if isinstance(phase, sched.ForloopOp):
                behind = _release(channel, readers)
                if behind is None:
                    steps.append(sched.ReleaseOp(channel.result, -1))
                else:
                    phase.body.block.insert_ops_after(behind, last)
            phase.body.block.insert_ops_before(steps, first)
            continue
        consume = sched.ConsumeOp(channel.result, iteration=0)
        if isinstance(phase, sched.ForloopOp):
            prologue = next(op for op in block.ops if isinstance(op, sched.PrologueOp))
            prologue.body.block.add_op(consume)
        else:
            phase.body.block.insert_op_before(consume, first)
        return


def _release(channel: sched.ChannelOp, readers: Sequence[Operation]) -> list[Operation] | None:
    """What releases a stage behind its last reader; ``None`` where the next iteration does.

    Products of warp groups have read their operands when they are finished.  A load that is only
    issued may still read when the next bulk copy writes, as the two take different ways to memory,
    so a ring of one stage has a fence before the release.
    """
    if all(isinstance(op, sched.WarpgroupMmaOp) for op in readers):
        return [sched.ReleaseOp(channel.result)]
    if channel.stage_count == 1:
        return [sched.ProxyFenceOp(), sched.ReleaseOp(channel.result)]
    return None


def _moves(copy: sched.BulkCopyOp) -> bool:
    return isinstance(copy.tile.owner, sched.TileOp) and copy.tile.owner.loop_dim >= 0


def _phases(block: Block) -> Iterator[sched.PhaseOp | sched.ForloopOp]:
    for op in block.ops:
        if isinstance(op, sched.PhaseOp | sched.ForloopOp):
            yield op


__all__ = [
    "BulkLoad",
    "Feed",
    "layouts_of_load",
    "make_feeds",
    "obstacles",
    "place_channel_steps",
    "producer_role",
    "uses_channels",
]
