"""Loads by a warp of their own: the channels that it feeds, and the role that it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import sched

CONSUMERS, PRODUCER = "consumers", "producer"
"""The roles of a kernel with channels."""


Load = tuple[SSAValue, SSAValue]
"""A tile of a tensor, and the buffer that a bulk copy brings it to."""


class Feed(NamedTuple):
    """A channel and what is loaded through it; ``moves``: each iteration has tiles of its own."""

    channel: sched.ChannelOp
    loads: tuple[Load, ...]
    moves: bool

    @property
    def stages(self) -> int:
        """How many tiles of each load there is room for."""
        return self.channel.stage_count

    def fill(self, ahead: int = 0, iteration: int | None = None) -> sched.ProduceOp:
        """What brings the tiles ``ahead`` of an iteration of the loop, or before it of one."""
        channel = self.channel.result
        copies = [
            sched.BulkCopyOp(tile, buffer, channel, ahead=ahead, iteration=iteration)
            for tile, buffer in self.loads
        ]
        return sched.ProduceOp(channel, copies, ahead, iteration)


def make_feed(loads: Sequence[Load], *, moves: bool) -> Feed:
    """A channel of one stage for loads that come together."""
    channel = sched.ChannelOp([buffer for _, buffer in loads])
    channel.result.name_hint = "ring" if moves else f"{channel.buffers[0].name_hint}_once"
    return Feed(channel, tuple(loads), moves)


def is_needed_first(feed: Feed) -> bool:
    """Whether something before the end of the loop reads what comes once."""
    readers = [use.operation for buffer in feed.channel.buffers for use in buffer.uses]
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
