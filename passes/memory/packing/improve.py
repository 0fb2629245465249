"""Better orders for a greedy packing, by small changes: for plans that no simple rule makes tight.

A buffer that ends at the peak moves to an earlier place of the order, and sometimes one that lives
with it moves as well; changes that raise the peak are taken back.  The numbers come from a
generator with a fixed seed, so that equal instances get equal plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

from mugraph.passes.memory.packing.allocate import aligned
from mugraph.passes.memory.packing.bounds import Instance, neighbours_of

SEED = 20240427
"""Of the generator; any number would do."""


@dataclass
class Steps:
    """How much work may still be done, in buffers looked at: never a limit on time."""

    left: int

    def take(self, count: int = 1) -> bool:
        """Takes steps; false where fewer were left."""
        self.left -= count
        return self.left >= 0


class GreedyPacking:
    """Places buffers in order, each at the lowest offset where it fits."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.neighbours = neighbours_of(instance)
        self.pairs = sum(len(others) for others in self.neighbours)

    def place(self, order: Sequence[int]) -> list[int]:
        """The offset of every buffer, in units."""
        sizes, alignments = self.instance.sizes, self.instance.alignments
        offsets = [-1] * len(sizes)
        for buffer in order:
            size, step = sizes[buffer], alignments[buffer]
            taken = sorted(
                (offsets[other], sizes[other])
                for other in self.neighbours[buffer]
                if offsets[other] >= 0
            )
            position = 0
            for start, length in taken:
                if start - position >= size:
                    break
                if start + length > position:
                    position = aligned(start + length, step)
            offsets[buffer] = position
        return offsets

    def fill(self, order: Sequence[int]) -> list[int]:
        """The offsets of a placement that always fills the lowest floor there is.

        Of the buffers that could go to it the first in ``order`` does.
        """
        sizes, alignments = self.instance.sizes, self.instance.alignments
        lowest = [0] * len(sizes)
        offsets = [-1] * len(sizes)
        waiting = [(0, rank, buffer) for rank, buffer in enumerate(order)]
        while waiting:
            offset, rank, buffer = heappop(waiting)
            if offset < lowest[buffer]:
                heappush(waiting, (lowest[buffer], rank, buffer))
                continue
            offsets[buffer] = offset
            end = offset + sizes[buffer]
            for other in self.neighbours[buffer]:
                if lowest[other] < end and offsets[other] < 0:
                    lowest[other] = aligned(end, alignments[other])
        return offsets

    def peak(self, offsets: Sequence[int]) -> int:
        """The units needed in all."""
        return max(
            (offset + size for offset, size in zip(offsets, self.instance.sizes, strict=True)),
            default=0,
        )


def improve(instance: Instance, order: Sequence[int], bound: int, steps: Steps) -> list[int]:
    """Offsets of a plan that starts from ``order`` and is changed until it meets ``bound`` units.

    Takes the pairs of buffers that each placement compares from ``steps``.
    """
    packing = GreedyPacking(instance)
    random = Random(SEED)
    order = list(order)
    best = packing.place(order)
    peak = packing.peak(best)
    while peak > bound and steps.take(packing.pairs + len(order)):
        changed = _changed(packing, order, best, peak, random)
        offsets = packing.place(changed)
        reached = packing.peak(offsets)
        if reached <= peak:
            best, peak, order = offsets, reached, changed
    return best


def _changed(
    packing: GreedyPacking, order: Sequence[int], offsets: Sequence[int], peak: int, random: Random
) -> list[int]:
    """The order with a buffer that ends at the peak, and perhaps another, somewhere earlier."""
    sizes = packing.instance.sizes
    top = next(buffer for buffer in order if offsets[buffer] + sizes[buffer] == peak)
    changed = list(order)
    position = changed.index(top)
    changed.remove(top)
    changed.insert(random.randrange(position) if position else 0, top)
    if packing.neighbours[top] and random.random() < 0.5:
        other = random.choice(packing.neighbours[top])
        changed.remove(other)
        changed.insert(random.randrange(len(changed)), other)
    return changed
