"""Hierarchical integer tuples: the shapes and coordinates of layouts.

An *IntTuple* is an integer or a tuple of IntTuples.  A *shape* is an IntTuple of extents.

Coordinates
    A shape ``S`` has ``size(S)`` elements, and each has several names.  For ``(4,(2,2))`` the
    element ``7`` (1-D) is also ``(3,1)`` (2-D) and ``(3,(1,0))`` (hierarchical).  They are related
    by the colexicographic order (the leftmost mode varies fastest)::

        idx2crd(i, (s0, s1, ...)) = (i % s0, (i // s0) % s1, ..., i // (s0 * s1 * ...))

    The last mode takes no remainder, so an index past the end runs on along it.  Negative indices
    divide towards zero, as in C: ``idx2crd(-i, S) == -idx2crd(i, S)``.  An index may be anything
    that answers ``+ * // %``: a numpy array of indices (of all threads of a block), or an
    expression in a thread's number; such indices are not negative.

Order
    ``compatible(A, B)`` (written A ⪯ B on slide "Layout Compatibility"): every coordinate of A is
    a coordinate of B.  It is a partial order whose minimal elements are the integers and whose
    maximal elements are the shapes of primes.

Source: C. Cecka, "CuTe: CUDA Tensors" (NVIDIA), slides "Types and Concepts", "Layout
Mappings", "Layout Compatibility".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from numbers import Integral
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

from mugraph.dialects.cute.errors import LayoutError

T = TypeVar("T")

Nested: TypeAlias = "T | tuple[Nested[T], ...]"
"""A ``T`` or a tuple of nested ``T``."""

IntTuple: TypeAlias = "int | tuple[IntTuple, ...]"
"""An integer or a tuple of IntTuples: shapes, coordinates without ``_``, integer strides."""


_ = None
"""In a coordinate, the whole of a mode; ``None`` itself is as good."""

Coord: TypeAlias = "int | tuple[Coord, ...] | None"
"""A coordinate in which ``_`` may stand for a mode: what slices."""


def is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    """Whether ``value`` is a tuple (and not a leaf)."""
    return isinstance(value, tuple)


def flatten(value: Nested[T]) -> tuple[T, ...]:
    """The leaves of a nested tuple from left to right; a leaf gives a tuple of one."""
    if not isinstance(value, tuple):
        return (value,)
    items = cast("tuple[Nested[T], ...]", value)
    for item in items:
        if isinstance(item, tuple):
            return tuple(leaf for item in items for leaf in flatten(item))
    return cast("tuple[T, ...]", items)


def unflatten(leaves: tuple[T, ...], profile: Nested[Any]) -> Nested[T]:
    """The nested tuple with the profile of ``profile`` and these leaves: ``flatten`` undone.

    Raises LayoutError if the number of leaves is not the profile's.
    """
    expected = len(flatten(profile))
    if expected != len(leaves):
        raise LayoutError(
            f"unflatten: {len(leaves)} leaves do not fill the profile {to_text(profile)}, "
            f"which has {expected}."
        )
    return _filled(profile, iter(leaves))


def _filled(profile: Any, leaves: Iterator[Any]) -> Any:
    if is_tuple(profile):
        return tuple([_filled(item, leaves) for item in profile])
    return next(leaves)


def rank(value: Nested[Any]) -> int:
    """The number of modes; 1 for a leaf."""
    return len(value) if is_tuple(value) else 1


def depth(value: Nested[Any]) -> int:
    """The number of levels of nesting: 0 for a leaf, 1 for ``(4,8)``, 2 for ``(4,(2,4))``."""
    if not is_tuple(value):
        return 0
    return 1 + max([depth(item) for item in value], default=0)


def size(value: IntTuple) -> int:
    """The product of the leaves: the number of elements of a shape."""
    if isinstance(value, tuple):
        return prod(flatten(value))
    return value


def product_each(value: IntTuple) -> tuple[int, ...]:
    """The size of every mode: ``(4,(2,2))`` gives ``(4,4)``."""
    if isinstance(value, tuple):
        return tuple(size(item) for item in value)
    return (value,)


def to_text(value: Nested[Any]) -> str:
    """CuTe's notation: no spaces, and a tuple of one without a comma: ``(4,(2,2))``, ``(4)``."""
    if is_tuple(value):
        return "(" + ",".join([to_text(item) for item in value]) + ")"
    return "_" if value is None else str(value)


def congruent(a: Nested[Any], b: Nested[Any]) -> bool:
    """Whether ``a`` and ``b`` have the same profile (the same nesting of tuples)."""
    return _refines(a, b, lambda _, mode: not is_tuple(mode))


def weakly_congruent(a: Nested[Any], b: Nested[Any]) -> bool:
    """Whether ``b``'s profile refines ``a``'s: a leaf of ``a`` may be a tuple in ``b``."""
    return _refines(a, b, lambda _leaf, _mode: True)


def compatible(a: IntTuple, b: IntTuple) -> bool:
    """Whether A ⪯ B: every coordinate of shape ``a`` is a coordinate of shape ``b``.

    Holds when ``a`` is an integer equal to ``size(b)``, or both are tuples of the same rank whose
    modes are compatible one by one.
    """
    return _refines(a, b, lambda leaf, mode: leaf == size(mode))


def weakly_compatible(a: IntTuple, b: IntTuple) -> bool:
    """As :func:`compatible`, but a leaf of ``a`` need only divide the size of its mode of ``b``."""
    return _refines(a, b, lambda leaf, mode: size(mode) % leaf == 0)


def _refines(a: Nested[Any], b: Nested[Any], agree: Callable[[Any, Any], bool]) -> bool:
    """Whether ``b`` has a mode for each leaf of ``a``, nested alike, and all of these agree."""
    if not is_tuple(a):
        return agree(a, b)
    if not is_tuple(b) or len(a) != len(b):
        return False
    return all(_refines(x, y, agree) for x, y in zip(a, b, strict=True))


def compact_col_major(shape: IntTuple, current: int = 1) -> IntTuple:
    """The strides of the dense layout whose leftmost mode varies fastest (CuTe's LayoutLeft).

    An extent of 1 gets stride 0, as in CuTe.
    """
    return _compact(shape, current, 1)


def compact_row_major(shape: IntTuple, current: int = 1) -> IntTuple:
    """The strides of the dense layout whose rightmost mode varies fastest (CuTe's LayoutRight)."""
    return _compact(shape, current, -1)


def _compact(shape: IntTuple, current: int, order: int) -> IntTuple:
    """Dense strides from ``current`` on, of the modes from the left (1) or from the right (-1)."""
    if not isinstance(shape, tuple):
        return 0 if shape == 1 else current
    strides: list[IntTuple] = []
    for item in shape[::order]:
        strides.append(_compact(item, current, order))
        current *= size(item)
    return tuple(strides[::order])


def compact_order(shape: IntTuple, order: IntTuple) -> IntTuple:
    """The strides of the dense layout whose modes are laid down in the given order.

    ``order`` has the profile of ``shape`` or a coarser one; its smallest leaf varies fastest.
    ``compact_order((4,8,2), (1,0,2))`` is ``(8,1,32)``.
    """
    if not weakly_congruent(order, shape):
        raise LayoutError(
            f"compact_order: the order {to_text(order)} does not fit the shape {to_text(shape)}; "
            "give one number for each mode."
        )

    def sizes(part: IntTuple, ranks: IntTuple) -> list[tuple[int, int]]:
        if isinstance(ranks, tuple):
            assert isinstance(part, tuple)
            return [pair for p, r in zip(part, ranks, strict=True) for pair in sizes(p, r)]
        return [(ranks, size(part))]

    extents = sizes(shape, order)

    def strides(part: IntTuple, ranks: IntTuple) -> IntTuple:
        if isinstance(ranks, tuple):
            assert isinstance(part, tuple)
            return tuple(strides(p, r) for p, r in zip(part, ranks, strict=True))
        return compact_col_major(part, prod(extent for r, extent in extents if r < ranks))

    return strides(shape, order)


def is_negative(value: Any) -> bool:
    """Whether an index is a negative number; arrays and expressions count from 0 on."""
    return (type(value) is int or isinstance(value, Integral)) and value < 0


def _divmod_towards_zero(a: Any, b: int) -> tuple[Any, Any]:
    """Quotient and remainder of C: ``a == q * b + r`` and ``r`` has the sign of ``a``."""
    if is_negative(a):
        quotient, remainder = divmod(-a, b)
        return -quotient, -remainder
    return a // b, a % b


def idx2crd(index: IntTuple, shape: IntTuple) -> IntTuple:
    """The coordinate congruent to ``shape`` of the 1-D (or partly hierarchical) ``index``."""
    if isinstance(index, tuple):
        if not isinstance(shape, tuple) or len(index) != len(shape):
            raise LayoutError(
                f"idx2crd: the coordinate {to_text(index)} does not fit the shape {to_text(shape)}."
            )
        return tuple(idx2crd(i, s) for i, s in zip(index, shape, strict=True))
    if not isinstance(shape, tuple):
        return index
    parts: list[IntTuple] = []
    last = len(shape) - 1
    for mode, extent in enumerate(shape):
        if mode == last:
            parts.append(idx2crd(index, extent))
        else:
            index, remainder = _divmod_towards_zero(index, size(extent))
            parts.append(idx2crd(remainder, extent))
    return tuple(parts)


def crd2idx(coord: IntTuple, shape: IntTuple) -> int:
    """The 1-D coordinate of any coordinate of ``shape``: ``idx2crd`` undone.

    Raises LayoutError where the profile of ``coord`` does not fit.
    """
    if not isinstance(coord, tuple):
        return coord
    if not isinstance(shape, tuple) or len(coord) != len(shape):
        raise LayoutError(
            f"crd2idx: the coordinate {to_text(coord)} does not fit the shape {to_text(shape)}."
        )
    index, step = 0, 1
    for part, extent in zip(coord, shape, strict=True):
        index += crd2idx(part, extent) * step
        step *= size(extent)
    return index


def crd2crd(coord: IntTuple, source: IntTuple, target: IntTuple) -> IntTuple:
    """The coordinate of ``target`` that names the element ``coord`` names in ``source``."""
    return idx2crd(crd2idx(coord, source), target)


def coordinates(shape: IntTuple) -> Iterator[IntTuple]:
    """All coordinates congruent to ``shape``, in colexicographic order."""
    for index in range(size(shape)):
        yield idx2crd(index, shape)


def ceil_div(a: int, b: int) -> int:
    """``a / b`` rounded up, for positive ``b``."""
    return -(-a // b)


def shape_div(a: IntTuple, b: IntTuple) -> IntTuple:
    """CuTe's division of shapes.

    Tuple by tuple is by mode; tuple by integer divides from the left
    (``shape_div((4,5,6), 40) == (1,1,3)``); an integer by a tuple divides by its size.
    Raises LayoutError where neither of two extents divides the other.
    """
    if isinstance(a, tuple):
        if isinstance(b, tuple):
            if len(a) != len(b):
                raise LayoutError(f"shape_div: {to_text(a)} and {to_text(b)} differ in rank.")
            return tuple(shape_div(x, y) for x, y in zip(a, b, strict=True))
        result: list[IntTuple] = []
        for item in a:
            result.append(shape_div(item, b))
            rest = shape_div(b, size(item))
            assert isinstance(rest, int)
            b = rest
        return tuple(result)
    if isinstance(b, tuple):
        b = size(b)
    if a < 1 or b < 1:
        raise LayoutError(f"shape_div: the extents {a} and {b} must be at least 1.")
    if a % b and b % a:
        raise LayoutError(f"shape_div: neither of {a} and {b} divides the other.")
    return ceil_div(a, b)


def has_underscore(coord: Coord) -> bool:
    """Whether ``_`` occurs anywhere in the coordinate."""
    if isinstance(coord, tuple):
        return any(has_underscore(item) for item in coord)
    return coord is _


def _kept_by(coord: Coord, value: Any, keep_underscore: bool) -> tuple[Any, ...]:
    if isinstance(coord, tuple):
        if not is_tuple(value) or len(coord) != len(value):
            raise LayoutError(
                f"The coordinate {to_text(coord)} does not fit {to_text(value)}: "
                "it needs one entry for each mode."
            )
        return tuple(
            [
                kept
                for part, item in zip(coord, value, strict=True)
                for kept in _kept_by(part, item, keep_underscore)
            ]
        )
    return (value,) if (coord is _) == keep_underscore else ()


def _slice_or_dice(coord: Coord, value: Any, keep_underscore: bool) -> Any:
    kept = _kept_by(coord, value, keep_underscore)
    if not isinstance(coord, tuple):
        return kept[0] if kept else ()
    return kept


def slice_tuple(coord: Coord, value: Nested[T]) -> Nested[T]:
    """What ``_`` in ``coord`` stands for: ``slice_tuple((3,(_,1)), (4,(2,5))) == (2,)``.

    The kept modes are gathered in one flat list, as CuTe's ``slice``.
    """
    return _slice_or_dice(coord, value, keep_underscore=True)


def dice_tuple(coord: Coord, value: Nested[T]) -> Nested[T]:
    """What integers in ``coord`` stand for: the counterpart of :func:`slice_tuple`."""
    return _slice_or_dice(coord, value, keep_underscore=False)
