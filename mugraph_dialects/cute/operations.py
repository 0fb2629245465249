"""Operations on layouts and tensors alike, under the names of NVIDIA's CuTe DSL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from mugraph.dialects.cute import algebra, grouping, int_tuple, layout, recast, tiling
from mugraph.dialects.cute.algorithms import copy, copy_if
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.cute.swizzle import ComposedLayout, Swizzle
from mugraph.dialects.cute.tensor import make_fragment_of_shape


def _of_tensors(operation: Callable[..., Any]) -> Callable[..., Any]:
    """The operation on layouts, and on tensors, whose layouts it changes."""

    @wraps(operation)
    def applied(target: Any, *arguments: Any, **options: Any) -> Any:
        if hasattr(target, "apply"):
            return target.apply(operation, *arguments, **options)
        return operation(target, *arguments, **options)

    return applied


coalesce = _of_tensors(algebra.coalesce)
composition = _of_tensors(algebra.composition)
filter_zeros = _of_tensors(algebra.filter_zeros)
logical_divide = _of_tensors(tiling.logical_divide)
zipped_divide = _of_tensors(tiling.zipped_divide)
tiled_divide = _of_tensors(tiling.tiled_divide)
flat_divide = _of_tensors(tiling.flat_divide)
group_modes = _of_tensors(grouping.group_modes)
recast_layout = recast.recast_layout
max_common_vector = recast.max_common_vector
make_composed_layout, make_swizzle = ComposedLayout, Swizzle
make_fragment = make_rmem_tensor = make_fragment_of_shape
autovec_copy = basic_copy = copy
basic_copy_if = copy_if


def _layout_of(target: Any) -> Any:
    return getattr(target, "layout", target)


def rank(target: Any) -> int:
    """The number of top-level modes of a tensor, a layout or a shape."""
    return getattr(_layout_of(target), "rank", None) or int_tuple.rank(target)


def cosize(target: Any) -> int:
    """One more than the largest index of a tensor or a layout; raises LayoutError for others."""
    if not hasattr(_layout_of(target), "cosize"):
        raise LayoutError(f"cosize: {target!r} is no tensor and no layout.")
    return _layout_of(target).cosize()


def select(target: Any, mode: Sequence[int]) -> Any:
    """The given top-level modes of a tensor, a layout or a shape, in the given order."""
    if int_tuple.is_tuple(target):
        return tuple(target[one] for one in mode)
    return _of_tensors(grouping.select_modes)(target, *mode)


def slice_(target: Any, coord: Any) -> Any:
    """The part of a tensor, a layout or a shape at the modes where ``coord`` is ``None``."""
    if int_tuple.is_tuple(target):
        return int_tuple.slice_tuple(coord, target)
    if hasattr(target, "engine"):
        return target[coord]
    return target.slice(*coord) if int_tuple.is_tuple(coord) else target.slice(coord)


def make_layout(*shape: Any, stride: Any = None) -> Layout[Any]:
    """``make_layout(shape, stride=...)``, column-major without strides; or layouts as modes.

    As in C++, strides may stand behind the shape: ``make_layout((4, 8), (8, 1))``.
    """
    given = shape if stride is None else (*shape, stride)
    if any(isinstance(each, Layout) for each in given):
        return layout.make_layout(*given)
    if len(given) not in (1, 2):
        raise LayoutError(f"make_layout: expected a shape and its strides, got {len(given)} tuples")
    return Layout(*given)


__all__ = [
    "autovec_copy",
    "basic_copy",
    "basic_copy_if",
    "coalesce",
    "composition",
    "cosize",
    "filter_zeros",
    "flat_divide",
    "group_modes",
    "logical_divide",
    "make_composed_layout",
    "make_fragment",
    "make_layout",
    "make_rmem_tensor",
    "make_swizzle",
    "max_common_vector",
    "rank",
    "recast_layout",
    "select",
    "slice_",
    "tiled_divide",
    "zipped_divide",
]
