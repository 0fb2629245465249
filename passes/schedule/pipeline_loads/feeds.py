"""Loads by a warp of their own: the channels that it feeds, and the role that it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import sched

CONSUMERS, PRODUCER = "consumers", "producer"
"""The roles of a kernel with channels."""


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


@dataclass(frozen=True)
class Feed:
    """A channel and the loads that go through it; of several stages where they move."""

    channel: sched.ChannelOp
    loads: tuple[BulkLoad, ...]

    @property
    def stages(self) -> int:
        """How many tiles of each load there is room for."""
        return self.channel.stage_count

    @property
    def moves(self) -> bool:
        """Whether each iteration has tiles of its own."""
        return any(load.moves for load in self.loads)

    def fill(self, ahead: int = 0, iteration: int | None = None) -> sched.ProduceOp:
        """What brings the tiles ``ahead`` of an iteration of the loop, or before it of one."""
        channel = self.channel.result
        copies = [
            sched.BulkCopyOp(load.tile, load.buffer, channel, ahead=ahead, iteration=iteration)
            for load in self.loads
        ]
        return sched.ProduceOp(channel, copies, ahead, iteration)


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
        feeds.append(Feed(channel, group))
    return feeds


def is_needed_first(feed: Feed) -> bool:
    """Whether something before the end of the loop reads what comes once."""
    readers = [use.operation for load in feed.loads for use in load.buffer.uses]
    return not feed.moves and any(
        sched.enclosing_loop(op) is not None or isinstance(op.parent_op(), sched.PrologueOp)
        for op in readers
        if not isinstance(op, sched.BulkCopyOp)
    )


def producer_role(feeds: Sequence[Feed], iterations: int) -> sched.RoleOp:
    """The role that loads: all stages before the loop, then one for each that is released."""
    prologue: list[Operation] = []
    once = [feed for feed in feeds if not feed.moves]
    for feed in once:
        if is_needed_first(feed):
            prologue.append(feed.fill(iteration=0))
    rings = [feed for feed in feeds if feed.moves]
    for iteration in range(max((ring.stages for ring in rings), default=0)):
        for ring in rings:
            if iteration < ring.stages:
                prologue.append(ring.fill(iteration=iteration))
    # Tiles that take the place of those that an iteration reads.
    loop = [ring.fill(ahead=ring.stages) for ring in rings if ring.stages < iterations]
    for feed in once:
        if not is_needed_first(feed):
            prologue.append(feed.fill(iteration=0))
    body = Block([sched.PrologueOp(Block(prologue))])
    if loop:
        body.add_op(sched.ForloopOp(iterations, Block(loop)))
    return sched.RoleOp(PRODUCER, 1, body, elected=True)
