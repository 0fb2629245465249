"""Programs of several devices: all of them run side by side, operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.interpreter import Interpreter
from xdsl.ir import Attribute, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.sharding import DeviceProgram, Mesh, Sharding
from mugraph.dialects.tensor_types import op_label, shape_of
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Array
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.functions import apply_function, part_of

FUNCTIONS = {Combiner.SUM: ScalarFunction("add"), Combiner.MAX: ScalarFunction("max")}


def run_devices(
    program: DeviceProgram,
    inputs: Sequence[Array],
    arithmetic: Arithmetic,
    interpreter: Callable[[], Interpreter],
) -> list[Array]:
    """The whole results of a program of each device, of whole arguments.

    Each device has an interpreter and a workspace of its own.  A collective combines in the order
    of places, and rounds after each step, as the operator that adds two tensors would.  Raises
    ``ExecutionError`` where devices that should hold the same part of a result do not.
    """
    mesh = program.mesh
    function = program.function
    devices = [interpreter() for _ in mesh.devices]
    values: dict[SSAValue, list[Array]] = {}
    for argument, whole, sharding in zip(function.args, inputs, program.arguments, strict=True):
        values[argument] = _parts(whole, shape_of(argument.type), sharding, mesh)
    for op in function.body.block.ops:
        if isinstance(op, ReturnOp):
            return [
                _whole([*values[value]], arithmetic, program, number)
                for number, value in enumerate(op.operands)
            ]
        if isinstance(op, kn.CollectiveOp):
            values[op.result] = exchange(op, values[op.input], arithmetic)
            continue
        results = [
            device.run_op(op, tuple(values[operand][number] for operand in op.operands))
            for number, device in enumerate(devices)
        ]
        for result, of_devices in zip(op.results, zip(*results, strict=True), strict=True):
            values[result] = list(of_devices)
    raise ExecutionError(f"{op_label(function)} has no func.return")


def exchange(op: kn.CollectiveOp, held: Sequence[Array], arithmetic: Arithmetic) -> list[Array]:
    """What each device has of a collective, from what each of them held."""
    found: dict[int, Array] = {}
    for group in op.mesh.groups(op.grid_axes):
        for place, device in enumerate(group):
            pieces = [_piece(op, held[other], place) for other in group]
            found[device] = _together(op, pieces, place, arithmetic)
    return [found[device] for device in op.mesh.devices]


def _piece(op: kn.CollectiveOp, array: Array, place: int) -> Array:
    """What the device at a place takes of the tensor of one of its group."""
    dim = op.cut_dim
    if dim is None:
        return array
    extents = list(array.shape)
    extents[dim] //= op.devices
    place = op.taken_place(place)
    return part_of(array, [place * extents[dim] * (d == dim) for d in range(array.ndim)], extents)


def _together(
    op: kn.CollectiveOp, pieces: Sequence[Array], place: int, arithmetic: Arithmetic
) -> Array:
    """What a device makes of the pieces of all of its group."""
    combination, dim = op.combination, op.joined_dim
    if combination is not None:
        return _combined(pieces, combination, op.result.type, arithmetic)
    if dim is None:
        return pieces[place if op.cut_dim is not None else op.taken_place(place)]
    result = arithmetic.empty(op.result.type)
    extents = pieces[0].shape
    for number, piece in enumerate(pieces):
        start = [number * extents[dim] * (d == dim) for d in range(len(extents))]
        part_of(result, start, extents)[...] = piece
    return result


def _combined(
    arrays: Sequence[Array], combination: Combiner, type_: Attribute, arithmetic: Arithmetic
) -> Array:
    function = FUNCTIONS[combination]

    def combine(one: Array, other: Array) -> Array:
        loaded = (arithmetic.load(array) for array in (one, other))
        return arithmetic.store(apply_function(function, *loaded), type_)

    return reduce(combine, arrays)


def _parts(whole: Array, part: Sequence[int], sharding: Sharding, mesh: Mesh) -> list[Array]:
    """What each device has of an argument."""
    starts = (sharding.start(part, mesh, device) for device in mesh.devices)
    return [part_of(whole, start, part) for start in starts]


def _are_same(one: Array, other: Array) -> bool:
    """Whether all elements are equal, or no numbers: zeros of both signs are one number."""
    return bool(((one == other) | ((one != one) & (other != other))).all())


def _whole(
    arrays: Sequence[Array], arithmetic: Arithmetic, program: DeviceProgram, number: int
) -> Array:
    """A result of which each device has a part; raises where two hold another one."""
    mesh, sharding = program.mesh, program.results[number]
    held = dict(enumerate(arrays))
    for group in mesh.groups(sharding.partial):
        type_ = program.function.function_type.outputs.data[number]
        combined = _combined([arrays[each] for each in group], sharding.combiner, type_, arithmetic)
        held |= dict.fromkeys(group, combined)
    whole = np.empty(shape_of(program.result_types[number]), arrays[0].dtype)
    written: dict[tuple[int, ...], int] = {}
    for device, array in held.items():
        start = sharding.start(array.shape, mesh, device)
        first = written.setdefault(start, device)
        if not _are_same(held[first], array):
            raise ExecutionError(
                f"result {number} of {op_label(program.function)}: devices {first} and {device} "
                f"should hold the same part of it, as its sharding {sharding} says, but hold "
                "others; is a collective missing before the func.return?"
            )
        part_of(whole, start, array.shape)[...] = array
    return whole
