"""Layouts: functions from coordinates to indices, given by a shape and strides.

A layout ``shape:stride`` is a pair of congruent hierarchical tuples.  It maps a coordinate ``c``
(1-D, n-D or hierarchical; see :mod:`int_tuple`) to the inner product of the hierarchical
coordinate with the strides::

    (4,(2,2)):(2,(1,8))     (i, (j0, j1))  ->  2*i + 1*j0 + 8*j1

Two numbers describe its range: ``size`` is the number of coordinates, ``cosize`` is one more than
the largest index (of the layout with the strides' absolute values).

Source: C. Cecka, "CuTe: CUDA Tensors" (NVIDIA), slides "Types and Concepts", "Layout Mappings".
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeGuard, cast, overload

from mugraph.dialects.cute.basis import ScaledBasis, add_coordinates, make_basis_like
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.int_tuple import (
    Coord,
    IntTuple,
    Nested,
    compact_col_major,
    compact_order,
    compact_row_major,
    congruent,
    crd2idx,
    depth,
    dice_tuple,
    flatten,
    idx2crd,
    is_negative,
    is_tuple,
    slice_tuple,
    to_text,
    unflatten,
)
from mugraph.dialects.cute.shown import Shown

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    D = TypeVar("D", bound=int | ScaledBasis, default=int)
else:
    from typing import TypeVar

    D = TypeVar("D")


class Layout(Shown, Generic[D]):
    """An immutable function from coordinates of ``shape`` to indices, linear by mode.

    Without strides the layout is the dense column-major one, as in CuTe:
    ``Layout((4, 8))`` is ``(4,8):(1,4)``.  Strides may be integers of any sign or scaled basis
    vectors (``Layout[ScaledBasis]``, whose indices are coordinates).

    Raises LayoutError if the strides are not congruent to the shape or an extent is below 1.
    """

    __slots__ = ("_flat_shape", "_flat_stride", "shape", "stride")

    shape: IntTuple
    stride: Nested[D]
    _flat_shape: tuple[int, ...]
    _flat_stride: tuple[D, ...]

    def __init__(self, shape: IntTuple, stride: Nested[D] | None = None):
        flat_shape = flatten(shape)
        for extent in flat_shape:
            if not isinstance(extent, int) or extent < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise LayoutError(
                    f"The shape {to_text(shape)} has the extent {extent}; "
                    "extents are integers of at least 1."
                )
        if stride is None:
            stride = cast("Nested[D]", compact_col_major(shape))
        elif not congruent(shape, stride):
            raise LayoutError(
                f"The strides {to_text(stride)} are not nested like the shape {to_text(shape)}."
            )
        _set(self, "shape", shape)
        _set(self, "stride", stride)
        _set(self, "_flat_shape", flat_shape)
        _set(self, "_flat_stride", flatten(stride))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Layout is immutable; {name} cannot be set.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Layout is immutable; {name} cannot be deleted.")

    @property
    def flat_shape(self) -> tuple[int, ...]:
        """The extents of the leaves, from left to right."""
        return self._flat_shape

    @property
    def flat_stride(self) -> tuple[D, ...]:
        """The strides of the leaves, from left to right."""
        return self._flat_stride

    @property
    def rank(self) -> int:
        """The number of top-level modes."""
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    @property
    def depth(self) -> int:
        """The number of levels of nesting: 0 for ``4:1``, 1 for ``(4,8):(8,1)``."""
        return depth(self.shape)

    def size(self) -> int:
        """The number of coordinates: the product of the extents."""
        return prod(self._flat_shape)

    def cosize(self) -> int:
        """One more than the largest index of the layout with the absolute values of the strides.

        For basis strides: the size of the box of coordinates.
        """
        total = 1
        box: IntTuple = 0
        for extent, step in zip(self._flat_shape, self._flat_stride, strict=True):
            if isinstance(step, ScaledBasis):
                reach = ScaledBasis(abs(step.value) * (extent - 1), step.modes)
                box = add_coordinates(box, reach.as_coordinate())
            else:
                total += (extent - 1) * abs(step)
        return total * prod(reach + 1 for reach in flatten(box))

    @overload
    def __call__(self: Layout[int], *coord: IntTuple) -> int: ...
    @overload
    def __call__(self: Layout[ScaledBasis], *coord: IntTuple) -> IntTuple: ...
    @overload
    def __call__(self, *coord: IntTuple) -> IntTuple: ...

    def __call__(self, *coord: IntTuple) -> IntTuple:
        """The index of a coordinate: ``layout(7)``, ``layout(3, 1)`` or ``layout(3, (1, 0))``.

        An index past the end runs on along the last mode.
        Raises LayoutError if the coordinate's nesting does not fit the shape.
        """
        point: IntTuple = coord[0] if len(coord) == 1 else coord
        if isinstance(point, tuple):
            return _inner_product(flat_coordinate(point, self.shape), self._flat_stride)
        if is_negative(point):
            index = self._call_flat(-point)
            return -index if isinstance(index, int) else _negated(index)
        return self._call_flat(point)

    def _call_flat(self, point: int) -> IntTuple:
        """The index of a non-negative 1-D coordinate."""
        shape = self._flat_shape
        stride: Any = self._flat_stride
        last = len(shape) - 1
        if last < 0:
            return 0
        index, whole = 0, point
        try:
            for mode in range(last):
                extent = shape[mode]
                index += point % extent * stride[mode]
                point //= extent
            return index + point * stride[last]
        except TypeError:
            # Some stride is a basis vector, which is not added to an integer.
            return _inner_product(flat_coordinate(whole, self.shape), stride)

    def __getitem__(self, mode: int) -> Layout[D]:
        """The layout of one top-level mode."""
        if not isinstance(self.shape, tuple):
            if mode in (0, -1):
                return self
            raise IndexError(f"{self} has one mode; there is no mode {mode}.")
        stride = cast("tuple[Nested[D], ...]", self.stride)
        try:
            return make_unchecked(self.shape[mode], stride[mode])
        except IndexError:
            raise IndexError(f"{self} has {self.rank} modes; there is no mode {mode}.") from None

    def __len__(self) -> int:
        return self.rank

    def __iter__(self) -> Iterator[Layout[D]]:
        """The layouts of the top-level modes."""
        return (self[mode] for mode in range(self.rank))

    def get(self, *path: int) -> Layout[D]:
        """The layout of a nested mode: ``layout.get(1, 0)``."""
        result = self
        for mode in path:
            result = result[mode]
        return result

    def slice(self, *coord: Coord) -> Layout[D]:
        """The layout of the modes at which ``coord`` has ``_``."""
        return self.slice_and_offset(*coord)[0]

    @overload
    def slice_and_offset(self: Layout[int], *coord: Coord) -> tuple[Layout[int], int]: ...
    @overload
    def slice_and_offset(
        self: Layout[ScaledBasis], *coord: Coord
    ) -> tuple[Layout[D], IntTuple]: ...
    @overload
    def slice_and_offset(self, *coord: Coord) -> tuple[Layout[D], Any]: ...

    def slice_and_offset(self, *coord: Coord) -> Any:
        """The sublayout of the ``_`` modes and the index of the others' coordinate.

        ``(8,(2,2)):(2,(1,16))`` at ``(3,_)`` is ``((2,2)):((1,16))`` at offset 6.
        """
        point: Coord = coord[0] if len(coord) == 1 else coord
        kept = make_unchecked(slice_tuple(point, self.shape), slice_tuple(point, self.stride))
        fixed = make_unchecked(dice_tuple(point, self.shape), dice_tuple(point, self.stride))
        fixed_coord: Any = dice_tuple(point, cast("Nested[Any]", point))
        is_empty = is_tuple(fixed_coord) and not fixed_coord
        return kept, 0 if is_empty else fixed(fixed_coord)

    def indices(self) -> list[IntTuple]:
        """The indices of all coordinates, in colexicographic order."""
        if not all(isinstance(step, int) for step in self._flat_stride):
            return [self._call_flat(point) for point in range(self.size())]
        indices = [0]
        for extent, step in zip(
            self._flat_shape, cast("tuple[int, ...]", self._flat_stride), strict=True
        ):
            starts = [place * step for place in range(extent)]
            indices = [start + index for start in starts for index in indices]
        return cast("list[IntTuple]", indices)

    def get_hier_coord(self: Layout[int], index: int) -> IntTuple:
        """The coordinate of an *index* of a compact layout: ``(index // stride) % extent`` by mode.

        Undoes the layout where it is a bijection; modes of stride 0 get 0.
        """
        digits = [
            0 if extent == 1 or step == 0 else (index // step) % extent
            for extent, step in zip(self._flat_shape, self._flat_stride, strict=True)
        ]
        return unflatten(tuple(digits), self.shape)

    def get_flat_coord(self: Layout[int], index: int) -> tuple[int, ...]:
        """As :meth:`get_hier_coord`, with one 1-D coordinate for each top-level mode."""
        coord = self.get_hier_coord(index)
        if not isinstance(coord, tuple) or not isinstance(self.shape, tuple):
            return (crd2idx(coord, self.shape),)
        return tuple(crd2idx(c, s) for c, s in zip(coord, self.shape, strict=True))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Layout)
            and self.shape == cast("Layout[Any]", other).shape
            and self.stride == cast("Layout[Any]", other).stride
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.stride))

    def __reduce__(self) -> tuple[Any, ...]:
        return (make_unchecked, (self.shape, self.stride))

    def __str__(self) -> str:
        return f"{to_text(self.shape)}:{to_text(self.stride)}"

    def __repr__(self) -> str:
        return f"Layout({self.shape!r}, {self.stride!r})"


Tiler: TypeAlias = "int | Layout[Any] | tuple[Tiler, ...] | None"
"""What tiles a layout by mode: an extent, a layout, ``_`` (leave the mode alone), or a tuple."""


def is_layout(value: object) -> TypeGuard[Layout[Any]]:
    """Whether ``value`` is a plain layout (not a swizzled one)."""
    return isinstance(value, Layout)


_set = object.__setattr__
_new = object.__new__


def make_unchecked(shape: IntTuple, stride: Nested[D]) -> Layout[D]:
    """A layout of a shape and strides already known to be congruent and positive."""
    layout: Layout[D] = _new(cast("type[Layout[D]]", Layout))
    _set(layout, "shape", shape)
    _set(layout, "stride", stride)
    _set(layout, "_flat_shape", flatten(shape))
    _set(layout, "_flat_stride", flatten(stride))
    return layout


def make_flat(shape: tuple[int, ...], stride: tuple[D, ...]) -> Layout[D]:
    """A layout of depth 1 (or 0, when there is one mode) of checked leaves."""
    layout: Layout[D] = _new(cast("type[Layout[D]]", Layout))
    if len(shape) == 1:
        _set(layout, "shape", shape[0])
        _set(layout, "stride", stride[0])
    else:
        _set(layout, "shape", shape)
        _set(layout, "stride", stride)
    _set(layout, "_flat_shape", shape)
    _set(layout, "_flat_stride", stride)
    return layout


def _negated(value: IntTuple) -> IntTuple:
    if isinstance(value, tuple):
        return tuple(_negated(item) for item in value)
    return -value


def _inner_product(coord: tuple[int, ...], stride: tuple[Any, ...]) -> IntTuple:
    index: IntTuple = 0
    for part, step in zip(coord, stride, strict=True):
        if isinstance(step, ScaledBasis):
            index = add_coordinates(index, (step * part).as_coordinate())
        elif isinstance(index, int):
            index += part * step
        else:
            index = add_coordinates(index, part * step)
    return index


def flat_coordinate(coord: IntTuple, shape: IntTuple) -> tuple[int, ...]:
    """The flat hierarchical coordinate of ``coord``; LayoutError where the nesting does not fit."""
    return flatten(cast("Nested[int]", idx2crd(coord, shape)))


def make_layout(*layouts: Layout[D]) -> Layout[D]:
    """The concatenation: a layout whose modes are the given layouts.

    Raises LayoutError for a swizzled layout: a swizzle acts on the sum of the modes' indices, so
    the concatenation of swizzled layouts is none.
    """
    for layout in layouts:
        if not isinstance(layout, Layout):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LayoutError(f"make_layout: {layout} is no plain layout, so it cannot be a mode.")
    return make_unchecked(
        tuple(layout.shape for layout in layouts), tuple(layout.stride for layout in layouts)
    )


def make_row_major_layout(shape: IntTuple) -> Layout[int]:
    """The dense layout whose rightmost mode varies fastest (LayoutRight)."""
    return Layout(shape, compact_row_major(shape))


def make_ordered_layout(shape: IntTuple, order: IntTuple) -> Layout[int]:
    """The dense layout whose modes are laid down in ``order``, smallest first."""
    return Layout(shape, compact_order(shape, order))


def make_identity_layout(shape: IntTuple) -> Layout[ScaledBasis]:
    """The layout that maps every coordinate of ``shape`` to itself.

    Raises LayoutError for an integer shape, whose identity is the ordinary ``Layout(shape)``.
    """
    if not isinstance(shape, tuple):
        raise LayoutError(
            f"make_identity_layout: give a tuple, ({shape},); for a plain extent the identity "
            f"is the layout {shape}:1."
        )
    return cast("Layout[ScaledBasis]", Layout(shape, make_basis_like(shape)))


def is_identity_coordinate(layout: Layout[Any]) -> bool:
    """Whether any stride is a basis vector, so that indices are coordinates."""
    return any(isinstance(step, ScaledBasis) for step in layout.flat_stride)
