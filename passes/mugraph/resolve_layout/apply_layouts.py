"""The rewrite: writes chosen layouts into the types of a function."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import (
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnrealizedConversionCastOp,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.traits import SymbolTable

from mugraph.dialects.cute import Layout
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tb import OutputOp
from mugraph.dialects.tensor_types import layout_of, shape_of, with_layout
from mugraph.passes.mugraph.resolve_layout.problem import strides_for, tensors_of
from mugraph.passes.mugraph.resolve_layout.solution import Solution

CERTIFICATE = "mugraph.layout_certificate"
"""How good the layouts of a function are, as an attribute of it."""


def is_resolved(function: FuncOp) -> bool:
    """Whether a function's layouts have been resolved: all are there, with a certificate."""
    return CERTIFICATE in function.attributes and all(
        layout_of(value.type) is not None for value in tensors_of(function)
    )


def attach_certificate(function: FuncOp, solution: Solution) -> None:
    """Records the cost, its bound and whether they are equal.

    Preferences that no choice can meet, and their bound, stand beside them where there are any.
    """
    entries: dict[str, Attribute] = {
        "bound": _integer(solution.bound),
        "cost": _integer(solution.cost),
        "status": StringAttr("optimal" if solution.is_optimal else "bounded"),
    }
    if solution.broken_preferences:
        entries["broken"] = IntegerAttr(solution.broken_preferences, i64)
        entries["broken_bound"] = IntegerAttr(solution.broken_bound, i64)
    function.attributes[CERTIFICATE] = DictionaryAttr(entries)


def _integer(value: int) -> Attribute:
    """Of 64 bits; of more where a launch would take longer than 106 days."""
    return IntegerAttr(value, IntegerType(max(64, value.bit_length() + 1)))


def chosen_layout(problem: LayoutProblem, solution: Solution, value: SSAValue) -> Layout:
    """The layout of a tensor: its fixed strides, or those of the chosen innermost dimension."""
    shape = shape_of(value.type)
    fixed = problem.strides_fixed_for(value)
    if fixed is not None:
        return Layout(shape, fixed)
    innermost = solution.innermost[problem.number_of(value)]
    is_tight = problem.number_of(value) in solution.tight
    return Layout(shape, strides_for(value, innermost, is_tight=is_tight))


def calls_of(function: FuncOp) -> list[CallOp]:
    """The calls of a function in its module."""
    module = function.parent_op()
    if module is None:
        return []
    return [
        op
        for op in module.walk()
        if isinstance(op, CallOp) and SymbolTable.lookup_symbol(op, op.callee) is function
    ]


def cast_at_calls(function: FuncOp) -> None:
    """Converts between a caller's tensors and those of the signature, where they differ now.

    A ``builtin.unrealized_conversion_cast`` before or after the call is all that callers see of
    the layouts; who lowers them says what it becomes.
    """
    for call in calls_of(function):
        for index, type_ in enumerate(function.function_type.inputs.data):
            operand = call.operands[index]
            if operand.type != type_:
                conversion, converted = UnrealizedConversionCastOp.cast_one(operand, type_)
                Rewriter.insert_op(conversion, InsertPoint.before(call))
                call.operands[index] = converted
        for index, type_ in enumerate(function.function_type.outputs.data):
            result = call.results[index]
            before = result.type
            if before != type_:
                result = Rewriter.replace_value_with_new_type(result, type_)
                conversion, converted = UnrealizedConversionCastOp.cast_one(result, before)
                Rewriter.insert_op_after(conversion, call)
                result.replace_uses_with_if(
                    converted, lambda use, cast=conversion: use.operation is not cast
                )


def apply_layouts(function: FuncOp, problem: LayoutProblem, solution: Solution) -> None:
    """Gives every tensor of the function, its signature and its calls the chosen layout.

    Layouts that the types already have stay as they are.
    """
    for value in tuple(tensors_of(function)):
        if layout_of(value.type) is None:
            layout = chosen_layout(problem, solution, value)
            Rewriter.replace_value_with_new_type(value, with_layout(value.type, layout))
    for op in function.walk():
        if isinstance(op, OutputOp):
            op.dtensor_type = cast(TensorType[Attribute], op.dtensor.type)
    function.update_function_type()
    cast_at_calls(function)
