"""Numbers in device memory that conditions depend on: the length of a cache, a position.

A tensor of one i32 or i64 holds a length.  It may be 0 up to a largest one.  The interpreter
refuses others, and kernels take the nearest number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import I64, DenseArrayBase, IndexType, IntegerType, i32, i64
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.launch_extents import HoldsLengths, extents_of, integer_array
from mugraph.dialects.tensor_types import dims, element_type_of, op_label, shape_of

LARGEST_LENGTH = 2**31 - 1
"""Kernels compute with lengths in 32 bits."""


def numbers_of(attribute: DenseArrayBase[IntegerType] | None) -> tuple[int, ...]:
    """The integers of an array attribute; none without it."""
    return () if attribute is None else extents_of(attribute)


def numbers_attribute(numbers: Sequence[int]) -> DenseArrayBase[I64] | None:
    """Integers as an attribute; ``None`` for none."""
    return integer_array(numbers) if numbers else None


def length_fault(type_: Attribute, count: int = 1) -> str | None:
    """Why a tensor of a type holds no ``count`` lengths; ``None`` where it may."""
    element, shape = element_type_of(type_), shape_of(type_)
    if count == 1 and math.prod(shape) != 1:
        return f"has {dims(shape)} elements; a length is a tensor of one"
    if count > 1 and shape != (count,):
        return f"has {dims(shape)} elements; expected a list of {count} lengths, one for each"
    if element not in (i32, i64):
        return f"is of {element}; a length is i32 or i64"
    return None


def verify_lengths(
    op: Operation, types: Sequence[Attribute], largest: Sequence[int], counts: Sequence[int] = ()
) -> None:
    """Raises ``VerifyException`` unless each type holds lengths with a largest value.

    One, or as many as ``counts`` say.
    """
    if len(types) != len(largest) or any(not 0 < each <= LARGEST_LENGTH for each in largest):
        raise VerifyException(
            f"{op_label(op)}: {len(types)} lengths go up to {list(largest)}; expected a number "
            f"from 1 to {LARGEST_LENGTH} for each"
        )
    for number, (type_, count) in enumerate(zip(types, counts or [1] * len(types), strict=True)):
        if (fault := length_fault(type_, count)) is not None:
            raise VerifyException(f"{op_label(op)}: length {number} {fault}")


def verify_held_lengths(op: HoldsLengths, arguments: Sequence[Attribute]) -> None:
    """Raises ``VerifyException`` unless each length of an operator is held by an argument."""
    numbers, held = numbers_of(op.lengths), op.held_lengths
    if len(numbers) % 2 or any(not 0 <= each.argument < len(arguments) for each in held):
        raise VerifyException(
            f"{op_label(op)}: lengths {list(numbers)} must be an argument from 0 to "
            f"{len(arguments) - 1} and a largest number, perhaps several times"
        )
    axes = numbers_of(op.per)
    if op.per is not None and (len(axes) != len(held) or any(not -1 <= a < 3 for a in axes)):
        raise VerifyException(
            f"{op_label(op)}: per {list(axes)} must have an axis of the grid from 0 to 2, or -1, "
            f"for each of {len(held)} lengths"
        )
    # What a call says is a number itself.
    in_memory = [each for each in held if not isinstance(arguments[each.argument], IndexType)]
    types = [arguments[each.argument] for each in in_memory]
    counts = [1 if each.axis < 0 else op.grid_dim[each.axis] for each in in_memory]
    verify_lengths(op, types, [each.largest for each in in_memory], counts)
