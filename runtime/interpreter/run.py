"""Running a function of a module on numpy arrays."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IndexType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute

from mugraph.dialects import te
from mugraph.dialects.functions import given_names, results_of
from mugraph.dialects.kn import count_of_rows, must_be_distinct
from mugraph.dialects.named_extents import held_extents, is_smaller_bucket, named_extents
from mugraph.dialects.sharding import DeviceProgram, device_program, is_per_device
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.program.expand_mesh import expand_function
from mugraph.runtime.interpreter.address_kernel import (
    FORWARD,
    REVERSED,
    TOGETHER,
    AddressLevel,
)
from mugraph.runtime.interpreter.address_launches import AddressLauncher
from mugraph.runtime.interpreter.address_level import Landing
from mugraph.runtime.interpreter.arithmetic import (
    Arithmetic,
    Array,
    Precision,
    convert,
    float_info,
    integer_limits,
    is_floating,
    is_quantizing,
    is_whole,
    storage_dtype,
)
from mugraph.runtime.interpreter.bounded_arithmetic import BoundedArithmetic
from mugraph.runtime.interpreter.bounds import BoundedArray
from mugraph.runtime.interpreter.devices import run_devices
from mugraph.runtime.interpreter.dispatch import make_interpreter
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.extents import Call, static_call
from mugraph.runtime.interpreter.kernel import KernelFunctions
from mugraph.runtime.interpreter.rounding import STORAGE
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.runtime.interpreter.workspace import Workspace


@dataclass(frozen=True)
class Execution:
    """What a function gave at the level of addresses."""

    outputs: list[Array]
    """The results; NaN where nothing was written."""
    written: list[npt.NDArray[np.bool_]]
    """Where each result was written: everywhere, unless only a sample of blocks ran."""
    blocks: dict[str, list[tuple[int, ...]]]
    """The blocks (x, y, z) that ran, of each kernel."""


def random_elements(numbers: Array, dtype: np.dtype[Any], *, positive: bool = False) -> Array:
    """Random numbers, or their magnitudes, in an element type; truths of which are above 0."""
    if dtype.kind == "b":
        return np.asarray(numbers > 0)
    return convert(np.abs(numbers) if positive else numbers, dtype)


def naming_rows(function: FuncOp, inputs: Sequence[Array]) -> list[Array]:
    """Random inputs, of which those that name rows, or hold lengths, have numbers that exist.

    Numbers that must all be different are those from 0 on, in random order.
    """
    inputs = [
        np.argsort(array, axis=None).reshape(array.shape).astype(array.dtype)
        if must_be_distinct(argument)
        else array
        for argument, array in zip(function.args, inputs, strict=False)
    ]
    # A tensor expression's last arguments are its results.
    counts = [count_of_rows(argument) for argument in function.args[: len(inputs)]]
    named = zip(given_names(function), inputs, strict=False)
    sizes = {n: size for names, x in named for n, size in zip(names, x.shape, strict=False) if n}
    for extent in held_extents(named_extents(function).values()).values():
        counts[extent.held or 0] = sizes.get(extent.name, extent.largest) + 1
    pairs = zip(inputs, counts, strict=True)
    # One number is drawn again: small ones would be near 0 all.
    drawn = np.random.default_rng([zlib.crc32(array.tobytes()) for array in inputs])
    return [
        array
        if count is None
        else np.full_like(array, drawn.integers(count))
        if array.size == 1
        else array % array.dtype.type(count)
        for array, count in pairs
    ]


def run_function(
    module: ModuleOp,
    function: str | None,
    inputs: Sequence[Array],
    precision: str = "storage",
    *,
    level: str = "logical",
    blocks: int | None = None,
    order: str | int = TOGETHER,
    landing: str = Landing.LATEST,
    rounded: set[np.dtype[Any]] | None = None,
) -> list[Array]:
    """The results of ``function`` on ``inputs``, at any stage of compilation.

    ``module`` must have been verified.  ``function`` may be ``None`` where the module defines
    only one.  Inputs are logical arrays with the arguments' extents, of any floating-point type
    (or, where an argument has integers, any integer type); they are rounded to the arguments'
    element types first, at both precisions.

    With ``precision`` "storage" every operator computes in fp32 and rounds its result once to the
    result's element type, and results have their storage type.  With "float64" everything is
    float64 but integers, and nothing is rounded but to integers and f8.  See
    ``docs/interpreter.md``.  ``rounded`` takes down the types that other numbers are rounded to, or
    would be with precision "storage".

    With ``level`` "address" scheduled kernels run on bytes, and ``blocks``, ``order`` and
    ``landing`` are as in :func:`execute_by_address`.

    Of a tensor expression the inputs are the parameters but for declared results, and the results
    are all parameters that the function writes.

    Raises ``ExecutionError``, an ``InterpretationError`` whose text is a sentence, where there is
    no such function, precision or level, where an input does not fit, or where the function has an
    operator or an element type that the interpreter does not know.
    """
    if level == "address":
        if _precision(precision) is not Precision.STORAGE:
            raise ExecutionError(
                "the level of addresses works on the bytes of stored numbers, so its precision is "
                f"'storage', not '{precision}'"
            )
        return execute_by_address(
            module, function, inputs, blocks=blocks, order=order, landing=landing
        ).outputs
    if level != "logical":
        raise ExecutionError(f"there is no level '{level}'; there are 'logical' and 'address'")
    if blocks is not None or order != TOGETHER or landing != Landing.LATEST:
        raise ExecutionError(
            "blocks, order and landing are options of the level of addresses; pass level='address'"
        )
    arithmetic = Arithmetic(_precision(precision), rounded=rounded)
    callee = find_function(module, function)
    if te.is_texpr(callee):
        if rounded is not None:
            rounded.update(storage_dtype(element_type_of(one.type)) for one in results_of(callee))
        return list(run_texpr(callee, inputs, precision=arithmetic.precision).outputs.values())
    call = static_call(module, callee, inputs)
    callee = call.function
    if call.is_empty:
        return _empty(call, arithmetic)
    program = device_program(callee)
    if program is not None:
        return _run_devices(module, program, call.inputs, arithmetic)
    arguments = _convert_inputs(callee, call.inputs)
    results = evaluate_function(module, callee, arguments, arithmetic)
    return call.meant(_stored(callee, results, arithmetic))


def _run_devices(
    module: ModuleOp, program: DeviceProgram, inputs: Sequence[Array], arithmetic: Arithmetic
) -> list[Array]:
    """The whole results of a program of several devices, of whole inputs."""
    label = f"function @{program.function.sym_name.data}"
    arguments = _convert_all(label, program.argument_types, inputs)
    with np.errstate(all="ignore"):
        return run_devices(
            program, arguments, arithmetic, lambda: _interpreter(module, arithmetic, None)
        )


def bound_rounding(module: ModuleOp, function: str | None, inputs: Sequence[Array]) -> list[Array]:
    """How far each result's elements may be from those of precision "float64"; perhaps infinitely.

    That is what a run with precision "storage" may round.  Raises ``ExecutionError`` as
    :func:`run_function` does.
    """
    callee = find_function(module, function)
    if te.is_texpr(callee):
        return _bound_texpr(callee, inputs)
    callee = expand_function(callee)
    call = static_call(module, callee, inputs)
    if call.is_empty:
        return _empty(call, Arithmetic(Precision.FLOAT64))
    arithmetic = BoundedArithmetic(models=(STORAGE,))
    arguments = [arithmetic.exact(array) for array in _convert_inputs(call.function, call.inputs)]
    results: list[BoundedArray] = evaluate_function(module, call.function, arguments, arithmetic)
    return call.meant([result.bound(STORAGE) for result in results])


def _bound_texpr(function: FuncOp, inputs: Sequence[Array]) -> list[Array]:
    """Of a tensor expression, which no error is derived for: what it rounds to at last.

    Whole numbers are those of float64, and numbers of f8 may be their neighbours.
    """
    outputs = run_texpr(function, inputs).outputs.values()
    return [
        np.abs(output.astype(np.float64)) * float(float_info(output.dtype).eps)
        if is_quantizing(output.dtype) and not is_whole(output.dtype)
        else np.zeros(output.shape)
        for output in outputs
    ]


def execute_by_address(
    module: ModuleOp,
    function: str | None,
    inputs: Sequence[Array],
    *,
    blocks: int | None = None,
    order: str | int = TOGETHER,
    landing: str = Landing.LATEST,
) -> Execution:
    """Runs a function whose threadblock graphs were scheduled and planned on bytes and addresses.

    ``blocks``: how many blocks of each grid run, spread over it (all of them by default).
    ``order``: which warp of a block is first between two barriers: "together" (all at once, an
    operator at a time), "forward", "reversed", or the seed of random orders.  ``landing``: when
    asynchronous copies land, "latest" or "earliest".

    Raises ``ExecutionError`` as :func:`run_function` does, and where an access leaves memory or is
    not aligned.
    """
    if blocks is not None and blocks < 1:
        raise ExecutionError(f"{blocks} blocks cannot run; ask for at least 1")
    if isinstance(order, str) and order not in (TOGETHER, FORWARD, REVERSED):
        raise ExecutionError(
            f"there is no order '{order}'; there are '{TOGETHER}', '{FORWARD}', '{REVERSED}' and "
            "numbers, the seeds of random orders"
        )
    if landing not in tuple(Landing):
        raise ExecutionError(
            f"there is no landing '{landing}'; there are '{Landing.LATEST}' and "
            f"'{Landing.EARLIEST}'"
        )
    launcher = AddressLauncher(AddressLevel(order, Landing(landing), blocks))
    arithmetic = Arithmetic(Precision.STORAGE)
    callee = find_function(module, function)
    if named_extents(callee):
        raise ExecutionError(
            f"function @{callee.sym_name.data} has named extents, which the level of addresses "
            "does not know yet; run it at level 'logical'"
        )
    if is_per_device(callee):
        raise ExecutionError(
            f"function @{callee.sym_name.data} is the program of each of several devices, which "
            "run at level 'logical' side by side; at the level of addresses run one device's "
            "kernels"
        )
    arguments = _convert_inputs(callee, inputs)
    results = evaluate_function(module, callee, arguments, arithmetic, launcher)
    outputs = _stored(callee, results, arithmetic)
    return Execution(outputs, launcher.mask_outputs(callee, outputs), launcher.blocks)


def _stored(function: FuncOp, results: Sequence[Any], arithmetic: Arithmetic) -> list[Array]:
    # A copy, since a function may return an argument, and that may be the caller's array.
    with np.errstate(all="ignore"):
        return [
            np.array(value, arithmetic.device_dtype(type_))
            for value, type_ in zip(results, function.function_type.outputs.data, strict=True)
        ]


def _empty(call: Call, arithmetic: Arithmetic) -> list[Array]:
    """The results of a call in which a named extent is 0."""
    types = call.function.function_type.outputs.data
    return [
        np.empty(shape, arithmetic.device_dtype(type_))
        for shape, type_ in zip(call.extents, types, strict=True)
    ]


def evaluate_function(
    module: ModuleOp,
    function: FuncOp,
    inputs: Sequence[Any],
    arithmetic: Arithmetic,
    launcher: AddressLauncher | None = None,
) -> list[Any]:
    """The results of a function in any arithmetic, on inputs that are its device tensors.

    The inputs have the arguments' extents.  Kernels run at the level of logical values, unless
    there is a ``launcher``.  Raises ``ExecutionError`` where the function has an operator or an
    element type that the interpreter does not know, or overwrites what it still needs of its
    workspace.
    """
    with np.errstate(all="ignore"):
        interpreter = _interpreter(module, arithmetic, launcher)
        return list(interpreter.call_op(function, tuple(inputs)))


def _interpreter(
    module: ModuleOp, arithmetic: Arithmetic, launcher: AddressLauncher | None
) -> Interpreter:
    functions = KernelFunctions(arithmetic, launcher)
    return make_interpreter(module, functions, listeners=(Workspace(),))


def _precision(name: str) -> Precision:
    try:
        return Precision(name)
    except ValueError as error:
        known = " and ".join(f"'{precision}'" for precision in Precision)
        raise ExecutionError(f"there is no precision '{name}'; there are {known}") from error


def find_function(module: ModuleOp, name: str | None) -> FuncOp:
    """The function of that name, or the only one for ``None``; ``ExecutionError`` without one."""
    defined = [
        op
        for op in module.ops
        if isinstance(op, FuncOp)
        and not op.is_declaration
        and not (te.is_texpr(op) and op.sym_visibility is not None)
        and not (name is None and is_smaller_bucket(op))
    ]
    names = ", ".join(f"@{op.sym_name.data}" for op in defined) or "none"
    if name is None:
        if len(defined) != 1:
            raise ExecutionError(
                f"the module defines {len(defined)} functions ({names}); what is run or compared "
                "has one, unless a name says which"
            )
        return defined[0]
    for op in defined:
        if op.sym_name.data == name:
            return op
    raise ExecutionError(f"the module defines no function @{name}; it defines {names}")


def _convert_inputs(function: FuncOp, inputs: Sequence[Array]) -> list[Array]:
    label = f"function @{function.sym_name.data}"
    return _convert_all(label, function.function_type.inputs.data, inputs)


def _convert_all(label: str, types: Sequence[Attribute], inputs: Sequence[Array]) -> list[Array]:
    if len(inputs) != len(types):
        raise ExecutionError(f"{label} takes {len(types)} arguments, got {len(inputs)}")
    return [
        _convert_input(f"argument {index} of {label}", type_, np.asarray(value))
        for index, (type_, value) in enumerate(zip(types, inputs, strict=True))
    ]


def _convert_input(label: str, type_: Attribute, value: Array) -> Array:
    if isinstance(type_, IndexType):
        if value.shape or not is_whole(value.dtype):
            raise ExecutionError(
                f"{label} needs a whole number, got an array of {value.dtype.name}"
            )
        return value.astype(np.int64)
    if not isinstance(type_, TensorType):
        raise ExecutionError(f"{label} has type {type_}; the interpreter takes tensors")
    tensor = cast(TensorType[Attribute], type_)
    shape = shape_of(tensor)
    if value.shape != shape:
        raise ExecutionError(
            f"{label} has extents {list(shape)}, got an array of extents {list(value.shape)}"
        )
    dtype = storage_dtype(element_type_of(tensor))
    if is_whole(dtype):
        if not is_whole(value.dtype):
            raise ExecutionError(f"{label} needs integers, got an array of {value.dtype.name}")
        least, most = integer_limits(dtype)
        if value.size and not least <= value.min() <= value.max() <= most:
            raise ExecutionError(
                f"{label} holds integers from {least} to {most}, got an array of "
                f"{value.min()} to {value.max()}"
            )
        return np.ascontiguousarray(value, dtype)
    if not is_floating(value.dtype):
        raise ExecutionError(
            f"{label} needs floating-point numbers, got an array of {value.dtype.name}"
        )
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(convert(value, dtype))
