"""What operators that reduce dimensions have in common."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import Float32Type, FloatAttr, IntegerAttr, f32, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_attr_definition, operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.accessors import number_of
from mugraph.dialects.elementwise import round_to_fp32
from mugraph.dialects.shapes import ShapeError
from mugraph.dialects.tensor_types import dims, op_label, shape_of

LEAST = -(2.0**100)
"""What a maximum starts from where all may be minus infinity: below scores, and far from what
overflows when it is scaled."""


class Combiner(StrEnum):
    """How a reduction makes one number of two."""

    SUM = "sum"
    MAX = "max"


COMBINING = {Combiner.SUM: "add", Combiner.MAX: "max"}
"""The function of two numbers that each combination repeats."""


@irdl_attr_definition
class CombinerAttr(EnumAttribute[Combiner], SpacedOpaqueSyntaxAttribute):
    """``#sched<combiner max>``."""

    name = "sched.combiner"


def combiner_attribute(combiner: Combiner) -> CombinerAttr | None:
    """A combiner as a property; ``None`` for a sum."""
    return None if combiner is Combiner.SUM else CombinerAttr(combiner)


class ReducesDimension(IRDLOperation, Abstract):
    """An operator on one tensor that reduces one of its dimensions."""

    input = operand_def(Attribute)
    dim = prop_def(IntegerAttr.constr(type=i64))

    reduced_dim = number_of("dim")
    """The dimension that is reduced."""

    def shape_with_dimension(self) -> tuple[int, ...]:
        """The operand's extents; raises ``ShapeError`` where they lack the dimension."""
        shape = shape_of(self.input.type)
        if not 0 <= self.reduced_dim < len(shape):
            raise ShapeError(
                f"dimension {self.reduced_dim} does not exist in {dims(shape)}: expected 0 to "
                f"{len(shape) - 1}"
            )
        return shape


class ReductionOperator(ReducesDimension):
    """A reduction with one result."""

    def __init__(self, operand: SSAValue, dim: int, result_type: Attribute) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"dim": IntegerAttr(dim, i64)},
        )


class HasEpsilon(IRDLOperation, Abstract):
    """A norm that adds a number to the mean it divides by the root of."""

    epsilon = opt_prop_def(FloatAttr[Float32Type])

    @property
    def epsilon_value(self) -> float:
        """What is added to the mean, an fp32 number."""
        return 0.0 if self.epsilon is None else self.epsilon.value.data

    def verify_epsilon(self) -> None:
        """Raises ``VerifyException`` unless it is a number of at least 0."""
        if not 0.0 <= self.epsilon_value < math.inf:
            raise VerifyException(
                f"{op_label(self)}: epsilon {self.epsilon_value} must be a number of at least 0"
            )


def epsilon_attribute(epsilon: float) -> FloatAttr[Float32Type] | None:
    """The property that stands for an epsilon, rounded to fp32; none where it is 0."""
    return FloatAttr(round_to_fp32(epsilon), f32) if epsilon else None
