"""A kernel that makes random numbers."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import TensorType, f32, i32, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition, operand_def, prop_def
from xdsl.utils.str_enum import StrEnum

from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.kn.kernel import KernelOp
from mugraph.dialects.kn.overlap import CanOverlap
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.tensor_types import dims, element_type_of, op_label, shape_of, value_label


class Distribution(StrEnum):
    """How random numbers are spread."""

    BITS = "bits"
    """All words of 32 bits, in i32."""
    UNIFORM = "uniform"
    """Multiples of 2^-24 from 0 to less than 1, in f32."""
    NORMAL = "normal"
    """About 0, with variance 1, in f32."""


@irdl_attr_definition
class DistributionAttr(EnumAttribute[Distribution], SpacedOpaqueSyntaxAttribute):
    """``#kn<distribution uniform>``: how random numbers are spread."""

    name = "kn.distribution"


@irdl_op_definition
class RandomOp(KernelOp, CanOverlap):
    """Random numbers by Philox4x32-10: a function of a seed and an offset, both tensors of one i64.

    Element number e in row-major order is word e mod 4 of the four that Philox makes of the key
    ``seed`` and the counter ``offset + e / 4``: low word first, the counter's upper two words are
    0.  A tensor of n elements uses ceil(n / 4) counters, so that one with as much more offset goes
    on.  ``uniform`` is word >> 8, times 2^-24.  ``normal`` is by Box and Muller of words 0 and 1,
    or 2 and 3: sqrt(-2 log(1 - u)) cos(2 pi v) and the same with sin, where u and v are what
    ``uniform`` makes of the words, but 1 - u for the first is (word >> 8) + 1, times 2^-24.
    ``%r = kn.random uniform seed %s offset %o : (tensor<1xi64>, tensor<1xi64>) ->
    tensor<4x64xf32>``.
    """

    name = "kn.random"

    distribution = prop_def(DistributionAttr)
    seed = operand_def(TensorType)
    offset = operand_def(TensorType)

    assembly_format = (
        "$distribution `seed` $seed `offset` $offset (`workspace` $workspace^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self,
        distribution: Distribution,
        seed: SSAValue,
        offset: SSAValue,
        result_type: Attribute,
    ) -> None:
        super().__init__(
            operands=[seed, offset],
            result_types=[result_type],
            properties={"distribution": DistributionAttr(distribution)},
        )

    def expected_shape(self) -> tuple[int, ...]:
        """Those that the result says."""
        return shape_of(self.result.type)

    def verify_(self) -> None:
        """As any kernel; seed and offset are one i64, and numbers of the distribution's type."""
        super().verify_()
        for what, value in (("seed", self.seed), ("offset", self.offset)):
            shape, type_ = shape_of(value.type), element_type_of(value.type)
            if math.prod(shape) != 1 or type_ != i64:
                raise OperatorError(
                    f"the {what} is one i64, but {value_label(value)} is {dims(shape)}x{type_}"
                )
        distribution = self.distribution.data
        expected = i32 if distribution is Distribution.BITS else f32
        if (type_ := element_type_of(self.result.type)) != expected:
            raise OperatorError(
                f"{distribution} random numbers are {expected}, but the result has elements of "
                f"{type_}; insert a 'kn.cast' after it"
            )

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """The last dimension is innermost, where four neighbours share a counter."""
        problem.prefer_any(
            problem.innermost(self.result, len(shape_of(self.result.type)) - 1),
            reason=f"{op_label(self)} makes four neighbours in row-major order at a time",
        )
