"""Walking through the operators in an operator, in few calls."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation


def walk(
    self: Operation, *, reverse: bool = False, region_first: bool = False
) -> Iterator[Operation]:
    """An operator and all in its regions, as xDSL's method of this name: what operators define.

    xDSL's asks generators one within the other, three for each level of regions.  As there, the
    operator that was just given may be erased or get other regions, and what follows it was found
    before.
    """
    if reverse or region_first:
        yield from Operation.walk(self, reverse=reverse, region_first=region_first)
        return
    yield self
    if not self.regions:
        return
    pending: list[Block | Operation] = [*_blocks_of(self)]
    while pending:
        place = pending.pop()
        op = place.first_op if isinstance(place, Block) else place
        while op is not None:
            following = op.next_op
            yield op
            if op.regions:
                if following is not None:
                    pending.append(following)
                pending += _blocks_of(op)
                break
            op = following


def _blocks_of(op: Operation) -> list[Block]:
    """The blocks of its regions, the last first."""
    blocks: list[Block] = []
    for region in reversed(op.regions):
        block = region.last_block
        while block is not None:
            blocks.append(block)
            block = block.prev_block
    return blocks
