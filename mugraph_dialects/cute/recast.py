"""Layouts seen through wider or narrower elements, and what two layouts can move at once.

A layout counts elements.  Of the same storage seen as elements N times as wide, ``upcast(A, N)``
is the layout: where A steps by 1, the extent shrinks by N; other strides shrink by N.
``downcast(A, N)`` is the layout of elements N times narrower.  ``recast_layout`` does both by the
widths in bits.
"""

from __future__ import annotations

from math import gcd
from typing import Any, cast

from mugraph.dialects.cute.algebra import L, coalesce, composition
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.int_tuple import ceil_div, unflatten
from mugraph.dialects.cute.inverses import right_inverse
from mugraph.dialects.cute.layout import Layout, make_flat, make_unchecked
from mugraph.dialects.cute.swizzle import ComposedLayout, Swizzle
from mugraph.dialects.cute.tiling import logical_divide


def _log2(factor: int, what: str) -> int:
    if factor < 1 or factor & (factor - 1):
        raise LayoutError(f"{what}: a swizzle takes a power of two, not {factor}.")
    return factor.bit_length() - 1


def _require_positive(number: int, what: str) -> None:
    if number < 1:
        raise LayoutError(f"{what}: {number} must be at least 1.")


def upcast_swizzle(swizzle: Swizzle, factor: int) -> Swizzle:
    """The swizzle of indices of elements ``factor`` times as wide.

    Raises LayoutError if it permutes within a wide element.
    """
    bits = _log2(factor, f"upcast({swizzle}, {factor})")
    if swizzle.bits and swizzle.base < bits:
        raise LayoutError(
            f"upcast({swizzle}, {factor}): the swizzle moves single elements inside the wide ones; "
            f"its base would have to be at least {bits}."
        )
    return Swizzle(swizzle.bits, max(0, swizzle.base - bits), swizzle.shift)


def downcast_swizzle(swizzle: Swizzle, factor: int) -> Swizzle:
    """The swizzle of indices of elements ``factor`` times narrower."""
    bits = _log2(factor, f"downcast({swizzle}, {factor})")
    return Swizzle(swizzle.bits, swizzle.base + bits, swizzle.shift)


def upcast(layout: L, factor: int) -> L:
    """The layout of the same storage in elements ``factor`` times as wide.

    Raises LayoutError where a stride neither divides the factor nor is divided by it, or a swizzle
    or offset splits a wide element.
    """
    _require_positive(factor, f"upcast({layout}, {factor})")
    if isinstance(layout, ComposedLayout):
        if layout.offset % factor:
            raise LayoutError(
                f"upcast({layout}, {factor}): the offset {layout.offset} is no multiple of "
                f"{factor}."
            )
        swizzle = upcast_swizzle(layout.swizzle, factor)
        inner = upcast(layout.layout, factor)
        return cast("L", ComposedLayout(swizzle, layout.offset // factor, inner))
    plain = cast("Layout[Any]", layout)
    extents: list[int] = []
    steps: list[int] = []
    for extent, step in zip(plain.flat_shape, plain.flat_stride, strict=True):
        if step == 0:
            extents.append(extent)
            steps.append(0)
            continue
        if not isinstance(step, int) or (step % factor and factor % step):
            raise LayoutError(
                f"upcast({layout}, {factor}): of the mode {extent}:{step}, the stride neither "
                f"divides {factor} nor is a multiple of it."
            )
        sign = 1 if step > 0 else -1
        extents.append(ceil_div(extent, ceil_div(factor, abs(step))))
        steps.append(sign * ceil_div(abs(step), factor))
    return cast("L", _refilled(plain, extents, steps))


def downcast(layout: L, factor: int) -> L:
    """The layout of the same storage in elements ``factor`` times narrower.

    Raises LayoutError unless the layout has a mode of stride 1, along which the narrow elements of
    a wide one lie.
    """
    _require_positive(factor, f"downcast({layout}, {factor})")
    if isinstance(layout, ComposedLayout):
        swizzle = downcast_swizzle(layout.swizzle, factor)
        inner = downcast(layout.layout, factor)
        return cast("L", ComposedLayout(swizzle, layout.offset * factor, inner))
    plain = cast("Layout[Any]", layout)
    unit_modes = [mode for mode, step in enumerate(plain.flat_stride) if step == 1]
    long_modes = [mode for mode in unit_modes if plain.flat_shape[mode] > 1]
    if not unit_modes or len(long_modes) > 1 or -1 in plain.flat_stride:
        raise LayoutError(
            f"downcast({layout}, {factor}): the layout must have exactly one mode of stride 1 "
            "(and none of stride -1), along which the narrower elements lie."
        )
    unit = (long_modes or unit_modes)[0]
    extents = list(plain.flat_shape)
    steps = [step * factor for step in plain.flat_stride]
    extents[unit] *= factor
    steps[unit] = 1
    return cast("L", _refilled(plain, extents, steps))


def _refilled(layout: Layout[Any], extents: list[int], steps: list[Any]) -> Layout[Any]:
    return make_unchecked(
        unflatten(tuple(extents), layout.shape), unflatten(tuple(steps), layout.shape)
    )


def recast_layout(layout: L, old_bits: int, new_bits: int) -> L:
    """The layout of the same storage, its elements of ``old_bits`` seen as ones of ``new_bits``.

    ``recast_layout((8,4):(1,8), 16, 32)`` is ``(4,4):(1,4)``.
    """
    _require_positive(min(old_bits, new_bits), f"recast_layout({layout}, {old_bits}, {new_bits})")
    common = gcd(old_bits, new_bits)
    up, down = new_bits // common, old_bits // common
    if up > 1:
        layout = upcast(layout, up)
    return downcast(layout, down) if down > 1 else layout


def _plain(layout: Layout[Any] | ComposedLayout) -> Layout[Any]:
    return layout.layout if isinstance(layout, ComposedLayout) else layout


def _contiguous(layout: Layout[Any] | ComposedLayout) -> int | None:
    """The longest aligned run of indices that a swizzle and its offset keep; None if all."""
    if not isinstance(layout, ComposedLayout):
        return None
    run = 1 << layout.swizzle.base if layout.swizzle.bits else None
    if layout.offset:
        alignment = layout.offset & -layout.offset
        run = alignment if run is None else min(run, alignment)
    return run


def max_common_layout(
    a: Layout[Any] | ComposedLayout, b: Layout[Any] | ComposedLayout
) -> Layout[int]:
    """The coordinates R of the longest vector that is contiguous in both layouts.

    ``a(R(i)) == i`` and ``b(R(i)) == i`` for all ``i < size(R)``.  Of swizzled layouts, within the
    run that the swizzles leave alone, counting from their first element.
    """
    length = max_common_vector(a, b)
    inverse = right_inverse(_plain(b))
    return composition(inverse, Layout(length)) if length > 1 else make_flat((1,), (0,))


def max_common_vector(a: Layout[Any] | ComposedLayout, b: Layout[Any] | ComposedLayout) -> int:
    """The most elements that lie one after another in both layouts at the same coordinates.

    What a copy between the two can move with one vector instruction.
    """
    inverse = right_inverse(_plain(b))
    try:
        common = coalesce(composition(_plain(a), inverse))
        length = common.flat_shape[0] if common.flat_stride[0] == 1 else 1
    except LayoutError:
        length = _run_length(_plain(a), inverse)
    same_swizzle = (
        isinstance(a, ComposedLayout)
        and isinstance(b, ComposedLayout)
        and a.swizzle == b.swizzle
        and a.offset == b.offset
    )
    if not same_swizzle:
        for run in (_contiguous(a), _contiguous(b)):
            if run is not None:
                length = min(length, run)
    return length


def _run_length(layout: Layout[Any], inverse: Layout[int]) -> int:
    length = 1
    while length < inverse.size() and layout(inverse(length)) == length:
        length += 1
    return length


def max_alignment(layout: Layout[Any] | ComposedLayout) -> int:
    """The largest N by which the layout can be upcast: it consists of aligned runs of N elements.

    Of a swizzled layout, at most the run that its swizzle keeps.
    """
    plain = coalesce(_plain(layout))
    inverse = right_inverse(plain)
    divided = logical_divide(plain, inverse)
    alignment = divided[0].size()
    for step in divided[1].flat_stride:
        alignment = gcd(alignment, step)
    run = _contiguous(layout)
    return alignment if run is None else gcd(alignment, run)
