"""Operators of both levels: the ``op_type`` of each, and its fields beyond its tensors."""

from __future__ import annotations

from functools import singledispatch

from xdsl.ir import Operation

from mugraph.dialects import kn, tb
from mugraph.dialects.elementwise import FUNCTIONS
from mugraph.dialects.elementwise_operators import FunctionOperator
from mugraph.dialects.precision import HasPrecision
from mugraph.dialects.tensor_types import shape_of
from mugraph.tools.export_mirage.records import Record, Tensors, refuse
from mugraph.tools.import_mirage.generations import (
    ACCUMULATOR_NAMES,
    OWN_FUNCTIONS,
    RESCALED_NAMES,
    TO_DIMX_NAME,
    accumulator_kind,
)
from mugraph.tools.import_mirage.readers import NAMED_DIMS

UNKNOWN_TO_MIRAGE = ("sub",)
"""Functions of two tensors that Mirage has in threadblock graphs only."""


def operator_record(op: Operation, tensors: Tensors) -> Record:
    """The record of an operator; raises ``MirageExportError`` where the format has none."""
    kind, fields = fields_of(op, tensors.generation)
    return {
        "op_type": kind,
        "input_tensors": [tensors.record(operand) for operand in op.operands],
        "output_tensors": [tensors.record(result) for result in op.results],
        **fields,
    }


@singledispatch
def fields_of(op: Operation, generation: int) -> tuple[str, Record]:
    """The ``op_type`` of an operator and its fields beyond its tensors.

    Operators register a function; raises ``MirageExportError`` for those that have none.
    """
    raise refuse(op, "Mirage's format has no such operator.")


def _kind(op: Operation, name: str) -> str:
    """An ``op_type`` of the operator's level."""
    return f"{op.dialect_name()}_{name}_op"


def _along(op: Operation, name: str, dim: int, suffix: str = "") -> str:
    """An ``op_type`` that says a dimension; raises ``MirageExportError`` where none does."""
    if dim >= NAMED_DIMS:
        raise refuse(
            op, f"it is along dimension {dim}; Mirage's format has names for dimensions 0 to 2."
        )
    return _kind(op, f"{name}_{dim}{suffix}")


@fields_of.register
def _(op: kn.ElementwiseOp | tb.ElementwiseOp, generation: int) -> tuple[str, Record]:
    assert isinstance(op, FunctionOperator)  # all of them are
    if op.FUNCTION in OWN_FUNCTIONS:
        raise refuse(op, "Mirage's format has no such operator.")
    if isinstance(op, kn.ElementwiseOp) and op.FUNCTION in UNKNOWN_TO_MIRAGE:
        raise refuse(op, "Mirage has this operator in threadblock graphs only.")
    # Constants are fields that Mirage ignores.
    names = [constant.name for constant in FUNCTIONS[op.FUNCTION].constants]
    return _kind(op, op.FUNCTION), dict(zip(names, op.function.constants, strict=True))


@fields_of.register
def _(op: kn.CastOp | tb.CastOp, generation: int) -> tuple[str, Record]:
    raise refuse(op, "Mirage's format has no casts.")


@fields_of.register
def _(op: kn.MatmulOp | tb.MatmulOp, generation: int) -> tuple[str, Record]:
    # Fields that Mirage ignores, where the graph says something.
    assert isinstance(op, HasPrecision)
    fields: Record = {} if op.precision is None else {"precision": str(op.precision.data)}
    if isinstance(op, kn.MatmulOp) and op.compute is not None:
        fields["compute"] = str(op.computation)
    return _kind(op, "matmul"), fields


@fields_of.register
def _(op: kn.RmsNormOp | tb.RmsNormOp, generation: int) -> tuple[str, Record]:
    # Mirage's norm has neither; a weight is the second operand, epsilon a field of ours.
    fields: Record = {"epsilon": op.epsilon_value} if op.epsilon else {}
    if isinstance(op, kn.RmsNormOp):
        fields["normalized_shape"] = list(op.normalized)
    return _kind(op, "rms_norm"), fields


@fields_of.register
def _(op: kn.ConcatOp | tb.ConcatOp, generation: int) -> tuple[str, Record]:
    if isinstance(op, tb.ConcatOp) and len(op.inputs) != 2:
        raise refuse(op, f"it joins {len(op.inputs)} tiles; Mirage's format joins two.")
    return _along(op, "concat", op.joined_dim), {"concat_dim": op.joined_dim}


@fields_of.register
def _(op: kn.SplitOp | tb.SplitOp, generation: int) -> tuple[str, Record]:
    return _along(op, "split", op.cut_dim), {"split_dim": op.cut_dim}


@fields_of.register
def _(op: kn.ChunkOp, generation: int) -> tuple[str, Record]:
    fields: Record = {"chunk_size": len(op.parts), "chunk_dim": op.cut_dim}
    return _along(op, "chunk", op.cut_dim), fields


@fields_of.register
def _(op: kn.AllReduceOp, generation: int) -> tuple[str, Record]:
    if len(op.grid_axes) < len(op.mesh.shape):
        raise refuse(
            op, "it is along some axes of the mesh; Mirage's format has sums over all GPUs."
        )
    return "kn_allreduce_op", {"inplace": op.inplace is not None}


@fields_of.register
def _(op: kn.CopyOp, generation: int) -> tuple[str, Record]:
    raise refuse(op, "Mirage's format has no copies; export the µGraph before --insert-copies.")


@fields_of.register
def _(op: kn.ReductionOp, generation: int) -> tuple[str, Record]:
    if op.combiner is not None:
        raise refuse(op, "it takes maxima; its sums are all that Mirage's format has.")
    return _along(op, "reduction", op.reduced_dim), {}


@fields_of.register
def _(
    op: tb.ReductionOp | tb.ReductionToDimxStridedOp | tb.ReductionMaxOp, generation: int
) -> tuple[str, Record]:
    dim = op.reduced_dim
    suffix, size = "", 1
    if isinstance(op, tb.ReductionToDimxStridedOp):
        suffix, size = "_to_dimx", shape_of(op.result.type)[dim]
    elif isinstance(op, tb.ReductionMaxOp):
        suffix, size = "_max", -1
    return _along(op, "reduction", dim, suffix), {"reduce_dim": dim, "reduce_size": size}


@fields_of.register
def _(
    op: tb.ReductionToDimxContiguousOp | tb.ForloopAccumSumToDimxContiguousOp, generation: int
) -> tuple[str, Record]:
    raise refuse(
        op,
        "it sums runs of neighbours; what Mirage's format calls so sums elements that are "
        "reduction_dimx apart, as its saved µGraphs need.",
    )


@fields_of.register
def _(op: tb.ForloopAccumOp, generation: int) -> tuple[str, Record]:
    return accumulator_kind(ACCUMULATOR_NAMES[op.kind.data], generation), {}


@fields_of.register
def _(op: tb.ForloopAccumRescaleOp, generation: int) -> tuple[str, Record]:
    return accumulator_kind(RESCALED_NAMES[op.kind.data], generation), {}


@fields_of.register
def _(op: tb.ForloopAccumSumToDimxStridedOp, generation: int) -> tuple[str, Record]:
    return accumulator_kind(TO_DIMX_NAME, generation), {}


@fields_of.register
def _(op: tb.ConcatThenMatmulOp, generation: int) -> tuple[str, Record]:
    return "tb_concat_then_matmul_op", {}


@fields_of.register
def _(op: tb.CustomOp, generation: int) -> tuple[str, Record]:
    raise refuse(
        op,
        f"it is a custom operator, @{op.function_name}; Mirage's format has no operators whose "
        "bodies are tensor expressions.",
    )
