"""Choices that every random µGraph is made of: extents, types, layouts, maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from xdsl.dialects.builtin import TensorType, bf16, f8E4M3FN, f8E5M2, f16, f32
from xdsl.ir import Attribute

from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.maps import AXES, PartitionError, tile_shape

Choice = TypeVar("Choice")

EXTENTS = (8, 16, 1, 2, 5, 9, 17, 24, 3, 4, 12, 32, 33, 40, 48, 64)
"""Extents of tiles; the first are the simplest, to which failing cases shrink."""
MAX_TILE = 1536
"""Elements of a tile; keeps the tiles of a graph within shared memory."""
MAX_TENSOR = 12288
"""Elements of a DTensor."""


@dataclass(frozen=True)
class Chooser:
    """Draws single choices; the first, or the least, is the simplest.

    ``number`` draws a whole number between two, both included.
    """

    number: Callable[[int, int], int]

    def pick(self, choices: Sequence[Choice]) -> Choice:
        """One of several."""
        return choices[self.number(0, len(choices) - 1)]

    def chance(self, percent: int) -> bool:
        """True in about that many cases of a hundred; false is simpler."""
        return self.number(0, 99) >= 100 - percent

    def element_type(self) -> Attribute:
        """A floating-point type, mostly f16."""
        if self.chance(50):
            return self.pick((f32, bf16, f32, f8E4M3FN, bf16, f8E5M2))
        return f16

    def shape(self, rank: int, elements: int = MAX_TILE) -> tuple[int, ...]:
        """Extents whose product is at most ``elements``."""
        extents: list[int] = []
        for _ in range(rank):
            left = elements // math.prod(extents)
            extents.append(self.pick([extent for extent in EXTENTS if extent <= left]))
        if rank > 1 and self.chance(40):
            extents[self.number(0, rank - 1)] = 1
        return tuple(extents)

    def strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Any order of the dimensions, with gaps between them now and then."""
        order = list(range(len(shape)))
        ordered: list[int] = []
        while order:
            ordered.append(order.pop(self.number(0, len(order) - 1)))
        step = self.pick((2, 3)) if self.chance(8) else 1
        strides = [0] * len(shape)
        for dim in ordered:
            strides[dim] = step
            step *= shape[dim]
            if self.chance(25):
                step += self.pick((1, 2, 3, 4, 7, 8, 16))
        return tuple(strides)

    def tensor_type(
        self, shape: Sequence[int], element_type: Attribute, laid_out: int = 30
    ) -> TensorType[Any]:
        """A DTensor's type, ``laid_out`` percent of them with a layout."""
        if not self.chance(laid_out):
            return TensorType(element_type, shape)
        return TensorType(
            element_type, shape, LayoutAttr(Layout(tuple(shape), self.strides(shape)))
        )


@dataclass(frozen=True)
class Partition:
    """How a grid and a loop split a tensor; ``fordim`` is -1 where the loop does not."""

    map_: tuple[int, int, int]
    fordim: int


def draw_partition(
    chooser: Chooser, shape: Sequence[int], grid: Sequence[int], iterations: int
) -> tuple[Partition, tuple[int, ...]]:
    """A partition that divides the extents of an existing tensor, and the tile that it cuts."""
    map_ = [-1, -1, -1]
    fordim = -1
    tile = tuple(shape)
    for axis in range(len(AXES)):
        fits = [-1]
        for dim in range(len(shape)):
            candidate = (*map_[:axis], dim, *map_[axis + 1 :])
            if _cut(shape, candidate, -1, grid, iterations) is not None:
                fits.append(dim)
        map_[axis] = chooser.pick(fits)
    tile = tile_shape(shape, map_, -1, grid, iterations)
    moves = [
        dim for dim in range(len(shape)) if _cut(shape, map_, dim, grid, iterations) is not None
    ]
    if moves and chooser.chance(75):
        fordim = chooser.pick(moves)
        tile = tile_shape(shape, map_, fordim, grid, iterations)
    return Partition((map_[0], map_[1], map_[2]), fordim), tile


def _cut(
    shape: Sequence[int], map_: Sequence[int], fordim: int, grid: Sequence[int], iterations: int
) -> tuple[int, ...] | None:
    try:
        return tile_shape(shape, map_, fordim, grid, iterations)
    except PartitionError:
        return None


def draw_partition_of_tile(
    chooser: Chooser, tile: Sequence[int], grid: Sequence[int], iterations: int
) -> tuple[Partition, tuple[int, ...]]:
    """A partition for a new tensor with a given tile, and the tensor's extents."""
    rank = len(tile)
    shape = list(tile)
    map_ = [-1, -1, -1]
    for axis in range(len(AXES)):
        dim = chooser.number(-1, rank - 1)
        blocks = grid[axis]
        if dim >= 0 and math.prod(shape) * blocks <= MAX_TENSOR:
            map_[axis] = dim
            shape[dim] *= blocks
    fordim = -1
    if chooser.chance(75) and math.prod(shape) * iterations <= MAX_TENSOR:
        fordim = chooser.number(0, rank - 1)
        shape[fordim] *= iterations
    return Partition((map_[0], map_[1], map_[2]), fordim), tuple(shape)


def draw_output_map(
    chooser: Chooser, tile: Sequence[int], grid: Sequence[int]
) -> tuple[tuple[int, int, int], tuple[int, ...]]:
    """An omap that maps every axis of more than one block, and the extents of the result."""
    shape = list(tile)
    map_ = [-1, -1, -1]
    for axis in range(len(AXES)):
        low = 0 if grid[axis] > 1 else -1
        map_[axis] = chooser.number(low, len(tile) - 1)
        if map_[axis] >= 0:
            shape[map_[axis]] *= grid[axis]
    return (map_[0], map_[1], map_[2]), tuple(shape)
