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
from mugraph.dialects.maps import AXES, PartitionError, Slicing
from mugraph.dialects.ragged import Bounds

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
    """A partition of an existing tensor, and the tile that it cuts; mostly one that divides.

    Some tiles that do not divide are larger than they must be.
    """
    ragged = chooser.chance(20)
    map_ = [-1, -1, -1]
    fordim = -1
    tile = tuple(shape)
    for axis in range(len(AXES)):
        fits = [-1]
        for dim in range(len(shape)):
            candidate = (*map_[:axis], dim, *map_[axis + 1 :])
            if ragged or _divides(shape, candidate, -1, grid, iterations):
                fits.append(dim)
        map_[axis] = chooser.pick(fits)
    tile = _slicing(shape, map_, -1, grid, iterations).tile_shape()
    moves = [
        dim for dim in range(len(shape)) if ragged or _divides(shape, map_, dim, grid, iterations)
    ]
    if moves and chooser.chance(75):
        fordim = chooser.pick(moves)
    slicing = _slicing(shape, map_, fordim, grid, iterations)
    tile = list(slicing.tile_shape())
    for dim, bound in enumerate(slicing.bounds()):
        if bound is not None and chooser.chance(50):
            split = slicing.split(dim)
            parts = math.prod(split.blocks) * split.iterations
            # The last tile of ``parts`` has one element at least.
            most = (shape[dim] - 1) // (parts - 1)
            tile[dim] = chooser.number(tile[dim], max(most, tile[dim]))
    return Partition((map_[0], map_[1], map_[2]), fordim), tuple(tile)


def _slicing(
    shape: Sequence[int],
    map_: Sequence[int],
    fordim: int,
    grid: Sequence[int],
    iterations: int,
    tile: Sequence[int] | None = None,
) -> Slicing:
    chosen = None if tile is None else tuple(tile)
    return Slicing(tuple(shape), tuple(map_), fordim, tuple(grid), iterations, chosen)


def bounds_of(
    shape: Sequence[int],
    partition: Partition,
    grid: Sequence[int],
    iterations: int,
    tile: Sequence[int],
) -> Bounds | None:
    """Which elements of tiles of these extents exist; ``None`` where they cut no such tensor."""
    slicing = _slicing(shape, partition.map_, partition.fordim, grid, iterations, tile)
    try:
        slicing.tile_shape()
    except PartitionError:
        return None
    return slicing.bounds()


def _divides(
    shape: Sequence[int], map_: Sequence[int], fordim: int, grid: Sequence[int], iterations: int
) -> bool:
    try:
        return not any(_slicing(shape, map_, fordim, grid, iterations).bounds())
    except PartitionError:
        return False


def draw_partition_of_tile(
    chooser: Chooser,
    tile: Sequence[int],
    grid: Sequence[int],
    iterations: int,
    bounds: Bounds | None = None,
) -> tuple[Partition, tuple[int, ...]] | None:
    """A partition for a new tensor with a given tile, and the tensor's extents.

    ``bounds`` is which elements must exist, where another tile says so; ``None`` where no
    partition was found.
    """
    rank = len(tile)
    wanted = bounds or (None,) * rank
    map_, fordim = _forced(wanted)
    free = [dim for dim in range(rank) if wanted[dim] is None]
    shape = list(tile)
    for axis in range(len(AXES)):
        if map_[axis] < 0 and free:
            dim = chooser.pick([-1, *free])
            if dim >= 0 and math.prod(shape) * grid[axis] <= MAX_TENSOR:
                map_[axis] = dim
                shape[dim] *= grid[axis]
    if fordim < 0 and free and chooser.chance(75) and math.prod(shape) * iterations <= MAX_TENSOR:
        fordim = chooser.pick(free)
        shape[fordim] *= iterations
    for dim, bound in enumerate(wanted):
        if bound is not None:
            shape[dim] = bound.extent
        elif bounds is None and chooser.chance(15):
            # The same tile of fewer elements: the last slices and tiles become smaller.
            loops = iterations if fordim == dim else 1
            blocks = shape[dim] // (tile[dim] * loops)
            step = chooser.number((tile[dim] - 1) * loops + 1, tile[dim] * loops)
            shape[dim] = chooser.number((step - 1) * blocks + 1, step * blocks)
    partition = Partition((map_[0], map_[1], map_[2]), fordim)
    found = bounds_of(shape, partition, grid, iterations, tile)
    if found is None or math.prod(shape) > MAX_TENSOR or (bounds is not None and found != bounds):
        return None
    return partition, tuple(shape)


def _forced(bounds: Bounds) -> tuple[list[int], int]:
    """The map and fordim that bounds ask for."""
    map_, fordim = [-1] * len(AXES), -1
    for dim, bound in enumerate(bounds):
        if bound is not None:
            for axis in range(len(AXES)):
                if bound.blocks[axis] > 1:
                    map_[axis] = dim
            fordim = dim if bound.moves else fordim
    return map_, fordim


def draw_output_map(
    chooser: Chooser,
    tile: Sequence[int],
    grid: Sequence[int],
    bounds: Bounds,
    iterations: int,
    *,
    each_iteration: bool = False,
) -> tuple[Partition, tuple[int, ...]] | None:
    """An omap that maps every axis of more than one block, and the extents of the result.

    ``bounds`` is which elements of the tile exist; ``None`` where no omap fits them.
    """
    map_, fordim = _forced(bounds)
    free = [dim for dim in range(len(tile)) if bounds[dim] is None]
    if each_iteration and fordim < 0:
        if not free:
            return None
        fordim = chooser.pick(free)
    shape = [
        extent if bound is None else bound.extent
        for extent, bound in zip(tile, bounds, strict=True)
    ]
    for axis in range(len(AXES)):
        if map_[axis] >= 0:
            continue
        choices = free if grid[axis] > 1 else [-1, *free]
        if not choices:
            return None
        map_[axis] = chooser.pick(choices)
        if map_[axis] >= 0:
            shape[map_[axis]] *= grid[axis]
    if fordim in free:
        shape[fordim] *= iterations
    partition = Partition((map_[0], map_[1], map_[2]), fordim)
    if bounds_of(shape, partition, grid, iterations, tile) != tuple(bounds):
        return None
    return partition, tuple(shape)
