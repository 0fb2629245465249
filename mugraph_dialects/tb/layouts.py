"""What threadblock operators say about layouts, where several of them say the same."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mugraph.dialects.copies import (
    TileCopy,
    copy_vector,
    global_innermost,
)
from mugraph.dialects.interfaces import SharedAccess
from mugraph.dialects.partition import PartitionedOperand, choose_partition
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    leading_strides,
    resolved_layout_of,
    shape_of,
)


def copy_access(stensor: SSAValue, copy: TileCopy) -> SharedAccess:
    """How a copy touches its shared side."""
    return SharedAccess(stensor, global_innermost(copy), copy_vector(copy))


def partitioned_operand(value: SSAValue) -> PartitionedOperand:
    """A resolved shared tensor, as the choice of a partition sees it."""
    return PartitionedOperand(
        shape_of(value.type),
        leading_strides(resolved_layout_of(value)),
        element_bytes_of(value.type),
    )


def reduction_accesses(
    source: SSAValue, result: SSAValue, reduced_dim: int, lanes: int, order: Sequence[int]
) -> list[SharedAccess]:
    """Accesses of a reduction.

    Lanes that share a sum walk along the reduced dimension, groups of lanes along the results.
    """
    accesses = [SharedAccess(result, order[0], 1)]
    if lanes > 1:
        accesses.append(SharedAccess(source, reduced_dim, 1))
    if lanes < 32:
        accesses.append(SharedAccess(source, order[0], 1))
    return accesses


def elementwise_accesses(
    result: SSAValue, operands: Sequence[SSAValue], threads: int
) -> list[SharedAccess]:
    """Accesses of an element-wise operation; the same partition that scheduling will choose."""
    values = (result, *operands)
    partition = choose_partition(
        shape_of(result.type), [partitioned_operand(value) for value in values], threads
    )
    return [
        SharedAccess(
            value,
            partition.inner,
            1 if shape_of(value.type)[partition.inner] == 1 else partition.vector,
        )
        for value in values
    ]
