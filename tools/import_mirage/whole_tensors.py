"""Kernel-level operators on whole tensors that are not element-wise: sums, norms, parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.tensor_types import shape_of
from mugraph.tools.import_mirage.document import Node

Types = Sequence[TensorType[Attribute]]
Read = Callable[[Node, Sequence[SSAValue], Types], Operation]

DIMENSIONS = 3
"""The format names operators along a dimension by it: 0, 1 or 2."""


def _dimension(operator: Node) -> int:
    """The dimension in an ``op_type`` such as ``kn_reduction_1_op``."""
    return int(operator.field("op_type").text().removesuffix("_op").rsplit("_", 1)[1])


def _expect_dimension(operator: Node, name: str) -> int:
    """The dimension of the ``op_type``, which the field ``name``, where there is one, must repeat.

    Mirage writes such a field for chunks; ours do for concatenations and splits.
    """
    dim = _dimension(operator)
    recorded = operator.optional_field(name)
    if recorded is not None and recorded.integer() != dim:
        raise recorded.error(f"{recorded.value} does not fit the op_type; expected {dim}.")
    return dim


def _expect_counts(
    operator: Node,
    operands: Sequence[SSAValue],
    types: Types,
    inputs: int | None,
    results: int | None,
) -> None:
    for name, count, expected in (
        ("input_tensors", len(operands), inputs),
        ("output_tensors", len(types), results),
    ):
        if expected is not None and count != expected:
            raise operator.field(name).error(f"holds {count} tensors; expected {expected}.")


def _reduction(operator: Node, operands: Sequence[SSAValue], types: Types) -> Operation:
    _expect_counts(operator, operands, types, 1, 1)
    return kn.ReductionOp(operands[0], _dimension(operator), types[0])


def _rms_norm(operator: Node, operands: Sequence[SSAValue], types: Types) -> Operation:
    """Without our fields: over the last dimension, no epsilon; a second tensor is the weight."""
    if len(operands) not in (1, 2):
        raise operator.field("input_tensors").error(
            f"holds {len(operands)} tensors; expected 1, or 2 with a weight."
        )
    _expect_counts(operator, operands, types, None, 1)
    weight = operands[1] if len(operands) == 2 else None
    recorded = operator.optional_field("normalized_shape")
    if recorded is not None:
        normalized = [extent.integer(1) for extent in recorded.items()]
    else:
        normalized = [*shape_of(operands[0].type if weight is None else weight.type)]
        normalized = normalized[-1:] if weight is None else normalized
    epsilon = operator.optional_field("epsilon")
    return kn.RmsNormOp(
        operands[0], normalized, types[0], weight, 0.0 if epsilon is None else epsilon.number()
    )


def _concat(operator: Node, operands: Sequence[SSAValue], types: Types) -> Operation:
    _expect_counts(operator, operands, types, None, 1)
    return kn.ConcatOp(operands, _expect_dimension(operator, "concat_dim"), types[0])


def _split(operator: Node, operands: Sequence[SSAValue], types: Types) -> Operation:
    _expect_counts(operator, operands, types, 1, None)
    return kn.SplitOp(operands[0], _expect_dimension(operator, "split_dim"), types)


def _chunk(operator: Node, operands: Sequence[SSAValue], types: Types) -> Operation:
    count = operator.field("chunk_size")
    _expect_counts(operator, operands, types, 1, count.integer(1))
    return kn.ChunkOp(operands[0], _expect_dimension(operator, "chunk_dim"), types)


def _all_reduce(operator: Node, operands: Sequence[SSAValue], types: Types) -> Operation:
    _expect_counts(operator, operands, types, 1, 1)
    inplace = operator.optional_field("inplace")
    return kn.AllReduceOp(operands[0], types[0], inplace=inplace is not None and inplace.boolean())


WHOLE_TENSOR: dict[str, Read] = {
    "kn_rms_norm_op": _rms_norm,
    "kn_allreduce_op": _all_reduce,
    **{f"kn_reduction_{dim}_op": _reduction for dim in range(DIMENSIONS)},
    **{f"kn_concat_{dim}_op": _concat for dim in range(DIMENSIONS)},
    **{f"kn_split_{dim}_op": _split for dim in range(DIMENSIONS)},
    **{f"kn_chunk_{dim}_op": _chunk for dim in range(DIMENSIONS)},
}
"""How the operator of each ``op_type`` is made."""
