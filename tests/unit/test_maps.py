"""imap, omap and fordim: tiles of all blocks and iterations cover a tensor once."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mugraph.dialects.maps import (
    PartitionError,
    Slicing,
    mapped_axes,
    verify_map,
)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[tuple[int, ...], list[int], int, list[int], int]:
    """A tensor, and a map, grid and loop that divide it."""
    rank = draw(st.integers(1, 3))
    map_ = draw(st.lists(st.integers(-1, rank - 1), min_size=3, max_size=3))
    fordim = draw(st.integers(-1, rank - 1))
    grid = draw(st.lists(st.integers(1, 3), min_size=3, max_size=3))
    iterations = draw(st.integers(1, 3))
    shape = draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    for axis, dim in enumerate(map_):
        if dim >= 0:
            shape[dim] *= grid[axis]
    if fordim >= 0:
        shape[fordim] *= iterations
    return tuple(shape), map_, fordim, grid, iterations


@given(partitions())
def test_tiles_cover_the_tensor_once(
    partition: tuple[tuple[int, ...], list[int], int, list[int], int],
) -> None:
    shape, map_, fordim, grid, iterations = partition
    slicing = Slicing(shape, tuple(map_), fordim, tuple(grid), iterations)
    tile, factors = slicing.tile_shape(), slicing.block_factors()
    visits = np.zeros(shape, int)
    replicas = 1
    for axis, extent in enumerate(grid):
        replicas *= extent if map_[axis] < 0 else 1
    replicas *= iterations if fordim < 0 else 1
    for block in itertools.product(*(range(extent) for extent in grid)):
        for iteration in range(iterations):
            start = [
                sum(factors[axis][dim] * block[axis] for axis in range(3))
                for dim in range(len(shape))
            ]
            if fordim >= 0:
                start[fordim] += iteration * tile[fordim]
            visits[tuple(slice(s, s + t) for s, t in zip(start, tile, strict=True))] += 1
    assert (visits == replicas).all()


def test_two_axes_of_one_dimension_nest_in_row_major_order() -> None:
    slicing = Slicing((24,), (0, -1, 0), -1, (2, 5, 3), 7)
    assert mapped_axes(slicing.map_, slicing.grid, 0) == [0, 2]
    assert slicing.tile_shape() == (4,)
    assert slicing.block_factors() == [[12], [0], [4]]


def test_axes_of_one_block_are_ignored() -> None:
    slicing = Slicing((7, 5), (0, 1, 0), -1, (1, 5, 1), 1)
    assert slicing.tile_shape() == (7, 1)
    assert slicing.block_factors() == [[0, 0], [0, 1], [0, 0]]


@pytest.mark.parametrize(
    ("shape", "map_", "fordim", "grid", "iterations", "message"),
    [
        ((8,), [1, -1, -1], -1, [2, 1, 1], 1, "imap maps grid axis x to dimension 1"),
        ((8,), [-2, -1, -1], -1, [2, 1, 1], 1, "imap maps grid axis x to dimension -2"),
        ((8,), [0, -1], -1, [2, 1, 1], 1, "has 2 entries, expected one for each of x, y, z"),
        ((8,), [0, -1, -1], 1, [2, 1, 1], 1, "fordim is 1, but the tensor has rank 1"),
    ],
)
def test_errors(
    shape: tuple[int, ...],
    map_: list[int],
    fordim: int,
    grid: list[int],
    iterations: int,
    message: str,
) -> None:
    with pytest.raises(PartitionError) as error:
        Slicing(shape, tuple(map_), fordim, tuple(grid), iterations).tile_shape()
    assert message in str(error.value)


def test_the_name_of_the_map_stands_in_the_message() -> None:
    with pytest.raises(PartitionError, match="omap maps grid axis y"):
        verify_map("omap", [-1, 4, -1], -1, 2, [1, 1, 1])
