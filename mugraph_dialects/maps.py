"""How a grid and a for-loop slice a tensor: imap, omap and fordim.

``imap`` has an entry for each of the grid's axes x, y, z: the dimension of the DTensor which that
axis splits, or -1 where the tensor is replicated along it.  Entries of axes of extent 1 are
ignored.  ``fordim`` is the dimension that the for-loop splits inside the block's slice, or -1.
Two axes that split the same dimension nest in row-major order: x outermost, then y, then z.

A partition need not divide (:class:`Split`): slices and tiles are rounded up, and the last ones
are *ragged*, smaller or empty.  Which elements of a tile exist is a :class:`Bound`.  A tile may be
larger than what divides the tensor evenly: then all tiles but the last ones are whole.

Source: Mirage's ``input_map``, ``output_map`` and ``forloop_dim``; what it leaves open is decided
in ``docs/semantics.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

AXES = ("x", "y", "z")


class PartitionError(ValueError):
    """A map that does not fit the tensor, the grid or the loop."""


def verify_map(name: str, map_: Sequence[int], fordim: int, rank: int, grid: Sequence[int]) -> None:
    """Raises :class:`PartitionError` for entries that name no dimension."""
    if len(map_) != len(AXES):
        raise PartitionError(
            f"{name} {list(map_)} has {len(map_)} entries, expected one for each of x, y, z"
        )
    for axis, dim in zip(AXES, map_, strict=True):
        if not -1 <= dim < rank:
            raise PartitionError(
                f"{name} maps grid axis {axis} to dimension {dim}, but the tensor has rank "
                f"{rank}: expected -1 (replicated) or 0 to {rank - 1}"
            )
    if not -1 <= fordim < rank:
        raise PartitionError(
            f"fordim is {fordim}, but the tensor has rank {rank}: expected -1 (not split by the "
            f"loop) or 0 to {rank - 1}"
        )


def mapped_axes(map_: Sequence[int], grid: Sequence[int], dim: int) -> list[int]:
    """The axes of extent over 1 that split ``dim``, outermost first."""
    return [axis for axis in range(len(AXES)) if map_[axis] == dim and grid[axis] > 1]


class Split(NamedTuple):
    """How a grid and a for-loop split one dimension of ``extent`` elements.

    ``blocks`` has the number of blocks along each of x, y, z that split it, 1 for other axes.
    Block b, counted over those axes in row-major order, owns the elements from ``b * block_extent``
    on; iteration i covers those from ``i * tile`` on in it.  Both end where the dimension does.

    Tiles are as small as they can be, unless ``chosen`` says how many elements they have; then a
    block owns as many as all its iterations have tiles for.

    ``end``: so many of the elements exist, the first ones, where a call says how many.

    ``interleaved``: in each iteration blocks have tiles side by side, block b the one from
    ``(i * blocks + b) * tile`` on.
    """

    extent: int
    blocks: tuple[int, ...]
    iterations: int = 1
    chosen: int | None = None
    end: int | None = None
    interleaved: bool = False

    @property
    def block_extent(self) -> int:
        """The elements of a whole block's slice."""
        if self.chosen is not None:
            return self.chosen * self.iterations
        return -(-self.extent // math.prod(self.blocks))

    @property
    def tile(self) -> int:
        """The elements of a whole tile."""
        if self.chosen is not None:
            return self.chosen
        return -(-self.block_extent // self.iterations)

    def in_tiles_of(self, tile: int) -> Split:
        """The same in tiles of so many elements.

        Raises :class:`PartitionError` where they do not cover the dimension, or some are empty.
        """
        least = self._replace(chosen=None)
        if tile == least.tile:
            return least
        parts = math.prod(self.blocks) * self.iterations
        if not least.tile < tile or tile * (parts - 1) >= self.extent:
            raise PartitionError(
                f"{self.extent} elements in {parts} tiles need {least.tile} in each, or more where "
                f"none is left empty, not {tile}"
            )
        return least._replace(chosen=tile)

    @property
    def ends_with_tensor(self) -> bool:
        """Whether what a tile lacks lies past the end of the dimension, and not in another tile."""
        whole = self.block_extent == self.tile * self.iterations
        return whole or self.interleaved or math.prod(self.blocks) == 1

    @property
    def block_step(self) -> int:
        """How far the tiles of neighbouring blocks are apart in an iteration, in elements."""
        return self.tile if self.interleaved else self.block_extent

    @property
    def iteration_step(self) -> int:
        """How far the start of a block's tile moves with the iteration, in elements."""
        return self.tile * (math.prod(self.blocks) if self.interleaved else 1)

    def factors(self) -> tuple[int, ...]:
        """For each axis, how far the start of a tile moves with the block index, in elements."""
        steps = [math.prod(self.blocks[axis + 1 :]) for axis in range(len(self.blocks))]
        return tuple(
            step * self.block_step if blocks > 1 else 0
            for step, blocks in zip(steps, self.blocks, strict=True)
        )

    def bound(self) -> Bound | None:
        """Which elements of a tile exist; ``None`` where all tiles are whole."""
        bound = Bound(
            self.extent,
            self.blocks,
            self.block_step,
            self.tile,
            moves=self.iterations > 1,
            stride=self.iteration_step if self.interleaved else None,
        )
        if self.end is not None:
            return bound._replace(extent=self.end)
        return bound.if_ragged(self.iterations)


class Bound(NamedTuple):
    """Which elements along one dimension of a tile exist in a block and an iteration.

    Block b, counted as in :class:`Split`, owns ``step`` elements from ``b * step`` on, as far as
    there are ``extent``.  Where the bound ``moves`` with the for-loop, iteration i has those from
    ``i * tile`` on, at most ``tile`` of them; otherwise every iteration has the first ``tile``.

    Where the tiles of blocks are interleaved, those of one block are ``stride`` elements apart.
    """

    extent: int
    blocks: tuple[int, ...]
    step: int
    tile: int
    moves: bool
    stride: int | None = None

    def block_index(self, block: Sequence[int]) -> int:
        """The number of a block along the dimension."""
        number = 0
        for index, count in zip(block, self.blocks, strict=True):
            number = number * count + (index if count > 1 else 0)
        return number

    def of_block(self, block: Sequence[int]) -> int:
        """How many elements a block owns, over all iterations where the bound moves."""
        whole = self.step if self.moves else self.tile
        return min(max(self.extent - self.block_index(block) * self.step, 0), whole)

    def existing(self, block: Sequence[int], iteration: int) -> int:
        """How many elements of the tile exist, the first ones."""
        if self.stride is not None:
            start = self.block_index(block) * self.step + iteration * self.stride
            return min(max(self.extent - start, 0), self.tile)
        start = iteration * self.tile if self.moves else 0
        return min(max(self.of_block(block) - start, 0), self.tile)

    def of_first_iteration(self) -> Bound | None:
        """What exists in the first iteration, and so in a sum over all of them."""
        return self._replace(moves=False, stride=None).if_ragged(1)

    def whole_tiles(self, block: Sequence[int]) -> int:
        """How many tiles of a block are whole, those of its first iterations."""
        if self.stride is None:
            return self.of_block(block) // self.tile
        start = self.block_index(block) * self.step
        return max((self.extent - self.tile - start) // self.stride + 1, 0)

    def whole_blocks(self) -> int:
        """How many blocks, the first ones, own as many elements as a block can."""
        whole = self.step if self.moves else self.tile
        return max((self.extent - whole) // self.step + 1, 0)

    def cuts(self) -> tuple[set[int], ...]:
        """For each axis, block indices from which on more, or fewer, elements may exist.

        Blocks with no cut between them along any axis have equally many elements.
        """
        cuts: tuple[set[int], ...] = tuple(set() for _ in self.blocks)
        number = self.whole_blocks()
        if self.stride is not None:
            number = self.extent % self.stride // self.tile  # it has a tile that is not whole
        if number >= math.prod(self.blocks):
            return cuts
        for axis in reversed(range(len(self.blocks))):
            number, index = divmod(number, self.blocks[axis])
            cuts[axis].update({index, index + 1})
        return cuts

    def if_ragged(self, iterations: int) -> Bound | None:
        """``None`` where all elements of all tiles exist; else one form of equal bounds."""
        blocks = math.prod(self.blocks)
        if self.stride is not None:
            return None if self.stride * iterations == self.extent else self
        if self.moves:
            is_whole = self.step * blocks == self.extent and self.tile * iterations == self.step
            return None if is_whole else self
        whole = self.whole_blocks()
        if whole >= blocks:
            return None
        rest = max(self.extent - whole * self.step, 0)
        return self._replace(extent=whole * self.tile + rest, step=self.tile)


class Slicing(NamedTuple):
    """How the maps of a tile cut a tensor of ``shape``.

    ``tile`` has the extents of a whole tile; without it tiles are as small as they can be.
    ``ends`` has how many elements exist along the dimensions where a call says that.
    ``interleaved``: so are the tiles of blocks along what the loop cuts, too.
    """

    shape: tuple[int, ...]
    map_: tuple[int, ...]
    fordim: int
    grid: tuple[int, ...]
    iterations: int
    tile: tuple[int, ...] | None = None
    ends: tuple[tuple[int, int], ...] = ()
    interleaved: bool = False

    # Passes ask the same of few ways to cut, again and again; what is kept are numbers.
    @lru_cache(maxsize=4096)  # noqa: B019
    def split(self, dim: int) -> Split:
        """How one dimension is split, whether tiles of these extents cover it or not."""
        axes = mapped_axes(self.map_, self.grid, dim)
        blocks = tuple(self.grid[axis] if axis in axes else 1 for axis in range(len(AXES)))
        split = Split(self.shape[dim], blocks, self.iterations if self.fordim == dim else 1)
        if (end := dict(self.ends).get(dim)) is not None:
            split = split._replace(end=end)
        if self.interleaved and axes and split.iterations > 1:
            split = split._replace(interleaved=True)
        if self.tile is None or self.tile[dim] == split.tile:
            return split
        return split._replace(chosen=self.tile[dim])

    def tile_shape(self, name: str = "imap") -> tuple[int, ...]:
        """The extents of one block's tile in one iteration, of a whole one where some are ragged.

        Raises :class:`PartitionError` where a map, called ``name``, names no dimension, or where
        tiles of the extents that are given do not cover the tensor.
        """
        verify_map(name, self.map_, self.fordim, len(self.shape), self.grid)
        if self.tile is not None and len(self.tile) != len(self.shape):
            raise PartitionError(
                f"a tile of {len(self.tile)} dimensions cannot be one of a tensor of "
                f"{len(self.shape)}"
            )
        tile: list[int] = []
        for dim in range(len(self.shape)):
            try:
                split = self.split(dim)
                tile.append(split.in_tiles_of(split.tile).tile)
            except PartitionError as error:
                raise PartitionError(f"dimension {dim} of the tile: {error}") from error
        return tuple(tile)

    @lru_cache(maxsize=4096)  # noqa: B019
    def bounds(self) -> tuple[Bound | None, ...]:
        """For each dimension which elements of a tile exist, ``None`` where all of them do."""
        return tuple(self.split(dim).bound() for dim in range(len(self.shape)))

    def iteration_step(self) -> int:
        """How far a tile moves along the loop's dimension with the iteration; 0 without one."""
        return 0 if self.fordim < 0 else self.split(self.fordim).iteration_step

    def block_factors(self) -> list[list[int]]:
        """For each axis, how far each dimension's coordinate moves with the block index.

        ``factors[axis][dim]`` is in elements along ``dim``.
        """
        factors = [self.split(dim).factors() for dim in range(len(self.shape))]
        return [[of_dim[axis] for of_dim in factors] for axis in range(len(AXES))]

    def block_strides(self, strides: Sequence[int]) -> tuple[int, ...]:
        """For each axis, how far a tile's start moves with the block index, in elements."""
        return tuple(
            sum(factor * stride for factor, stride in zip(row, strides, strict=True))
            for row in self.block_factors()
        )
