"""What recording asks of a tensor: its buffer, where it begins, and where its elements lie."""

from __future__ import annotations

from typing import Any, cast

from mugraph.cute.errors import KernelError
from mugraph.cute.indices import Numeric
from mugraph.cute.numbers import RecordedEngine
from mugraph.cute.tensors import RecordedTensor, rows_apart
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.swizzle import ComposedLayout
from mugraph.dialects.cute.tensor import Tensor


def plain(tensor: Tensor) -> Layout[Any]:
    """The layout of a tensor without its swizzle."""
    layout = tensor.layout
    return layout.layout if isinstance(layout, ComposedLayout) else layout


def apart(tensor: Tensor) -> Layout[Any]:
    """As :func:`plain`, such that only elements of one row are neighbours."""
    coordinates = tensor.coordinates if isinstance(tensor, RecordedTensor) else None
    return plain(tensor) if coordinates is None else rows_apart(coordinates)


def element(tensor: Tensor, coord: Any) -> list[Any]:
    """The indices of an element in its buffer."""
    if isinstance(tensor, RecordedTensor):
        return tensor.element(coord)
    return [tensor.unswizzled(coord)]


def start_of(tensor: Tensor) -> Numeric:
    """Where a tensor begins in its buffer, before a swizzle."""
    layout = tensor.layout
    inside = layout.offset if isinstance(layout, ComposedLayout) else 0
    return cast("Numeric", tensor.offset) + inside


def engine_of(tensor: Tensor, what: str) -> RecordedEngine:
    """The buffer of a tensor.  Raises KernelError where it has none of the kernel."""
    engine = tensor.engine
    if not isinstance(engine, RecordedEngine):
        raise KernelError(f"{what}: {tensor.layout} is no tensor of this kernel's memory")
    swizzle = tensor.layout.swizzle if isinstance(tensor.layout, ComposedLayout) else None
    if swizzle != engine.swizzle:
        raise KernelError(
            f"{what}: the tensor {tensor.layout} lies over '{engine.buffer.name_hint}', which was "
            f"allocated with {engine.swizzle or 'no swizzle'}"
        )
    return engine
