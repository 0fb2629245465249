"""What others wrote into a device's memory, and what a device may read while they still write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.sharding import part_of
from mugraph.dialects.tensor_types import shape_of


def is_delivered(value: SSAValue) -> bool:
    """Whether a tensor is made of what other devices wrote into this one's memory."""
    return isinstance(value.owner, kn.AllToAllOp) and value.owner.delivered is not None


def is_of_one(op: Operation) -> TypeGuard[kn.AllSliceOp]:
    """Whether an operator takes of what was delivered the part that one member wrote."""
    if not isinstance(op, kn.AllSliceOp) or not is_delivered(op.input):
        return False
    given = op.input.owner
    assert isinstance(given, kn.AllToAllOp)
    return (op.grid_axes, op.cut_dim) == (given.grid_axes, given.joined_dim)


def is_of_others(op: Operation) -> bool:
    """Whether that member is another one."""
    return is_of_one(op) and op.cut_place(0) != 0


def is_for_others(piece: SSAValue) -> bool:
    """Whether no member reads what it would deliver to itself: each takes what others wrote."""
    wholes = [result for use in piece.uses for result in use.operation.results]
    given = [result for whole in wholes for use in whole.uses for result in use.operation.results]
    readers = [use.operation for each in given for use in each.uses]
    return bool(given) and all(map(is_delivered, given)) and all(map(is_of_others, readers))


def pieces_to_copy(op: kn.AllToAllOp, place: int) -> set[SSAValue]:
    """What the member at a place delivers by copies: no kernel of its own stores it at the other.

    ``kn.copy`` says of a part that the kernel that makes it stores it where it belongs.
    """
    pieces = enumerate(op.pieces)
    return {p for to, p in pieces if to != place and not isinstance(p.owner, kn.CopyOp)}


def settled(takes: Sequence[SSAValue]) -> list[SSAValue]:
    """Of what a function takes what it may read before the kernels before it have ended.

    A function that takes what others wrote stands behind functions that computed parts for these
    (:func:`is_for_others`).  These let it begin only behind their own wait for what was before them
    (``WAITS_FIRST``): what each of them reads is complete then, and they write none of it.
    """
    pieces = [
        piece
        for value in takes
        if isinstance(value.owner, kn.AllSliceOp) and is_of_others(value.owner)
        if isinstance(given := value.owner.input.owner, kn.AllToAllOp)
        for piece in given.pieces
    ]
    if not pieces:
        return []
    read = set[SSAValue].intersection(*map(_read_for, pieces))
    return [value for value in takes if _whole(value) in read]


def _whole(value: SSAValue) -> SSAValue:
    """The tensor of which a value is a range, where it lies."""
    while (op := _range_of(value)) is not None:
        value = op.input
    return value


def _range_of(value: SSAValue) -> kn.AllSliceOp | kn.SliceOp | None:
    """What takes a value as a range of memory, if something does."""
    op = value.owner
    if isinstance(op, kn.AllSliceOp) and math.prod(shape_of(op.input.type)[: op.cut_dim]) == 1:
        return op
    return op if isinstance(op, kn.SliceOp) and part_of(op) is not None else None


def _read_for(piece: SSAValue) -> set[SSAValue]:
    """The tensors of which what computes a part reads some."""
    found: set[SSAValue] = set()
    left = [piece]
    while left:
        op = left.pop().owner
        if isinstance(op, Operation) and part_of(op) is not None:
            left += op.operands
            found |= {_whole(operand) for operand in op.operands}
    return found
