"""Kernels that sum: reductions and norms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
)

from mugraph.dialects.element_types import verify_no_integers
from mugraph.dialects.kn.kernel import KernelOp, prefer_same_innermost
from mugraph.dialects.kn.overlap import CanOverlap
from mugraph.dialects.launch_extents import extents_of
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.reductions import HasEpsilon, ReductionOperator, epsilon_attribute
from mugraph.dialects.shapes import ShapeError
from mugraph.dialects.tb import Groups
from mugraph.dialects.tensor_types import dims, op_label, shape_of, value_label


@irdl_op_definition
class ReductionOp(ReductionOperator, KernelOp, CanOverlap):
    """Sums along one dimension, to the extent that the result has there.

    Result j of n sums the j-th run of extent / n neighbours, in fp32; with n = 1 it is the sum over
    the dimension.  ``%y = kn.reduction %x dim 1 : tensor<10x8x3xf16> -> tensor<10x2x3xf16>``.
    """

    name = "kn.reduction"

    input = operand_def(TensorType)

    assembly_format = (
        "$input `dim` $dim (`workspace` $workspace^)? attr-dict `:` type($input) `->` type($result)"
    )

    def verify_(self) -> None:
        """As any kernel; of floating-point numbers."""
        super().verify_()
        verify_no_integers(self, [self.input, self.result], "kn.cast")

    def groups(self) -> Groups:
        """Which elements along the dimension each result sums."""
        dim = self.reduced_dim
        count = shape_of(self.input.type)[dim] // shape_of(self.result.type)[dim]
        return Groups(count, 1, count)

    def expected_shape(self) -> tuple[int, ...]:
        """The operand's extents, but for the result's own along the dimension."""
        shape, result = self.shape_with_dimension(), shape_of(self.result.type)
        dim = self.reduced_dim
        if len(result) != len(shape):
            return (*shape[:dim], 1, *shape[dim + 1 :])
        if shape[dim] % result[dim]:
            raise ShapeError(
                f"{shape[dim]} elements along dimension {dim} do not fall into {result[dim]} "
                "equal groups"
            )
        return (*shape[:dim], result[dim], *shape[dim + 1 :])

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Operand and result share their innermost dimension, unless it is summed over.

        To sum over the innermost dimension costs (``KN_REDUCTION_INNERMOST_EQ_REDUC_DIM`` of seed
        002).
        """
        dim = self.reduced_dim
        prefer_same_innermost(problem, self, self.input, self.result, [dim])
        problem.charge(
            problem.costs.kernel_reduction_innermost,
            problem.innermost(self.input, dim),
            reason=f"{op_label(self)} sums over the innermost dimension of its operand",
        )


@irdl_op_definition
class RmsNormOp(HasEpsilon, KernelOp, CanOverlap):
    """x / sqrt(mean of x² + epsilon), times a weight, over the last dimensions.

    ``over`` gives their extents, a suffix of the operand's.  The weight has just these extents;
    without one the factor is 1, and without an epsilon it is 0.  Computes in fp32.

    ``%y = kn.rms_norm %x over [64] : (tensor<4x64xf16>) -> tensor<4x64xf16>``,
    ``%z = kn.rms_norm %x weight %w over [64] epsilon 1.0e-05 : (tensor<4x64xf16>,
    tensor<64xf16>) -> tensor<4x64xf16>``.
    """

    name = "kn.rms_norm"

    input = operand_def(TensorType)
    weight = opt_operand_def(TensorType)
    normalized_shape = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$input (`weight` $weight^)? `over` $normalized_shape (`epsilon` $epsilon^)? "
        "(`workspace` $workspace^)? attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        operand: SSAValue,
        normalized_shape: Sequence[int],
        result_type: Attribute | None = None,
        weight: SSAValue | None = None,
        epsilon: float = 0.0,
    ) -> None:
        super().__init__(
            operands=[operand, weight],
            result_types=[result_type or operand.type],
            properties={
                "normalized_shape": DenseArrayBase.from_list(i64, list(normalized_shape)),
                "epsilon": epsilon_attribute(epsilon),
            },
        )

    @property
    def normalized(self) -> tuple[int, ...]:
        """The extents of the last dimensions, over which the mean is taken."""
        return extents_of(self.normalized_shape)

    @property
    def group_size(self) -> int:
        """How many elements a mean is taken over."""
        return math.prod(self.normalized)

    def expected_shape(self) -> tuple[int, ...]:
        """The operand's extents."""
        shape, suffix = shape_of(self.input.type), self.normalized
        if not suffix or shape[-len(suffix) :] != suffix:
            raise ShapeError(
                f"the norm is taken over the last extents {list(suffix)}, which must be a suffix "
                f"of the operand's {dims(shape)}"
            )
        if self.weight is not None and shape_of(self.weight.type) != suffix:
            raise ShapeError(
                f"the weight {value_label(self.weight)} has {dims(shape_of(self.weight.type))}, "
                f"expected {dims(suffix)}, the extents that are normalised over"
            )
        return shape

    def verify_(self) -> None:
        """As any kernel; of floating-point numbers, and epsilon is not negative."""
        super().verify_()
        verify_no_integers(self, [*self.operands, self.result], "kn.cast")
        self.verify_epsilon()

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Operand and result share their innermost dimension; so does the weight if it can."""
        prefer_same_innermost(problem, self, self.input, self.result)
        if self.weight is not None:
            prefer_same_innermost(problem, self, self.weight, self.result)
