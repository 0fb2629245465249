"""How wide a copy may be: contiguous and aligned on both sides, wherever the tile starts."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mugraph.dialects.copies import (
    TileCopy,
    copy_vector,
    global_innermost,
)
from mugraph.dialects.maps import Slicing
from mugraph.dialects.tensor_types import padded_strides, row_major_strides

# A 64x64 tile of each of 4 blocks of a row-major 64x256 tensor, into a row-major tile.
COLUMNS = Slicing((64, 256), (1, -1, -1), -1, (4, 1, 1), 1)
PLAIN = TileCopy(COLUMNS, (256, 1), (64, 1), 2)
NARROW = COLUMNS._replace(shape=(64, 16))
LOOPED = Slicing((64, 16), (-1, -1, -1), 1, (1, 1, 1), 4)
ONE_ROW = Slicing((1, 64), (-1, -1, -1), -1, (1, 1, 1), 1)
ROW_A_BLOCK = Slicing((2, 64), (0, -1, -1), -1, (2, 1, 1), 1)


@pytest.mark.parametrize(
    ("copy", "vector"),
    [
        (PLAIN, 8),
        (replace(PLAIN, element_bytes=4), 4),
        (replace(PLAIN, strides=(260, 1)), 4),  # rows 260 apart
        (replace(PLAIN, strides=(257, 1)), 1),
        (replace(PLAIN, tile_strides=(1, 64)), 1),  # other dimension innermost
        (replace(PLAIN, strides=(1, 64), tile_strides=(1, 64)), 8),
        (replace(PLAIN, strides=(512, 2)), 1),  # nowhere stride 1
        # Tiles that start 4 elements apart, along the grid and along the loop.
        (TileCopy(NARROW, (16, 1), (8, 1), 2), 4),
        (TileCopy(LOOPED, (16, 1), (8, 1), 2), 4),
        # One row: its distance to the next does not matter, that of the tiles does.
        (TileCopy(ONE_ROW, (3, 1), (5, 1), 2), 8),
        (replace(TileCopy(ONE_ROW, (66, 1), (64, 1), 2), numbered=1), 2),  # any row
        (TileCopy(ROW_A_BLOCK, (67, 1), (64, 1), 2), 1),
        (TileCopy(ONE_ROW._replace(shape=(1, 1)), (1, 1), (1, 1), 2), 1),
    ],
)
def test_vector(copy: TileCopy, vector: int) -> None:
    assert copy_vector(copy) == vector


def test_walks_where_device_memory_is_contiguous() -> None:
    assert global_innermost(PLAIN) == 1
    assert global_innermost(replace(PLAIN, strides=(1, 64))) == 0
    assert global_innermost(replace(PLAIN, strides=(2, 128))) == 0


@st.composite
def copies(draw: st.DrawFn) -> TileCopy:
    """Any copy of a matrix, its strides padded or not."""
    grid = (draw(st.sampled_from([1, 2, 4])), 1, 1)
    iterations = draw(st.sampled_from([1, 2]))
    map_ = (draw(st.integers(-1, 1)), -1, -1)
    fordim = draw(st.integers(-1, 1))
    shape = [draw(st.sampled_from([1, 2, 5, 8, 12, 32])) for _ in range(2)]
    if map_[0] >= 0:
        shape[map_[0]] *= grid[0]
    if fordim >= 0:
        shape[fordim] *= iterations
    slicing = Slicing(tuple(shape), map_, fordim, grid, iterations)
    size = draw(st.sampled_from([2, 4]))
    candidates = [row_major_strides(shape), padded_strides(shape, 0, size)[0], (1, shape[0])]
    strides = draw(st.sampled_from(candidates))
    tile_strides = padded_strides(slicing.tile_shape(), draw(st.integers(0, 1)), size)[0]
    return TileCopy(slicing, strides, tile_strides, size)


@given(copies())
def test_every_vector_is_contiguous_and_aligned_on_both_sides(copy: TileCopy) -> None:
    vector, inner = copy_vector(copy), global_innermost(copy)
    assert copy.tile[inner] % vector == 0
    starts = [
        block * copy.block_strides()[0] + iteration * copy.iteration_stride()
        for block in range(copy.slicing.grid[0])
        for iteration in range(2)
    ]
    if vector == 1:
        return
    for at in itertools.product(*(range(extent) for extent in copy.tile)):
        if at[inner] % vector:
            continue
        here = sum(stride * index for stride, index in zip(copy.strides, at, strict=True))
        there = sum(stride * index for stride, index in zip(copy.tile_strides, at, strict=True))
        assert all((start + here) % vector == 0 for start in starts)
        assert there % vector == 0
    assert copy.strides[inner] == copy.tile_strides[inner] == 1
