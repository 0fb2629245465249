"""What kernels are given: tensors of numpy and PyTorch, and tensors without contents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np

from mugraph.cute.errors import KernelError
from mugraph.cute.numbers import dtype_named
from mugraph.cute.sizes import Size, at_most, size_named, sizes_in
from mugraph.cute.tensors import order_in_memory
from mugraph.dialects.cute import Layout, make_row_major_layout
from mugraph.dialects.cute.engines import ArrayEngine
from mugraph.dialects.cute.int_tuple import flatten, is_tuple
from mugraph.dialects.cute.tensor import Tensor

_ELEMENTS = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}
"""PyTorch's names of types that numpy does not have."""


@dataclass(frozen=True)
class FakeTensor:
    """A tensor without contents: what a kernel is recorded for."""

    dtype: np.dtype[Any]
    layout: Layout[int]
    """At the largest extents, where a call says them."""
    extents: Any = None
    """The extents where a call says some of them."""

    @property
    def shape(self) -> Any:
        """The extents: numbers, and those that a call says."""
        return self.layout.shape if self.extents is None else self.extents

    def apply(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> FakeTensor:
        """The tensor of another layout.  Raises KernelError where a call says extents."""
        if self.extents is not None:
            raise KernelError(
                "a tensor with extents of sym_int cannot be divided here; divide it in the kernel"
            )
        return FakeTensor(self.dtype, operation(self.layout, *arguments, **options))

    def reshape(self, *shape: int) -> FakeTensor:
        """The same elements in other extents, row-major; one may be -1.

        Raises KernelError where they are not row-major, or do not fit.
        """
        if self.extents is not None:
            raise KernelError("reshape: a tensor with extents of sym_int cannot be reshaped")
        known = prod(extent for extent in shape if extent != -1)
        extents = tuple(self.layout.size() // known if one == -1 else one for one in shape)
        if self.layout != make_row_major_layout(self.shape) or prod(extents) != self.layout.size():
            raise KernelError(
                f"reshape: {self.layout} is not row-major, or does not have the elements of {shape}"
            )
        return FakeTensor(self.dtype, make_row_major_layout(extents))


def make_fake_tensor(
    dtype: Any, shape: Any, stride: Any = None, *, stride_order: Sequence[int] | None = None
) -> FakeTensor:
    """A tensor of a type and a layout without contents; row-major where no strides are given.

    Extents may be :func:`~mugraph.cute.sizes.sym_int`, which a call says; then ``stride_order``
    numbers the modes from the dense one on, in the place of strides: ``(0, 1)`` is column-major.
    """
    extents: Any = shape[0] if is_tuple(shape) and len(shape) == 1 else shape
    if any(True for _size in sizes_in([extents])):
        flat = flatten(extents)
        if stride is not None or (is_tuple(extents) and len(flat) != len(extents)):
            raise KernelError(
                "make_fake_tensor: a tensor whose extents a call says has modes of one extent, "
                "without gaps; give a 'stride_order' in the place of strides"
            )
        order = tuple(stride_order or reversed(range(len(flat))))
        if sorted(order) != list(range(len(flat))):
            raise KernelError(
                f"make_fake_tensor: stride_order {order} numbers {len(flat)} modes from 0 on"
            )
        whole = tuple(map(at_most, flat))
        steps = tuple(
            prod(part for part, other in zip(whole, order, strict=True) if other < own)
            for own in order
        )
        layout = Layout(whole, steps) if is_tuple(extents) else Layout(*whole)
        return FakeTensor(dtype_named(dtype), layout, extents)
    if stride_order is not None:
        raise KernelError("make_fake_tensor: 'stride_order' is of extents that a call says")
    layout = make_row_major_layout(extents) if stride is None else Layout(shape, stride)
    return FakeTensor(dtype_named(dtype), layout)


@dataclass(frozen=True)
class Parameter:
    """A tensor that a kernel is given: its elements as they lie, and its layout."""

    name: str
    dtype: np.dtype[Any]
    layout: Layout[int]
    storage: Any
    shape: tuple[int, ...]
    """The extents of the elements as they lie, row-major."""
    sizes: tuple[Size | None, ...] = ()
    """Of each of them the size that a call says; none where all are numbers."""


def is_of_torch(value: Any) -> bool:
    """Whether a value is a tensor of PyTorch, or of a library like it."""
    return hasattr(value, "__dlpack__") and hasattr(value, "stride")


def parameter_of(name: str, value: Any) -> Parameter | None:
    """What a kernel is given under a name, if it is a tensor.

    Raises KernelError for elements, extents or strides that kernels do not have.
    """
    if is_of_torch(value):
        element = str(value.dtype).rpartition(".")[2]
        shape, steps = tuple(value.shape), tuple(value.stride())
        _require_extents(name, shape)
        value = make_fake_tensor(_ELEMENTS.get(element, element), shape, steps)
    if isinstance(value, FakeTensor):
        sizes: tuple[Size | None, ...] = ()
        if value.extents is not None:
            sizes = tuple(size_named(extent) for extent in flatten(value.extents))
            sizes = tuple(sizes[mode] for mode in reversed(order_in_memory(value.layout)))
        return Parameter(name, value.dtype, value.layout, None, _lying(name, value.layout), sizes)
    if isinstance(value, Tensor):
        if not isinstance(value.engine, ArrayEngine) or not isinstance(value.layout, Layout):
            raise KernelError(f"{name}: a kernel is given tensors over arrays, without a swizzle")
        storage = value.engine.storage
        return Parameter(name, storage.dtype, value.layout, storage, storage.shape)
    if not isinstance(value, np.ndarray):
        return None
    array = cast("np.ndarray[Any, np.dtype[Any]]", value)
    _require_extents(name, array.shape)
    size = array.itemsize
    if any(step < 0 or step % size for step in array.strides):
        raise KernelError(
            f"{name}: the array has strides {array.strides} bytes; expected multiples of "
            f"{size} that are not negative: pass a copy"
        )
    strides = tuple(
        0 if n == 1 else s // size for n, s in zip(array.shape, array.strides, strict=True)
    )
    single = array.ndim == 1
    layout = Layout(array.shape[0], strides[0]) if single else Layout(array.shape, strides)
    shape = _lying(name, layout)
    storage = np.lib.stride_tricks.as_strided(array, (prod(shape),), (size,))
    return Parameter(name, array.dtype, layout, storage, shape)


def _require_extents(name: str, shape: tuple[int, ...]) -> None:
    if 0 in shape or not shape:
        raise KernelError(f"{name}: an array of shape {shape} has no layout")


def _lying(name: str, layout: Layout[int]) -> tuple[int, ...]:
    """The extents in the order in which elements lie in memory, the last one dense.

    Raises KernelError where elements have gaps or share places.
    """
    modes = zip(layout.flat_stride, layout.flat_shape, strict=True)
    ordered = sorted((step, extent) for step, extent in modes if extent > 1)
    expected = 1
    for step, extent in ordered:
        if step != expected:
            raise KernelError(
                f"{name}: the layout {layout} has gaps, or elements at one place; give the whole "
                "tensor, and take a part of it in the kernel"
            )
        expected *= extent
    return tuple(layout.flat_shape[mode] for mode in reversed(order_in_memory(layout)))
