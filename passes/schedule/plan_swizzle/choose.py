"""A layout of rows across which threads step: a pure function of extents and strides.

Source: Mirage's document "The CUDA Transpiler", "Decide How to Swizzle", and its
``src/transpiler/plan_tb_swizzle.cc``.  A bank conflict arises where threads walk along another
dimension than the innermost one: their accesses are a row apart, and rows a multiple of 128 bytes
apart fall into the same banks.
"""

from __future__ import annotations

import math

from mugraph.dialects.cute import ComposedLayout, Layout, Swizzle
from mugraph.dialects.programming_model import BANK_BYTES, LINE_BYTES
from mugraph.dialects.tensor_types import AnyLayout, innermost_dimension


def layout_of_rows(
    shape: tuple[int, ...], strides: tuple[int, ...], element_bytes: int, chunk: int
) -> AnyLayout:
    """The layout under which threads that step from row to row meet different banks.

    ``chunk`` elements along the innermost dimension stay contiguous.  With a power of two of chunks
    in a row, chunks are permuted by xor, at no cost in memory; otherwise rows are shifted: padded
    until their number of chunks has no factor in common with the chunks of a 128-byte line.
    """
    plain = Layout(shape, strides)
    inner = innermost_dimension(shape, strides)
    rows = [
        stride
        for dim, (extent, stride) in enumerate(zip(shape, strides, strict=True))
        if dim != inner and extent > 1
    ]
    if inner is None or not rows:
        return plain
    row_stride = min(rows)
    chunk = max(chunk, BANK_BYTES // element_bytes)
    chunks_in_line = LINE_BYTES // (chunk * element_bytes)
    outer = [stride for stride in strides if stride > row_stride]
    # Rows of a user's layout that are not evenly spaced keep their places.
    if row_stride % chunk or any(stride % row_stride for stride in outer):
        return plain
    chunks_in_row = row_stride // chunk
    if _is_power_of_two(chunks_in_row):
        return _xor_swizzle(plain, chunk, chunks_in_row, chunks_in_line)
    shifted = chunks_in_row
    while math.gcd(shifted, chunks_in_line) != 1:
        shifted += 1
    spread = (
        stride if stride < row_stride else stride // row_stride * shifted * chunk
        for stride in strides
    )
    return Layout(shape, tuple(spread))


def _xor_swizzle(plain: Layout, chunk: int, chunks_in_row: int, chunks_in_line: int) -> AnyLayout:
    if chunks_in_row == 1:
        return plain
    permuted = min(chunks_in_row, chunks_in_line)
    distance = max(chunks_in_row, chunks_in_line)
    swizzle = Swizzle(_log2(permuted), _log2(chunk), _log2(distance))
    return ComposedLayout(swizzle, 0, plain)


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _log2(value: int) -> int:
    return value.bit_length() - 1
