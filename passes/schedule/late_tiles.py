"""Tiles that come once and that an epilogue alone reads, such as a residual.

A bulk copy brings them while the loop runs.  A persistent block has no such time to wait: its
threads load what they hold of a product from device memory, while the producer is at the next work
tile.  Shared memory is then left to the rings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.role import roles_of
from mugraph.dialects.sched.structure import loop_and_epilogue
from mugraph.dialects.tensor_types import shape_of


class LateTiles(NamedTuple):
    """A channel of them, and all that goes with it."""

    channel: sched.ChannelOp
    steps: tuple[Operation, ...]
    """What fills it, and who waits for that."""
    sources: dict[SSAValue, SSAValue]
    """The tile in device memory of each buffer."""
    loads: tuple[sched.LoadOp, ...]


def late_tiles(kernel: sched.KernelOp) -> list[LateTiles]:
    """Those of a kernel with one role that computes, in a loop with an epilogue behind it."""
    phases = loop_and_epilogue(roles_of(kernel)[0].body.block) if roles_of(kernel) else None
    if phases is None:
        return []
    channels = [op for op in kernel.body.block.ops if isinstance(op, sched.ChannelOp)]
    found = [_late_tiles(channel, phases[1]) for channel in channels]
    return [each for each in found if each is not None]


def _late_tiles(channel: sched.ChannelOp, epilogue: sched.EpilogueOp) -> LateTiles | None:
    """The tiles of a channel, where fragments of products are all that is loaded of them."""
    steps = channel.steps()
    sources: dict[SSAValue, SSAValue] = {}
    loads: list[sched.LoadOp] = []
    for step in steps:
        if isinstance(step, sched.ProduceOp):
            for copy in step.body.block.ops:
                if not isinstance(copy, sched.BulkCopyOp) or not _is_plain(copy):
                    return None
                sources[copy.destination] = copy.source
        elif not isinstance(step, sched.ConsumeOp) or step.parent_op() is not epilogue:
            return None
    for buffer in channel.buffers:
        for reader in _readers(buffer):
            if not isinstance(reader, sched.LoadOp) or reader.loads_operand:
                return None
            if reader.parent_op() is not epilogue:
                return None
            loads.append(reader)
    return LateTiles(channel, tuple(steps), sources, tuple(loads))


def _readers(buffer: SSAValue) -> Iterator[Operation]:
    """The operators that read a buffer, beside the channel and what fills it."""
    for use in buffer.uses:
        if not isinstance(use.operation, sched.ChannelOp | sched.BulkCopyOp):
            yield use.operation


def _is_plain(copy: sched.BulkCopyOp) -> bool:
    """Whether it brings a tile as it is, whose place and extents follow from the block alone."""
    tile = copy.source.owner
    if not isinstance(tile, sched.LocalTileOp) or not tile.is_plain:
        return False
    return copy.at is None and shape_of(copy.destination.type) == shape_of(tile.result.type)


def load_in_epilogue(found: LateTiles) -> None:
    """Rewrite: the threads that compute load the tiles, and the channel is gone."""
    for load in found.loads:
        load.operands[0] = found.sources[load.source]
    for step in found.steps:
        Rewriter.erase_op(step)
    buffers = [value.owner for value in found.channel.buffers]
    Rewriter.erase_op(found.channel)
    for buffer in buffers:
        assert isinstance(buffer, Operation)
        Rewriter.erase_op(buffer)
