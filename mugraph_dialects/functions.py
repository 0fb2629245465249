"""Which functions of a module are µGraphs, beside those of other dialects."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue

from mugraph.dialects.interfaces import HasLayoutConstraints, HasWorkspace
from mugraph.dialects.named_extents import (
    EXTENTS,
    Names,
    argument_names,
    called_names,
    is_smaller_bucket,
    result_names,
)
from mugraph.dialects.sharding import device_program
from mugraph.dialects.te import input_parameters, is_texpr, written_parameters


def holds_kernels(function: FuncOp) -> bool:
    """Whether a function computes with kernels, scheduled or not."""
    return any(isinstance(op, (HasLayoutConstraints, HasWorkspace)) for op in function.walk())


def only_returns_tensors(function: FuncOp) -> bool:
    """Whether a function has no operators and returns tensors: a µGraph without kernels."""
    returned = function.function_type.outputs.data
    return (
        all(op is function or isinstance(op, ReturnOp) for op in function.walk())
        and len(returned) > 0
        and all(isinstance(type_, TensorType) for type_ in returned)
    )


def is_foreign(function: FuncOp) -> bool:
    """Whether a function has nothing of a µGraph, so that passes leave it as it is."""
    return function.is_declaration or not (
        holds_kernels(function) or only_returns_tensors(function)
    )


def mugraphs_in(module: ModuleOp) -> list[FuncOp]:
    """Every µGraph of a module, smaller buckets of others among them."""
    functions = [op for op in module.walk() if isinstance(op, FuncOp)]
    return [function for function in functions if not is_foreign(function)]


def mugraphs_of(module: ModuleOp) -> list[FuncOp]:
    """The functions to compile or run: a module's µGraphs or, where it has none, all it defines.

    Private tensor expressions, which others call, and smaller buckets are not among them.
    """
    defined = [
        op
        for op in module.ops
        if isinstance(op, FuncOp)
        and not op.is_declaration
        and not (is_texpr(op) and op.sym_visibility is not None)
        and not is_smaller_bucket(op)
    ]
    return [function for function in defined if not is_foreign(function)] or defined


def argument_types(function: FuncOp) -> list[Attribute]:
    """The types of what a call gives: the arguments, of a tensor expression but for its result.

    The values of named extents follow from the tensors.
    """
    types = function.function_type.inputs.data
    if is_texpr(function):
        return [types[position] for position in input_parameters(function)]
    has_names = EXTENTS in function.attributes
    return [type_ for type_ in types if not (has_names and isinstance(type_, IndexType))]


def arguments_of(function: FuncOp) -> list[SSAValue]:
    """What a call gives, as :func:`argument_types`."""
    if is_texpr(function):
        return [function.args[position] for position in input_parameters(function)]
    # Arguments for the values of extents are there only once kernels are scheduled.
    return list(function.args[: len(argument_types(function))])


def results_of(function: FuncOp) -> list[SSAValue]:
    """What a call gets: of a tensor expression all parameters that it writes."""
    if is_texpr(function):
        return [function.args[position] for position in written_parameters(function)]
    last = function.body.block.last_op
    return list(last.operands) if isinstance(last, ReturnOp) else []


def given_names(function: FuncOp) -> list[Names]:
    """The names of the dimensions of what a call gives, as :func:`argument_types`."""
    if is_texpr(function):
        return [argument_names(function, position) for position in input_parameters(function)]
    return [called_names(function, index) for index in range(len(argument_types(function)))]


def got_names(function: FuncOp) -> list[Names]:
    """The names of the dimensions of what a call gets, as :func:`result_types`."""
    if is_texpr(function):
        return [argument_names(function, position) for position in written_parameters(function)]
    return [result_names(function, index) for index in range(len(result_types(function)))]


def whole_argument_types(function: FuncOp) -> list[Attribute]:
    """The types of what a call of the interpreter gives: :func:`argument_types`, but whole tensors.

    Of a program of several devices, these are the tensors of which each device has a part.
    """
    program = device_program(function)
    return argument_types(function) if program is None else [*program.argument_types]


def result_types(function: FuncOp) -> list[Attribute]:
    """The types of what a call gets, as :func:`results_of`."""
    if is_texpr(function):
        return [value.type for value in results_of(function)]
    return list(function.function_type.outputs.data)
