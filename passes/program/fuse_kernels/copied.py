"""Views of a function's arguments for which memory must be copied.

A transpose of an argument is a layout, and so are most reshapes.  A reshape that joins dimensions
of a transposed argument is none: heads side by side in each row, of a tensor that has them one
after another.  As a part of a kernel, whose dimensions are cut as those of the argument are, it
costs nothing; by itself it is a kernel that copies.
"""

from __future__ import annotations

from xdsl.ir import BlockArgument, Operation, SSAValue

from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.kn import RegroupOp, ReshapeOp, TransposeOp
from mugraph.dialects.kn.reshape import strides_of_reshaped
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.program.strides_of_views import strides_in_memory


def is_free(op: Operation) -> bool:
    """Whether an operator is no kernel: a view of memory that is there."""
    return isinstance(op, SharesMemory | RegroupOp) and not is_copied(op)


def is_copied(op: Operation) -> bool:
    """Whether an operator is a reshape of an argument, or of a view of one, that needs a copy."""
    if not isinstance(op, ReshapeOp):
        return False
    if not _is_given(op.input):
        return False
    strides, own = strides_in_memory(op.input), shape_of(op.input.type)
    wanted = shape_of(op.result.type)
    return strides is not None and strides_of_reshaped(own, strides, wanted) is None


def _is_given(value: SSAValue) -> bool:
    """Whether a tensor is an argument, or reshapes and transposes of one."""
    while isinstance(value.owner, ReshapeOp | TransposeOp):
        value = value.owner.input
    return isinstance(value, BlockArgument)
