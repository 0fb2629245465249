"""Kernel-level operators: the ``op_type`` of each, and its fields beyond its tensors."""

from __future__ import annotations

from functools import singledispatch

from xdsl.ir import Operation

from mugraph.dialects import kn
from mugraph.tools.export_mirage.records import Record, refuse
from mugraph.tools.export_mirage.threadblock import constants_of, expect_named_dim, precision_of
from mugraph.tools.import_mirage.generations import OWN_FUNCTIONS

UNKNOWN_TO_MIRAGE = ("sub",)
"""Functions of two tensors that Mirage has in threadblock graphs only."""


@singledispatch
def kernel_fields(op: Operation) -> tuple[str, Record]:
    """The ``op_type`` of a kernel-level operator and its fields beyond its tensors.

    Operators register a function; raises ``MirageExportError`` for those that have none.
    """
    raise refuse(op, "Mirage's format has no such kernel-level operator.")


@kernel_fields.register
def _(op: kn.MatmulOp) -> tuple[str, Record]:
    fields = precision_of(op)
    return "kn_matmul_op", fields if op.compute is None else fields | {
        "compute": str(op.computation)
    }


@kernel_fields.register
def _(op: kn.CastOp) -> tuple[str, Record]:
    raise refuse(op, "Mirage's format has no casts.")


@kernel_fields.register
def _(op: kn.ElementwiseOp) -> tuple[str, Record]:
    if op.FUNCTION in OWN_FUNCTIONS:
        raise refuse(op, "Mirage's format has no such operator.")
    if op.FUNCTION in UNKNOWN_TO_MIRAGE:
        raise refuse(op, "Mirage has this operator in threadblock graphs only.")
    return f"kn_{op.FUNCTION}_op", constants_of(op)


@kernel_fields.register
def _(op: kn.ReductionOp) -> tuple[str, Record]:
    expect_named_dim(op, op.reduced_dim)
    return f"kn_reduction_{op.reduced_dim}_op", {}


@kernel_fields.register
def _(op: kn.RmsNormOp) -> tuple[str, Record]:
    fields: Record = {"normalized_shape": list(op.normalized)}
    return "kn_rms_norm_op", fields | ({"epsilon": op.epsilon_value} if op.epsilon else {})


@kernel_fields.register
def _(op: kn.ConcatOp) -> tuple[str, Record]:
    expect_named_dim(op, op.joined_dim)
    return f"kn_concat_{op.joined_dim}_op", {"concat_dim": op.joined_dim}


@kernel_fields.register
def _(op: kn.SplitOp) -> tuple[str, Record]:
    expect_named_dim(op, op.cut_dim)
    return f"kn_split_{op.cut_dim}_op", {"split_dim": op.cut_dim}


@kernel_fields.register
def _(op: kn.ChunkOp) -> tuple[str, Record]:
    expect_named_dim(op, op.cut_dim)
    return f"kn_chunk_{op.cut_dim}_op", {"chunk_size": len(op.parts), "chunk_dim": op.cut_dim}


@kernel_fields.register
def _(op: kn.AllReduceOp) -> tuple[str, Record]:
    return "kn_allreduce_op", {"inplace": op.inplace is not None}


@kernel_fields.register
def _(op: kn.CopyOp) -> tuple[str, Record]:
    raise refuse(op, "Mirage's format has no copies; export the µGraph before --insert-copies.")
