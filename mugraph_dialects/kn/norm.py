"""Norms over the last dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, TensorType, f32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.element_types import verify_no_integers
from mugraph.dialects.kn.composite import CompositeOp, Expansion
from mugraph.dialects.kn.overlap import CanOverlap
from mugraph.dialects.kn.reshape import ReshapeOp
from mugraph.dialects.launch_extents import extents_of, integer_array
from mugraph.dialects.reductions import HasEpsilon, epsilon_attribute
from mugraph.dialects.shapes import ShapeError
from mugraph.dialects.tensor_types import dims, element_type_of, op_label, shape_of, value_label


class NormOp(HasEpsilon, CompositeOp):
    """A norm over the last dimensions, then perhaps factors and summands of their extents."""

    input = operand_def(TensorType)
    normalized_shape = prop_def(DenseArrayBase.constr(i64))

    def __init__(
        self,
        operand: SSAValue,
        normalized_shape: Sequence[int],
        result_type: Attribute | None = None,
        weight: SSAValue | Sequence[SSAValue] | None = None,
        epsilon: float = 0.0,
    ) -> None:
        super().__init__(
            operands=[operand, weight],
            result_types=[result_type or operand.type],
            properties={
                "normalized_shape": integer_array(normalized_shape),
                "epsilon": epsilon_attribute(epsilon),
            },
        )

    @property
    def normalized(self) -> tuple[int, ...]:
        """The extents of the last dimensions, over which the mean is taken."""
        return extents_of(self.normalized_shape)

    @property
    def normalized_dims(self) -> range:
        """The last dimensions."""
        rank = len(shape_of(self.input.type))
        return range(rank - len(self.normalized), rank)

    def expected_shape(self) -> tuple[int, ...]:
        """The operand's extents."""
        shape, suffix = shape_of(self.input.type), self.normalized
        if not suffix or shape[-len(suffix) :] != suffix:
            raise ShapeError(
                f"the norm is taken over the last extents {list(suffix)}, which must be a suffix "
                f"of the operand's {dims(shape)}"
            )
        for name, value in zip(("weight", "bias"), self.operands[1:], strict=False):
            if shape_of(value.type) != suffix:
                raise ShapeError(
                    f"the {name} {value_label(value)} has "
                    f"{dims(shape_of(value.type))}, expected {dims(suffix)}, the extents that are "
                    "normalised over"
                )
        return shape

    def verify_(self) -> None:
        """As any kernel; of floating-point numbers, and epsilon is not negative."""
        super().verify_()
        verify_no_integers(self, [*self.operands, self.result], "kn.cast")
        self.verify_epsilon()

    def along(self, value: SSAValue, parts: Expansion) -> SSAValue:
        """A tensor of the normalised extents with the operand's rank."""
        rank = len(shape_of(self.input.type))
        shape = (*[1] * (rank - len(self.normalized)), *self.normalized)
        return parts.add(ReshapeOp(value, TensorType(element_type_of(value.type), shape)))


@irdl_op_definition
class RmsNormOp(NormOp, CanOverlap):
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
    HAS_KERNEL: ClassVar[bool] = True

    assembly_format = (
        "$input (`weight` $weight^)? `over` $normalized_shape (`epsilon` $epsilon^)? "
        "(`workspace` $workspace^)? attr-dict `:` functional-type(operands, results)"
    )

    def expand(self, parts: Expansion) -> SSAValue:
        """x / sqrt(mean of x² + epsilon), times the weight."""
        norm = parts.mean(parts.apply("square", self.input), self.normalized_dims)
        if self.epsilon_value:
            norm = parts.apply("add_scalar", norm, constants=(self.epsilon_value,))
        norm, weight = parts.apply("sqrt", norm), self.weight
        if weight is None:
            return parts.apply("div", self.input, norm, type_=self.result.type)
        quotient = parts.apply("div", self.input, norm)
        return parts.apply("mul", quotient, self.along(weight, parts), type_=self.result.type)


@irdl_op_definition
class LayerNormOp(NormOp):
    """(x - mean) / sqrt(variance + epsilon), times a weight, plus a bias, over the last dimensions.

    ``over`` gives their extents, a suffix of the operand's, which weight and bias have; without
    them, or without the bias, nothing is multiplied or added.  The variance is the mean of
    (x - mean)².  Computes in fp32.

    ``%z = kn.layer_norm %x affine %w, %b over [64] epsilon 1.0e-05 : (tensor<4x64xf16>,
    tensor<64xf16>, tensor<64xf16>) -> tensor<4x64xf16>``.
    """

    name = "kn.layer_norm"

    input = operand_def(TensorType)
    affine = var_operand_def(TensorType)

    assembly_format = (
        "$input (`affine` $affine^)? `over` $normalized_shape (`epsilon` $epsilon^)? "
        "(`workspace` $workspace^)? attr-dict `:` functional-type(operands, results)"
    )

    def verify_(self) -> None:
        """As any norm; no more than a weight and a bias."""
        super().verify_()
        if len(self.affine) > 2:
            raise VerifyException(
                f"{op_label(self)} has {len(self.affine)} operands behind 'affine', expected a "
                "weight, or a weight and a bias"
            )

    def expand(self, parts: Expansion) -> SSAValue:
        """The root mean square norm of what is left without the mean, and the bias."""
        mean = parts.mean(self.input, self.normalized_dims)
        rest = parts.apply("sub", self.input, mean)
        weight, bias = (*self.affine, None, None)[:2]
        type_ = self.result.type
        if bias is None:
            return parts.add(RmsNormOp(rest, self.normalized, type_, weight, self.epsilon_value))
        type_ = TensorType(f32, shape_of(type_))
        normal = parts.add(RmsNormOp(rest, self.normalized, type_, weight, self.epsilon_value))
        return parts.apply("add", normal, self.along(bias, parts), type_=self.result.type)
