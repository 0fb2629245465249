"""Complements and inverses of layouts, and what they decide.

Their definitions and laws stand at the top of :mod:`mugraph.dialects.cute.algebra`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any, cast

from mugraph.dialects.cute.algebra import (
    L,
    coalesce_flat,
    filter_layout,
    move_swizzle_left,
)
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.int_tuple import (
    IntTuple,
    size,
)
from mugraph.dialects.cute.layout import Layout, make_flat
from mugraph.dialects.cute.swizzle import ComposedLayout


def _require_integers(layout: Layout[Any], operation: str, negative: bool = False) -> None:
    for step in layout.flat_stride:
        if not isinstance(step, int):
            raise LayoutError(f"{operation}({layout}): a layout of coordinates has none.")
        if step < 0 and not negative:
            raise LayoutError(
                f"{operation}({layout}): the stride {step} is negative; there is none of this form."
            )


def complement(
    layout: Layout[Any] | ComposedLayout, target: IntTuple | Layout[Any] | None = None
) -> Layout[int]:
    """The layout A* of what A leaves out of ``[0, target)``; ``target`` defaults to A's cosize.

    A* is increasing, ``(A, A*)`` is injective if A is, apart from A's modes of stride 0, and
    ``size(A*) * size(A) >= target`` where A's strides nest.  A target that is a tuple or a layout
    counts by its size.  Of a swizzled layout: the complement of the inner one, which a swizzle
    that permutes the layout's own blocks does not change.

    Raises LayoutError if two of A's modes overlap (then no such layout exists) or strides are
    negative.
    """
    if isinstance(layout, ComposedLayout):
        return complement(layout.layout, target)
    _require_integers(layout, "complement")
    filtered = filter_layout(layout)
    if target is None:
        bound = filtered.cosize()
    elif isinstance(target, Layout):
        bound = target.size()
    else:
        bound = size(target)
    if bound < 1:
        raise LayoutError(f"complement({layout}, {bound}): the target must be at least 1.")
    extents: list[int] = []
    steps: list[int] = []
    covered = 1
    modes = sorted(zip(filtered.flat_stride, filtered.flat_shape, strict=True))
    for step, extent in modes:
        if extent == 1:
            continue
        copies = step // covered
        if copies == 0:
            raise LayoutError(
                f"complement({layout}): the mode {extent}:{step} overlaps the modes of smaller "
                f"stride, which reach {covered}; only a layout whose modes nest has a complement."
            )
        extents.append(copies)
        steps.append(covered)
        covered = step * extent
    extents.append(-(-bound // covered))
    steps.append(covered)
    return coalesce_flat(tuple(extents), tuple(steps))


def _with_prefix_products(layout: Layout[Any]) -> list[tuple[int, int, int]]:
    """(stride, extent, size of the modes before it) of every mode, by increasing stride."""
    modes: list[tuple[int, int, int]] = []
    before = 1
    for extent, step in zip(layout.flat_shape, layout.flat_stride, strict=True):
        modes.append((step, extent, before))
        before *= extent
    modes.sort(key=_first)
    return modes


def _first(mode: tuple[int, int, int]) -> int:
    return mode[0]


def right_inverse(layout: L) -> L:
    """The layout R with ``A(R(i)) == i`` for all ``i < size(R)``.

    R covers the contiguous indices ``0, 1, ...`` that A's modes build up from stride 1;
    ``size(R) == size(A)`` exactly when A is a bijection onto ``[0, size(A))``.
    A swizzled layout's inverse is swizzled where its swizzle can be moved to the left.
    """
    if isinstance(layout, ComposedLayout):
        return cast("L", _inverse_of_swizzled(layout, right_inverse(layout.layout)))
    _require_integers(layout, "right_inverse", negative=True)
    extents: list[int] = []
    steps: list[int] = []
    covered = 1
    coalesced = coalesce_flat(layout.flat_shape, layout.flat_stride)
    for step, extent, before in _with_prefix_products(coalesced):
        if step == covered and extent > 1:
            extents.append(extent)
            steps.append(before)
            covered *= extent
    return cast("L", coalesce_flat(tuple(extents), tuple(steps)))


def left_inverse(layout: L) -> L:
    """The layout I with ``I(A(c)) == c`` (1-D) for every coordinate c of an injective A.

    Modes of stride 0 are inverted as if their coordinate were 0.

    Raises LayoutError if A is not injective, or injective but not of nesting strides.
    """
    if isinstance(layout, ComposedLayout):
        return cast("L", _inverse_of_swizzled(layout, left_inverse(layout.layout)))
    _require_integers(layout, "left_inverse")
    coalesced = coalesce_flat(layout.flat_shape, layout.flat_stride)
    extents: list[int] = []
    steps: list[int] = [0]
    covered = 1
    reach = 0
    last_extent = 1
    for step, extent, before in _with_prefix_products(coalesced):
        last_extent = extent
        if step == 0:
            continue
        if step < reach or step % covered:
            raise LayoutError(
                f"left_inverse({layout}): the mode {extent}:{step} overlaps or does not nest in "
                f"the modes of smaller stride, which reach {reach}; only an injective layout of "
                "nesting strides has a left inverse."
            )
        extents.append(step // covered)
        steps.append(before)
        covered = step
        reach = step * extent
    extents.append(last_extent)
    return cast("L", coalesce_flat(tuple(extents), tuple(steps)))


def _inverse_of_swizzled(layout: ComposedLayout, inverse: Layout[int]) -> ComposedLayout:
    """``inverse ∘ swizzle``, the swizzle being its own inverse, with the swizzle to the left."""
    if layout.offset:
        raise LayoutError(
            f"{layout} has the offset {layout.offset} inside its swizzle; its inverse is not of "
            "this form. Invert the layout without offset, or use the F2 view."
        )
    return ComposedLayout(move_swizzle_left(inverse, layout.swizzle), 0, inverse)


def nullspace(layout: Layout[Any]) -> Layout[int]:
    """The coordinates of the modes of stride 0: ``A(N(i)) == 0`` for all ``i < size(N)``."""
    extents: list[int] = []
    steps: list[int] = []
    before = 1
    for extent, step in zip(layout.flat_shape, layout.flat_stride, strict=True):
        if step == 0:
            extents.append(extent)
            steps.append(0 if extent == 1 else before)
        before *= extent
    if not extents:
        return make_flat((1,), (0,))
    return make_flat(tuple(extents), tuple(steps))


def is_injective(layout: Layout[Any] | ComposedLayout) -> bool:
    """Whether no two coordinates share an index.

    By strides where they nest, else by asking for a difference of two coordinates of index 0.
    Raises LayoutError where there are too many differences to ask for.
    """
    if isinstance(layout, ComposedLayout):
        return is_injective(layout.layout)
    if not all(isinstance(step, int) for step in layout.flat_stride):
        if layout.size() > MAX_DIFFERENCES:
            raise _undecided(layout)
        return len(set(layout.indices())) == layout.size()
    modes = sorted(
        (abs(step), extent)
        for step, extent in zip(layout.flat_stride, layout.flat_shape, strict=True)
        if extent > 1
    )
    reach = 0
    nested = True
    for step, extent in modes:
        if step == 0:
            return False
        nested = nested and step > reach
        reach += step * (extent - 1)
    if nested:
        return True
    if layout.size() > reach + 1:
        return False
    ranges = [(step, 1 - extent, extent - 1) for step, extent in modes]
    left = MAX_DIFFERENCES
    for place, (step, _, last) in enumerate(ranges):
        # The mode of largest stride in which the two coordinates differ.
        found, left = _can_sum_to(0, [*ranges[:place], (step, 1, last)], left)
        if found:
            return False
        if left < 0:
            raise _undecided(layout)
    return True


MAX_DIFFERENCES = 1 << 18
"""How many differences of coordinates are asked for before a layout counts as too large."""


def _undecided(layout: Layout[Any]) -> LayoutError:
    return LayoutError(
        f"{layout} has too many coordinates whose indices may coincide to tell whether any do."
    )


def _can_sum_to(total: int, ranges: Sequence[tuple[int, int, int]], left: int) -> tuple[bool, int]:
    """Whether strides times integers of their ranges (stride, first, last) can add up to a total.

    Strides are positive and ascend.  ``left`` is how many steps may be taken; the second result is
    how many remain, less than 0 where they did not suffice for an answer.
    """
    if len(ranges) == 1:
        step, first, last = ranges[0]
        return not total % step and first <= total // step <= last, left
    *rest, (step, first, last) = ranges
    low = sum(each * start for each, start, _ in rest)
    high = sum(each * end for each, _, end in rest)
    # The others make up for what is left over, which bounds this one.
    first = max(first, -((high - total) // step))
    last = min(last, (total - low) // step)
    if len(rest) == 1:
        other = rest[0][0]
        divisor = gcd(step, other)
        if total % divisor:
            return False, left
        period = other // divisor
        start = total // divisor * pow(step // divisor, -1, period) % period
        return first + (start - first) % period <= last, left
    for factor in range(first, last + 1):
        left -= 1
        if left < 0:
            break
        found, left = _can_sum_to(total - factor * step, rest, left)
        if found:
            return True, left
    return False, left


def is_bijective(layout: Layout[Any] | ComposedLayout) -> bool:
    """Whether the layout is a permutation of ``[0, size)``."""
    plain: Layout[Any] = layout.layout if isinstance(layout, ComposedLayout) else layout
    if any(
        step < 0 < extent - 1
        for step, extent in zip(plain.flat_stride, plain.flat_shape, strict=True)
    ):
        return False
    return layout.cosize() == layout.size() and is_injective(layout)
