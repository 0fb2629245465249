"""What operators of a block share: destinations, epilogues, and how work is dealt out."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.cute.chaining import held_alike
from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.sched.role import verify_partition
from mugraph.dialects.sched.types import LinearPartitionAttr, SharedType, SliceAttr, TileType
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import dims, op_label, shape_of, value_label

Destination = SharedType | TileType
Source = SharedType | TileType


def accumulated(op: IRDLOperation, destination: SSAValue) -> Sequence[SSAValue]:
    """The destination where the epilogue adds to it, and so reads it."""
    return [destination] if epilogue_of(op).accumulates else []


def verify_arity(op: IRDLOperation, function: ScalarFunction, sources: Sequence[SSAValue]) -> None:
    """Raises ``VerifyException`` unless there is a source for each number that a function takes."""
    if len(sources) != function.arity:
        raise VerifyException(
            f"{op_label(op)}: {function} takes {function.arity} operands, got {len(sources)}"
        )


def is_held_alike(one: Attribute, other: Attribute) -> bool:
    """Whether two distributions put the elements of a tensor in the same places and order.

    They are the same, or products that the layout algebra proves to be held alike, or the slices of
    such products along the same dimension.
    """
    if one == other:
        return True
    if isinstance(one, SliceAttr) and isinstance(other, SliceAttr):
        alike = (one.dim, one.shape) == (other.dim, other.shape)
        return alike and is_held_alike(one.parent, other.parent)
    if not isinstance(one, TiledMmaAttr) or not isinstance(other, TiledMmaAttr):
        return False
    return one.thr_layout[2] == other.thr_layout[2] and held_alike(
        mma_atom(one.atom), one.thr_layout[:2], mma_atom(other.atom), other.thr_layout[:2]
    )


def is_held_within(held: Attribute, whole: Attribute, shape: Sequence[int]) -> bool:
    """Whether each thread holds what goes with its elements of a tensor of extents ``shape``.

    So it is where both are held alike, and where one is a slice of the other.
    """
    if is_held_alike(held, whole):
        return True
    if not isinstance(held, SliceAttr) or isinstance(whole, SliceAttr):
        return False
    return is_held_alike(held.parent, whole) and held.get_shape() in ((), tuple(shape))


def verify_distribution(op: IRDLOperation, partition: Attribute, destination: SSAValue) -> None:
    """Raises ``VerifyException`` unless every fragment of an operator is held as it is dealt out.

    A source may also be held as a slice of that, which is broadcast.
    """
    if isinstance(partition, LinearPartitionAttr):
        verify_partition(op, partition.data, destination)
    elif not all(isinstance(value.type, TileType) for value in op.operands):
        raise VerifyException(
            f"{op_label(op)} is dealt out as {partition}, by which only fragments can be reached"
        )
    shape = shape_of(destination.type)
    for value in op.operands:
        type_ = value.type
        if not isinstance(type_, TileType):
            continue
        sliced = None if type_.slice is None else type_.slice.dim.data
        own = [one for dim, one in enumerate(type_.get_shape()) if dim != sliced]
        agrees = own == [one for dim, one in enumerate(shape) if dim != sliced]
        if value is destination:
            agrees = agrees and is_held_alike(type_.layout, partition)
        if not agrees or not is_held_within(type_.layout, partition, shape):
            raise VerifyException(
                f"{op_label(op)} is dealt out as {partition} but {value_label(value)}, of "
                f"{dims(type_.get_shape())}, as {type_.layout}; they must agree"
            )


def distribution_of(
    operands: Sequence[SSAValue], destination: SSAValue, otherwise: Attribute | None
) -> Attribute | None:
    """Who computes which element of the destination: as the fragments of its extents are held.

    ``otherwise`` where there is no such fragment.
    """
    shape = shape_of(destination.type)
    types = [value.type for value in (destination, *operands)]
    fragments = [type_ for type_ in types if isinstance(type_, TileType)]
    whole = [type_ for type_ in fragments if type_.get_shape() == shape]
    found = next((type_ for type_ in whole if type_.slice is None), None)
    if found is None:
        found = whole[0] if whole else None
    return otherwise if found is None else found.layout
