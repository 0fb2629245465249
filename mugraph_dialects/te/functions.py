"""What functions on buffers take and give."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from mugraph.dialects.te.accesses import HasTouches
from mugraph.dialects.te.calls import CallOp
from mugraph.dialects.te.sections import SectionOp
from mugraph.dialects.te.types import BufferType

RESULT = "te.result"
"""The attribute of a function's parameter that is its declared result."""


def is_texpr(function: FuncOp) -> bool:
    """Whether a function is a tensor expression: it takes buffers."""
    return any(isinstance(type_, BufferType) for type_ in function.function_type.inputs)


def is_result(function: FuncOp, position: int) -> bool:
    """Whether a parameter is the declared result, which holds nothing before."""
    attributes = function.arg_attrs
    return attributes is not None and RESULT in attributes.data[position].data


def parameter_names(function: FuncOp) -> list[str]:
    """The names of the parameters."""
    return [
        argument.name_hint or f"arg{position}"
        for position, argument in enumerate(function.body.block.args)
    ]


def written_parameters(function: FuncOp) -> tuple[int, ...]:
    """The parameters that the function or one that it calls may write, the declared result too."""
    return tuple(
        position
        for position, argument in enumerate(function.body.block.args)
        if is_result(function, position) or is_written(argument)
    )


def is_written(buffer: SSAValue) -> bool:
    """Whether anything in its function, or in one that this calls, may write to a buffer."""
    for use in buffer.uses:
        op = use.operation
        if isinstance(op, SectionOp) and is_written(op.result):
            return True
        if isinstance(op, CallOp) and use.index in written_parameters(op.function()):
            return True
        if isinstance(op, HasTouches) and any(
            touch.operand is buffer and touch.writes for touch in op.touches()
        ):
            return True
    return False


def input_parameters(function: FuncOp) -> tuple[int, ...]:
    """The buffers that are given contents: all parameters but the declared result and sizes."""
    return tuple(
        position
        for position, type_ in enumerate(function.function_type.inputs)
        if isinstance(type_, BufferType) and not is_result(function, position)
    )
