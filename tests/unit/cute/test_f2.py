"""The F2 view: exact both ways, composing and inverting as layouts do, counting conflicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import POWERS, layouts, swizzled_layouts, swizzles

from mugraph.dialects.cute import (
    ComposedLayout,
    Layout,
    LayoutError,
    Swizzle,
    composition,
    left_inverse,
    parse_layout,
)
from mugraph.dialects.cute.banks import wavefronts
from mugraph.dialects.cute.f2 import LinearMap, affine_map, conflict_count


def of_swizzle(swizzle: Swizzle, bits: int) -> LinearMap:
    """The swizzle on indices of ``bits`` bits."""
    return LinearMap(tuple(swizzle(1 << bit) for bit in range(bits)), bits)


def conflict_degree(addresses: Sequence[int], bytes_per_lane: int) -> int:
    """The most often that any part of the access is repeated: 1 is free of conflicts."""
    return max([part.conflicts() for part in wavefronts(addresses, bytes_per_lane)], default=0)


def maps(inputs: int = 6, outputs: int = 8) -> Any:
    """Linear maps with arbitrary columns."""
    return st.integers(0, inputs).flatmap(
        lambda count: st.lists(
            st.integers(0, (1 << outputs) - 1), min_size=count, max_size=count
        ).map(lambda columns: LinearMap(tuple(columns), outputs))
    )


@given(maps(), st.integers(0, 63), st.integers(0, 63))
def test_linear(linear: LinearMap, x: int, y: int) -> None:
    assert linear(x ^ y) == linear(x) ^ linear(y)
    assert linear(0) == 0


@given(maps())
def test_rank_kernel_and_image(linear: LinearMap) -> None:
    domain = range(1 << linear.input_bits)
    assert len({linear(x) for x in domain}) == 1 << linear.rank()
    assert len(linear.image()) == linear.rank()
    kernel = linear.kernel()
    assert linear.rank() + len(kernel) == linear.input_bits
    assert all(linear(x) == 0 for x in kernel)
    spanned = {0}
    for x in kernel:
        spanned |= {x ^ other for other in spanned}
    assert spanned == {x for x in domain if linear(x) == 0}


@given(maps())
def test_inverses(linear: LinearMap) -> None:
    if linear.is_injective():
        assert linear.left_inverse() @ linear == LinearMap.identity(linear.input_bits)
    else:
        with pytest.raises(LayoutError, match="not injective"):
            linear.left_inverse()
    if linear.rank() == linear.output_bits:
        assert linear @ linear.right_inverse() == LinearMap.identity(linear.output_bits)
    else:
        with pytest.raises(LayoutError, match="not surjective"):
            linear.right_inverse()


@given(maps(8, 4))
def test_right_inverses_of_surjective_maps(linear: LinearMap) -> None:
    assume(linear.rank() == linear.output_bits)
    assert linear @ linear.right_inverse() == LinearMap.identity(4)


@given(st.one_of(layouts(("compact",), POWERS), swizzled_layouts()))
def test_layouts_are_linear_maps_and_back(layout: Any) -> None:
    linear = LinearMap.from_layout(layout)
    assert [linear(x) for x in range(layout.size())] == layout.indices()
    back = linear.to_layout(layout.shape)
    assert back.indices() == layout.indices()
    assert LinearMap.from_layout(back, linear.output_bits) == linear


@given(layouts(("compact",), POWERS, most=64), layouts(("compact",), POWERS, most=64))
def test_composition_is_matrix_multiplication(a: Layout[int], b: Layout[int]) -> None:
    assume(b.cosize() <= a.size())
    product = LinearMap.from_layout(a) @ LinearMap.from_layout(b)
    try:
        composed = composition(a, b)
    except LayoutError:
        assert [product(x) for x in range(b.size())] == [a(b(x)) for x in range(b.size())]
        return
    assert LinearMap.from_layout(composed, product.output_bits) == product


@given(swizzles())
def test_swizzles_are_their_own_inverses(swizzle: Swizzle) -> None:
    linear = of_swizzle(swizzle, 12)
    assert linear @ linear == LinearMap.identity(12)
    assert all(linear(x) == swizzle(x) for x in range(0, 1 << 12, 7))


@given(swizzled_layouts())
def test_inverse_of_a_swizzled_layout(layout: ComposedLayout) -> None:
    inverse = LinearMap.from_layout(layout).left_inverse()
    assert [inverse(layout(x)) for x in range(layout.size())] == list(range(layout.size()))
    try:
        algebraic = left_inverse(layout)
    except LayoutError:
        return
    assert LinearMap.from_layout(algebraic, inverse.output_bits) == inverse


def test_what_is_not_linear_is_refused() -> None:
    for text in ("(3,4):(1,4)", "(4,4):(1,3)", "(4,4):(1,2)", "4:-1"):
        with pytest.raises(LayoutError, match="not linear"):
            LinearMap.from_layout(parse_layout(text))
    with pytest.raises(LayoutError, match="affine"):
        LinearMap.from_layout(parse_layout("S<1,0,2> o 8 o 4:1"))
    linear, constant = affine_map(parse_layout("S<1,0,2> o 4 o 4:1"))
    assert [constant ^ linear(x) for x in range(4)] == [5, 4, 7, 6]
    with pytest.raises(LayoutError, match="nor a layout after one swizzle"):
        LinearMap((3, 5, 6)).to_layout()


# --- bank conflicts ---


@given(st.one_of(layouts(("compact",), POWERS), swizzled_layouts()), st.sampled_from((4, 8, 16)))
def test_conflicts_by_rank_equal_conflicts_by_counting(layout: Any, width: int) -> None:
    """Lanes access consecutive coordinates; both counts agree for every part of the access."""
    words_a_lane = width // 4
    lanes = min(32 // words_a_lane, layout.size())
    assume(layout.size() >= lanes)
    linear = LinearMap.from_layout(layout)
    lane_bits = (lanes - 1).bit_length()
    access = LinearMap(linear.columns[:lane_bits], linear.output_bits)
    # A lane's vector starts at words_a_lane times its index: the bank of the vector.
    bank_bits = 5 - (words_a_lane.bit_length() - 1)
    banks = LinearMap.projection(max(access.output_bits, bank_bits), 0, bank_bits)
    addresses = [width * linear(lane) for lane in range(lanes)]
    assert conflict_degree(addresses, width) == conflict_count(access, banks)


def test_the_classic_conflicts() -> None:
    column = [32 * 4 * lane for lane in range(32)]
    assert conflict_degree(column, 4) == 32
    padded = [33 * 4 * lane for lane in range(32)]
    assert conflict_degree(padded, 4) == 1
    assert conflict_degree([0] * 32, 4) == 1, "one word for all lanes is a broadcast"
    assert conflict_degree([2 * lane for lane in range(32)], 2) == 1
    # ldmatrix of 8 rows of 64 halves: 8-way without the swizzle, free with it; 128 halves a row
    # are 16 chunks, so S<3,3,3> mixes too few of the right bits and S<3,3,4> is needed.
    for text, expected in (
        ("(8,64):(64,1)", 8),
        ("S<3,3,3> o (8,64):(64,1)", 1),
        ("S<3,3,3> o (8,128):(128,1)", 2),
        ("S<3,3,4> o (8,128):(128,1)", 1),
    ):
        layout = parse_layout(text)
        assert conflict_degree([2 * layout(row, 0) for row in range(8)], 16) == expected, text


def test_wide_accesses_are_served_in_parts() -> None:
    assert [len(part.lanes) for part in wavefronts([16 * i for i in range(32)], 16)] == [8] * 4
    assert [len(part.lanes) for part in wavefronts([8 * i for i in range(32)], 8)] == [16] * 2
    with pytest.raises(LayoutError, match="not aligned"):
        wavefronts([2], 4)
    with pytest.raises(LayoutError, match="not 12"):
        wavefronts([0], 12)


@given(st.permutations(range(7)), swizzles(), st.integers(2, 7))
def test_any_swizzled_permutation_of_bits_is_found(
    order: list[int], swizzle: Swizzle, inputs: int
) -> None:
    assume(swizzle.period() <= 1 << 7)
    bits = LinearMap(tuple(1 << bit for bit in order[:inputs]), 7)
    linear = of_swizzle(swizzle, 7) @ bits
    layout = linear.to_layout()
    assert layout.indices() == [linear(x) for x in range(1 << inputs)]
