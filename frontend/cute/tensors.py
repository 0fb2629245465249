"""Tensors of a kernel while it is recorded: views that know the coordinates of their elements.

A view of a tensor in device memory goes on from two layouts: where an element lies, and which
coordinate it has.  Accesses are recorded by coordinates, so that a tile that reaches past a row is
seen to leave the tensor, though the next row lies there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from mugraph.cute.errors import KernelError
from mugraph.cute.indices import Index
from mugraph.cute.numbers import RecordedEngine
from mugraph.dialects.cute import E, Layout, LayoutError, ScaledBasis, static_text
from mugraph.dialects.cute.basis import add_coordinates
from mugraph.dialects.cute.int_tuple import flatten, has_underscore, is_tuple, unflatten
from mugraph.dialects.cute.swizzle import ComposedLayout
from mugraph.dialects.cute.tensor import Tensor


class RecordedTensor(Tensor):
    """A view with the layout of its elements' coordinates, innermost dimension first.

    ``coordinates`` is ``None`` where there is one dimension, or where only the place is known.
    """

    __slots__ = ("coordinates", "first", "is_moved")

    def __init__(
        self,
        engine: RecordedEngine,
        layout: Layout[Any] | ComposedLayout,
        offset: Any = 0,
        coordinates: Layout[Any] | None = None,
        first: Any = 0,
    ) -> None:
        super().__init__(engine, layout, offset)
        self.coordinates = coordinates
        self.first = first
        self.is_moved = False
        """Whether it, or what it is a part of, was moved: its ends are not the tensor's."""

    @property
    def shape(self) -> Any:
        """The extents of its modes; of those that reach the end of what a call says, as it says."""
        engine: Any = self.engine
        if self.coordinates is None or not engine.sizes or self.is_moved:
            return self.layout.shape
        modes = zip(self.coordinates.flat_shape, self.coordinates.flat_stride, strict=True)
        found = tuple(self._said(extent, step) for extent, step in modes)
        return unflatten(found, self.coordinates.shape)

    def _said(self, extent: int, step: Any) -> Any:
        """The extent of a mode with a step along a dimension."""
        if not isinstance(step, ScaledBasis):
            return extent
        engine: Any = self.engine
        size = engine.sizes[len(engine.sizes) - 1 - step.modes[0]]
        if size is None or not (extent - 1) * step.value < size.extent - 1 <= extent * step.value:
            return extent
        whole = size.multiple % step.value == 0
        return Index(0 if whole else step.value - 1, ((size, 1),)) // step.value

    def _part(self, *arguments: Any) -> RecordedTensor:
        """A view of the same buffer."""
        engine: Any = self.engine
        part = RecordedTensor(engine, *arguments)
        part.is_moved = self.is_moved
        return part

    def __getitem__(self, coord: Any) -> Any:
        """The element at a coordinate, or the subtensor of its ``_`` modes."""
        engine: Any = self.engine
        if not has_underscore(coord):
            return engine.load(self.element(coord))
        part = super().__getitem__(coord)
        if self.coordinates is None:
            return self._part(part.layout, part.offset)
        kept, step = self.coordinates.slice_and_offset(coord)
        first = add_coordinates(self.first, step)
        return self._part(part.layout, part.offset, kept, first)

    def set_element(self, coord: Any, value: Any) -> None:
        """Writes the element at a coordinate."""
        self.engine.store(self.element(coord), value)

    def apply(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> Tensor:
        """The tensor whose layout is ``operation(layout, *arguments)``."""
        layout = operation(self.layout, *arguments, **options)
        coordinates: Layout[Any] | None = None
        if self.coordinates is not None:
            # An operation on places alone, such as a recast, leaves no coordinates.
            with suppress(LayoutError, TypeError):
                coordinates = operation(self.coordinates, *arguments, **options)
        return self._part(layout, self.offset, coordinates, self.first)

    def moved(self, coord: Any) -> Tensor:
        """The tensor that begins at a coordinate, which may lie outside of it."""
        moved = super().moved(coord)
        if self.coordinates is None:
            return self._part(moved.layout, moved.offset)
        evaluate: Any = self.coordinates
        first = add_coordinates(self.first, evaluate(coord))
        found = self._part(moved.layout, moved.offset, self.coordinates, first)
        found.is_moved = True
        return found

    def __str__(self) -> str:
        """The buffer, where the view begins in it, and its layout: ``a[block * 8] o (_8):(_1)``."""
        engine: Any = self.engine
        name = engine.buffer.name_hint or "buffer"
        return f"{name}[{static_text(self.offset)}] o {static_text(self.layout)}"

    __repr__ = __str__

    def element(self, coord: Any) -> list[Any]:
        """The indices of an element in its buffer: one a dimension, or its place.

        Raises KernelError where the coordinate is none of integers and indices.
        """
        for one in flatten(coord):
            if not isinstance(one, int | np.integer | Index):
                raise KernelError(
                    f"{one!r} is no coordinate of {self}: those are integers, indices of threads, "
                    "blocks and iterations, and '_'; parts are what local_tile gives"
                )
        if self.coordinates is None:
            return [self.unswizzled(coord)]
        evaluate: Any = self.coordinates
        found = add_coordinates(self.first, evaluate(coord))
        indices = list(found) if is_tuple(found) else [found]
        engine: Any = self.engine
        missing = len(engine.type.get_shape()) - len(indices)
        return [*[0] * missing, *reversed(indices)]


def rows_apart(coordinates: Layout[Any]) -> Layout[Any]:
    """Where elements lie, such that only those of one row are neighbours."""
    strides = tuple(_apart(step) for step in coordinates.flat_stride)
    return Layout(coordinates.shape, unflatten(strides, coordinates.shape))


_FAR = 1 << 40


def _apart(step: Any) -> int:
    if not isinstance(step, ScaledBasis):
        return int(step)
    return step.value * (1 if step.modes == (0,) else _FAR * step.modes[0])


def order_in_memory(layout: Layout[int]) -> list[int]:
    """The modes as elements lie, the dense one first.

    The stride of a mode of extent 1 says nothing: it comes after the mode behind it.
    """
    extents, strides = layout.flat_shape, layout.flat_stride
    modes = range(len(extents))
    order = sorted((mode for mode in modes if extents[mode] > 1), key=lambda mode: strides[mode])
    for mode in reversed(modes):
        if extents[mode] == 1:
            behind = order.index(mode + 1) + 1 if mode + 1 in order else len(order)
            order.insert(behind, mode)
    return order


def whole_tensor(engine: RecordedEngine, layout: Layout[int]) -> RecordedTensor:
    """A parameter of a kernel; its buffer has a dimension for each mode."""
    order = order_in_memory(layout)
    if len(order) < 2 and not engine.sizes:
        return RecordedTensor(engine, layout)
    steps = tuple(E(order.index(mode)) for mode in range(len(order)))
    coordinates: Layout[Any] = Layout(layout.shape, unflatten(steps, layout.shape))
    return RecordedTensor(engine, layout, 0, coordinates, 0)
