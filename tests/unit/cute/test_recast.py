"""Recasts, common vectors and alignments, against their definitions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import POWERS, layouts, shapes, swizzled_layouts

from mugraph.dialects.cute import ComposedLayout, Layout, LayoutError, Swizzle, parse_layout
from mugraph.dialects.cute.recast import (
    downcast,
    max_alignment,
    max_common_layout,
    max_common_vector,
    recast_layout,
    upcast,
)


@given(
    st.one_of(layouts(("compact", "padded"), POWERS), swizzled_layouts()),
    st.sampled_from((2, 4, 8)),
)
def test_upcast_equals_its_definition(layout: Any, factor: int) -> None:
    try:
        result = upcast(layout, factor)
    except LayoutError:
        assume(False)
        raise
    assert set(result.indices()) == {index // factor for index in layout.indices()}


@given(layouts(("compact", "padded")), st.sampled_from((2, 3, 4)))
def test_downcast_equals_its_definition(layout: Layout[int], factor: int) -> None:
    assume(1 in layout.flat_stride)
    result = downcast(layout, factor)
    expected = {index * factor + part for index in layout.indices() for part in range(factor)}
    assert set(result.indices()) == expected and result.size() == layout.size() * factor
    assert upcast(result, factor).indices() == layout.indices()


@given(swizzled_layouts())
def test_swizzled_recasts_undo_each_other(layout: ComposedLayout) -> None:
    assume(1 in layout.layout.flat_stride)
    assert upcast(downcast(layout, 4), 4).indices() == layout.indices()
    assert recast_layout(recast_layout(layout, 32, 8), 8, 32).indices() == layout.indices()


def test_recast_by_bits() -> None:
    layout = parse_layout("(8,4):(1,8)")
    assert str(recast_layout(layout, 16, 32)) == "(4,4):(1,4)"
    assert str(recast_layout(layout, 16, 8)) == "(16,4):(1,16)"
    assert recast_layout(layout, 16, 16) is layout
    assert str(recast_layout(parse_layout("(12,4):(1,12)"), 16, 24)) == "(8,4):(1,8)"
    swizzled = parse_layout("S<3,3,3> o (8,64):(64,1)")
    assert str(recast_layout(swizzled, 16, 128)) == "S<3,0,3> o (8,8):(8,1)"


@pytest.mark.parametrize(
    ("layout", "factor", "words"),
    [
        ("(4,4):(1,6)", 4, "neither divides"),
        ("S<1,0,2> o 16:1", 2, "moves single elements"),
        ("S<1,2,2> o 2 o 16:1", 4, "no multiple"),
    ],
)
def test_impossible_upcasts(layout: str, factor: int, words: str) -> None:
    with pytest.raises(LayoutError, match=words):
        upcast(parse_layout(layout), factor)


def test_impossible_downcasts() -> None:
    for text in ("4:2", "(2,2):(1,1)", "4:-1"):
        with pytest.raises(LayoutError, match="exactly one mode of stride 1"):
            downcast(parse_layout(text), 2)
    with pytest.raises(LayoutError, match="power of two"):
        upcast(parse_layout("S<1,2,2> o 24:1"), 3)


@given(shapes(POWERS), st.data())
def test_max_common_vector_equals_its_definition(shape: Any, data: Any) -> None:
    kinds = ("compact", "padded", "broadcast")
    a = data.draw(layouts(kinds, shape=shape))
    b = data.draw(layouts(kinds, shape=shape))
    length, common = max_common_vector(a, b), max_common_layout(a, b)
    assert common.size() == length
    for i in range(length):
        assert a(common(i)) == i and b(common(i)) == i


@given(swizzled_layouts())
def test_common_vectors_with_swizzles(layout: ComposedLayout) -> None:
    plain = layout.layout
    length = max_common_vector(layout, plain)
    assert length <= (1 << layout.swizzle.base if layout.swizzle.bits else plain.size())
    common = max_common_layout(layout, plain)
    for i in range(length):
        assert layout(common(i)) == i == plain(common(i))
    assert max_common_vector(layout, layout) == max_common_vector(plain, plain)


@given(st.one_of(layouts(("compact", "padded")), swizzled_layouts()))
def test_max_alignment_is_a_possible_upcast(layout: Any) -> None:
    alignment = max_alignment(layout)
    indices = set(layout.indices())
    for index in indices:
        first = index - index % alignment
        assert all(first + i in indices for i in range(alignment))


def test_offsets_bound_the_vector() -> None:
    layout = ComposedLayout(Swizzle(1, 3, 1), 4, Layout(16))
    assert max_common_vector(layout, Layout(16)) == 4
