"""The rewrite: writes chosen layouts into the types of a function."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from mugraph.dialects.cute import Layout
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.tb import OutputOp
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    layout_of,
    padded_strides,
    shape_of,
    with_layout,
)
from mugraph.passes.resolve_layout.problem import tensors_of
from mugraph.passes.resolve_layout.solve import Solution


def chosen_layout(problem: LayoutProblem, solution: Solution, value: SSAValue) -> Layout:
    """The layout of a tensor: its fixed strides, or those of the chosen innermost dimension."""
    shape = shape_of(value.type)
    fixed = problem.strides_fixed_for(value)
    if fixed is not None:
        return Layout(shape, fixed)
    innermost = solution.innermost[problem.number_of(value)]
    strides, _ = padded_strides(shape, innermost, element_bytes_of(value.type))
    return Layout(shape, strides)


def apply_layouts(function: FuncOp, problem: LayoutProblem, solution: Solution) -> None:
    """Gives every tensor of the function, and its signature, the chosen layout.

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
