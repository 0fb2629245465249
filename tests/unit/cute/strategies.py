"""Hypothesis strategies for shapes, layouts and swizzles."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from mugraph.dialects.cute import ComposedLayout, Layout, Swizzle
from mugraph.dialects.cute.int_tuple import flatten, size, unflatten

EXTENTS = st.sampled_from((1, 2, 2, 3, 4, 4, 5, 6, 8))
POWERS = st.sampled_from((1, 2, 2, 4, 4, 8))

# Hypothesis takes longer to make and check a strategy than to draw from it.
integers = cache(st.integers)
permutations = cache(st.permutations)
sampled_from = cache(st.sampled_from)
EITHER = st.booleans()


@cache
def shapes(extents: Any = EXTENTS, most: int = 256, tuples_only: bool = False) -> Any:
    """Shapes nested up to three deep, of at most ``most`` elements."""
    nested = st.recursive(
        extents,
        lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple),
        max_leaves=5,
    )
    if tuples_only:
        nested = st.lists(nested, min_size=1, max_size=3).map(tuple)
    return nested.filter(lambda shape: size(shape) <= most)


@st.composite
def layouts(
    draw: Any,
    kinds: tuple[str, ...] = ("compact", "padded", "broadcast", "wild"),
    extents: Any = EXTENTS,
    most: int = 256,
    tuples_only: bool = False,
    shape: Any = None,
) -> Layout[int]:
    """Layouts: compact bijections, padded injections, broadcasts, arbitrary strides."""
    if shape is None:
        shape = draw(shapes(extents, most, tuples_only))
    kind = draw(sampled_from(kinds))
    leaves = flatten(shape)
    strides = [0] * len(leaves)
    if kind in ("wild", "negative"):
        low = -8 if kind == "negative" else 0
        strides = [draw(integers(low, 24)) for _leaf in leaves]
    else:
        step = 1
        for leaf in draw(permutations(range(len(leaves)))):
            if kind == "padded":
                step *= draw(sampled_from((1, 1, 2, 3)))
            strides[leaf] = step if leaves[leaf] > 1 else 0
            step *= leaves[leaf]
        if kind == "broadcast":
            strides = [0 if draw(EITHER) else step for step in strides]
    return Layout(shape, unflatten(tuple(strides), shape))


@st.composite
def tilers(draw: Any, count: int) -> Layout[int]:
    """Layouts of one or two modes that step evenly through ``count`` coordinates."""

    def divisor(number: int) -> int:
        return draw(sampled_from(tuple(d for d in range(1, number + 1) if number % d == 0)))

    first = divisor(count)
    step = divisor(count // first)
    if draw(EITHER):
        return Layout(first, step)
    rest = count // first // step
    second = divisor(rest)
    return Layout((first, second), (step, first * step))


@st.composite
def swizzles(draw: Any, bits: int = 3, reach: int = 4) -> Swizzle:
    """Swizzles of up to ``bits`` bits, of either direction."""
    count = draw(integers(0, bits))
    shift = draw(integers(count, reach)) * draw(sampled_from((1, -1)))
    return Swizzle(count, draw(integers(0, 3)), shift)


@st.composite
def swizzled_layouts(draw: Any, most: int = 512) -> ComposedLayout:
    """Swizzled compact layouts over powers of two that the swizzle permutes."""
    layout = draw(layouts(("compact",), POWERS, most))
    swizzle = draw(swizzles().filter(lambda swizzle: swizzle.period() <= layout.size()))
    return ComposedLayout(swizzle, 0, layout)
