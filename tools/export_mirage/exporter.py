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
from mugraph.dialects.sharding import MESH
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
from mugraph.tools.import_mirage.generations import LATEST
from mugraph.tools.import_mirage.importer import FREE_STRIDES, NOT_SHARDED


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
    if MESH in function.attributes:
        raise refuse(
            function,
            f"it is for several devices ({MESH}); Mirage's format does not hold how many GPUs a "
            "graph has. Export the program of one device.",
        )
    _expect_free_layouts(function, last)
    _expect_alignment(function)
    records = [_input_record(argument, tensors) for argument in function.body.block.args]
    for op in body:
        records.append(_kernel_record(op, tensors, stensor_guids))
    return [*records, *(_output_record(value, tensors) for value in last.operands)]


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


def _input_record(argument: SSAValue, tensors: Tensors) -> Record:
    strides = strides_in(argument.type, value_label(argument))
    record: Record = {
        "op_type": "kn_input_op",
        "input_tensors": [],
        "output_tensors": [tensors.record(argument)],
        "input_strides": row_major(argument.type) if strides is None else list(strides),
        "input_map": xyz(NOT_SHARDED),
    }
    # Mirage wants strides of every input; ours may be left to the layout pass.
    return record if strides is not None else record | {FREE_STRIDES: True}


def _output_record(value: SSAValue, tensors: Tensors) -> Record:
    strides = strides_in(value.type, value_label(value))
    return {
        "op_type": "kn_output_op",
        "input_tensors": [tensors.record(value)],
        "output_tensors": [],
        "output_strides": [] if strides is None else list(strides),
        "output_map": xyz(NOT_SHARDED),
    }


def _kernel_record(op: Operation, tensors: Tensors, stensor_guids: Iterator[int]) -> Record:
    if getattr(op, "workspace", None) is not None:
        raise refuse(op, "it has a place in the workspace; export before --plan-dtensor-memory.")
    if isinstance(op, kn.CustomizedOp):
        return customized_record(op, tensors, stensor_guids)
    return operator_record(op, tensors)
