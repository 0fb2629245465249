"""From a module to a document: the kernel graph."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.alignment import (
    ALIGNMENT,
    DEFAULT_ALIGNMENT,
    argument_alignment,
    result_alignment,
)
from mugraph.dialects.sharding import (
    Mesh,
    argument_shardings,
    is_per_device,
    mesh_of,
    result_shardings,
)
from mugraph.dialects.tensor_types import value_label
from mugraph.runtime.cuda import only_function
from mugraph.tools.export_mirage.operators import operator_record
from mugraph.tools.export_mirage.records import (
    FIRST_DTENSOR,
    FIRST_STENSOR,
    Record,
    Tensors,
    refuse,
    row_major,
    strides_in,
    xyz,
)
from mugraph.tools.export_mirage.threadblock import customized_record
from mugraph.tools.import_mirage.devices import GPU_DIM, NOT_SHARDED, map_of
from mugraph.tools.import_mirage.generations import LATEST
from mugraph.tools.import_mirage.importer import FREE_STRIDES


def export_mirage(module: ModuleOp, generation: int = LATEST) -> list[Record]:
    """The operators of the module's one function, as Mirage's JSON has them.

    ``module`` must have been verified and not yet been through passes.  Raises ``UserError`` where
    it has not one function, ``MirageExportError`` where the format cannot say what an operator is.
    """
    function = only_function(module)
    tensors = Tensors("DTensor", generation, count(FIRST_DTENSOR))
    stensor_guids = count(FIRST_STENSOR)
    *body, last = function.body.block.ops
    if not isinstance(last, ReturnOp):
        raise refuse(function, "its body does not end with a func.return.")
    mesh = mesh_of(function)
    arguments, results = _maps(function, mesh)
    _expect_free_layouts(function, last)
    _expect_alignment(function)
    records = [
        _input_record(argument, tensors, map_, mesh)
        for argument, map_ in zip(function.body.block.args, arguments, strict=True)
    ]
    for op in body:
        records.append(_kernel_record(op, tensors, stensor_guids))
    outputs = zip(last.operands, results, strict=True)
    return [*records, *(_output_record(value, tensors, map_) for value, map_ in outputs)]


Maps = list[tuple[int, ...]]


def _maps(function: FuncOp, mesh: Mesh | None) -> tuple[Maps, Maps]:
    """For each argument and each result the dimensions that GPUs cut along x, y and z."""
    if mesh is None:
        one = NOT_SHARDED
        return [one] * len(function.args), [one] * len(function.function_type.outputs)
    if not is_per_device(function):
        why = "it is of whole tensors; Mirage's format has the program of each GPU."
        raise refuse(function, f"{why} Run --partition first.")
    if len(mesh.shape) > len(NOT_SHARDED):
        raise refuse(function, f"its mesh {mesh} has {len(mesh.shape)} axes; the format has three.")
    found: tuple[Maps, Maps] = [], []
    given = argument_shardings(function, mesh), result_shardings(function, mesh)
    for maps, shardings, what in zip(found, given, ("argument", "result"), strict=True):
        for number, sharding in enumerate(shardings):
            map_ = map_of(sharding)
            if map_ is None:
                lies = f"{what} {number} lies as {sharding}"
                raise refuse(function, f"{lies}, which Mirage's maps of GPUs cannot say.")
            maps.append(map_)
    return found


def write_mirage(records: list[Record]) -> str:
    """The JSON text of a graph, an operator a line."""
    return "[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n"


def _expect_free_layouts(function: FuncOp, last: ReturnOp) -> None:
    for op in function.body.block.ops:
        for value in op.results:
            if value not in last.operands and strides_in(value.type, value_label(value)):
                raise refuse(
                    op,
                    "its result is no result of the function and has a layout; Mirage's format has "
                    "strides for inputs and outputs only. Export the µGraph before "
                    "--resolve-layout.",
                )


def _expect_alignment(function: FuncOp) -> None:
    promised = [
        *(argument_alignment(function, index) for index in range(len(function.body.block.args))),
        *(
            result_alignment(function, index)
            for index in range(len(function.function_type.outputs))
        ),
    ]
    if min(promised, default=DEFAULT_ALIGNMENT) < DEFAULT_ALIGNMENT:
        raise refuse(
            function,
            f"it has tensors aligned to {min(promised)} bytes only; Mirage's format has no field "
            f"for {ALIGNMENT}.",
        )


def _input_record(
    argument: SSAValue, tensors: Tensors, map_: tuple[int, ...], mesh: Mesh | None
) -> Record:
    strides = strides_in(argument.type, value_label(argument))
    record: Record = {
        "op_type": "kn_input_op",
        "input_tensors": [],
        "output_tensors": [tensors.record(argument)],
        "input_strides": row_major(argument.type) if strides is None else list(strides),
        "input_map": xyz(map_),
    }
    if mesh is not None:
        record[GPU_DIM] = xyz((*mesh.shape, 1, 1)[:3])
    # Mirage wants strides of every input; ours may be left to the layout pass.
    return record if strides is not None else record | {FREE_STRIDES: True}


def _output_record(value: SSAValue, tensors: Tensors, map_: tuple[int, ...]) -> Record:
    strides = strides_in(value.type, value_label(value))
    return {
        "op_type": "kn_output_op",
        "input_tensors": [tensors.record(value)],
        "output_tensors": [],
        "output_strides": [] if strides is None else list(strides),
        "output_map": xyz(map_),
    }


def _kernel_record(op: Operation, tensors: Tensors, stensor_guids: Iterator[int]) -> Record:
    if getattr(op, "workspace", None) is not None:
        raise refuse(op, "it has a place in the workspace; export before --plan-dtensor-memory.")
    if isinstance(op, kn.CustomizedOp):
        return customized_record(op, tensors, stensor_guids)
    return operator_record(op, tensors)
