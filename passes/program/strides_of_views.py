"""Where the elements of views lie, as long as nothing is copied."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mugraph.dialects.kn import BroadcastOp, RegroupOp, ReshapeOp, TransposeOp
from mugraph.dialects.kn.reshape import strides_of_reshaped
from mugraph.dialects.tensor_types import (
    has_nested_modes,
    layout_of,
    row_major_strides,
    shape_of,
    strides_of,
)


def strides_in_memory(value: SSAValue) -> Sequence[int] | None:
    """The strides of a tensor if nothing is copied; row-major where what makes it may choose.

    ``None`` where a dimension has no single one.
    """
    if has_nested_modes(value.type):
        return None
    layout, op, shape = layout_of(value.type), value.owner, shape_of(value.type)
    if layout is not None:
        return strides_of(layout)
    if not isinstance(op, RegroupOp):
        return row_major_strides(shape)
    strides, own = strides_in_memory(op.input), shape_of(op.input.type)
    if strides is None or not isinstance(op, TransposeOp | BroadcastOp | ReshapeOp):
        return None
    if isinstance(op, TransposeOp):
        return [strides[dim] for dim in op.order]
    if isinstance(op, BroadcastOp):
        sides = zip(own, shape, strides, strict=True)
        return [0 if mine < extent else step for mine, extent, step in sides]
    kept = strides_of_reshaped(own, strides, shape)
    return row_major_strides(shape) if kept is None else kept
