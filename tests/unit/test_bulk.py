"""What bulk copies move, against a model of the hardware: dense boxes, chunks moved by address."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest

from mugraph.dialects.bulk import (
    BulkCopyError,
    BulkTile,
    bulk_layouts,
    bulk_tile,
    pattern_bytes,
    stage_alignment,
    swizzle_of,
    tensor_dims,
    tile_layouts,
)
from mugraph.dialects.cute import ComposedLayout, Layout
from mugraph.dialects.tensor_types import AnyLayout, row_major_strides

TILES = [
    ((16, 4096), (16, 128), 2),
    ((4096, 6144), (128, 64), 2),
    ((4096, 6144), (512, 96), 2),
    ((8, 64, 256), (1, 64, 128), 2),
    ((64, 512), (24, 64), 4),
    ((64, 512), (32, 256), 1),
    ((1, 4096), (1, 1024), 2),
]


def exchanged(address: int, span: int) -> int:
    """The address in shared memory where the hardware puts what would lie at ``address``."""
    mask = span // 16 - 1 if span else 0
    return address ^ ((address >> 7 & mask) << 4)


def moved(tile: BulkTile, element_bytes: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Every element that the boxes bring, by its coordinates in ``order``, and its byte."""
    for start, offset in zip(tile.starts, tile.offsets, strict=True):
        inside = itertools.product(*(range(extent) for extent in reversed(tile.box)))
        for count, reversed_at in enumerate(inside):
            at = tuple(reversed(reversed_at))
            address = (offset + count) * element_bytes
            coordinates = tuple(a + b for a, b in zip(start, at, strict=True))
            yield coordinates, exchanged(address, tile.span)


@pytest.mark.parametrize(("shape", "extents", "element_bytes"), TILES)
def test_boxes_put_every_element_where_the_layout_says(
    shape: tuple[int, ...], extents: tuple[int, ...], element_bytes: int
) -> None:
    tensor = tensor_dims(shape, row_major_strides(shape), element_bytes)
    layouts = bulk_layouts(tensor, extents, element_bytes)
    assert layouts
    for layout in layouts:
        tile = bulk_tile(tensor, extents, layout, element_bytes)
        found = dict(moved(tile, element_bytes))
        assert len(found) == math.prod(extents)
        for at, address in itertools.islice(found.items(), 0, None, 7):
            coordinates = [0] * len(shape)
            for dim, value in zip(tensor.order, at, strict=True):
                coordinates[dim] = value
            assert int(layout(tuple(coordinates))) * element_bytes == address


def refuses(layout: AnyLayout, extents: tuple[int, ...] = (16, 64)) -> str:
    tensor = tensor_dims((64, 512), (512, 1), 2)
    with pytest.raises(BulkCopyError) as caught:
        bulk_tile(tensor, extents, layout, 2)
    return str(caught.value)


def test_what_cannot_be_moved() -> None:
    assert "start at byte 144 of the buffer" in refuses(Layout((16, 64), (72, 1)))
    assert "rows do not lie densely" in refuses(Layout((16, 64), (1, 16)))
    assert "not a multiple of 16" in refuses(Layout((16, 4), (4, 1)), (16, 4))
    with pytest.raises(BulkCopyError, match="no dimension of the tensor is contiguous"):
        tensor_dims((64, 512), (1024, 2), 2)
    with pytest.raises(BulkCopyError, match="stride along dimension 0 is 1028 bytes"):
        tensor_dims((64, 512), (514, 1), 2)
    with pytest.raises(BulkCopyError, match="at most 5"):
        tensor_dims((2, 2, 2, 2, 2, 8), row_major_strides((2, 2, 2, 2, 2, 8)), 2)


def test_matrices_that_lie_apart_are_boxes_of_their_own() -> None:
    tensor = tensor_dims((8, 64, 64), (4096, 64, 1), 2)
    found = bulk_tile(tensor, (4, 32, 64), Layout((4, 32, 64), (4096, 64, 1)), 2)
    assert found.box == (64, 32, 1)
    assert found.starts == tuple((0, 0, number) for number in range(4))
    assert found.offsets == tuple(4096 * number for number in range(4))


def test_heads_that_share_keys_are_no_dimension_of_a_tensor_map() -> None:
    shape, strides = (8, 4, 256, 64), (16384, 0, 64, 1)
    tensor = tensor_dims(shape, strides, 2)
    assert tensor.order == (3, 2, 0)
    (layout, *_) = tile_layouts(shape, strides, (1, 1, 64, 64), 2)
    assert bulk_tile(tensor, (1, 1, 64, 64), layout, 2).box == (64, 64, 1)
    with pytest.raises(BulkCopyError, match="2 elements along dimension 1, which are one in mem"):
        bulk_tile(tensor, (1, 2, 64, 64), Layout((1, 2, 64, 64), (0, 4096, 64, 1)), 2)


def test_stages_start_where_the_pattern_of_a_swizzle_does() -> None:
    # Four rows of 128 bytes are half a pattern of 1024.
    widest, *_, plain = tile_layouts((64, 64), (64, 1), (4, 64), 2)
    assert widest == ComposedLayout(swizzle_of(128, 2), 0, Layout((4, 64), (64, 1)))
    assert stage_alignment(widest, 2) == pattern_bytes(128) == 1024
    assert plain == Layout((4, 64), (64, 1))
    assert stage_alignment(plain, 2) == 128
