"""Swizzles by brute force: no bank conflicts, nothing outside the buffer, elements distinct."""

import itertools
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mugraph.dialects.cute import ComposedLayout, Layout
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    padded_strides,
    physical_elements,
)
from mugraph.passes.schedule.plan_swizzle.choose import layout_of_rows

LINE_BYTES = 128
CHUNK_BYTES = 16


def addresses(layout: AnyLayout, shape: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    """The offset in elements of every coordinate."""
    return {at: int(layout(at)) for at in itertools.product(*(range(extent) for extent in shape))}


class Rows(NamedTuple):
    """Rows of a buffer, of which ``chunk`` elements stay together."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int
    chunk: int


@st.composite
def matrices(draw: st.DrawFn) -> tuple[Rows, int]:
    """A padded matrix read in chunks of 16 bytes across its rows, and its innermost dimension."""
    size = draw(st.sampled_from([2, 4]))
    rows = draw(st.integers(8, 24))
    columns = draw(st.integers(1, 20)) * (CHUNK_BYTES // size)
    inner = draw(st.integers(0, 1))
    shape = (columns, rows) if inner == 0 else (rows, columns)
    strides = padded_strides(shape, inner, size)[0]
    return Rows(shape, strides, size, CHUNK_BYTES // size), inner


@settings(max_examples=60)
@given(matrices())
def test_eight_rows_touch_eight_different_bank_groups(case: tuple[Rows, int]) -> None:
    demand, inner = case
    layout = layout_of_rows(*demand)
    offsets = addresses(layout, demand.shape)
    size, rows = demand.element_bytes, demand.shape[1 - inner]
    if base_layout(layout).stride == (1, 1) or demand.shape[inner] == 1:
        return
    for column in range(0, demand.shape[inner], demand.chunk):
        groups = [
            offsets[(column, row) if inner == 0 else (row, column)] * size % LINE_BYTES // 16
            for row in range(rows)
        ]
        # ldmatrix reads eight rows that begin at a multiple of eight.
        for first in range(0, rows - 7, 8):
            assert len(set(groups[first : first + 8])) == 8, (layout, column, groups)
        if not isinstance(layout, ComposedLayout):
            # Shifted rows are conflict-free from any row on.
            assert all(len(set(groups[first : first + 8])) == 8 for first in range(rows - 7))


@settings(max_examples=60)
@given(matrices())
def test_addresses_are_distinct_and_chunks_stay_whole(case: tuple[Rows, int]) -> None:
    demand, inner = case
    layout = layout_of_rows(*demand)
    offsets = addresses(layout, demand.shape)
    assert len(set(offsets.values())) == len(offsets)
    assert min(offsets.values()) >= 0
    assert max(offsets.values()) < physical_elements(layout)
    for at, offset in offsets.items():
        start = list(at)
        start[inner] -= at[inner] % demand.chunk
        assert offset - offsets[tuple(start)] == at[inner] % demand.chunk
        if at[inner] % demand.chunk == 0:
            assert offset % demand.chunk == 0


@settings(max_examples=60)
@given(matrices())
def test_xor_costs_no_memory_and_a_shift_at_most_a_chunk_a_row(
    case: tuple[Rows, int],
) -> None:
    demand, inner = case
    layout = layout_of_rows(*demand)
    plain = Layout(demand.shape, demand.strides)
    rows = demand.shape[1 - inner]
    if isinstance(layout, ComposedLayout):
        assert base_layout(layout) == plain
        # The last row may end anywhere in its stride.
        assert physical_elements(layout) <= rows * demand.strides[1 - inner]
    else:
        assert 0 <= layout.cosize() - plain.cosize() <= (rows - 1) * demand.chunk


@settings(max_examples=30)
@given(matrices())
def test_choosing_again_changes_nothing(case: tuple[Rows, int]) -> None:
    demand, _ = case
    layout = layout_of_rows(*demand)
    stride = base_layout(layout).stride
    assert isinstance(stride, tuple)
    again = demand._replace(strides=tuple(int(str(step)) for step in stride))
    assert layout_of_rows(*again) == layout


@pytest.mark.parametrize(
    ("shape", "strides", "size", "chunk", "expected"),
    [
        ((16, 128), (128, 1), 2, 8, "S<3,3,4> o (16,128):(128,1)"),  # 16 chunks a row
        ((16, 64), (64, 1), 2, 8, "S<3,3,3> o (16,64):(64,1)"),  # 8
        ((16, 32), (32, 1), 2, 8, "S<2,3,3> o (16,32):(32,1)"),  # 4
        ((16, 16), (16, 1), 2, 8, "S<1,3,3> o (16,16):(16,1)"),  # 2
        ((16, 8), (8, 1), 2, 8, "(16,8):(8,1)"),  # one: rows are neighbours already
        ((16, 48), (48, 1), 2, 8, "(16,48):(56,1)"),  # 6 chunks become 7
        ((16, 72), (72, 1), 2, 8, "(16,72):(72,1)"),  # 9 is odd already
        ((64, 16), (1, 64), 2, 8, "S<3,3,3> o (64,16):(1,64)"),  # columns
        ((1, 64), (64, 1), 2, 8, "(1,64):(64,1)"),  # one row
        ((16, 64), (64, 1), 4, 1, "S<5,0,6> o (16,64):(64,1)"),  # single fp32 numbers
        ((16, 64), (64, 1), 2, 1, "S<5,1,5> o (16,64):(64,1)"),  # a bank holds two f16
        ((2, 16, 48), (768, 48, 1), 2, 8, "(2,16,48):(896,56,1)"),  # outer rows follow
    ],
)
def test_examples(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    size: int,
    chunk: int,
    expected: str,
) -> None:
    assert str(layout_of_rows(shape, strides, size, chunk)) == expected


def test_rows_that_are_not_evenly_spaced_keep_their_places() -> None:
    """60 is no multiple of the row stride 40: padding the rows would make them overlap."""
    assert layout_of_rows((2, 2, 20), (60, 40, 1), 2, 1) == Layout((2, 2, 20), (60, 40, 1))


@given(
    extents=st.tuples(*[st.integers(1, 6)] * 2, st.sampled_from([4, 8, 20, 24, 40, 64])),
    gaps=st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_no_choice_makes_two_elements_share_an_address(
    extents: tuple[int, int, int], gaps: tuple[int, int]
) -> None:
    rows = extents[2] + gaps[0]
    strides = (rows * extents[1] + gaps[1], rows, 1)
    layout = layout_of_rows(extents, strides, 2, 2)
    addresses = [layout(index) for index in range(layout.size())]
    assert len(set(addresses)) == len(addresses)
