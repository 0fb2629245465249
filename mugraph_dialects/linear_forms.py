"""Conditions on places: linear forms of coordinates that are at least 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineExpr,
    AffineSet,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.tensor_types import dims, op_label


@dataclass(frozen=True)
class LinearForm:
    """``sum of coefficient * coordinate + constant``, of whole numbers."""

    coefficients: tuple[int, ...]
    constant: int = 0

    @classmethod
    def coordinates(cls, rank: int) -> list[LinearForm]:
        """The coordinate along each dimension."""
        return [cls(tuple(int(dim == own) for dim in range(rank))) for own in range(rank)]

    def __add__(self, other: LinearForm | int) -> LinearForm:
        if isinstance(other, int):
            return LinearForm(self.coefficients, self.constant + other)
        if not isinstance(other, LinearForm):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        pairs = zip(self.coefficients, other.coefficients, strict=True)
        return LinearForm(tuple(map(sum, pairs)), self.constant + other.constant)

    def __mul__(self, factor: int) -> LinearForm:
        if not isinstance(factor, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        return LinearForm(
            tuple(each * factor for each in self.coefficients), self.constant * factor
        )

    def __neg__(self) -> LinearForm:
        return self * -1

    def __sub__(self, other: LinearForm | int) -> LinearForm:
        return self + -other

    def __rsub__(self, other: int) -> LinearForm:
        return -self + other

    __radd__, __rmul__ = __add__, __mul__

    @classmethod
    def of(cls, expression: AffineExpr, set_: AffineSet, sign: int) -> LinearForm:
        """An expression of a set, or its negative, divided by what all coefficients share."""
        count = set_.num_dims + set_.num_symbols

        def at(place: Sequence[int]) -> int:
            return expression.eval(place[: set_.num_dims], place[set_.num_dims :])

        constant = at([0] * count)
        units = ([int(each == one) for each in range(count)] for one in range(count))
        coefficients = [sign * (at(unit) - constant) for unit in units]
        shared = math.gcd(*coefficients) or 1
        # Of whole numbers, what is at least 0 stays so when it is divided and rounded down.
        return cls(tuple(each // shared for each in coefficients), sign * constant // shared)

    def at(self, coordinates: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
        """The value at coordinates, which are broadcast."""
        value = np.asarray(self.constant, np.int64)
        for coefficient, coordinate in zip(self.coefficients, coordinates, strict=True):
            value = value + coefficient * coordinate
        return value


def at_lengths(forms: Sequence[LinearForm], lengths: Sequence[int]) -> list[LinearForm]:
    """Forms whose last coordinates, one for each length, have these values."""
    count = len(lengths)
    if not count:
        return list(forms)
    return [
        LinearForm(
            form.coefficients[:-count],
            form.constant
            + sum(
                step * length
                for step, length in zip(form.coefficients[-count:], lengths, strict=True)
            ),
        )
        for form in forms
    ]


def of_lengths(forms: Sequence[LinearForm], numbers: Sequence[int], count: int) -> list[LinearForm]:
    """Forms of ``count`` lengths, of forms whose last coordinates are those of some numbers."""
    kept, found = len(numbers), list[LinearForm]()
    for form in forms:
        places = form.coefficients[: len(form.coefficients) - kept]
        steps = [0] * count
        for number, step in zip(numbers, form.coefficients[len(places) :], strict=True):
            steps[number] += step
        found.append(LinearForm((*places, *steps), form.constant))
    return found


def fails_past(form: LinearForm, dim: int, shape: Sequence[int]) -> bool:
    """Whether a form is negative at all places past the end of one dimension of a shape.

    The other coordinates are within the shape; a form that moves with a length may be anything.
    """
    steps, lengths = form.coefficients[: len(shape)], form.coefficients[len(shape) :]
    if steps[dim] > 0 or any(lengths):
        return False
    most = sum(
        step * shape[dim] if at == dim else max(step, 0) * (extent - 1)
        for at, (step, extent) in enumerate(zip(steps, shape, strict=True))
    )
    return form.constant + most < 0


_SIGNS = {
    AffineConstraintKind.ge: (1,),
    AffineConstraintKind.le: (-1,),
    AffineConstraintKind.eq: (1, -1),
}
"""What a form is multiplied by to be at least 0; an equality is two conditions."""


def _is_linear(expression: AffineExpr) -> bool:
    linear = (AffineBinaryOpKind.Add, AffineBinaryOpKind.Mul)
    return expression.is_pure_affine() and all(
        part.kind in linear for part in expression.dfs() if isinstance(part, AffineBinaryOpExpr)
    )


def forms_of(condition: AffineSet) -> list[LinearForm]:
    """The forms that are at least 0, all of them, at the places of a set; symbols come last."""
    return [
        LinearForm.of(constraint.lhs, condition, sign)
        for constraint in condition.constraints
        for sign in _SIGNS[constraint.kind]
    ]


def set_of(forms: Sequence[LinearForm], dims_: int) -> AffineSet:
    """The places where forms are at least 0; coordinates after the dimensions are symbols."""
    constraints: list[AffineConstraintExpr] = []
    for form in forms:
        symbols = len(form.coefficients) - dims_
        flat = [*form.coefficients, form.constant]
        expression = AffineExpr.from_flat_form(flat, dims_, symbols, [])
        least = AffineExpr.constant(0)
        constraints.append(AffineConstraintExpr(AffineConstraintKind.ge, expression, least))
    return AffineSet(dims_, len(forms[0].coefficients) - dims_ if forms else 0, tuple(constraints))


def coordinates_of(shape: Sequence[int]) -> list[npt.NDArray[np.int64]]:
    """The coordinate along each dimension, of as many axes as there are dimensions."""
    rank = len(shape)
    return [
        np.arange(extent, dtype=np.int64).reshape([-1 if d == dim else 1 for d in range(rank)])
        for dim, extent in enumerate(shape)
    ]


def all_at_least_0(
    forms: Sequence[LinearForm], coordinates: Sequence[npt.NDArray[np.int64]]
) -> npt.NDArray[np.bool_]:
    """Where all forms are at least 0, of the extents that the coordinates have together."""
    kept = np.ones(np.broadcast_shapes(*(each.shape for each in coordinates)), np.bool_)
    for form in forms:
        kept &= form.at(coordinates) >= 0
    return kept


def verify_condition(
    op: Operation, condition: AffineSet, shape: Sequence[int], symbols: int = 0
) -> None:
    """Raises ``VerifyException`` unless conditions are linear, and on the dimensions of a shape."""
    if condition.num_dims != len(shape) or condition.num_symbols != symbols:
        expected = f"{len(shape)} dimensions, those of {dims(shape)}"
        if symbols:
            expected += f", and {symbols} symbols"
        raise VerifyException(
            f"{op_label(op)}: its conditions are on {condition.num_dims} dimensions and "
            f"{condition.num_symbols} symbols, expected {expected}"
        )
    for constraint in condition.constraints:
        if not _is_linear(constraint.lhs):
            raise VerifyException(
                f"{op_label(op)}: the condition {constraint} is not linear; a form of "
                "coordinates times whole numbers is compared with a number"
            )
    if not condition.constraints:
        raise VerifyException(f"{op_label(op)} has no condition; leave it out")
