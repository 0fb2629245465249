"""Operations that change a layout's nesting but not its function, and selections of modes."""

from __future__ import annotations

from typing import Any, cast

from mugraph.dialects.cute.algebra import L
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.layout import Layout, make_layout, make_unchecked
from mugraph.dialects.cute.swizzle import ComposedLayout


def _inside(layout: ComposedLayout, inner: Layout[int]) -> Any:
    return ComposedLayout(layout.swizzle, layout.offset, inner)


def flatten_layout(layout: L) -> L:
    """The layout with all its leaves at the top: ``(4,(2,2)):(2,(1,8))`` as ``(4,2,2):(2,1,8)``."""
    if isinstance(layout, ComposedLayout):
        return _inside(layout, flatten_layout(layout.layout))
    plain = cast("Layout[Any]", layout)
    if not isinstance(plain.shape, tuple):
        return layout
    return cast("L", make_unchecked(plain.flat_shape, plain.flat_stride))


def group_modes(layout: L, begin: int, end: int) -> L:
    """Modes ``begin ... end - 1`` as one: ``group_modes((2,3,5), 0, 2)`` is of shape ``((2,3),5)``.

    Raises LayoutError if there are no such modes.
    """
    if isinstance(layout, ComposedLayout):
        return _inside(layout, group_modes(layout.layout, begin, end))
    modes = list(cast("Layout[Any]", layout))
    if not 0 <= begin < end <= len(modes):
        raise LayoutError(f"group: {layout} has no modes {begin} to {end - 1}.")
    return cast("L", make_layout(*modes[:begin], make_layout(*modes[begin:end]), *modes[end:]))


def select_modes(layout: L, *modes: int) -> L:
    """The layout of the given top-level modes, in the given order."""
    if isinstance(layout, ComposedLayout):
        return _inside(layout, select_modes(layout.layout, *modes))
    plain = cast("Layout[Any]", layout)
    for mode in modes:
        if not 0 <= mode < plain.rank:
            raise LayoutError(f"select: {layout} has no mode {mode}.")
    return cast("L", make_layout(*(plain[mode] for mode in modes)))
