"""All blocks of a grid at once: arrays whose first three axes are the grid's x, y and z.

A value has extent 1 along a grid axis that it does not depend on, so a tile that all blocks share
is there once, and numpy's broadcasting repeats it where it meets one that differs.  Where the
tiles of the whole grid would take too much memory, the grid is run in boxes of blocks.

Tiles have the extents that exist: where a partition does not divide, the blocks of a box all have
as many elements (:func:`uniform_boxes`), and the tiles of the last ones are smaller.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mugraph.dialects.linear_forms import (
    LinearForm,
    all_at_least_0,
    at_lengths,
    coordinates_of,
)
from mugraph.dialects.maps import AXES, Bound, Slicing, mapped_axes
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Array, is_whole

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
    first: int = 0
    """Which of the tiles along the loop the first iteration has."""
    position: int = 0
    """Which of the blocks of the grid that a block takes, one after the other."""
    lengths: Sequence[int] = ()
    """The values of the kernel's lengths."""

    @property
    def before(self) -> int:
        """The iterations of the blocks of the grid that a block has taken before."""
        return self.position * self.iterations

    @property
    def positions(self) -> int:
        """How many blocks of the grid a block takes, one after the other."""
        return 1

    def first_block(self) -> tuple[int, ...]:
        """The block of the box with the least indices."""
        return tuple(blocks.start or 0 for blocks in self.box)

    def block_indices(self, axis: int) -> Array:
        """The indices of the blocks along an axis of the grid, of as many axes as the grid."""
        indices = np.arange(self.grid[axis])[self.box[axis]]
        return indices.reshape([-1 if other == axis else 1 for other in range(GRID_AXES)])

    def existing(self, bound: Bound) -> int:
        """How many elements exist along a dimension of a tile, in every block of the box."""
        return bound.existing(self.first_block(), self.first + self.iteration)

    def tiles_of(self, array: Array, slicing: Slicing, iteration: int | None = None) -> Array:
        """The tiles that the box's blocks have of a tensor; a view of it where none is ragged.

        ``iteration`` is the current one if it is not given.
        """
        chosen = self.first + (self.iteration if iteration is None else iteration)
        if any(slicing.bounds()):
            return array[self._places(slicing, chosen)]
        return self.whole_tiles(array, slicing, chosen)

    def store_tiles(
        self,
        array: Array,
        slicing: Slicing,
        value: Array,
        iteration: int | None = None,
        start: Sequence[int] | None = None,
    ) -> None:
        """Writes the elements that exist of the box's tiles into a tensor.

        With ``start`` those of a part of the tiles that begins there.
        """
        chosen = self.first + (self.iteration if iteration is None else iteration)
        if start is not None:
            part = list(zip(start, value.shape[GRID_AXES:], strict=True))
            array[self._places(slicing, chosen, part)] = value
        elif any(slicing.bounds()):
            array[self._places(slicing, chosen)] = value
        else:
            self.store_whole_tiles(array, slicing, chosen, value)

    def store_whole_tiles(self, array: Array, slicing: Slicing, chosen: int, value: Array) -> None:
        """As :meth:`store_tiles`, in an iteration, where no tile is ragged."""
        self.whole_tiles(array, slicing, chosen)[...] = value

    def _places(
        self, slicing: Slicing, iteration: int, part: Sequence[tuple[int, int]] | None = None
    ) -> tuple[Array, ...]:
        """Where the elements of the box's tiles are, for each dimension of the tensor.

        With ``part`` those from a first one on, so many, along each dimension of the tile.
        """
        places: list[Array] = []
        rank = len(slicing.shape)
        for dim in range(rank):
            split = slicing.split(dim)
            starts = np.zeros((1,) * GRID_AXES, np.int64)
            for axis, factor in enumerate(split.factors()):
                if split.blocks[axis] > 1:
                    starts = starts + self.block_indices(axis) * factor
            bound = split.bound()
            first, count = (0, split.tile) if part is None else part[dim]
            if bound is not None and part is None:
                count = bound.existing(self.first_block(), iteration)
            steps = (
                first
                + np.arange(count)
                + (iteration * split.iteration_step if dim == slicing.fordim else 0)
            )
            along = [count if other == dim else 1 for other in range(rank)]
            places.append(starts[(...,) + (None,) * rank] + steps.reshape(along))
        return tuple(places)

    def every_tile(self, array: Array, slicing: Slicing, chosen: int) -> Array:
        """A view, [x, y, z, tile...], of an iteration's tiles; 1 where nothing is split."""
        return _split(array, slicing)[chosen if slicing.fordim >= 0 else 0]

    def whole_tiles(self, array: Array, slicing: Slicing, chosen: int) -> Array:
        """As :meth:`tiles_of`, in an iteration, where no tile is ragged."""
        moving = self.every_tile(array, slicing, chosen)
        return moving[
            tuple(
                blocks if moving.shape[axis] > 1 else slice(None)
                for axis, blocks in enumerate(self.box)
            )
        ]


def _split(array: Array, slicing: Slicing) -> Array:
    """A view of extents [iterations, x, y, z, tile...]; 1 where nothing is split.

    Each dimension falls into its grid axes, outermost first, then the for-loop, then the tile.
    Where tiles are interleaved the for-loop is the outermost.
    """
    grid = slicing.grid
    extents: list[int] = []
    loop_at: int | None = None
    grid_at: dict[int, int] = {}
    tile_at: list[int] = []
    for dim, extent in enumerate(slicing.tile_shape()):
        if dim == slicing.fordim and slicing.split(dim).interleaved:
            loop_at = len(extents)
            extents.append(slicing.iterations)
        for axis in mapped_axes(slicing.map_, grid, dim):
            grid_at[axis] = len(extents)
            extents.append(grid[axis])
        if dim == slicing.fordim and not slicing.split(dim).interleaved:
            loop_at = len(extents)
            extents.append(slicing.iterations)
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


def uniform_boxes(boxes: Iterable[Box], bounds: Iterable[Bound]) -> Iterator[Box]:
    """The same boxes, cut so that along each bound all blocks of a box have as many elements."""
    cuts: list[set[int]] = [set() for _ in AXES]
    for bound in bounds:
        for of_axis, more in zip(cuts, bound.cuts(), strict=True):
            of_axis |= more
    for box in boxes:
        ranges: list[list[slice]] = []
        for blocks, of_axis in zip(box, cuts, strict=True):
            inside = sorted(cut for cut in of_axis if blocks.start < cut < blocks.stop)
            ends = [blocks.start, *inside, blocks.stop]
            ranges.append([slice(first, end) for first, end in pairwise(ends)])
        yield from itertools.product(*ranges)


def padded(arithmetic: Arithmetic, value: Array, shape: Sequence[int], fill: float = 0.0) -> Array:
    """Tiles with their last axes extended to ``shape``; perhaps the same array."""
    axes = value.ndim - len(shape)
    if value.shape[axes:] == tuple(shape):
        return value
    extents = (*value.shape[:axes], *shape)
    # Numbers of other arithmetics than numpy's have no type of numpy's.
    dtype = getattr(value, "dtype", None)
    if dtype is not None and is_whole(dtype):
        # In the computing type, integers of more than 24 bits would be rounded.
        whole = np.full(extents, fill, value.dtype)
    else:
        whole = arithmetic.full(extents, fill)
    whole[(..., *(slice(0, extent) for extent in value.shape[axes:]))] = value
    return whole


def masked(value: Array, forms: Sequence[LinearForm], constant: float, frame: Frame) -> Array:
    """Tiles with a constant where a form of local places, blocks and iteration is negative."""
    shape, forms = value.shape[GRID_AXES:], at_lengths(forms, frame.lengths)
    places = [each[(None,) * GRID_AXES] for each in coordinates_of(shape)]
    rank = (...,) + (None,) * len(shape)
    # Tiles that do not depend on an axis of the grid are there once.
    moved = [
        any(form.coefficients[len(shape) + axis] for form in forms) for axis in range(GRID_AXES)
    ]
    blocks = [
        frame.block_indices(axis)[rank] if moves else np.zeros((), np.int64)
        for axis, moves in enumerate(moved)
    ]
    kept = all_at_least_0(forms, [*places, *blocks, np.asarray(frame.first + frame.iteration)])
    axes = np.broadcast_shapes(kept.shape, value.shape)
    result = frame.arithmetic.full(axes, constant)
    result[...] = value
    outside = ~np.broadcast_to(kept, axes)
    result[outside] = frame.arithmetic.full([int(outside.sum())], constant)
    return result


def broadcast_bytes(
    arithmetic: Arithmetic, box: Sequence[int], axes: set[int], shape: Sequence[int]
) -> int:
    """What a tile takes in every block of a box, where it depends on these grid axes only."""
    blocks = math.prod(box[axis] for axis in axes)
    return blocks * math.prod(shape) * arithmetic.element_bytes


def constant_tile(arithmetic: Arithmetic, shape: Sequence[int], value: float) -> Array:
    """A tile that is the same in all blocks and has one value everywhere."""
    return arithmetic.full((*[1] * GRID_AXES, *shape), value)
