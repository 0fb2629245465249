"""What operators of a block share: destinations, epilogues, and how work is dealt out."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.sched.structure import verify_partition
from mugraph.dialects.sched.types import FragmentType, LinearPartitionAttr, SharedType, SliceAttr
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import op_label, shape_of

Destination = SharedType | FragmentType
Source = SharedType | FragmentType


def partition_attribute(partition: LinearPartition | Attribute) -> Attribute:
    """A partition as the property that deals out an operator's work."""
    if isinstance(partition, LinearPartition):
        return LinearPartitionAttr(partition)
    return partition


def accumulated(op: IRDLOperation, destination: SSAValue) -> Sequence[SSAValue]:
    """The destination where the epilogue adds to it, and so reads it."""
    return [destination] if epilogue_of(op).accumulates else []


def verify_arity(op: IRDLOperation, function: ScalarFunction, sources: Sequence[SSAValue]) -> None:
    """Raises ``VerifyException`` unless there is a source for each number that a function takes."""
    if len(sources) != function.arity:
        raise VerifyException(
            f"{op_label(op)}: {function} takes {function.arity} operands, got {len(sources)}"
        )


def verify_distribution(op: IRDLOperation, partition: Attribute, destination: SSAValue) -> None:
    """Raises ``VerifyException`` unless every fragment of an operator is held as it is dealt out.

    A fragment may also hold the rows of the destination's partition, which are broadcast.
    """
    if isinstance(partition, LinearPartitionAttr):
        verify_partition(op, partition.data, destination)
    elif isinstance(partition, SliceAttr) and not all(
        isinstance(value.type, FragmentType) for value in op.operands
    ):
        raise VerifyException(
            f"{op_label(op)} is dealt out as {partition}, by which only fragments can be reached"
        )
    shape = shape_of(destination.type)
    for value in op.operands:
        type_ = value.type
        if not isinstance(type_, FragmentType) or type_.layout == partition:
            continue
        held = type_.slice
        if (
            value is destination
            or held is None
            or held.parent != partition
            or held.get_shape() != shape
        ):
            raise VerifyException(
                f"{op_label(op)} is dealt out as {partition} but its fragment as "
                f"{type_.layout}; they must agree"
            )
