"""Tensors of ``linalg`` seen with other dimensions, as ``kn.view`` of row-major memory."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mugraph.dialects import kn
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.kn.reshape import lay_out_row_major, strides_of_reshaped
from mugraph.dialects.tensor_types import (
    element_type_of,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)
from mugraph.passes.program.convert_linalg_to_kn.bodies import UnconvertibleError
from mugraph.passes.program.convert_linalg_to_kn.emit import Tensors


def with_row_major_layout(value: SSAValue, tensors: Tensors) -> SSAValue:
    """The value with its layout in its type: row-major, unless it has one already."""
    new = lay_out_row_major(value)
    tensors.rename(value, new)
    return new


def strided_view(
    value: SSAValue, shape: Sequence[int], strides: Sequence[int], tensors: Tensors
) -> SSAValue:
    """The memory of a value with its layout in its type, under other extents and strides."""
    layout = LayoutAttr(Layout(tuple(shape), tuple(strides)))
    type_ = TensorType(element_type_of(value.type), shape, layout)
    return tensors.add(kn.ViewOp(value, type_))


def arranged(value: SSAValue, dims: Sequence[int | None], tensors: Tensors) -> SSAValue:
    """The value with the given dimensions in that order; ``None`` is a new one of extent 1.

    A dimension of the value that is left out must have extent 1.
    """
    shape = shape_of(value.type)
    left_out = [dim for dim in range(len(shape)) if dim not in dims]
    for dim in left_out:
        if shape[dim] > 1:
            raise UnconvertibleError(
                f"dimension {dim} of {value_label(value)} is used by no index; take a slice of it"
            )
    own = [left_out.pop(0) if dim is None and left_out else dim for dim in dims]
    if own == list(range(len(shape))):
        return value
    value = with_row_major_layout(value, tensors)
    strides = strides_of(resolved_layout_of(value))
    size = max((s * e for s, e in zip(strides, shape, strict=True)), default=1)
    return strided_view(
        value,
        [1 if dim is None else shape[dim] for dim in dims],
        [size if dim is None else strides[dim] for dim in dims],
        tensors,
    )


def reshaped(value: SSAValue, shape: Sequence[int], tensors: Tensors) -> SSAValue:
    """The value's elements, in row-major order, as a tensor of other extents; a copy if need be."""
    own = shape_of(value.type)
    if own == tuple(shape):
        return value
    value = with_row_major_layout(value, tensors)
    strides = strides_of_reshaped(own, strides_of(resolved_layout_of(value)), shape)
    if strides is None:
        value = tensors.add(kn.CopyOp(value, TensorType(element_type_of(value.type), own)))
        return reshaped(value, shape, tensors)
    return strided_view(value, shape, strides, tensors)
