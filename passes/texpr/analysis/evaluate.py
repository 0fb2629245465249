"""Index expressions at many points at once, and as one expression of the loops around."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)

from mugraph.dialects.cute import ComposedLayout
from mugraph.dialects.te import ApplyOp, BufferType
from mugraph.dialects.te.points import Points, Rows, evaluate, variable_at
from mugraph.dialects.tensor_types import layout_of, row_major_strides


def expanded(
    expressions: Sequence[AffineExpr], operands: Sequence[SSAValue]
) -> tuple[tuple[AffineExpr, ...], list[SSAValue]]:
    """The expressions with those of ``te.apply`` operands in their place, and their variables."""
    variables: list[SSAValue] = []

    def of(value: SSAValue) -> AffineExpr:
        if isinstance(owner := value.owner, ApplyOp):
            return owner.expression.replace_dims_and_symbols([of(one) for one in owner.indices], [])
        if value not in variables:
            variables.append(value)
        return AffineExpr.dimension(variables.index(value))

    replacements = [of(operand) for operand in operands]
    found = tuple(one.replace_dims_and_symbols(replacements, []) for one in expressions)
    return found, variables


def variables_of(operands: Sequence[SSAValue]) -> list[SSAValue]:
    """The loop variables that operands are made of."""
    return expanded((), operands)[1]


def numbers_at(
    expressions: Sequence[AffineExpr],
    operands: Sequence[SSAValue],
    shape: Sequence[int],
    points: Points,
) -> Rows:
    """The row-major number of the element of a buffer of that shape, at all points."""
    if len(expressions) == 1:
        return evaluate(expressions[0], operands, points)
    number = np.array(0, np.int64)
    for expression, extent in zip(expressions, shape, strict=True):
        number = number * extent + evaluate(expression, operands, points)
    return number


def addresses_of_numbers(type_: BufferType, numbers: Rows) -> Rows:
    """The offset in elements of elements by their row-major numbers, by the buffer's layout."""
    layout = layout_of(type_)
    if layout is None:
        return numbers
    shape = type_.get_shape()
    address = np.zeros_like(numbers)
    for stride, extent, step in zip(row_major_strides(shape), shape, type_.strides(), strict=True):
        address = address + numbers // stride % extent * step
    if isinstance(layout, ComposedLayout):
        address = swizzled(address, layout.swizzle.bits, layout.swizzle.base, layout.swizzle.shift)
    return address


def swizzled(address: Rows, bits: int, base: int, shift: int) -> Rows:
    """CuTe's ``Swizzle<bits, base, shift>`` of offsets."""
    mask = ((1 << bits) - 1) << (base + shift)
    return address ^ ((address & mask) >> shift)


@dataclass(frozen=True)
class Along:
    """An expression as ``coefficient * v + base``, where ``base`` is a multiple of ``divisor``.

    A divisor of 0 means that the base is 0.
    """

    coefficient: int
    divisor: int


def along(
    expression: AffineExpr,
    operands: Sequence[SSAValue],
    leaves: Mapping[SSAValue, Along],
    width: int,
) -> Along | None:
    """An expression in a variable ``v`` that runs from 0 to ``width`` - 1; ``None`` if not linear.

    ``leaves`` says it of some variables; all others do not depend on ``v``.
    """
    match expression:
        case AffineConstantExpr(value):
            return Along(0, abs(value))
        case AffineDimExpr():
            operand = operands[expression.position]
            if operand in leaves:
                return leaves[operand]
            if isinstance(owner := operand.owner, ApplyOp):
                return along(owner.expression, list(owner.indices), leaves, width)
            return Along(0, 1)
        case AffineBinaryOpExpr(kind=kind, lhs=lhs, rhs=rhs):
            left = along(lhs, operands, leaves, width)
            if left is None:
                return None
            if kind is AffineBinaryOpKind.Add:
                right = along(rhs, operands, leaves, width)
                if right is None:
                    return None
                total = left.coefficient + right.coefficient
                return Along(total, math.gcd(left.divisor, right.divisor))
            if not isinstance(rhs, AffineConstantExpr):
                return None
            constant = rhs.value
            if kind is AffineBinaryOpKind.Mul:
                return Along(left.coefficient * constant, left.divisor * abs(constant))
            if left.coefficient and left.coefficient % constant == 0:
                if kind is AffineBinaryOpKind.Mod:
                    return Along(0, math.gcd(left.divisor, constant))
                if kind is AffineBinaryOpKind.FloorDiv:
                    whole = left.divisor % constant == 0
                    divisor = left.divisor // constant if whole else 1
                    return Along(left.coefficient // constant, divisor)
            # Neighbours that begin at a multiple of their number stay in one period.
            in_period = left.coefficient == 1 and not (left.divisor % width or constant % width)
            if left.coefficient and not in_period:
                return None
            if kind is AffineBinaryOpKind.Mod:
                return Along(left.coefficient, math.gcd(left.divisor, constant))
            if kind is AffineBinaryOpKind.FloorDiv:
                whole = left.divisor % constant == 0
                return Along(0, left.divisor // constant if whole else 1)
            return None
        case _:
            return None


def starts_vector(
    expressions: Sequence[AffineExpr],
    operands: Sequence[SSAValue],
    shape: Sequence[int],
    leaves: Mapping[SSAValue, Along],
    width: int,
    strides: Sequence[int] | None = None,
) -> bool:
    """Whether an access touches ``width`` neighbours as ``v`` runs, from a multiple of it on.

    ``strides`` are those of the buffer, row-major ones where they are not given.  Neighbours are
    those along the last dimension.
    """
    if strides is None or len(expressions) != len(shape):
        strides = row_major_strides(shape)
    if strides[-1] != 1:
        return False
    strides = [1] if len(expressions) == 1 else strides
    number = AffineExpr.constant(0)
    for expression, stride in zip(expressions, strides, strict=True):
        number = number + expression * stride
    found = along(number, operands, leaves, width)
    return found is not None and found.coefficient == 1 and found.divisor % width == 0


__all__ = [
    "Along",
    "Points",
    "Rows",
    "addresses_of_numbers",
    "along",
    "evaluate",
    "expanded",
    "numbers_at",
    "starts_vector",
    "swizzled",
    "variable_at",
    "variables_of",
]
