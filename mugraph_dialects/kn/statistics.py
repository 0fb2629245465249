"""What is computed of all elements along one dimension."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_prop_def

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.element_types import verify_no_integers
from mugraph.dialects.kn.composite import CompositeOp, Expansion
from mugraph.dialects.reductions import LEAST, Combiner, ReductionOperator


class StatisticOp(ReductionOperator, CompositeOp):
    """A function of the elements along one dimension, whose extent becomes 1 unless it is kept."""

    KEEPS_EXTENT: ClassVar[bool] = False
    """Whether each element has a result of its own."""

    input = operand_def(TensorType)

    assembly_format = (
        "$input `dim` $dim (`workspace` $workspace^)? attr-dict `:` type($input) `->` type($result)"
    )

    def expected_shape(self) -> tuple[int, ...]:
        """The operand's extents, but for 1 along the dimension unless that is kept."""
        shape, dim = self.shape_with_dimension(), self.reduced_dim
        return shape if self.KEEPS_EXTENT else (*shape[:dim], 1, *shape[dim + 1 :])

    def verify_(self) -> None:
        """As any kernel; of floating-point numbers."""
        super().verify_()
        verify_no_integers(self, [self.input, self.result], "kn.cast")

    def powers(self, parts: Expansion, least: float | None = None) -> tuple[SSAValue, SSAValue]:
        """The largest element, or ``least``, and e to the power of what each is above it."""
        largest = parts.reduce(self.input, [self.reduced_dim], Combiner.MAX)
        if least is not None:
            bound = parts.apply("fill", largest, constants=(least,))
            largest = parts.apply("max", largest, bound)
        return largest, parts.apply("exp", parts.apply("sub", self.input, largest))


@irdl_op_definition
class MeanOp(StatisticOp):
    """The mean along a dimension, in fp32.

    ``%m = kn.mean %x dim 1 : tensor<4x64xf16> -> tensor<4x1xf16>``.
    """

    name = "kn.mean"

    def expand(self, parts: Expansion) -> SSAValue:
        """The sum, divided by how many there are."""
        return parts.mean(self.input, [self.reduced_dim], self.result.type)


@irdl_op_definition
class VarianceOp(StatisticOp):
    """The mean of (x - mean)² along a dimension, in fp32.

    ``%v = kn.variance %x dim 1 : tensor<4x64xf16> -> tensor<4x1xf16>``.
    """

    name = "kn.variance"

    def expand(self, parts: Expansion) -> SSAValue:
        """The mean is taken away first: a mean of squares less a squared mean would cancel."""
        mean = parts.mean(self.input, [self.reduced_dim])
        squares = parts.apply("square", parts.apply("sub", self.input, mean))
        return parts.mean(squares, [self.reduced_dim], self.result.type)


@irdl_op_definition
class LogSumExpOp(StatisticOp):
    """log(sum of exp(x)) along a dimension, in fp32; the largest element is taken away first.

    ``%l = kn.log_sum_exp %x dim 1 : tensor<4x64xf16> -> tensor<4x1xf16>``.
    """

    name = "kn.log_sum_exp"

    def expand(self, parts: Expansion) -> SSAValue:
        """The largest element and the logarithm of the sum without it."""
        largest, powers = self.powers(parts)
        total = parts.apply("log", parts.reduce(powers, [self.reduced_dim]))
        return parts.apply("add", largest, total, type_=self.result.type)


@irdl_op_definition
class SoftmaxOp(StatisticOp):
    """exp(x) / sum of exp(x) along a dimension, in fp32; the largest element is taken away first.

    ``%y = kn.softmax %x dim 1 : tensor<4x64xf16> -> tensor<4x64xf16>``.

    A row that is minus infinity throughout has no softmax: 0 / 0.  ``%y = kn.softmax %x dim 1
    or_zero`` is 0 there, which is what attention over no keys needs.
    """

    name = "kn.softmax"
    KEEPS_EXTENT: ClassVar[bool] = True

    or_zero = opt_prop_def(UnitAttr)

    assembly_format = (
        "$input `dim` $dim (`or_zero` $or_zero^)? (`workspace` $workspace^)? attr-dict "
        "`:` type($input) `->` type($result)"
    )

    def __init__(
        self, operand: SSAValue, dim: int, result_type: Attribute, *, or_zero: bool = False
    ) -> None:
        super().__init__(operand, dim, result_type)
        if or_zero:
            self.or_zero = UnitAttr()

    def expand(self, parts: Expansion) -> SSAValue:
        """Each power divided by the sum of all."""
        least = None if self.or_zero is None else LEAST
        _, powers = self.powers(parts, least)
        total = parts.reduce(powers, [self.reduced_dim])
        if self.or_zero is None:
            return parts.apply("div", powers, total, type_=self.result.type)
        inverse = parts.apply("reciprocal_or_zero", total)
        return parts.apply("mul", powers, inverse, type_=self.result.type)
