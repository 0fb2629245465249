"""Views of a function's arguments for which memory must be copied.

A transpose of an argument is a layout, and so are most reshapes.  A reshape that joins dimensions
of a transposed argument is none: heads side by side in each row, of a tensor that has them one
after another.  As a part of a kernel, whose dimensions are cut as those of the argument are, it
costs nothing; by itself it is a kernel that copies.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue

from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.kn import RegroupOp, ReshapeOp, TransposeOp
from mugraph.dialects.kn.reshape import strides_of_reshaped
from mugraph.dialects.tensor_types import layout_of, row_major_strides, shape_of, strides_of


def is_free(op: Operation) -> bool:
    """Whether an operator is no kernel: a view of memory that is there."""
    return isinstance(op, SharesMemory | RegroupOp) and not is_copied(op)


def is_copied(op: Operation) -> bool:
    """Whether an operator is a reshape of an argument, or of a view of one, that needs a copy."""
    if not isinstance(op, ReshapeOp):
        return False
    strides, own = _strides_of_given(op.input), shape_of(op.input.type)
    wanted = shape_of(op.result.type)
    return strides is not None and strides_of_reshaped(own, strides, wanted) is None


def _strides_of_given(value: SSAValue) -> Sequence[int] | None:
    """The strides of an argument or a view of one; ``None`` of what is computed."""
    layout, op = layout_of(value.type), value.owner
    if isinstance(value, BlockArgument):
        return row_major_strides(shape_of(value.type)) if layout is None else strides_of(layout)
    if not isinstance(op, ReshapeOp | TransposeOp):
        return None
    strides = _strides_of_given(op.input)
    if strides is None:
        return None
    if layout is not None:
        return strides_of(layout)
    if isinstance(op, TransposeOp):
        return [strides[dim] for dim in op.order]
    shape = shape_of(value.type)
    return strides_of_reshaped(shape_of(op.input.type), strides, shape) or row_major_strides(shape)
