"""How a grid and a for-loop slice a tensor: imap, omap and fordim.

``imap`` has an entry for each of the grid's axes x, y, z: the dimension of the DTensor which that
axis splits, or -1 where the tensor is replicated along it.  Entries of axes of extent 1 are
ignored.  ``fordim`` is the dimension that the for-loop splits inside the block's slice, or -1.
Two axes that split the same dimension nest in row-major order: x outermost, then y, then z.

A partition need not divide (:class:`Split`): slices and tiles are rounded up, and the last ones
are *ragged*, smaller or empty.  Which elements of a tile exist is a :class:`Bound`.

Source: ``spec/mugraph-semantics.md`` C.2.1, C.2.2 and C.4; decided in ``docs/semantics.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    """

    extent: int
    blocks: tuple[int, ...]
    iterations: int = 1

    @property
    def block_extent(self) -> int:
        """The elements of a whole block's slice."""
        return -(-self.extent // math.prod(self.blocks))

    @property
    def tile(self) -> int:
        """The elements of a whole tile."""
        return -(-self.block_extent // self.iterations)

    def factors(self) -> tuple[int, ...]:
        """For each axis, how far the start of a tile moves with the block index, in elements."""
        steps = [math.prod(self.blocks[axis + 1 :]) for axis in range(len(self.blocks))]
        return tuple(
            step * self.block_extent if blocks > 1 else 0
            for step, blocks in zip(steps, self.blocks, strict=True)
        )

    def bound(self) -> Bound | None:
        """Which elements of a tile exist; ``None`` where all tiles are whole."""
        bound = Bound(
            self.extent, self.blocks, self.block_extent, self.tile, moves=self.iterations > 1
        )
        return bound.if_ragged(self.iterations)


class Bound(NamedTuple):
    """Which elements along one dimension of a tile exist in a block and an iteration.

    Block b, counted as in :class:`Split`, owns ``step`` elements from ``b * step`` on, as far as
    there are ``extent``.  Where the bound ``moves`` with the for-loop, iteration i has those from
    ``i * tile`` on, at most ``tile`` of them; otherwise every iteration has the first ``tile``.
    """

    extent: int
    blocks: tuple[int, ...]
    step: int
    tile: int
    moves: bool

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
        start = iteration * self.tile if self.moves else 0
        return min(max(self.of_block(block) - start, 0), self.tile)

    def of_first_iteration(self) -> Bound | None:
        """What exists in the first iteration, and so in a sum over all of them."""
        return self._replace(moves=False).if_ragged(1)

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
        if number >= math.prod(self.blocks):
            return cuts
        for axis in reversed(range(len(self.blocks))):
            number, index = divmod(number, self.blocks[axis])
            cuts[axis].update({index, index + 1})
        return cuts

    def if_ragged(self, iterations: int) -> Bound | None:
        """``None`` where all elements of all tiles exist; else one form of equal bounds."""
        blocks = math.prod(self.blocks)
        if self.moves:
            is_whole = self.step * blocks == self.extent and self.tile * iterations == self.step
            return None if is_whole else self
        whole = self.whole_blocks()
        if whole >= blocks:
            return None
        rest = max(self.extent - whole * self.step, 0)
        return self._replace(extent=whole * self.tile + rest, step=self.tile)


def split_of(
    shape: Sequence[int],
    map_: Sequence[int],
    fordim: int,
    grid: Sequence[int],
    forloop_range: int,
    dim: int,
) -> Split:
    """How the maps split one dimension of a tensor."""
    axes = mapped_axes(map_, grid, dim)
    blocks = tuple(grid[axis] if axis in axes else 1 for axis in range(len(AXES)))
    return Split(shape[dim], blocks, forloop_range if fordim == dim else 1)


def tile_shape(
    shape: Sequence[int],
    map_: Sequence[int],
    fordim: int,
    grid: Sequence[int],
    forloop_range: int,
    name: str = "imap",
) -> tuple[int, ...]:
    """The extents of one block's tile in one iteration, of a whole one where some are ragged.

    Raises :class:`PartitionError` where a map names no dimension.
    """
    verify_map(name, map_, fordim, len(shape), grid)
    return tuple(
        split_of(shape, map_, fordim, grid, forloop_range, dim).tile for dim in range(len(shape))
    )


def tile_bounds(
    shape: Sequence[int],
    map_: Sequence[int],
    fordim: int,
    grid: Sequence[int],
    forloop_range: int,
) -> tuple[Bound | None, ...]:
    """For each dimension which elements of a tile exist, ``None`` where all of them do."""
    return tuple(
        split_of(shape, map_, fordim, grid, forloop_range, dim).bound() for dim in range(len(shape))
    )


def block_coordinate_factors(
    shape: Sequence[int], map_: Sequence[int], grid: Sequence[int]
) -> list[list[int]]:
    """For each axis, how far each dimension's coordinate moves with the block index.

    ``factors[axis][dim]`` is in elements along ``dim``.
    """
    factors = [split_of(shape, map_, -1, grid, 1, dim).factors() for dim in range(len(shape))]
    return [[of_dim[axis] for of_dim in factors] for axis in range(len(AXES))]


def block_strides(
    shape: Sequence[int], strides: Sequence[int], map_: Sequence[int], grid: Sequence[int]
) -> tuple[int, ...]:
    """For each axis, how far a tile's start moves with the block index, in elements."""
    return tuple(
        sum(factor * stride for factor, stride in zip(row, strides, strict=True))
        for row in block_coordinate_factors(shape, map_, grid)
    )
