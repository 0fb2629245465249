"""A kernel that keeps elements whose coordinates meet a condition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import AffineSetAttr, Float32Type, FloatAttr, TensorType, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineExpr,
    AffineSet,
)
from xdsl.irdl import operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import Fp32Number
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.element_types import verify_no_integers
from mugraph.dialects.elementwise import round_to_fp32
from mugraph.dialects.kn.kernel import KernelOp, prefer_same_innermost
from mugraph.dialects.kn.overlap import CanOverlap
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.tensor_types import dims, op_label, shape_of


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
    def of(cls, expression: AffineExpr, rank: int, sign: int) -> LinearForm:
        """An expression in so many coordinates, or its negative, divided by what all share."""
        constant = expression.eval([0] * rank, [])
        units = ([int(dim == one) for dim in range(rank)] for one in range(rank))
        coefficients = [sign * (expression.eval(unit, []) - constant) for unit in units]
        shared = math.gcd(*coefficients) or 1
        # Of whole numbers, what is at least 0 stays so when it is divided and rounded down.
        return cls(tuple(each // shared for each in coefficients), sign * constant // shared)

    def expression(self) -> AffineExpr:
        """The form as an expression of xDSL."""
        flat = [*self.coefficients, self.constant]
        return AffineExpr.from_flat_form(flat, len(self.coefficients), 0, [])


@irdl_op_definition
class MaskOp(KernelOp, CanOverlap):
    """The elements whose coordinates are in a set, and a constant in place of the others.

    Each condition of the set is linear in the coordinates.  Scores of queries that see no later
    keys, of which there are four more: ``%y = kn.mask %x where affine_set<(i, j) :
    (i - j + 4 >= 0)> else -inf : tensor<8x12xf16> -> tensor<8x12xf16>``.
    """

    name = "kn.mask"

    input = operand_def(TensorType)
    condition = prop_def(AffineSetAttr)
    value = prop_def(FloatAttr[Float32Type])

    assembly_format = (
        "$input `where` $condition `else` custom<Fp32Number>($value) (`workspace` $workspace^)? "
        "attr-dict `:` type($input) `->` type($result)"
    )
    custom_directives = (Fp32Number,)

    def __init__(
        self,
        operand: SSAValue,
        forms: Sequence[LinearForm],
        value: float,
        result_type: Attribute | None = None,
    ) -> None:
        rank, least = len(shape_of(operand.type)), AffineExpr.constant(0)
        constraints = tuple(
            AffineConstraintExpr(AffineConstraintKind.ge, form.expression(), least)
            for form in forms
        )
        super().__init__(
            operands=[operand],
            result_types=[result_type or operand.type],
            properties={
                "condition": AffineSetAttr(AffineSet(rank, 0, constraints)),
                "value": FloatAttr(round_to_fp32(value), f32),
            },
        )

    @property
    def constant(self) -> float:
        """What stands in place of the elements outside."""
        return self.value.value.data

    def forms(self) -> list[LinearForm]:
        """The forms that are at least 0, all of them, where an element is kept."""
        found: list[LinearForm] = []
        set_ = self.condition.data
        for constraint in set_.constraints:
            for sign in _SIGNS[constraint.kind]:
                found.append(LinearForm.of(constraint.lhs, set_.num_dims, sign))
        return found

    def inside(self) -> npt.NDArray[np.bool_]:
        """Which elements are kept."""
        shape = shape_of(self.input.type)
        kept = np.ones(shape, np.bool_)
        for form in self.forms():
            value = np.full((1,) * len(shape), form.constant, np.int64)
            for dim, (extent, coefficient) in enumerate(zip(shape, form.coefficients, strict=True)):
                along = [extent if other == dim else 1 for other in range(len(shape))]
                value = value + (np.arange(extent, dtype=np.int64) * coefficient).reshape(along)
            kept &= value >= 0
        return kept

    def verify_(self) -> None:
        """As any kernel; of floating-point numbers, under linear conditions on the coordinates."""
        super().verify_()
        verify_no_integers(self, [self.input, self.result], "kn.cast")
        if math.isnan(self.constant):
            raise VerifyException(f"{op_label(self)}: NaN is no constant to mask with")
        set_, shape = self.condition.data, shape_of(self.input.type)
        if set_.num_dims != len(shape) or set_.num_symbols:
            raise VerifyException(
                f"{op_label(self)}: its conditions are on {set_.num_dims} dimensions and "
                f"{set_.num_symbols} symbols, expected {len(shape)} dimensions, those of "
                f"{dims(shape)}"
            )
        for constraint in set_.constraints:
            if not _is_linear(constraint.lhs):
                raise VerifyException(
                    f"{op_label(self)}: the condition {constraint} is not linear; a form of "
                    "coordinates times whole numbers is compared with a number"
                )
        if not set_.constraints:
            raise VerifyException(f"{op_label(self)} has no condition; leave it out")

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Operand and result share their innermost dimension."""
        prefer_same_innermost(problem, self, self.input, self.result)


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
