"""The threadblock graph of a ``kn_customized_op``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.kn.separate_phases import separate_phases
from mugraph.dialects.tb import NOT_SPLIT
from mugraph.dialects.tensor_types import shape_of, value_label
from mugraph.tools.export_mirage.operators import operator_record
from mugraph.tools.export_mirage.records import Record, Tensors, refuse, xyz

DEFAULT_REDUCTION_DIMX = 64
"""What Mirage's searches set where nothing reduces to it."""


def customized_record(
    op: kn.CustomizedOp, dtensors: Tensors, stensor_guids: Iterator[int]
) -> Record:
    """The record of a custom kernel with its threadblock graph.

    Its input tensors are those of its ``tb.input``s in order, as the format binds them, so that a
    DTensor that is read twice stands there twice.  The graph is changed where Mirage needs an
    accumulator that a loop of one iteration does without.
    """
    if op.is_interleaved:
        raise refuse(
            op, "blocks have tiles side by side in each iteration; export before --retile."
        )
    separate_phases(op)
    body = op.body.block
    stensors = Tensors("STensor", dtensors.generation, stensor_guids)
    operand_of: dict[SSAValue, SSAValue] = dict(zip(body.args, op.inputs, strict=True))
    inputs = [each for each in body.ops if isinstance(each, tb.InputOp)]
    outputs = [each for each in body.ops if isinstance(each, tb.OutputOp)]
    result_of = dict(zip(outputs, op.outputs, strict=True))
    operators: list[Record] = []
    for each in body.ops:
        if kn.accumulates(each) or any(value in stensors.after_loop for value in each.operands):
            stensors.after_loop.update(each.results)
        if isinstance(each, tb.InputOp):
            dtensor = dtensors.record(operand_of[each.dtensor])
            operators.append(_input_record(each, dtensor, stensors))
        elif isinstance(each, tb.OutputOp):
            operators.append(_output_record(each, dtensors.record(result_of[each]), stensors))
        else:
            operators.append(_operator_record(each, stensors))
    return {
        "op_type": "kn_customized_op",
        "input_tensors": [dtensors.record(operand_of[each.dtensor]) for each in inputs],
        "output_tensors": [dtensors.record(result) for result in op.outputs],
        "bgraph": {
            "graph_level": "thread_block_graph",
            "grid_dim": xyz(op.grid_dim),
            "block_dim": xyz(op.block_dim),
            "forloop_range": op.forloop_range,
            "reduction_dimx": _reduction_dimx(op),
            "operators": operators,
            "smem_offset": 0,
        },
    }


def _input_record(op: tb.InputOp, dtensor: Record, stensors: Tensors) -> Record:
    if op.windows is not None:
        raise refuse(
            op,
            "it reads windows, which Mirage's format has not: copy them by a kernel before.",
        )
    if op.through is not None:
        raise refuse(
            op,
            f"it reads rows through {value_label(op.through)}; Mirage's format has no tiles whose "
            "rows numbers name: gather them by 'kn.gather' before.",
        )
    _expect_division(op, shape_of(op.dtensor.type), op.map_, op.loop_dim)
    return {
        "op_type": "tb_input_op",
        "input_tensors": [],
        "output_tensors": [stensors.record(op.result)],
        "dtensor": dtensor,
        "input_map": xyz(op.map_),
        "forloop_dim": op.loop_dim,
    }


def _output_record(op: tb.OutputOp, dtensor: Record, stensors: Tensors) -> Record:
    loop_dim = getattr(op, "loop_dim", NOT_SPLIT)
    if op.through is not None:
        raise refuse(
            op,
            f"it stores rows through {value_label(op.through)}; Mirage's format has no tiles whose "
            "rows numbers name: put them in order by 'kn.gather' behind.",
        )
    _expect_division(op, shape_of(op.dtensor_type), op.map_, loop_dim)
    record: Record = {
        "op_type": "tb_output_op",
        "input_tensors": [stensors.record(op.stensor)],
        "output_tensors": [],
        "dtensor": dtensor,
        "output_map": xyz(op.map_),
    }
    # Mirage knows outputs of every iteration, but does not save them.
    return record if loop_dim == NOT_SPLIT else record | {"forloop_dim": loop_dim}


def _expect_division(
    op: Operation, shape: Sequence[int], map_: Sequence[int], loop_dim: int
) -> None:
    """Raises ``MirageExportError`` where the last tile along a dimension is smaller."""
    graph = tb.enclosing_graph(op)
    for dim, extent in enumerate(shape):
        parts = math.prod(
            blocks for blocks, split in zip(graph.grid_dim, map_, strict=True) if split == dim
        )
        parts *= graph.forloop_range if loop_dim == dim else 1
        if extent % parts:
            raise refuse(
                op,
                f"dimension {dim} of {extent} elements does not fall into {parts} equal tiles; "
                "Mirage's format has no tiles that are smaller than the others.",
            )


def _reduction_dimx(op: kn.CustomizedOp) -> int:
    """The one extent to which operators of a graph reduce."""
    found: dict[int, Operation] = {}
    for each in op.body.block.ops:
        if isinstance(each, tb.ForloopAccumSumToDimxStridedOp):
            found.setdefault(each.dimx, each)
        elif isinstance(each, tb.ReductionToDimxStridedOp):
            found.setdefault(shape_of(each.result.type)[each.reduced_dim], each)
    if len(found) > 1:
        first, second, *_ = found
        raise refuse(
            found[second],
            f"it reduces to {second}, and another operator of the graph to {first}; Mirage's "
            "format has one reduction_dimx a graph.",
        )
    return next(iter(found), DEFAULT_REDUCTION_DIMX)


def _operator_record(op: Operation, stensors: Tensors) -> Record:
    if tb.epilogue_of(op):
        raise refuse(op, "it has an epilogue; export the µGraph before --fuse-threadblock.")
    return operator_record(op, stensors)
