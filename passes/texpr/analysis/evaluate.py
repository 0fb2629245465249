"""Index expressions at many points at once, and as one expression of the loops around."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)

from mugraph.dialects import te
from mugraph.dialects.sched.mappings import coordinate_offsets, swizzled
from mugraph.dialects.te.points import Rows
from mugraph.dialects.te.sizes import size_of
from mugraph.dialects.tensor_types import base_layout, layout_of, row_major_strides


def expanded(
    expressions: Sequence[AffineExpr], operands: Sequence[SSAValue]
) -> tuple[tuple[AffineExpr, ...], list[SSAValue]]:
    """The expressions with those of ``te.apply`` operands in their place, and their variables."""
    variables: list[SSAValue] = []

    def of(value: SSAValue) -> AffineExpr:
        if isinstance(owner := value.owner, te.ApplyOp):
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


def addresses_of_numbers(type_: te.BufferType, numbers: Rows) -> Rows:
    """The offset in elements of elements by their row-major numbers, by the buffer's layout."""
    layout, shape = layout_of(type_), type_.get_shape()
    if layout is None:
        return numbers
    strides, plain = row_major_strides(shape), base_layout(layout)
    if (plain.flat_shape, plain.flat_stride) == (shape, strides):
        return swizzled(layout, numbers % math.prod(shape))
    indices = [numbers // stride % extent for stride, extent in zip(strides, shape, strict=True)]
    return coordinate_offsets(layout, indices)


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
            if isinstance(owner := operand.owner, te.ApplyOp):
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


def holds_alike(condition: te.IfOp, leaves: Mapping[SSAValue, Along], width: int) -> bool:
    """Whether a condition on sizes that a call says holds for all of ``width`` neighbours or none.

    ``leaves`` say how variables move on from one to the next, as in :func:`along`.
    """
    operands = list(condition.indices)
    sizes = {one: size_of(one) for one in variables_of(operands)}
    known = {one: Along(0, size.multiple) for one, size in sizes.items() if size is not None}
    if not known:
        return False

    def is_alike(expression: AffineExpr, equal: bool) -> bool:
        # Falling by one each: at least 0 up to the first, or behind the last.
        for moved, step in ((expression, 1), (expression + 1, -1)):
            found = along(moved, operands, {**leaves, **known}, width)
            if found is not None and found.coefficient == 0:
                return True
            is_step = found is not None and found.coefficient == step
            if not equal and is_step and found is not None and found.divisor % width == 0:
                return True
        return False

    return all(is_alike(*one) for one in condition.conditions())


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
