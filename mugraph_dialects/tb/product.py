"""Products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import Pure

from mugraph.dialects.assembly import ThenEpilogue
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.element_types import verify_no_integers, verify_product_types
from mugraph.dialects.interfaces import (
    HasEpilogue,
    IndexKind,
    SharedAccess,
    TileIndex,
)
from mugraph.dialects.precision import HasPrecision, Precision, PrecisionAttr
from mugraph.dialects.programming_model import MATRIX_ROW_BYTES
from mugraph.dialects.ragged import Bounds, Padding
from mugraph.dialects.shapes import ShapeError, matmul_shape
from mugraph.dialects.tb.operators import (
    AccessesTiles,
    TileOperator,
    expect_shape,
    parallel_indices,
    product_indices,
    verify_epilogue,
)
from mugraph.dialects.tb.ragged import matmul_bounds
from mugraph.dialects.tb.types import STensorType
from mugraph.dialects.tensor_types import (
    dims,
    element_bytes_of,
    innermost_of,
    shape_of,
    value_label,
)


@irdl_op_definition
class MatmulOp(HasEpilogue, HasPrecision, TileOperator):
    """The matrix product of [..., M, K] and [..., K, N]; leading extents are equal.

    Each pair of matrices is a product of its own; ``--decompose-threadblock`` takes them apart,
    unless it is ``sliced``: then the block's warps share the pairs, each of which has warps of its
    own.

    ``%m = tb.matmul %a, %b then [exp] : (...) -> ...`` applies an epilogue to each element.

    Both operands have one element type, or each one of f8.  i8 is added up in i32, exactly (modulo
    2^32); everything else in fp32.  f32 is multiplied as TF32, or in plain fp32 with ``precision
    ieee``.
    """

    name = "tb.matmul"

    lhs = operand_def(STensorType)
    rhs = operand_def(STensorType)
    result = result_def(STensorType)
    sliced = opt_prop_def(UnitAttr)
    traits = traits_def(Pure())

    assembly_format = (
        "(`sliced` $sliced^)? $lhs `,` $rhs (`precision` $precision^)? "
        "custom<ThenEpilogue>($epilogue) attr-dict "
        "`:` `(` type($lhs) `,` type($rhs) `)` `->` type($result)"
    )
    custom_directives = (ThenEpilogue,)

    def __init__(
        self,
        lhs: SSAValue,
        rhs: SSAValue,
        result_type: Attribute,
        precision: Precision | None = None,
    ) -> None:
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type],
            properties={"precision": None if precision is None else PrecisionAttr(precision)},
        )

    def verify_(self) -> None:
        """Checks ranks, the contracted extent, leading extents, element types and the result."""
        lhs, rhs = shape_of(self.lhs.type), shape_of(self.rhs.type)
        expected = matmul_shape(lhs, rhs)
        expect_shape(self, expected, self.result)
        verify_product_types(self, self.lhs, self.rhs, self.result, "tb.cast")
        verify_epilogue(self, self.result)
        self.verify_precision(self.lhs)
        if self.sliced is not None and math.prod(expected[1:-2]) * (expected[0] > 1) != 1:
            raise OperatorError(
                "warps share pairs of matrices along the first of three or more dimensions; it has "
                f"{dims(expected)}"
            )

    @property
    def slices(self) -> int:
        """How many pairs the warps of a block share; 1 where all warps share one product."""
        return 1 if self.sliced is None else shape_of(self.result.type)[0]

    def result_bounds(self, operands: Sequence[Bounds]) -> Bounds:
        """Rows as of the first operand, columns as of the second."""
        return matmul_bounds(self, operands)

    def identities(self, operand: int, bounds: Bounds) -> Padding:
        """Zeros along the contracted dimension: of both operands, as 0 times NaN is NaN."""
        return {len(bounds) - (1 if operand == 0 else 2): 0.0}

    def tile_indices(self) -> Sequence[TileIndex]:
        """Leading dimensions, rows, columns, and the one that is summed over."""
        return product_indices(len(shape_of(self.result.type)))

    def linear_in(self) -> Sequence[frozenset[int]]:
        """In either factor."""
        return (frozenset({0}), frozenset({1}))

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Rows of 16 bytes, one below the other, of both operands and of the result."""
        return [matrix_access(value) for value in (self.lhs, self.rhs, self.result)]


@irdl_op_definition
class ConcatThenMatmulOp(IRDLOperation, AccessesTiles):
    """(A1 | A2) times (B1 over B2), which is A1 B1 + A2 B2: nothing is put together.

    ``%m = tb.concat_then_matmul %a1, %a2, %b1, %b2 : (!tb.stensor<8x16xf16>,
    !tb.stensor<8x4xf16>, !tb.stensor<16x8xf16>, !tb.stensor<4x8xf16>) -> !tb.stensor<8x8xf16>``
    """

    name = "tb.concat_then_matmul"

    lhs1 = operand_def(STensorType)
    lhs2 = operand_def(STensorType)
    rhs1 = operand_def(STensorType)
    rhs2 = operand_def(STensorType)
    result = result_def(STensorType)
    traits = traits_def(Pure())

    assembly_format = (
        "$lhs1 `,` $lhs2 `,` $rhs1 `,` $rhs2 attr-dict `:` functional-type(operands, results)"
    )

    def __init__(self, operands: Sequence[SSAValue], result_type: Attribute) -> None:
        super().__init__(operands=list(operands), result_types=[result_type])

    def products(self) -> Sequence[tuple[SSAValue, SSAValue]]:
        """The pairs of matrices whose products are added up."""
        return [(self.lhs1, self.rhs1), (self.lhs2, self.rhs2)]

    def verify_(self) -> None:
        """Checks that both products have the result's extents."""
        for lhs, rhs in self.products():
            try:
                expected = matmul_shape(shape_of(lhs.type), shape_of(rhs.type))
            except ShapeError as error:
                raise OperatorError(
                    f"{value_label(lhs)} times {value_label(rhs)}: {error}"
                ) from error
            expect_shape(self, expected, self.result)
            verify_product_types(self, lhs, rhs, self.result, "tb.cast")
        verify_no_integers(self, [*self.operands, self.result], "tb.cast")

    def tile_indices(self) -> Sequence[TileIndex]:
        """As two products; what they are summed over must be cut alike to be cut at all."""
        rank = len(shape_of(self.result.type))
        rows, columns = rank - 2, rank - 1
        return [
            *parallel_indices(rank, 4, range(rank - 2)),
            TileIndex(IndexKind.PARALLEL, (rows, rows, None, None), rows),
            TileIndex(IndexKind.PARALLEL, (None, None, columns, columns), columns),
            TileIndex(IndexKind.SUMMED, (columns, columns, rows, rows)),
        ]

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Rows of 16 bytes, one below the other, of all operands and of the result."""
        return [matrix_access(value) for value in (*self.operands, self.result)]


def matrix_access(value: SSAValue) -> SharedAccess:
    """How a matrix product touches an operand or its result: down the rows of 16 bytes."""
    rank = len(shape_of(value.type))
    walk = rank - 2 if innermost_of(value) == rank - 1 else rank - 1
    return SharedAccess(value, walk, MATRIX_ROW_BYTES // element_bytes_of(value.type))
