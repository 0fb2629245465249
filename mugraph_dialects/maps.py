"""How a grid and a for-loop slice a tensor: imap, omap and fordim.

``imap`` has an entry for each of the grid's axes x, y, z: the dimension of the DTensor which that
axis splits, or -1 where the tensor is replicated along it.  Entries of axes of extent 1 are
ignored.  ``fordim`` is the dimension that the for-loop splits inside the block's slice, or -1.
Two axes that split the same dimension nest in row-major order: x outermost, then y, then z.

Source: ``spec/mugraph-semantics.md`` C.2.1 and C.2.2.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def tile_shape(
    shape: Sequence[int],
    map_: Sequence[int],
    fordim: int,
    grid: Sequence[int],
    forloop_range: int,
    name: str = "imap",
) -> tuple[int, ...]:
    """The extents of one block's tile in one iteration.

    Raises :class:`PartitionError` where a map names no dimension or a partition does not divide.
    """
    verify_map(name, map_, fordim, len(shape), grid)
    tile = list(shape)
    for axis, dim in enumerate(map_):
        if dim < 0 or grid[axis] == 1:
            continue
        if tile[dim] % grid[axis]:
            raise PartitionError(
                f"dimension {dim} of extent {shape[dim]} is split by grid axis {AXES[axis]} into "
                f"{grid[axis]} parts, which does not divide"
                + (f" the {tile[dim]} left by other axes" if tile[dim] != shape[dim] else "")
            )
        tile[dim] //= grid[axis]
    if fordim >= 0:
        if tile[fordim] % forloop_range:
            raise PartitionError(
                f"dimension {fordim}, of extent {tile[fordim]} in each block, is split by a "
                f"for-loop of {forloop_range} iterations, which does not divide"
            )
        tile[fordim] //= forloop_range
    return tuple(tile)


def block_coordinate_factors(
    shape: Sequence[int], map_: Sequence[int], grid: Sequence[int]
) -> list[list[int]]:
    """For each axis, how far each dimension's coordinate moves with the block index.

    ``factors[axis][dim]`` is in elements along ``dim``.
    """
    factors = [[0] * len(shape) for _ in AXES]
    for dim in range(len(shape)):
        extent = shape[dim]
        for axis in mapped_axes(map_, grid, dim):
            extent //= grid[axis]
            factors[axis][dim] = extent
    return factors


def block_strides(
    shape: Sequence[int], strides: Sequence[int], map_: Sequence[int], grid: Sequence[int]
) -> tuple[int, ...]:
    """For each axis, how far a tile's start moves with the block index, in elements."""
    return tuple(
        sum(factor * stride for factor, stride in zip(row, strides, strict=True))
        for row in block_coordinate_factors(shape, map_, grid)
    )
