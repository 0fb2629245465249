"""Tensors of ``linalg`` seen with other dimensions, as ``kn.view`` of row-major memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import (
    resolved_layout_of,
    row_major_strides,
    shape_of,
    strides_of,
)
from mugraph.passes.convert_linalg_to_kn.bodies import UnconvertibleError
from mugraph.passes.convert_linalg_to_kn.emit import Tensors


def with_row_major_layout(value: SSAValue, tensors: Tensors) -> SSAValue:
    """The value with its layout in its type: row-major, unless it has one already."""
    type_ = cast(TensorType[Attribute], value.type)
    if not isinstance(type_.encoding, NoneAttr):
        return value
    shape = shape_of(type_)
    layout = LayoutAttr(Layout(shape, row_major_strides(shape)))
    laid_out = TensorType(type_.element_type, shape, layout)
    new = Rewriter.replace_value_with_new_type(value, laid_out)
    tensors.rename(value, new)
    return new


def strided_view(value: SSAValue, shape: Sequence[int], strides: Sequence[int]) -> kn.ViewOp:
    """The memory of a value with its layout in its type, under other extents and strides."""
    type_ = cast(TensorType[Attribute], value.type)
    layout = LayoutAttr(Layout(tuple(shape), tuple(strides)))
    return kn.ViewOp(value, TensorType(type_.element_type, shape, layout))


def arranged(
    value: SSAValue, dims: Sequence[int | None], operators: list[Operation], tensors: Tensors
) -> SSAValue:
    """The value with the given dimensions in that order; ``None`` is a new one of extent 1.

    A dimension of the value that is left out must have extent 1.  The view, where one is needed, is
    appended to ``operators``.
    """
    shape = shape_of(value.type)
    if list(dims) == list(range(len(shape))):
        return value
    for dim, extent in enumerate(shape):
        if extent > 1 and dim not in dims:
            raise UnconvertibleError(f"dimension {dim} of an operand is used by no index")
    value = with_row_major_layout(value, tensors)
    strides = strides_of(resolved_layout_of(value))
    size = max((s * e for s, e in zip(strides, shape, strict=True)), default=1)
    view = strided_view(
        value,
        [1 if dim is None else shape[dim] for dim in dims],
        [size if dim is None else strides[dim] for dim in dims],
    )
    operators.append(view)
    return view.result


def reshaped(
    value: SSAValue, shape: Sequence[int], operators: list[Operation], tensors: Tensors
) -> SSAValue:
    """A row-major tensor with other extents."""
    value = with_row_major_layout(value, tensors)
    own = shape_of(value.type)
    if strides_of(resolved_layout_of(value)) != row_major_strides(own):
        raise UnconvertibleError("it reshapes a tensor whose given layout is not row-major")
    view = strided_view(value, shape, row_major_strides(shape))
    operators.append(view)
    return view.result
