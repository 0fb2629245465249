"""All blocks of a grid at once: arrays whose first three axes are the grid's x, y and z.

A value has extent 1 along a grid axis that it does not depend on, so a tile that all blocks share
is there once, and numpy's broadcasting repeats it where it meets one that differs.  Where the
tiles of the whole grid would take too much memory, the grid is run in boxes of blocks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mugraph.dialects.maps import AXES, mapped_axes, tile_shape
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Array

GRID_AXES = len(AXES)
"""How many axes stand before a tile's own."""

MEMORY_BYTES = 2**28
"""About how much the tiles of the blocks that run at once may take."""

Box = tuple[slice, ...]
"""The blocks that run at once: a range of each of x, y, z."""


@dataclass
class Frame:
    """Where execution stands: which blocks of which grid, in which iteration of the for-loop."""

    arithmetic: Arithmetic
    grid: tuple[int, ...]
    iterations: int
    box: Box
    iteration: int = 0

    def tiles_of(
        self, array: Array, map_: Sequence[int], fordim: int, iteration: int | None = None
    ) -> Array:
        """The tiles that the box's blocks have of a tensor, as a view of it.

        ``map_`` and ``fordim`` are as in :mod:`mugraph.dialects.maps`; ``iteration`` is the
        current one if it is not given.
        """
        view = _split(array, map_, fordim, self.grid, self.iterations)
        chosen = self.iteration if iteration is None else iteration
        moving = view[chosen if fordim >= 0 else 0]
        return moving[
            tuple(
                blocks if moving.shape[axis] > 1 else slice(None)
                for axis, blocks in enumerate(self.box)
            )
        ]


def _split(
    array: Array, map_: Sequence[int], fordim: int, grid: Sequence[int], iterations: int
) -> Array:
    """A view of extents [iterations, x, y, z, tile...]; 1 where nothing is split.

    Each dimension falls into its grid axes, outermost first, then the for-loop, then the tile.
    """
    tile = tile_shape(array.shape, map_, fordim, grid, iterations)
    extents: list[int] = []
    loop_at: int | None = None
    grid_at: dict[int, int] = {}
    tile_at: list[int] = []
    for dim, extent in enumerate(tile):
        for axis in mapped_axes(map_, grid, dim):
            grid_at[axis] = len(extents)
            extents.append(grid[axis])
        if dim == fordim:
            loop_at = len(extents)
            extents.append(iterations)
        tile_at.append(len(extents))
        extents.append(extent)
    # One more axis of extent 1 for everything that splits no dimension.
    positions = [loop_at, *(grid_at.get(axis) for axis in range(GRID_AXES))]
    missing = positions.count(None)
    spare = iter(range(len(extents), len(extents) + missing))
    order = [next(spare) if at is None else at for at in positions]
    return array.reshape(*extents, *[1] * missing).transpose(*order, *tile_at)


def boxes(grid: Sequence[int], bytes_of: Callable[[Sequence[int]], int]) -> Iterator[Box]:
    """Boxes that together are the grid, each within :data:`MEMORY_BYTES` or a single block.

    ``bytes_of`` says what a box of given extents takes.
    """
    extents = list(grid)
    while bytes_of(extents) > MEMORY_BYTES and max(extents) > 1:
        halved = [
            [*extents[:axis], math.ceil(extents[axis] / 2), *extents[axis + 1 :]]
            for axis in range(len(extents))
            if extents[axis] > 1
        ]
        extents = min(halved, key=bytes_of)
    ranges = [
        [slice(start, min(start + step, end)) for start in range(0, end, step)]
        for end, step in zip(grid, extents, strict=True)
    ]
    yield from itertools.product(*ranges)


def broadcast_bytes(
    arithmetic: Arithmetic, box: Sequence[int], axes: set[int], shape: Sequence[int]
) -> int:
    """What a tile takes in every block of a box, where it depends on these grid axes only."""
    blocks = math.prod(box[axis] for axis in axes)
    return blocks * math.prod(shape) * arithmetic.element_bytes


def constant_tile(arithmetic: Arithmetic, shape: Sequence[int], value: float) -> Array:
    """A tile that is the same in all blocks and has one value everywhere."""
    return arithmetic.full((*[1] * GRID_AXES, *shape), value)
