"""The threadblock graph of a ``kn_customized_op``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import singledispatch

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.elementwise import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from mugraph.dialects.elementwise_operators import FunctionOperator
from mugraph.dialects.kn.separate_phases import separate_phases
from mugraph.dialects.precision import HasPrecision
from mugraph.dialects.tb import NOT_SPLIT
from mugraph.dialects.tensor_types import shape_of
from mugraph.tools.export_mirage.records import Record, Tensors, refuse, xyz
from mugraph.tools.import_mirage.generations import OWN_FUNCTIONS

DEFAULT_REDUCTION_DIMX = 64
"""What Mirage's searches set where nothing reduces to it."""

REDUCIBLE_DIMS = 3
"""The format names a reduction, a concatenation or a split by its dimension: 0, 1 or 2."""

ACCUMULATOR_NAMES: dict[str, str] = {
    "none": "nored",
    "sum": "red_ld_sum",
    "mean": "red_ld_mean",
    "rms": "red_ld_rms",
    "max": "max",
}
"""Mirage's names of the kinds of ``tb.forloop_accum``, without their prefix."""


def constants_of(op: FunctionOperator) -> Record:
    """The constants of an element-wise operator, by their names: fields that Mirage ignores."""
    description = (UNARY_FUNCTIONS | BINARY_FUNCTIONS)[op.FUNCTION]
    names = [constant.name for constant in description.constants]
    return dict(zip(names, op.function.constants, strict=True))


def precision_of(op: HasPrecision) -> Record:
    """The precision of a product of f32, where the graph says it: a field that Mirage ignores."""
    return {} if op.precision is None else {"precision": str(op.precision.data)}


def accumulator_kind(name: str, generation: int) -> str:
    """The ``op_type`` of an accumulator, which was named otherwise until March 2025."""
    return f"tb_{'accum' if generation == 1 else 'forloop_accum'}_{name}_op"


def customized_record(
    op: kn.CustomizedOp, dtensors: Tensors, stensor_guids: Iterator[int]
) -> Record:
    """The record of a custom kernel with its threadblock graph.

    Its input tensors are those of its ``tb.input``s in order, as the format binds them, so that a
    DTensor that is read twice stands there twice.  The graph is changed where Mirage needs an
    accumulator that a loop of one iteration does without.
    """
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
    kind, fields = threadblock_fields(op, stensors.generation)
    return {
        "op_type": kind,
        "input_tensors": [stensors.record(operand) for operand in op.operands],
        "output_tensors": [stensors.record(result) for result in op.results],
        **fields,
    }


@singledispatch
def threadblock_fields(op: Operation, generation: int) -> tuple[str, Record]:
    """The ``op_type`` of a threadblock operator and its fields beyond its tensors.

    Operators register a function; raises ``MirageExportError`` for those that have none.
    """
    raise refuse(op, "Mirage's format has no such threadblock operator.")


@threadblock_fields.register
def _(op: tb.CustomOp, generation: int) -> tuple[str, Record]:
    raise refuse(
        op,
        f"it is a custom operator, @{op.function_name}; Mirage's format has no operators whose "
        "bodies are tensor expressions.",
    )


@threadblock_fields.register
def _(op: tb.ElementwiseOp, generation: int) -> tuple[str, Record]:
    assert isinstance(op, FunctionOperator)  # all of them are
    if op.FUNCTION in OWN_FUNCTIONS:
        raise refuse(op, "Mirage's format has no such threadblock operator.")
    return f"tb_{op.FUNCTION}_op", constants_of(op)


@threadblock_fields.register
def _(op: tb.MatmulOp, generation: int) -> tuple[str, Record]:
    return "tb_matmul_op", precision_of(op)


@threadblock_fields.register
def _(op: tb.CastOp, generation: int) -> tuple[str, Record]:
    raise refuse(op, "Mirage's format has no casts.")


@threadblock_fields.register
def _(op: tb.RmsNormOp, generation: int) -> tuple[str, Record]:
    # Mirage's norm has neither; a weight is the second operand, epsilon a field of ours.
    return "tb_rms_norm_op", {"epsilon": op.epsilon_value} if op.epsilon else {}


@threadblock_fields.register
def _(op: tb.ReductionOp, generation: int) -> tuple[str, Record]:
    return _reduction(op, "", 1)


@threadblock_fields.register
def _(op: tb.ReductionToDimxStridedOp, generation: int) -> tuple[str, Record]:
    return _reduction(op, "_to_dimx", shape_of(op.result.type)[op.reduced_dim])


def _reduction(op: tb.AnyReductionOp, suffix: str, size: int) -> tuple[str, Record]:
    dim = op.reduced_dim
    expect_named_dim(op, dim)
    return f"tb_reduction_{dim}{suffix}_op", {"reduce_dim": dim, "reduce_size": size}


def expect_named_dim(op: Operation, dim: int) -> None:
    """Raises ``MirageExportError`` where no name of the format says the dimension."""
    if dim >= REDUCIBLE_DIMS:
        raise refuse(
            op, f"it is along dimension {dim}; Mirage's format has names for dimensions 0 to 2."
        )


@threadblock_fields.register(tb.ReductionToDimxContiguousOp)
@threadblock_fields.register(tb.ForloopAccumSumToDimxContiguousOp)
def _(op: Operation, generation: int) -> tuple[str, Record]:
    raise refuse(
        op,
        "it sums runs of neighbours; what Mirage's format calls so sums elements that are "
        "reduction_dimx apart, as its saved µGraphs need.",
    )


@threadblock_fields.register
def _(op: tb.ForloopAccumOp, generation: int) -> tuple[str, Record]:
    return accumulator_kind(ACCUMULATOR_NAMES[str(op.kind.data)], generation), {}


RESCALED_NAMES: dict[str, str] = {"none": "nored_rescale", "sum": "red_ld_sum_rescale"}
"""Mirage's names of the kinds of ``tb.forloop_accum_rescale``, without their prefix."""


@threadblock_fields.register
def _(op: tb.ForloopAccumRescaleOp, generation: int) -> tuple[str, Record]:
    return accumulator_kind(RESCALED_NAMES[str(op.kind.data)], generation), {}


@threadblock_fields.register
def _(op: tb.ReductionMaxOp, generation: int) -> tuple[str, Record]:
    dim = op.reduced_dim
    expect_named_dim(op, dim)
    return f"tb_reduction_{dim}_max_op", {"reduce_dim": dim, "reduce_size": -1}


@threadblock_fields.register
def _(op: tb.ConcatOp, generation: int) -> tuple[str, Record]:
    dim = op.joined_dim
    expect_named_dim(op, dim)
    if len(op.inputs) != 2:
        raise refuse(op, f"it joins {len(op.inputs)} tiles; Mirage's format joins two.")
    return f"tb_concat_{dim}_op", {"concat_dim": dim}


@threadblock_fields.register
def _(op: tb.SplitOp, generation: int) -> tuple[str, Record]:
    expect_named_dim(op, op.cut_dim)
    return f"tb_split_{op.cut_dim}_op", {"split_dim": op.cut_dim}


@threadblock_fields.register
def _(op: tb.ConcatThenMatmulOp, generation: int) -> tuple[str, Record]:
    return "tb_concat_then_matmul_op", {}


@threadblock_fields.register
def _(op: tb.ForloopAccumSumToDimxStridedOp, generation: int) -> tuple[str, Record]:
    return accumulator_kind("redtox_ld_sum", generation), {}
