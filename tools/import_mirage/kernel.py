"""The kernel-level operators but custom kernels: how each is made of its record."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.tensor_types import shape_of
from mugraph.tools.import_mirage.document import Node
from mugraph.tools.import_mirage.readers import (
    Reader,
    along_each_dim,
    elementwise_readers,
    read_choice,
    read_dim,
    read_epsilon,
    read_precision,
    read_weight,
)
from mugraph.tools.import_mirage.tensors import expect_tensor_count

Operands = Sequence[SSAValue]
Types = Sequence[Attribute]


def _matmul(operator: Node, operands: Operands, types: Types) -> Operation:
    """The type in which it accumulates is our field ``compute``."""
    compute = read_choice(operator, "compute", kn.Computation)
    return kn.MatmulOp(operands[0], operands[1], types[0], compute, read_precision(operator))


def _reduction(operator: Node, operands: Operands, types: Types) -> Operation:
    return kn.ReductionOp(operands[0], read_dim(operator), types[0])


def _rms_norm(operator: Node, operands: Operands, types: Types) -> Operation:
    """Without our fields: over the last dimension, no epsilon; a second tensor is the weight."""
    weight = read_weight(operator, operands)
    recorded = operator.optional_field("normalized_shape")
    if recorded is not None:
        normalized = [extent.integer(1) for extent in recorded.items()]
    else:
        normalized = [*shape_of(operands[0].type if weight is None else weight.type)]
        normalized = normalized[-1:] if weight is None else normalized
    return kn.RmsNormOp(operands[0], normalized, types[0], weight, read_epsilon(operator))


def _concat(operator: Node, operands: Operands, types: Types) -> Operation:
    return kn.ConcatOp(operands, read_dim(operator, "concat_dim"), types[0])


def _split(operator: Node, operands: Operands, types: Types) -> Operation:
    return kn.SplitOp(operands[0], read_dim(operator, "split_dim"), types)


def _chunk(operator: Node, operands: Operands, types: Types) -> Operation:
    expect_tensor_count(operator, "output_tensors", operator.field("chunk_size").integer(1))
    return kn.ChunkOp(operands[0], read_dim(operator, "chunk_dim"), types)


def _all_reduce(operator: Node, operands: Operands, types: Types) -> Operation:
    inplace = operator.optional_field("inplace")
    return kn.AllReduceOp(operands[0], types[0], inplace=inplace is not None and inplace.boolean())


READERS: dict[str, Reader] = {
    **elementwise_readers("kn", kn.UNARY_OPERATORS, kn.BINARY_OPERATORS, _matmul),
    "kn_rms_norm_op": Reader(None, 1, _rms_norm),
    "kn_allreduce_op": Reader(1, 1, _all_reduce),
    **along_each_dim("kn_reduction_{}_op", Reader(1, 1, _reduction)),
    **along_each_dim("kn_concat_{}_op", Reader(None, 1, _concat)),
    **along_each_dim("kn_split_{}_op", Reader(1, None, _split)),
    **along_each_dim("kn_chunk_{}_op", Reader(1, None, _chunk)),
}
"""How the operator of each ``op_type`` is made."""
