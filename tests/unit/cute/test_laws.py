"""The laws of the algebra, and every operation against its definition over the whole domain."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import POWERS, layouts, shapes, swizzled_layouts, swizzles, tilers

from mugraph.dialects.cute import (
    ComposedLayout,
    Layout,
    LayoutError,
    Swizzle,
    _,
    blocked_product,
    coalesce,
    compatible,
    complement,
    composition,
    congruent,
    coordinates,
    crd2idx,
    filter_layout,
    filter_zeros,
    flat_divide,
    flat_product,
    idx2crd,
    is_bijective,
    is_injective,
    left_inverse,
    logical_divide,
    logical_product,
    make_layout,
    nullspace,
    raked_product,
    right_inverse,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    weakly_compatible,
    weakly_congruent,
    zipped_divide,
    zipped_product,
)
from mugraph.dialects.cute.int_tuple import flatten, product_each, size, unflatten
from mugraph.dialects.cute.tensor import make_counting_tensor


def same_function(a: Any, b: Any) -> bool:
    """Whether two layouts are equal as functions of a 1-D coordinate."""
    return a.size() == b.size() and a.indices() == b.indices()


def admissible(operation: Any, *arguments: Any) -> Any:
    """The operation's result; an example without one is not an example."""
    try:
        return operation(*arguments)
    except LayoutError:
        assume(False)
        raise


# --- coordinates and shapes ---


@given(shapes())
def test_coordinates_are_all_names_of_one_element(shape: Any) -> None:
    points = list(coordinates(shape))
    assert len(points) == len(set(points)) == size(shape)
    assert [crd2idx(point, shape) for point in points] == list(range(size(shape)))
    assert all(congruent(point, shape) for point in points)


@given(layouts(("compact", "padded", "broadcast", "wild", "negative")))
def test_a_layout_is_the_inner_product_of_coordinate_and_stride(layout: Layout[int]) -> None:
    assert layout.indices() == [layout(point) for point in range(layout.size())]
    for point in range(layout.size()):
        coord = idx2crd(point, layout.shape)
        products = zip(flatten(coord), layout.flat_stride, strict=True)
        expected = sum(digit * step for digit, step in products)
        assert layout(point) == layout(coord) == expected
        if isinstance(layout.shape, tuple):
            flat = tuple(
                crd2idx(c, s)
                for c, s in zip(coord, layout.shape, strict=True)  # type: ignore[arg-type]
            )
            assert layout(*flat) == layout(flat) == expected


@given(layouts(("wild", "negative")))
def test_negative_coordinates_mirror(layout: Layout[int]) -> None:
    assert all(layout(-point) == -layout(point) for point in range(layout.size()))


@given(layouts(("compact", "padded", "broadcast", "wild")))
def test_cosize_is_one_more_than_the_largest_index(layout: Layout[int]) -> None:
    assert layout.cosize() == max(layout.indices()) + 1


@given(shapes(), shapes(), shapes())
def test_compatibility_is_a_partial_order(a: Any, b: Any, c: Any) -> None:
    assert compatible(a, a)
    if compatible(a, b) and compatible(b, a):
        assert a == b
    if compatible(a, b) and compatible(b, c):
        assert compatible(a, c)
    assert compatible(size(a), a)
    if compatible(a, b):
        assert weakly_compatible(a, b) and weakly_congruent(a, b)


@given(shapes(st.sampled_from((2, 3, 5, 7))), shapes())
def test_shapes_of_primes_are_maximal(primes: Any, other: Any) -> None:
    if all(extent > 1 for extent in flatten(other)) and _no_tuples_of_one(other):
        assert other == primes or not compatible(primes, other)


def _no_tuples_of_one(shape: Any) -> bool:
    return not isinstance(shape, tuple) or (
        len(shape) > 1 and all(_no_tuples_of_one(part) for part in shape)
    )


@given(shapes(), shapes())
def test_compatible_means_that_coordinates_carry_over(a: Any, b: Any) -> None:
    if compatible(a, b):
        dense = Layout(b)
        assert [dense(c) for c in coordinates(a)] == list(range(size(a)))


# --- coalesce and filter ---


@given(layouts(("compact", "padded", "broadcast", "wild", "negative")))
def test_coalesce_keeps_the_function_with_fewest_modes(layout: Layout[int]) -> None:
    result = coalesce(layout)
    assert same_function(layout, result)
    assert result.depth <= 1 and coalesce(result) == result
    pairs = list(zip(result.flat_shape, result.flat_stride, strict=True))
    assert all(s * d != next_d for (s, d), (_s, next_d) in pairwise(pairs))
    assert 1 not in result.flat_shape or result.size() == 1


@given(layouts(tuples_only=True))
def test_coalesce_by_mode_keeps_every_mode(layout: Layout[int]) -> None:
    result = coalesce(layout, (0,) * layout.rank)
    assert result.rank == layout.rank
    assert all(same_function(a, b) for a, b in zip(layout, result, strict=True))


@given(layouts())
def test_filter_keeps_the_image(layout: Layout[int]) -> None:
    assert set(filter_layout(layout).indices()) == set(layout.indices())
    assert set(filter_zeros(layout).indices()) == set(layout.indices())
    assert congruent(filter_zeros(layout).shape, layout.shape)


@given(layouts())
def test_nullspace_maps_to_zero(layout: Layout[int]) -> None:
    kernel = nullspace(layout)
    assert all(layout(kernel(i)) == 0 for i in range(kernel.size()))
    assert kernel.size() * filter_layout(layout).size() == layout.size()
    assert is_injective(kernel)


@given(layouts(("compact", "padded", "broadcast", "wild", "negative")))
def test_injective_layouts_have_an_index_for_each_coordinate(layout: Layout[int]) -> None:
    assert is_injective(layout) == (len(set(layout.indices())) == layout.size())


# --- composition ---


@given(layouts(("compact", "padded", "broadcast", "wild", "negative")), layouts(most=64))
def test_composition_equals_its_definition(a: Layout[int], b: Layout[int]) -> None:
    result = admissible(composition, a, b)
    assert compatible(b.shape, result.shape)
    for coord in coordinates(b.shape):
        assert result(coord) == a(b(coord))


@given(layouts(), st.data())
def test_composition_with_an_even_tiler_exists(a: Layout[int], data: Any) -> None:
    # A tiler that steps evenly through the size is admissible when A's modes divide one another.
    dense = Layout(a.size())
    b = data.draw(tilers(a.size()))
    result = composition(dense, b)
    assert [result(i) for i in range(b.size())] == [b(i) for i in range(b.size())]


@given(layouts(("compact", "negative"), most=64), layouts(("negative",), most=64))
def test_composition_with_negative_strides(a: Layout[int], b: Layout[int]) -> None:
    result = admissible(composition, a, b)
    assert [result(c) for c in coordinates(b.shape)] == [a(b(c)) for c in coordinates(b.shape)]


@given(layouts())
def test_identities(layout: Layout[int]) -> None:
    left = Layout(layout.cosize())
    assert composition(left, layout) == layout or same_function(composition(left, layout), layout)
    assert same_function(composition(layout, Layout(layout.shape)), layout)
    assert congruent(composition(left, layout).shape, layout.shape)


@given(layouts(most=128), layouts(("compact", "padded"), most=64), layouts(most=16))
def test_composition_is_associative(a: Layout[int], b: Layout[int], c: Layout[int]) -> None:
    # Past the end of B, B is continued along its last mode, and A ∘ B along its own.
    assume(c.cosize() <= b.size())
    right = admissible(composition, a, admissible(composition, b, c))
    left = admissible(composition, admissible(composition, a, b), c)
    assert same_function(left, right)
    assert compatible(c.shape, left.shape) and compatible(c.shape, right.shape)


@given(layouts(), layouts(("compact", "padded", "broadcast"), most=64, tuples_only=True))
def test_composition_distributes_over_concatenation(a: Layout[int], b: Layout[int]) -> None:
    whole = admissible(composition, a, b)
    assert whole == make_layout(*(composition(a, mode) for mode in b))


@given(layouts(tuples_only=True), st.data())
def test_composition_by_mode(layout: Layout[int], data: Any) -> None:
    tiler = tuple(
        data.draw(st.one_of(st.just(_), tilers(mode.size()))) for mode in list(layout)[:2]
    )
    result = admissible(composition, layout, tiler)
    for mode, part in enumerate(tiler):
        expected = layout[mode] if part is _ else composition(layout[mode], part)
        assert result[mode] == expected


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (Layout((4, 6), (1, 8)), Layout(2, 6), ("2:6", "mode 0", "stride divisibility")),
        (Layout((4, 6), (1, 8)), Layout(4, 3), ("4:3", "mode 0", "shape divisibility")),
        (Layout((4, 6), (1, 8)), Layout(3, 2), ("3:2", "mode 0", "shape divisibility")),
        (Layout((4, 6), (1, 8)), Layout((2, 2), (3, 3)), ("reach 6", "mode 0", "carry")),
        (Layout((4, 6), (1, 8)), Layout((2, 2), (-1, 4)), ("both signs",)),
        (Layout((4, 3, 6), (1, 8, 40)), Layout(2, 16), ("2:16", "mode 1")),
    ],
)
def test_inadmissible_compositions_name_the_mode(
    a: Layout[int], b: Layout[int], words: tuple[str, ...]
) -> None:
    with pytest.raises(LayoutError) as error:
        composition(a, b)
    assert all(word in str(error.value) for word in words), str(error.value)


# --- complement and inverses ---


@given(layouts(("compact", "padded", "broadcast", "wild")), st.integers(1, 300))
def test_complement_equals_its_definition(layout: Layout[int], target: int) -> None:
    result = admissible(complement, layout, target)
    indices = result.indices()
    assert indices == sorted(set(indices))
    assert set(indices) & set(layout.indices()) == {0}
    if is_injective(layout):
        assert is_injective(make_layout(layout, result))
    together = make_layout(filter_layout(layout), result)
    # Nothing is missing below the target where the strides nest, and little is added above it.
    if all(step % (covered or 1) == 0 for step, covered in _covered(layout)):
        assert is_bijective(together) and together.size() >= target


def _covered(layout: Layout[int]) -> list[tuple[int, int]]:
    """(stride, what the modes of smaller stride cover) of the filtered layout's modes."""
    filtered = filter_layout(layout)
    modes = sorted(zip(filtered.flat_stride, filtered.flat_shape, strict=True))
    result: list[tuple[int, int]] = []
    covered = 1
    for step, extent in modes:
        result.append((step, covered))
        covered = step * extent
    return result


@given(layouts(("compact", "padded")))
def test_injective_nested_layouts_have_a_complement(layout: Layout[int]) -> None:
    assert is_bijective(make_layout(filter_layout(layout), complement(layout)))


@given(layouts(("compact", "padded", "broadcast", "wild", "negative")))
def test_right_inverse_equals_its_definition(layout: Layout[int]) -> None:
    result = right_inverse(layout)
    assert [layout(result(i)) for i in range(result.size())] == list(range(result.size()))
    if is_bijective(layout):
        assert result.size() == layout.size()


@given(layouts(("compact", "padded", "broadcast", "wild")))
def test_left_inverse_equals_its_definition(layout: Layout[int]) -> None:
    result = admissible(left_inverse, layout)
    for coord in coordinates(layout.shape):
        digits = flatten(coord)
        if all(d != 0 or c == 0 for c, d in zip(digits, layout.flat_stride, strict=True)):
            assert result(layout(coord)) == crd2idx(coord, layout.shape)


@given(layouts(("compact", "padded")))
def test_injective_layouts_have_a_left_inverse(layout: Layout[int]) -> None:
    result = left_inverse(layout)
    assert [result(layout(i)) for i in range(layout.size())] == list(range(layout.size()))


@given(layouts(("compact",)))
def test_both_inverses_of_a_bijection_are_equal(layout: Layout[int]) -> None:
    assert same_function(left_inverse(layout), right_inverse(layout))


# --- divides and products ---


@given(layouts(), st.data())
def test_logical_divide_equals_its_definition(layout: Layout[int], data: Any) -> None:
    tiler = data.draw(st.one_of(tilers(layout.size()), layouts(("padded",), most=16)))
    result = admissible(logical_divide, layout, tiler)
    rest = complement(tiler, layout.size())
    assert result.rank == 2 and compatible(tiler.shape, result[0].shape)
    for i in range(tiler.size()):
        for j in range(rest.size()):
            assert result(i, j) == layout(tiler(i) + rest(j))


@given(layouts(tuples_only=True), st.data())
def test_the_forms_of_divide_only_regroup(layout: Layout[int], data: Any) -> None:
    tiler = tuple(data.draw(tilers(mode.size())) for mode in layout)
    divided = admissible(logical_divide, layout, tiler)
    zipped = zipped_divide(layout, tiler)
    assert list(zipped[0]) == [mode[0] for mode in divided]
    assert list(zipped[1]) == [mode[1] for mode in divided]
    assert same_function(tiled_divide(layout, tiler), zipped)
    assert same_function(flat_divide(layout, tiler), zipped)
    assert tiled_divide(layout, tiler)[0] == zipped[0]


@given(
    layouts(("compact", "padded"), most=32), layouts(("compact", "padded", "broadcast"), most=16)
)
def test_logical_product_equals_its_definition(block: Layout[int], tiler: Layout[int]) -> None:
    result = admissible(logical_product, block, tiler)
    rest = complement(block, block.size() * tiler.cosize())
    assert result[0] == block and compatible(tiler.shape, result[1].shape)
    for coord in coordinates(tiler.shape):
        assert result[1](coord) == rest(tiler(coord))
    if is_injective(tiler):
        assert is_injective(result)
    assert same_function(zipped_product(block, tiler), result)
    assert same_function(tiled_product(block, tiler), result)
    assert same_function(flat_product(block, tiler), result)


def at(layout: Layout[int], coordinate: tuple[Any, ...]) -> Any:
    """A coordinate of the layout from one that may have further modes."""
    return coordinate[: layout.rank] if isinstance(layout.shape, tuple) else coordinate[0]


@given(layouts(("compact", "padded"), most=32), layouts(("compact", "padded"), most=16))
def test_blocked_and_raked_products_place_copies(block: Layout[int], tiler: Layout[int]) -> None:
    blocked = admissible(blocked_product, block, tiler)
    raked = raked_product(block, tiler)
    rank = max(block.rank, tiler.rank)
    assert blocked.rank == raked.rank == rank
    inner = product_each(block.shape) + (1,) * (rank - block.rank)
    outer = product_each(tiler.shape) + (1,) * (rank - tiler.rank)
    product = logical_product(block, tiler)
    for copy in coordinates(outer):
        for place in coordinates(inner):
            assert isinstance(copy, tuple) and isinstance(place, tuple)
            expected = product(at(block, place), at(tiler, copy))
            in_blocks = [p + n * c for p, n, c in zip(place, inner, copy, strict=True)]  # type: ignore[operator]
            in_rakes = [c + n * p for p, n, c in zip(place, outer, copy, strict=True)]  # type: ignore[operator]
            assert blocked(*in_blocks) == raked(*in_rakes) == expected


@given(layouts(("compact",), most=32), st.data())
def test_tile_to_shape_repeats_the_block(block: Layout[int], data: Any) -> None:
    extents = product_each(block.shape)
    copies = tuple(data.draw(st.integers(1, 3)) for _extent in extents)
    order = tuple(data.draw(st.permutations(range(block.rank))))
    shape = tuple(n * c for n, c in zip(extents, copies, strict=True))
    result = tile_to_shape(block, shape, order)
    if not isinstance(block.shape, tuple):
        assert tile_to_shape(block, shape[0]) == tile_to_shape(block, shape[0], 0) == result
    assert compatible(shape, result.shape) and is_bijective(result)
    tiles = zipped_divide(result, product_each(block.shape))
    base = [tiles(i, 0) for i in range(block.size())]
    assert base == block.indices()
    starts = [tiles(0, copy) for copy in range(size(copies))]
    assert sorted(starts) == [block.size() * n for n in range(size(copies))]
    for copy, start in enumerate(starts):
        assert [tiles(i, copy) - start for i in range(block.size())] == base


@given(layouts(), st.data())
def test_partitioning_is_composition_then_slicing(layout: Layout[int], data: Any) -> None:
    count = layout.size()
    threads = data.draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0]))
    tv = data.draw(st.sampled_from((Layout((threads, count // threads)),)))
    if data.draw(st.booleans()):
        tv = Layout((threads, count // threads), (count // threads, 1))
    tensor = make_counting_tensor(layout)
    partitioned = tensor.apply(lambda whole: admissible(composition, whole, tv))
    for thread in range(threads):
        mine = partitioned[thread, _]
        assert mine.values() == [tensor[tv(thread, value)] for value in range(count // threads)]


# --- swizzles ---


@given(swizzled_layouts())
def test_a_swizzle_permutes_its_blocks(layout: ComposedLayout) -> None:
    swizzle = layout.swizzle
    period = swizzle.period()
    assert sorted(swizzle(i) for i in range(period)) == list(range(period))
    assert all(swizzle(swizzle(i)) == i for i in range(2 * period))
    assert all(swizzle(i + period) == swizzle(i) + period for i in range(period))
    assert sorted(layout.indices()) == list(range(layout.size()))


@given(swizzled_layouts(), st.data())
def test_swizzled_layouts_compose(layout: ComposedLayout, data: Any) -> None:
    tiler = data.draw(tilers(layout.size()))
    result = admissible(composition, layout, tiler)
    assert [result(i) for i in range(tiler.size())] == [
        layout(tiler(i)) for i in range(tiler.size())
    ]


@given(swizzled_layouts())
def test_swizzled_inverses(layout: ComposedLayout) -> None:
    count = range(layout.size())
    right = admissible(right_inverse, layout)
    assert [layout(right(i)) for i in count] == list(count)
    left = left_inverse(layout)
    assert [left(layout(i)) for i in count] == list(count)


@given(layouts(("compact", "padded"), POWERS, 64), st.integers(0, 5), swizzles())
def test_swizzled_layouts_with_gaps_have_inverses_or_a_reason(
    layout: Layout[int], gap: int, swizzle: Swizzle
) -> None:
    strides = tuple(step << gap for step in layout.flat_stride)
    spread = Layout(layout.shape, unflatten(strides, layout.shape))
    swizzled = ComposedLayout(swizzle, 0, spread)
    left = admissible(left_inverse, swizzled)
    assert [left(swizzled(i)) for i in range(layout.size())] == list(range(layout.size()))
    right = admissible(right_inverse, swizzled)
    assert [swizzled(right(i)) for i in range(right.size())] == list(range(right.size()))


@given(layouts(("compact",), st.sampled_from((2, 4, 8))), swizzled_layouts(most=64))
def test_layouts_compose_with_swizzled_ones(left: Layout[int], right: ComposedLayout) -> None:
    result = admissible(composition, left, right)
    assert [result(c) for c in coordinates(right.shape)] == [
        left(right(c)) for c in coordinates(right.shape)
    ]


@given(
    st.integers(0, 3), st.integers(0, 3), st.integers(-4, 4), st.integers(0, 3), st.integers(0, 3)
)
def test_merged_swizzles(b0: int, m0: int, shift: int, b1: int, m1: int) -> None:
    assume(abs(shift) >= max(b0, b1))
    outer, inner = Swizzle(b0, m0, shift), Swizzle(b1, m1, shift)
    merged = admissible(composition, outer, inner)
    assert all(merged(i) == outer(inner(i)) for i in range(1 << 12))


@given(swizzled_layouts())
def test_swizzled_slices_keep_their_place(layout: ComposedLayout) -> None:
    assume(layout.rank > 1)
    for fixed in range(layout.layout[0].size()):
        coord = (fixed, *(_,) * (layout.rank - 1))
        part = layout.slice(coord)
        rest = [idx2crd(i, part.shape) for i in range(part.size())]
        assert part.indices() == [layout(fixed, *point) for point in rest]  # type: ignore[misc]


@given(layouts(("padded",), st.sampled_from((2, 3, 4, 8))), st.integers(0, 40))
def test_the_cosize_of_a_swizzled_layout_covers_it(layout: Layout[int], offset: int) -> None:
    composed = ComposedLayout(Swizzle(2, 1, 2), offset, layout)
    assert max(composed.indices()) < composed.cosize()


@given(layouts(("compact", "padded"), st.sampled_from((2, 4)), most=16), swizzled_layouts(most=64))
def test_products_with_a_swizzled_tiler(block: Layout[int], tiler: ComposedLayout) -> None:
    result: Any = admissible(logical_product, block, tiler)
    rest = complement(block, block.size() * tiler.cosize())
    for i in range(block.size()):
        for j in range(tiler.size()):
            assert result(i, j) == block(i) + rest(tiler(j))


@given(layouts(("compact",), st.sampled_from((2, 4, 8))), swizzled_layouts(most=32))
def test_divides_by_a_swizzled_tiler(layout: Layout[int], tiler: ComposedLayout) -> None:
    result: Any = admissible(logical_divide, layout, tiler)
    rest = complement(tiler.layout, layout.size())
    for i in range(tiler.size()):
        for j in range(rest.size()):
            assert result(i, j) == layout(tiler(i) + rest(j))
    assert zipped_divide(layout, tiler).indices() == result.indices()
