"""Running a function of a module on numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.interpreters.func import FuncFunctions
from xdsl.ir import Attribute

from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.runtime.interpreter.arithmetic import (
    Arithmetic,
    Array,
    Precision,
    storage_dtype,
)
from mugraph.runtime.interpreter.dispatch import make_interpreter
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.kernel import KernelFunctions


def run_function(
    module: ModuleOp,
    function: str | None,
    inputs: Sequence[Array],
    precision: str = "storage",
) -> list[Array]:
    """The results of ``function`` on ``inputs``, at any stage of compilation.

    ``module`` must have been verified.  ``function`` may be ``None`` where the module defines
    only one.  Inputs are logical arrays with the arguments' extents, of any floating-point type;
    they are rounded to the arguments' element types first, at both precisions.

    With ``precision`` "storage" every operator computes in fp32 and rounds its result once to the
    result's element type, and results have their storage type.  With "float64" everything is
    float64 and nothing is rounded.  See ``docs/interpreter.md``.

    Raises ``ExecutionError``, an ``InterpretationError`` whose text is a sentence, where there is
    no such function or precision, where an input does not fit, or where the function has an
    operator or an element type that the interpreter does not know.
    """
    arithmetic = Arithmetic(_precision(precision))
    callee = find_function(module, function)
    arguments = _convert_inputs(callee, inputs)
    results = evaluate_function(module, callee, arguments, arithmetic)
    types = callee.function_type.outputs.data
    # A copy, since a function may return an argument, and that may be the caller's array.
    with np.errstate(all="ignore"):
        return [
            np.array(value, arithmetic.device_dtype(type_))
            for value, type_ in zip(results, types, strict=True)
        ]


def evaluate_function(
    module: ModuleOp, function: FuncOp, inputs: Sequence[Any], arithmetic: Arithmetic
) -> list[Any]:
    """The results of a function in any arithmetic, on inputs that are its device tensors.

    The inputs have the arguments' extents.  Raises ``ExecutionError`` where the function has an
    operator or an element type that the interpreter does not know.
    """
    functions = (FuncFunctions(), KernelFunctions(arithmetic))
    with np.errstate(all="ignore"):
        interpreter = make_interpreter(module, *functions)
        return list(interpreter.call_op(function, tuple(inputs)))


def _precision(name: str) -> Precision:
    try:
        return Precision(name)
    except ValueError as error:
        known = " and ".join(f"'{precision}'" for precision in Precision)
        raise ExecutionError(f"there is no precision '{name}'; there are {known}") from error


def find_function(module: ModuleOp, name: str | None) -> FuncOp:
    """The function of that name, or the only one for ``None``; ``ExecutionError`` without one."""
    defined = [op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration]
    names = ", ".join(f"@{op.sym_name.data}" for op in defined) or "none"
    if name is None:
        if len(defined) != 1:
            raise ExecutionError(
                f"the module defines {len(defined)} functions ({names}); name the one to run"
            )
        return defined[0]
    for op in defined:
        if op.sym_name.data == name:
            return op
    raise ExecutionError(f"the module defines no function @{name}; it defines {names}")


def _convert_inputs(function: FuncOp, inputs: Sequence[Array]) -> list[Array]:
    label = f"function @{function.sym_name.data}"
    types = function.function_type.inputs.data
    if len(inputs) != len(types):
        raise ExecutionError(f"{label} takes {len(types)} arguments, got {len(inputs)}")
    return [
        _convert_input(f"argument {index} of {label}", type_, np.asarray(value))
        for index, (type_, value) in enumerate(zip(types, inputs, strict=True))
    ]


def _convert_input(label: str, type_: Attribute, value: Array) -> Array:
    if not isinstance(type_, TensorType):
        raise ExecutionError(f"{label} has type {type_}; the interpreter takes tensors")
    tensor = cast(TensorType[Attribute], type_)
    shape = shape_of(tensor)
    if value.shape != shape:
        raise ExecutionError(
            f"{label} has extents {list(shape)}, got an array of extents {list(value.shape)}"
        )
    if value.dtype.kind != "f":
        raise ExecutionError(
            f"{label} needs floating-point numbers, got an array of {value.dtype.name}"
        )
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(value, storage_dtype(element_type_of(tensor)))
