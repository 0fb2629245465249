"""A product of matrices that is added to another matrix, by a library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType, bf16, f16, f32
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.element_types import verify_same_type
from mugraph.dialects.kn.composite import CompositeOp, Expansion
from mugraph.dialects.kn.compute import MatmulOp
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.shapes import ShapeError, matmul_shape
from mugraph.dialects.tensor_types import (
    dims,
    element_type_of,
    op_label,
    shape_of,
    value_label,
)


@irdl_op_definition
class MatmulAddOp(CompositeOp):
    """The product of two matrices plus a third one, of f16 or bf16, by cuBLAS.

    The sum is in f32 and rounded once.  Matrices are row-major, but that on the right may be
    column-major, as a weight is that was transposed; rows and columns may be padded.  A
    kernel that multiplies and loads what it adds at its end takes longer: 1,024 x 4,096 x 8,192
    took 111.1 µs on an H200 where cuBLAS took 102.9, and 101.7 for the product alone.
    ``%y = kn.matmul_add %x, %w, %r : (tensor<8x16xf16>, tensor<16x4xf16>, tensor<8x4xf16>) ->
    tensor<8x4xf16>``.
    """

    name = "kn.matmul_add"

    BY_LIBRARY: ClassVar[bool] = True

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    addend = operand_def(TensorType)

    assembly_format = (
        "$lhs `,` $rhs `,` $addend (`workspace` $workspace^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(self, lhs: SSAValue, rhs: SSAValue, addend: SSAValue) -> None:
        super().__init__(operands=[lhs, rhs, addend], result_types=[addend.type])

    def expected_shape(self) -> tuple[int, ...]:
        """The extents of the product, which are those of what it is added to."""
        shape = matmul_shape(shape_of(self.lhs.type), shape_of(self.rhs.type))
        if len(shape) != 2:
            raise ShapeError(f"its product is {dims(shape)}, expected a matrix")
        if shape_of(self.addend.type) != shape:
            other = dims(shape_of(self.addend.type))
            raise ShapeError(f"its product is {dims(shape)}, but it is added to {other}")
        return shape

    def verify_(self) -> None:
        """As any kernel; of f16 or of bf16."""
        super().verify_()
        verify_same_type(self, [*self.operands, self.result], "kn.cast")
        if element_type_of(self.lhs.type) not in (f16, bf16):
            raise VerifyException(
                f"{op_label(self)} is of {element_type_of(self.lhs.type)}, expected f16 or bf16: "
                "write a 'kn.matmul' and a 'kn.add'"
            )

    def expand(self, parts: Expansion) -> SSAValue:
        """A product in f32, and a sum."""
        product = TensorType(f32, shape_of(self.result.type))
        made = parts.add(MatmulOp(self.lhs, self.rhs, product))
        return parts.apply("add", made, self.addend, type_=self.result.type)

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Hard: all are row-major, or on the right column-major; rows and columns may be padded."""
        for value in (*self.operands, self.result):
            dims_within = (1, 0) if value is self.rhs else (1,)
            if not _lies_along(shape_of(value.type), problem.strides_fixed_for(value), dims_within):
                fixed = problem.strides_fixed_for(value) is not None
                ways = " or column-major" if value is self.rhs else ""
                problem.require_any(
                    *([] if fixed else [problem.innermost(value, dim) for dim in dims_within]),
                    reason=f"{op_label(self)} needs {value_label(value)} row-major{ways}",
                )


def _lies_along(
    shape: Sequence[int], strides: Sequence[int] | None, dims_within: Sequence[int]
) -> bool:
    """Whether a matrix is known to have elements of one of these dimensions next to each other."""
    if strides is None:
        return shape[1] == 1
    return any(
        (shape[dim] == 1 or strides[dim] == 1)
        and (shape[1 - dim] == 1 or strides[1 - dim] >= shape[dim])
        for dim in dims_within
    )
