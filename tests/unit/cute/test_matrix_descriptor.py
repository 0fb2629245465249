"""Descriptors of matrices in shared memory walk what the layouts of bulk copies say."""

from __future__ import annotations

import pytest

from mugraph.dialects.bulk import bulk_layout, tensor_dims
from mugraph.dialects.cute import ComposedLayout, Layout, Swizzle
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.matrix_descriptor import MatrixDescriptor, matrix_descriptor

BYTES = 2


def hardware_offset(descriptor: MatrixDescriptor, rows: int, line: int, k: int) -> int:
    """Where the hardware finds element (line, k), in elements: rows, boxes, then the address."""
    along, row = (line, k) if descriptor.transposed else (k, line)
    span = descriptor.row_bytes // BYTES
    address = BYTES * (along % span + row * span + along // span * rows * span)
    mask = descriptor.row_bytes // 16 - 1
    return (address ^ ((address >> 7 & mask) << 4)) // BYTES


@pytest.mark.parametrize("span", [128, 64, 32])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("lines", "depth"), [(64, 64), (128, 64), (64, 128), (256, 128)])
def test_the_layouts_of_bulk_copies_are_walked(
    span: int, transposed: bool, lines: int, depth: int
) -> None:
    """Boxes of rows along k, or along the lines, at every swizzle."""
    extents = (depth, lines) if transposed else (lines, depth)
    tensor = tensor_dims((1024, 1024), (1024, 1), BYTES)
    tile = bulk_layout(tensor, extents, BYTES, span)
    assert isinstance(tile, ComposedLayout)
    first, second = tile.layout[0], tile.layout[1]
    if transposed:
        first, second = second, first
    plain = Layout((first.shape, second.shape), (first.stride, second.stride))
    matrix = ComposedLayout(tile.swizzle, 0, plain)
    descriptor = matrix_descriptor(matrix, BYTES)
    assert descriptor == MatrixDescriptor(transposed, span)
    rows = depth if transposed else lines
    for line in range(0, lines, 7):
        for k in range(depth):
            assert matrix(line, k) == hardware_offset(descriptor, rows, line, k)


@pytest.mark.parametrize(
    ("swizzle", "layout", "reason"),
    [
        ((3, 3, 3), "(64,64):(2,128)", "neither k nor the lines are contiguous"),
        ((3, 3, 3), "(64,128):(128,1)", "rows have 256 bytes"),
        ((3, 3, 4), "(64,64):(64,1)", "must be swizzled by S<3,3,3>"),
        ((3, 3, 3), "(64,64):(72,1)", "rows of 64 elements must follow each other"),
    ],
)
def test_other_layouts_are_refused(swizzle: tuple[int, int, int], layout: str, reason: str) -> None:
    """With a sentence that says what is wrong."""
    shape, stride = (
        tuple(int(number) for number in part.strip("()").split(",")) for part in layout.split(":")
    )
    with pytest.raises(LayoutError, match=reason):
        matrix_descriptor(ComposedLayout(Swizzle(*swizzle), 0, Layout(shape, stride)), BYTES)
