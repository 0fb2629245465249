"""Pre-defined kernels: one launch, or one library call, each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from xdsl.dialects.builtin import Float16Type, Float32Type, FloatAttr, TensorType, f32
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mugraph.dialects.elementwise import ScalarFunction, round_to_fp32
from mugraph.dialects.interfaces import HasLayoutConstraints
from mugraph.dialects.kn.workspace import WorkspaceOp
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.shapes import ShapeError, broadcast_shape, matmul_shape
from mugraph.dialects.tensor_types import dims, element_type_of, op_label, shape_of, value_label


class KernelOp(WorkspaceOp, HasLayoutConstraints, ABC):
    """A pre-defined kernel with one result."""

    result = result_def(TensorType)
    traits = traits_def(Pure())

    def expected_shape(self) -> tuple[int, ...]:
        """The extents the result must have; raises ``ShapeError`` where operands do not fit."""
        return broadcast_shape([shape_of(operand.type) for operand in self.operands])

    def verify_(self) -> None:
        """Checks the result's extents and the workspace."""
        WorkspaceOp.verify_(self)
        try:
            expected = self.expected_shape()
        except ShapeError as error:
            raise VerifyException(f"{op_label(self)}: {error}") from error
        if shape_of(self.result.type) != expected:
            raise VerifyException(
                f"{op_label(self)}: the result has {dims(shape_of(self.result.type))}, expected "
                f"{dims(expected)}"
            )


class Computation(StrEnum):
    """The type in which a library matrix product accumulates."""

    F32 = "f32"
    F16 = "f16"


@irdl_attr_definition
class ComputationAttr(EnumAttribute[Computation], SpacedOpaqueSyntaxAttribute):
    """``#kn<compute f16>``: the accumulation type of a ``kn.matmul``."""

    name = "kn.compute"


@irdl_op_definition
class MatmulOp(KernelOp):
    """The batched matrix product of [..., M, K] and [..., K, N], by cuBLAS.

    Accumulates in fp32, or in fp16 where the graph asks for it: ``kn.matmul %a, %b compute f16``.
    """

    name = "kn.matmul"

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    compute = opt_prop_def(ComputationAttr)

    assembly_format = (
        "$lhs `,` $rhs (`compute` $compute^)? (`workspace` $workspace^)? attr-dict "
        "`:` `(` type($lhs) `,` type($rhs) `)` `->` type($result)"
    )

    def __init__(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        result_type: Attribute,
        compute: Computation | None = None,
    ) -> None:
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type],
            properties={"compute": None if compute is None else ComputationAttr(compute)},
        )

    @property
    def computation(self) -> Computation:
        """The accumulation type; fp32 unless the graph asks for less."""
        return Computation.F32 if self.compute is None else self.compute.data

    def expected_shape(self) -> tuple[int, ...]:
        """The extents of the product."""
        return matmul_shape(shape_of(self.lhs.type), shape_of(self.rhs.type))

    def verify_(self) -> None:
        """As any kernel; all tensors have one element type, as a cuBLAS call takes."""
        super().verify_()
        types = [element_type_of(value.type) for value in (self.lhs, self.rhs, self.result)]
        if len(set(types)) > 1:
            raise VerifyException(
                f"{op_label(self)} multiplies {types[0]} by {types[1]} into {types[2]}; cuBLAS "
                "takes one element type: convert the others"
            )
        if self.computation is Computation.F16 and not isinstance(types[0], Float16Type):
            raise VerifyException(
                f"{op_label(self)}: compute f16 is for tensors of f16, not {types[0]}; leave it out"
            )

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Hard: one of the last two dimensions of every tensor has stride 1 (cuBLAS).

        A single row or column is a matrix of any row stride, so a given layout of one always fits.
        """
        for value in (self.lhs, self.rhs, self.result):
            shape, fixed = shape_of(value.type), problem.strides_fixed_for(value)
            rank = len(shape)
            wide = [dim for dim in (rank - 1, rank - 2) if shape[dim] > 1]
            if not wide or (fixed is not None and len(wide) == 1):
                continue
            problem.require_any(
                *(
                    problem.innermost(value, dim)
                    for dim in wide
                    if fixed is None or fixed[dim] == 1
                ),
                reason=(
                    f"{op_label(self)} calls cuBLAS, which needs stride 1 along one of the last "
                    f"two dimensions of {value_label(value)}"
                    + (f", whose strides are ({','.join(map(str, fixed))})" if fixed else "")
                ),
            )


class ElementwiseOp(KernelOp, ABC):
    """A kernel that computes each element from the elements at the same place."""

    @property
    @abstractmethod
    def function(self) -> ScalarFunction:
        """What is computed of each element."""

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Operands and result share their innermost dimension, unless a user fixed them otherwise.

        A tensor that is broadcast along a dimension is not restricted there.  The kernel reads any
        layout, so layouts that a user fixed differently are slower but no error.
        """
        for operand in self.operands:
            for dim, extent in enumerate(shape_of(operand.type)):
                if extent > 1:
                    problem.prefer_any(
                        problem.innermost(self.result, dim).negated(),
                        problem.innermost(operand, dim),
                        reason=(
                            f"{op_label(self)} is fastest where {value_label(operand)} and the "
                            "result have the same innermost dimension"
                        ),
                    )


class UnaryOp(ElementwiseOp, ABC):
    """A function of one tensor."""

    input = operand_def(TensorType)
    FUNCTION: ClassVar[str]

    assembly_format = (
        "$input (`workspace` $workspace^)? attr-dict `:` type($input) `->` type($result)"
    )

    def __init__(self, operand: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[operand], result_types=[result_type])

    @property
    def function(self) -> ScalarFunction:
        """The scalar function of this operator."""
        return ScalarFunction(self.FUNCTION)


@irdl_op_definition
class ExpOp(UnaryOp):
    """e to the power of each element."""

    name = "kn.exp"
    FUNCTION: ClassVar[str] = "exp"


@irdl_op_definition
class SiluOp(UnaryOp):
    """x / (1 + exp(-x)) of each element."""

    name = "kn.silu"
    FUNCTION: ClassVar[str] = "silu"


@irdl_op_definition
class SquareOp(UnaryOp):
    """The square of each element."""

    name = "kn.square"
    FUNCTION: ClassVar[str] = "square"


@irdl_op_definition
class SqrtOp(UnaryOp):
    """The square root of each element."""

    name = "kn.sqrt"
    FUNCTION: ClassVar[str] = "sqrt"


@irdl_op_definition
class MulScalarOp(UnaryOp):
    """Each element times a constant, an fp32 number: ``kn.mul_scalar %x by 0.5``."""

    name = "kn.mul_scalar"
    FUNCTION: ClassVar[str] = "mul_scalar"

    scalar = prop_def(FloatAttr[Float32Type])

    assembly_format = (
        "$input `by` $scalar (`workspace` $workspace^)? attr-dict "
        "`:` type($input) `->` type($result)"
    )

    def __init__(self, operand: SSAValue, scalar: float, result_type: Attribute) -> None:
        IRDLOperation.__init__(
            self,
            operands=[operand],
            result_types=[result_type],
            properties={"scalar": FloatAttr(round_to_fp32(scalar), f32)},
        )

    @property
    def function(self) -> ScalarFunction:
        """Multiplication by the constant."""
        return ScalarFunction("mul_scalar", (self.scalar.value.data,))


class BinaryOp(ElementwiseOp, ABC):
    """A function of two tensors of equal rank; an extent of 1 is broadcast."""

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    FUNCTION: ClassVar[str]

    assembly_format = (
        "$lhs `,` $rhs (`workspace` $workspace^)? attr-dict "
        "`:` `(` type($lhs) `,` type($rhs) `)` `->` type($result)"
    )

    def __init__(self, lhs: SSAValue, rhs: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[lhs, rhs], result_types=[result_type])

    @property
    def function(self) -> ScalarFunction:
        """The scalar function of this operator."""
        return ScalarFunction(self.FUNCTION)


@irdl_op_definition
class AddOp(BinaryOp):
    """The sum, element by element."""

    name = "kn.add"
    FUNCTION: ClassVar[str] = "add"


@irdl_op_definition
class MulOp(BinaryOp):
    """The product, element by element."""

    name = "kn.mul"
    FUNCTION: ClassVar[str] = "mul"


@irdl_op_definition
class DivOp(BinaryOp):
    """The quotient, element by element."""

    name = "kn.div"
    FUNCTION: ClassVar[str] = "div"
