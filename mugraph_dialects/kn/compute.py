"""Pre-defined kernels: one launch, or one library call, each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, TensorType, bf16, f8E4M3FN, f8E5M2, f16, f32
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.element_types import (
    F8_TYPES,
    is_integer,
    verify_product_types,
)
from mugraph.dialects.elementwise import BINARY_FUNCTIONS, TERNARY_FUNCTIONS, UNARY_FUNCTIONS
from mugraph.dialects.elementwise_operators import (
    BinaryFunctionOperator,
    FunctionOperator,
    TernaryFunctionOperator,
    UnaryFunctionOperator,
    make_operators,
)
from mugraph.dialects.interfaces import HasTileIndices, TileIndex
from mugraph.dialects.kn.kernel import KernelOp
from mugraph.dialects.kn.overlap import RuntimePart
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.precision import HasPrecision, Precision, PrecisionAttr
from mugraph.dialects.shapes import matmul_shape
from mugraph.dialects.tb.operators import parallel_indices, product_indices
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of, value_label

PRODUCT_RESULTS: dict[Attribute, tuple[Attribute, ...]] = {
    type_: (f8E4M3FN, f8E5M2, f16, bf16, f32) for type_ in F8_TYPES
}
"""Types of results of products, where they are others than the operands' own and f32."""


class Computation(StrEnum):
    """The type in which a library matrix product accumulates."""

    F32 = "f32"
    F16 = "f16"


@irdl_attr_definition
class ComputationAttr(EnumAttribute[Computation], SpacedOpaqueSyntaxAttribute):
    """``#kn<compute f16>``: the accumulation type of a ``kn.matmul``."""

    name = "kn.compute"


@irdl_op_definition
class MatmulOp(KernelOp, HasPrecision, HasTileIndices):
    """The batched matrix product of [..., M, K] and [..., K, N], by cuBLAS.

    Accumulates in fp32, or in fp16 where the graph asks for it: ``kn.matmul %a, %b compute f16``.
    f16 and bf16 give results of their type, or the sums themselves in f32.  f32 is multiplied as
    TF32, or in plain fp32 with ``precision ieee``; i8 is added up in i32.  f8, of one type or of
    both, gives f8, f16, bf16 or f32, and is multiplied as f16, which it becomes exactly.

    ``kn.matmul %a, %b rows "m"``: of the rows of a matrix the first ones are multiplied, as many as
    the function's extent m says at a call.
    """

    name = "kn.matmul"

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    compute = opt_prop_def(ComputationAttr)
    rows = opt_prop_def(StringAttr)

    assembly_format = (
        "$lhs `,` $rhs (`rows` $rows^)? (`compute` $compute^)? (`precision` $precision^)? "
        "(`workspace` $workspace^)? attr-dict "
        "`:` `(` type($lhs) `,` type($rhs) `)` `->` type($result)"
    )

    def __init__(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        result_type: Attribute,
        compute: Computation | None = None,
        precision: Precision | None = None,
    ) -> None:
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type],
            properties={
                "compute": None if compute is None else ComputationAttr(compute),
                "precision": None if precision is None else PrecisionAttr(precision),
            },
        )

    @property
    def computation(self) -> Computation:
        """The accumulation type; fp32 unless the graph asks for less."""
        return Computation.F32 if self.compute is None else self.compute.data

    @property
    def library_type(self) -> Attribute:
        """The element type in which cuBLAS multiplies the operands: f16 for f8, else their own.

        Its products of f8 are for some layouts and extents only.
        """
        type_ = element_type_of(self.lhs.type)
        return f16 if type_ in PRODUCT_RESULTS else type_

    @property
    def is_in_library_type(self) -> bool:
        """Whether cuBLAS multiplies the operands as they are."""
        return element_type_of(self.lhs.type) == self.library_type

    def expected_shape(self) -> tuple[int, ...]:
        """The extents of the product."""
        return matmul_shape(shape_of(self.lhs.type), shape_of(self.rhs.type))

    def tile_indices(self) -> Sequence[TileIndex]:
        """Those of a product of tiles."""
        return product_indices(len(shape_of(self.result.type)))

    def linear_in(self) -> Sequence[frozenset[int]]:
        """In either factor."""
        return (frozenset({0}), frozenset({1}))

    def verify_(self) -> None:
        """As any kernel; of element types that cuBLAS takes together."""
        super().verify_()
        verify_product_types(self, self.lhs, self.rhs, self.result, "kn.cast")
        self.verify_precision(self.lhs)
        types = [element_type_of(value.type) for value in (self.lhs, self.rhs, self.result)]
        results = PRODUCT_RESULTS.get(types[0], (types[0], f32))
        if not is_integer(types[0]) and types[2] not in results:
            known = ", ".join(map(str, results[:-1]))
            raise VerifyException(
                f"{op_label(self)} multiplies {types[0]} by {types[1]} into {types[2]}; results "
                f"are {known} or {results[-1]}: insert a 'kn.cast' after it"
            )
        if self.computation is Computation.F16 and (wider := {*types} - {f16}):
            raise OperatorError(
                f"compute f16 is for tensors of f16, not {wider.pop()}; leave it out"
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


class ElementwiseOp(FunctionOperator, KernelOp, RuntimePart, HasTileIndices):
    """A kernel that computes each element from the elements at the same place.

    What is computed of integers alone is exact, modulo two to the power of their bits.
    """

    TAKES_INTEGERS: ClassVar[bool] = True

    def verify_(self) -> None:
        """As any kernel; the function takes its constants, and the element types may meet."""
        self.verify_function()
        super().verify_()
        self.verify_types()

    def tile_indices(self) -> Sequence[TileIndex]:
        """One a dimension, along which operands of one element are broadcast."""
        rank = len(shape_of(self.result.type))
        return parallel_indices(rank, len(self.operands), broadcasts=True)

    def linear_in(self) -> Sequence[frozenset[int]]:
        """As the function is."""
        return self.function.linear_in


class UnaryOp(UnaryFunctionOperator, ElementwiseOp):
    """A function of one tensor."""

    input = operand_def(TensorType)

    assembly_format = (
        "$input (`workspace` $workspace^)? attr-dict `:` type($input) `->` type($result)"
    )


@irdl_op_definition
class CastOp(UnaryOp):
    """Each element in another element type; rounds and saturates as ``tb.cast``."""

    name = "kn.cast"

    def verify_types(self) -> None:
        """Any element type to any other."""
        if element_type_of(self.input.type) == element_type_of(self.result.type):
            raise VerifyException(
                f"{op_label(self)} converts {element_type_of(self.input.type)} to itself; leave "
                "it out"
            )


class BinaryOp(BinaryFunctionOperator, ElementwiseOp):
    """A function of two tensors of equal rank; an extent of 1 is broadcast."""

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)

    assembly_format = (
        "$lhs `,` $rhs (`workspace` $workspace^)? attr-dict "
        "`:` `(` type($lhs) `,` type($rhs) `)` `->` type($result)"
    )


class TernaryOp(TernaryFunctionOperator, ElementwiseOp):
    """A function of three tensors of equal rank; an extent of 1 is broadcast."""

    first = operand_def(TensorType)
    second = operand_def(TensorType)
    third = operand_def(TensorType)

    assembly_format = (
        "$first `,` $second `,` $third (`workspace` $workspace^)? attr-dict "
        "`:` `(` type($first) `,` type($second) `,` type($third) `)` `->` type($result)"
    )


UNARY_OPERATORS = make_operators("kn", UnaryOp, UNARY_FUNCTIONS)
"""The operator of each function of one number."""
BINARY_OPERATORS = make_operators("kn", BinaryOp, BINARY_FUNCTIONS)
"""The operator of each function of two numbers."""
TERNARY_OPERATORS = make_operators("kn", TernaryOp, TERNARY_FUNCTIONS)
"""The operator of each function of three numbers."""
ELEMENTWISE_OPERATORS: tuple[type[ElementwiseOp], ...] = (
    *UNARY_OPERATORS.values(),
    *BINARY_OPERATORS.values(),
    *TERNARY_OPERATORS.values(),
)
"""All of them."""
