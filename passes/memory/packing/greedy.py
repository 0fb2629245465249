"""Greedy packing: buffers in an order, each at the lowest offset where it fits."""

from __future__ import annotations

from collections.abc import Sequence

from mugraph.passes.memory.packing.allocate import aligned
from mugraph.passes.memory.packing.bounds import Instance, neighbours_of


class GreedyPacking:
    """Places buffers in order, each at the lowest offset where it fits."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.neighbours = neighbours_of(instance)

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
