"""The choice of a swizzle: a pure function of a buffer's layout and of how it is accessed.

Source: seed 000 "Decide How to Swizzle" and ``spec/mirage-inventory.md`` A.5.  A bank conflict
arises where threads walk along another dimension than the innermost one: their accesses are a row
apart, and rows a multiple of 128 bytes apart fall into the same banks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from mugraph.dialects.cute import ComposedLayout, Layout, Swizzle
from mugraph.dialects.programming_model import BANK_BYTES, LINE_BYTES
from mugraph.dialects.tensor_types import AnyLayout, innermost_dimension


class SwizzleDemand(NamedTuple):
    """What all accesses to a buffer together ask of its layout.

    ``chunk`` elements along the innermost dimension stay contiguous; ``walks`` are the dimensions
    along which neighbouring threads step.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int
    chunk: int
    walks: frozenset[int]


def choose_swizzle(demand: SwizzleDemand) -> AnyLayout:
    """The layout under which walking along every demanded dimension meets different banks.

    With a power of two of chunks in a row, chunks are permuted by xor, at no cost in memory;
    otherwise rows are shifted: padded until their number of chunks has no factor in common with
    the chunks of a 128-byte line.
    """
    plain = Layout(demand.shape, demand.strides)
    inner = innermost_dimension(demand.shape, demand.strides)
    row_stride = _row_stride(demand, inner)
    if inner is None or row_stride is None or not _walks_across(demand, inner):
        return plain
    chunk = max(demand.chunk, BANK_BYTES // demand.element_bytes)
    chunks_in_line = LINE_BYTES // (chunk * demand.element_bytes)
    outer = [stride for stride in demand.strides if stride > row_stride]
    # Rows of a user's layout that are not evenly spaced keep their places.
    if row_stride % chunk or any(stride % row_stride for stride in outer):
        return plain
    chunks_in_row = row_stride // chunk
    if _is_power_of_two(chunks_in_row):
        return _xor_swizzle(plain, chunk, chunks_in_row, chunks_in_line)
    return Layout(
        demand.shape, _shifted_strides(demand, row_stride, chunk, chunks_in_row, chunks_in_line)
    )


def _walks_across(demand: SwizzleDemand, inner: int) -> bool:
    """Whether some access steps along a dimension that is not the innermost one."""
    return any(walk != inner and demand.shape[walk] > 1 for walk in demand.walks)


def _row_stride(demand: SwizzleDemand, inner: int | None) -> int | None:
    """The distance of neighbouring rows in elements; ``None`` where there is one row."""
    rows = [
        stride
        for dim, (extent, stride) in enumerate(zip(demand.shape, demand.strides, strict=True))
        if dim != inner and extent > 1
    ]
    return min(rows) if rows else None


def _xor_swizzle(plain: Layout, chunk: int, chunks_in_row: int, chunks_in_line: int) -> AnyLayout:
    if chunks_in_row == 1:
        return plain
    permuted = min(chunks_in_row, chunks_in_line)
    distance = max(chunks_in_row, chunks_in_line)
    swizzle = Swizzle(_log2(permuted), _log2(chunk), _log2(distance))
    return ComposedLayout(swizzle, 0, plain)


def _shifted_strides(
    demand: SwizzleDemand, row_stride: int, chunk: int, chunks_in_row: int, chunks_in_line: int
) -> tuple[int, ...]:
    shifted = chunks_in_row
    while math.gcd(shifted, chunks_in_line) != 1:
        shifted += 1
    return tuple(
        stride if stride < row_stride else stride // row_stride * shifted * chunk
        for stride in demand.strides
    )


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _log2(value: int) -> int:
    return value.bit_length() - 1
