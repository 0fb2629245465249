"""Operators that compute on tiles in shared memory.

Every operator computes in fp32 and rounds once, to the element type of its result.  An operator
with an epilogue applies it to each element before that rounding.  Operands of different types are
joined by ``tb.cast``; which types may meet is said in :mod:`mugraph.dialects.element_types`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type, FloatAttr, IntegerAttr, f32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import ThenEpilogue
from mugraph.dialects.element_types import (
    is_integer,
    verify_joined_types,
    verify_no_integers,
    verify_product_types,
    verify_sum_types,
)
from mugraph.dialects.elementwise import (
    BINARY_FUNCTIONS,
    UNARY_FUNCTIONS,
    Epilogue,
    EpilogueAttr,
    round_to_fp32,
)
from mugraph.dialects.elementwise_operators import (
    FunctionOperator,
    constant_properties,
    make_operators,
)
from mugraph.dialects.interfaces import (
    FusesWithProducer,
    HasEpilogue,
    HasLayoutConstraints,
    HasRaggedTiles,
    HasSharedAccesses,
    HasTileIndices,
    IndexKind,
    SharedAccess,
    TileIndex,
)
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.partition import choose_lanes, result_order
from mugraph.dialects.precision import HasPrecision, Precision, PrecisionAttr
from mugraph.dialects.ragged import Bounds, Padding
from mugraph.dialects.shapes import ShapeError, broadcast_shape, matmul_shape
from mugraph.dialects.tb.layouts import (
    add_iteration_constraints,
    elementwise_accesses,
    partitioned_operand,
    reduction_accesses,
    require_swizzled_unless_innermost,
)
from mugraph.dialects.tb.memory import enclosing_graph
from mugraph.dialects.tb.ragged import (
    function_padding,
    matmul_bounds,
    merged_bounds,
    whole_along,
)
from mugraph.dialects.tb.types import STensorType
from mugraph.dialects.tensor_types import (
    dims,
    element_bytes_of,
    element_type_of,
    op_label,
    shape_of,
    value_label,
)

MATRIX_CHUNK_BYTES = 16
"""One row of an ``ldmatrix`` tile: what a matrix operand must keep contiguous."""


def epilogue_of(op: Operation) -> Epilogue:
    """The epilogue of an operator; empty where it has none."""
    attribute = op.properties.get("epilogue")
    return attribute.data if isinstance(attribute, EpilogueAttr) else Epilogue()


def expect_shape(op: Operation, expected: Sequence[int], result: SSAValue) -> None:
    """Raises ``VerifyException`` unless ``result`` has the expected extents."""
    if shape_of(result.type) != tuple(expected):
        raise VerifyException(
            f"{op_label(op)}: the result has {dims(shape_of(result.type))}, expected "
            f"{dims(expected)}"
        )


def verify_epilogue(op: Operation, result: SSAValue) -> None:
    """Raises ``VerifyException`` where an epilogue computes on integers."""
    if is_integer(element_type_of(result.type)) and epilogue_of(op).functions:
        raise VerifyException(
            f"{op_label(op)}: its epilogue computes on floating-point numbers, but the result has "
            f"elements of {element_type_of(result.type)}; insert a 'tb.cast' to f32 before them"
        )


def parallel_indices(
    rank: int, operands: int, dims: Iterable[int] | None = None, *, broadcasts: bool = False
) -> list[TileIndex]:
    """An index for each dimension, or some of them, that all operands and results share."""
    return [
        TileIndex(IndexKind.PARALLEL, (dim,) * operands, dim, broadcasts)
        for dim in (range(rank) if dims is None else dims)
    ]


def all_but(rank: int, dim: int) -> list[int]:
    """The other dimensions."""
    return [other for other in range(rank) if other != dim]


class ElementwiseOp(
    FunctionOperator,
    HasEpilogue,
    HasLayoutConstraints,
    HasSharedAccesses,
    HasRaggedTiles,
    HasTileIndices,
    ABC,
):
    """An operator that computes each element from the elements at the same place."""

    result = result_def(STensorType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Checks the constants, the element types, and the result against the operands' extents."""
        self.verify_function()
        try:
            expected = broadcast_shape([shape_of(operand.type) for operand in self.operands])
        except ShapeError as error:
            raise VerifyException(f"{op_label(self)}: {error}") from error
        expect_shape(self, expected, self.result)
        self.verify_types()

    def verify_types(self) -> None:
        """Checks that the tensors are of floating-point numbers, and of types that may meet."""
        verify_no_integers(self, [*self.operands, self.result], "tb.cast")
        verify_joined_types(self, self.operands, "tb.cast")

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """All tensors are innermost or swizzled along the dimension the threads walk."""
        values = [*self.operands, self.result]
        add_iteration_constraints(problem, self, values, range(len(shape_of(self.result.type))))

    def result_bounds(self, operands: Sequence[Bounds]) -> Bounds:
        """Those of the operands, which must agree."""
        return merged_bounds(self, operands)

    def result_padding(self, operands: Sequence[Padding]) -> Padding:
        """What the function makes of the operands' padding."""
        return function_padding(self.function, operands)

    def tile_indices(self) -> Sequence[TileIndex]:
        """One a dimension, along which operands of one element are broadcast."""
        rank = len(shape_of(self.result.type))
        return parallel_indices(rank, len(self.operands), broadcasts=True)

    def linear_in(self) -> Sequence[frozenset[int]]:
        """As the function is."""
        return self.function.linear_in

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Reads and the write, along the dimension that scheduling will choose."""
        _, block, _ = enclosing_graph(self)
        threads = block[0] * block[1] * block[2]
        return elementwise_accesses(self.result, self.operands, threads)


class UnaryOp(ElementwiseOp, FusesWithProducer, ABC):
    """A function of one tensor."""

    input = operand_def(STensorType)

    assembly_format = (
        "$input custom<ThenEpilogue>($epilogue) attr-dict `:` type($input) `->` type($result)"
    )
    custom_directives = (ThenEpilogue,)

    def __init__(
        self,
        operand: SSAValue,
        result_type: Attribute | None = None,
        constants: Sequence[float] = (),
    ) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type or operand.type],
            properties=constant_properties(self.FUNCTION, constants),
        )

    def fused_onto(self, epilogue: Epilogue) -> Epilogue | None:
        """The epilogue followed by the operator's function and its own epilogue."""
        fused = epilogue.then(self.function)
        own = epilogue_of(self)
        for function in own.functions:
            fused = fused.then(function)
        return fused.then_accumulate() if own.accumulates else fused


@irdl_op_definition
class CastOp(UnaryOp):
    """Each element in another element type: ``tb.cast %x : ... -> !tb.stensor<16x8xf8E4M3FN>``.

    Rounds to nearest even.  f8E4M3FN, f8E5M2, i8 and i32 saturate: what is larger than their
    largest number, infinities included, becomes that; f16 and bf16 overflow to infinities.  NaN
    stays NaN, and becomes 0 in integers.  An i32 that fp32 cannot hold passes through fp32.
    """

    name = "tb.cast"

    def verify_types(self) -> None:
        """Any element type to any other, or to itself where an epilogue follows."""
        same = element_type_of(self.input.type) == element_type_of(self.result.type)
        if same and not epilogue_of(self):
            raise VerifyException(
                f"{op_label(self)} converts {element_type_of(self.input.type)} to itself; leave "
                "it out"
            )
        verify_epilogue(self, self.result)
        source, target = (element_type_of(value.type) for value in (self.input, self.result))
        if epilogue_of(self).accumulates and is_integer(target) and not is_integer(source):
            raise VerifyException(
                f"{op_label(self)} would add up {source} before it is rounded to {target}; use a "
                "'tb.forloop_accum' after it"
            )

    def linear_in(self) -> Sequence[frozenset[int]]:
        """In its operand, unless that is rounded to whole numbers."""
        source, target = (element_type_of(value.type) for value in (self.input, self.result))
        return () if is_integer(target) and not is_integer(source) else super().linear_in()

    def fused_onto(self, epilogue: Epilogue) -> Epilogue | None:
        """The epilogue as it is: its one rounding is then to the cast's type.

        Integers are not rounded to on the way out of an operator on floating-point numbers, and
        of two casts both are made.
        """
        if isinstance(self.input.owner, CastOp):
            return None
        if any(is_integer(element_type_of(value.type)) for value in (self.input, self.result)):
            return None
        for function in epilogue_of(self).functions:
            epilogue = epilogue.then(function)
        return epilogue.then_accumulate() if epilogue_of(self).accumulates else epilogue


class BinaryOp(ElementwiseOp, ABC):
    """A function of two tensors of equal rank; an extent of 1 is broadcast."""

    lhs = operand_def(STensorType)
    rhs = operand_def(STensorType)

    assembly_format = (
        "$lhs `,` $rhs custom<ThenEpilogue>($epilogue) attr-dict "
        "`:` `(` type($lhs) `,` type($rhs) `)` `->` type($result)"
    )
    custom_directives = (ThenEpilogue,)

    def __init__(self, lhs: SSAValue, rhs: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[lhs, rhs], result_types=[result_type])


UNARY_OPERATORS = make_operators("tb", UnaryOp, UNARY_FUNCTIONS)
"""The operator of each function of one number."""
BINARY_OPERATORS = make_operators("tb", BinaryOp, BINARY_FUNCTIONS)
"""The operator of each function of two numbers."""
ELEMENTWISE_OPERATORS: tuple[type[ElementwiseOp], ...] = (
    *UNARY_OPERATORS.values(),
    *BINARY_OPERATORS.values(),
)
"""All of them."""

ExpOp = UNARY_OPERATORS["exp"]
SiluOp = UNARY_OPERATORS["silu"]
GeluOp = UNARY_OPERATORS["gelu"]
SigmoidOp = UNARY_OPERATORS["sigmoid"]
ReluOp = UNARY_OPERATORS["relu"]
SquareOp = UNARY_OPERATORS["square"]
SqrtOp = UNARY_OPERATORS["sqrt"]
LogOp = UNARY_OPERATORS["log"]
MulScalarOp = UNARY_OPERATORS["mul_scalar"]
AddScalarOp = UNARY_OPERATORS["add_scalar"]
ClampOp = UNARY_OPERATORS["clamp"]
AddOp = BINARY_OPERATORS["add"]
SubOp = BINARY_OPERATORS["sub"]
MulOp = BINARY_OPERATORS["mul"]
DivOp = BINARY_OPERATORS["div"]
PowOp = BINARY_OPERATORS["pow"]
MaxOp = BINARY_OPERATORS["max"]


@irdl_op_definition
class MatmulOp(
    HasEpilogue,
    HasPrecision,
    HasLayoutConstraints,
    HasSharedAccesses,
    HasRaggedTiles,
    HasTileIndices,
):
    """The matrix product of [..., M, K] and [..., K, N]; leading extents are equal.

    Each pair of matrices is a product of its own; ``--decompose-threadblock`` takes them apart.

    ``%m = tb.matmul %a, %b then [exp] : (...) -> ...`` applies an epilogue to each element.

    Both operands have one element type.  i8 is added up in i32, exactly (modulo 2^32); everything
    else in fp32.  f32 is multiplied as TF32, or in plain fp32 with ``precision ieee``.
    """

    name = "tb.matmul"

    lhs = operand_def(STensorType)
    rhs = operand_def(STensorType)
    result = result_def(STensorType)
    traits = traits_def(Pure())

    assembly_format = (
        "$lhs `,` $rhs (`precision` $precision^)? custom<ThenEpilogue>($epilogue) attr-dict "
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
        try:
            expected = matmul_shape(lhs, rhs)
        except ShapeError as error:
            raise VerifyException(f"{op_label(self)}: {error}") from error
        expect_shape(self, expected, self.result)
        verify_product_types(self, self.lhs, self.rhs, self.result, "tb.cast")
        verify_epilogue(self, self.result)
        self.verify_precision(self.lhs)

    def result_bounds(self, operands: Sequence[Bounds]) -> Bounds:
        """Rows as of the first operand, columns as of the second."""
        return matmul_bounds(self, operands)

    def identities(self, operand: int, bounds: Bounds) -> Padding:
        """Zeros along the contracted dimension: of both operands, as 0 times NaN is NaN."""
        return {len(bounds) - (1 if operand == 0 else 2): 0.0}

    def tile_indices(self) -> Sequence[TileIndex]:
        """Leading dimensions, rows, columns, and the one that is summed over."""
        rank = len(shape_of(self.result.type))
        return [
            *parallel_indices(rank, 2, range(rank - 2)),
            TileIndex(IndexKind.PARALLEL, (rank - 2, None), rank - 2),
            TileIndex(IndexKind.PARALLEL, (None, rank - 1), rank - 1),
            TileIndex(IndexKind.SUMMED, (rank - 1, rank - 2)),
        ]

    def linear_in(self) -> Sequence[frozenset[int]]:
        """In either factor."""
        return (frozenset({0}), frozenset({1}))

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Both matrix dimensions are innermost or swizzled; operands suit ``ldmatrix``."""
        for value in (self.lhs, self.rhs, self.result):
            rank = len(shape_of(value.type))
            for dim in (rank - 2, rank - 1):
                require_swizzled_unless_innermost(problem, self, value, dim)
        for value in (self.lhs, self.rhs):
            for dim in range(len(shape_of(value.type)) - 2):
                problem.charge(
                    problem.costs.matmul_without_ldmatrix,
                    problem.innermost(value, dim),
                    reason="a matrix operand whose innermost dimension is not one of its last two",
                )

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Rows of 16 bytes, one below the other, of both operands and of the result."""
        return [matrix_access(value) for value in (self.lhs, self.rhs, self.result)]


@irdl_op_definition
class ConcatThenMatmulOp(IRDLOperation, HasLayoutConstraints, HasSharedAccesses, HasTileIndices):
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
                raise VerifyException(
                    f"{op_label(self)}: {value_label(lhs)} times {value_label(rhs)}: {error}"
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

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """As two matrix products."""
        for value in (*self.operands, self.result):
            rank = len(shape_of(value.type))
            for dim in (rank - 2, rank - 1):
                require_swizzled_unless_innermost(problem, self, value, dim)

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Rows of 16 bytes, one below the other, of all operands and of the result."""
        return [matrix_access(value) for value in (*self.operands, self.result)]


def matrix_access(value: SSAValue) -> SharedAccess:
    """How a matrix product touches an operand or its result: down the rows of 16 bytes."""
    from mugraph.dialects.tensor_types import innermost_of

    rank = len(shape_of(value.type))
    walk = rank - 2 if innermost_of(value) == rank - 1 else rank - 1
    return SharedAccess(value, walk, MATRIX_CHUNK_BYTES // element_bytes_of(value.type))


@irdl_op_definition
class RmsNormOp(
    IRDLOperation, HasLayoutConstraints, HasSharedAccesses, HasRaggedTiles, HasTileIndices
):
    """x / sqrt(mean of x² over the last dimension + epsilon) of the tile, times a weight.

    It is the norm of the whole tensor only where the last dimension is not split.  Without an
    epsilon that is 0.  The weight has the last extent of the operand, and 1 elsewhere.

    ``%y = tb.rms_norm %x : !tb.stensor<4x64xf16> -> !tb.stensor<4x64xf16>``,
    ``%z = tb.rms_norm %x weight %w epsilon 1.0e-05 : !tb.stensor<4x64xf16>,
    !tb.stensor<1x64xf16> -> !tb.stensor<4x64xf16>``
    """

    name = "tb.rms_norm"

    input = operand_def(STensorType)
    weight = opt_operand_def(STensorType)
    epsilon = opt_prop_def(FloatAttr[Float32Type])
    result = result_def(STensorType)
    traits = traits_def(Pure())

    assembly_format = (
        "$input (`weight` $weight^)? (`epsilon` $epsilon^)? attr-dict "
        "`:` type($input) (`,` type($weight)^)? `->` type($result)"
    )

    def __init__(
        self,
        operand: SSAValue,
        result_type: Attribute | None = None,
        weight: SSAValue | None = None,
        epsilon: float = 0.0,
    ) -> None:
        super().__init__(
            operands=[operand, weight],
            result_types=[result_type or operand.type],
            properties={"epsilon": FloatAttr(round_to_fp32(epsilon), f32) if epsilon else None},
        )

    @property
    def epsilon_value(self) -> float:
        """What is added to the mean, an fp32 number."""
        return 0.0 if self.epsilon is None else self.epsilon.value.data

    def verify_(self) -> None:
        """Checks the result's and the weight's extents, the element types, and epsilon."""
        shape = shape_of(self.input.type)
        expect_shape(self, shape, self.result)
        factors = (*[1] * (len(shape) - 1), shape[-1])
        if self.weight is not None and shape_of(self.weight.type) != factors:
            raise VerifyException(
                f"{op_label(self)}: the weight {value_label(self.weight)} has "
                f"{dims(shape_of(self.weight.type))}, expected {dims(factors)}: the extent that is "
                "normalised over, and 1 elsewhere"
            )
        if not 0.0 <= self.epsilon_value < math.inf:
            raise VerifyException(
                f"{op_label(self)}: epsilon {self.epsilon_value} must be a number of at least 0"
            )
        verify_no_integers(self, [*self.operands, self.result], "tb.cast")

    def result_bounds(self, operands: Sequence[Bounds]) -> Bounds:
        """The operand's; the mean is of the elements that exist."""
        return operands[0]

    def identities(self, operand: int, bounds: Bounds) -> Padding:
        """Zeros along the last dimension."""
        return {len(bounds) - 1: 0.0}

    def tile_indices(self) -> Sequence[TileIndex]:
        """The last dimension is normalised whole; along the others there is one weight."""
        last = len(shape_of(self.result.type)) - 1
        no_weight = (None,) * (len(self.operands) - 1)
        return [
            *(TileIndex(IndexKind.PARALLEL, (dim, *no_weight), dim) for dim in range(last)),
            TileIndex(IndexKind.WHOLE, (last,) * len(self.operands), last),
        ]

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """As an element-wise operator."""
        rank = len(shape_of(self.result.type))
        values = [*self.operands, self.result]
        add_iteration_constraints(problem, self, values, range(rank))

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """As an element-wise operator."""
        _, block, _ = enclosing_graph(self)
        return elementwise_accesses(self.result, self.operands, block[0] * block[1] * block[2])


@dataclass(frozen=True)
class Groups:
    """Which elements along a dimension one result sums: ``count`` of them, ``step`` apart.

    Result ``j`` sums elements ``j * start_step + k * step`` for ``k < count``.
    """

    count: int
    step: int
    start_step: int


def summed_index(groups: Groups, dim: int) -> TileIndex:
    """How a sum of such groups of a whole dimension may be cut."""
    if groups.step == 1 and groups.start_step:
        return TileIndex(IndexKind.WHOLE, (dim,))
    return TileIndex(IndexKind.SUMMED, (dim,), period=groups.step)


def strided_groups(extent: int, results: int) -> Groups:
    """Result j sums elements j, j + results, j + 2 * results ...; the meaning of saved µGraphs."""
    return Groups(extent // results, results, 1)


def contiguous_groups(extent: int, results: int) -> Groups:
    """Result j sums the elements from j * (extent / results) on."""
    return Groups(extent // results, 1, extent // results)


class AnyReductionOp(
    HasEpilogue, HasLayoutConstraints, HasSharedAccesses, HasRaggedTiles, HasTileIndices, ABC
):
    """A sum over groups of elements along one dimension."""

    input = operand_def(STensorType)
    dim = prop_def(IntegerAttr.constr(type=i64))
    result = result_def(STensorType)
    traits = traits_def(Pure())

    assembly_format = (
        "$input `dim` $dim custom<ThenEpilogue>($epilogue) attr-dict "
        "`:` type($input) `->` type($result)"
    )
    custom_directives = (ThenEpilogue,)

    def __init__(self, operand: SSAValue, dim: int, result_type: Attribute) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"dim": IntegerAttr(dim, i64)},
        )

    @property
    def reduced_dim(self) -> int:
        """The dimension that is summed over."""
        return self.dim.value.data

    @abstractmethod
    def groups(self) -> Groups:
        """Which elements each result sums."""

    def verify_(self) -> None:
        """Checks the dimension, and that the result's extent divides the operand's."""
        shape, result = shape_of(self.input.type), shape_of(self.result.type)
        if not 0 <= self.reduced_dim < len(shape):
            raise VerifyException(
                f"{op_label(self)}: dimension {self.reduced_dim} does not exist in "
                f"{dims(shape)}: expected 0 to {len(shape) - 1}"
            )
        if len(result) != len(shape) or any(
            result[dim] != shape[dim] for dim in range(len(shape)) if dim != self.reduced_dim
        ):
            raise VerifyException(
                f"{op_label(self)}: the result has {dims(result)}; it must equal the operand's "
                f"{dims(shape)} but for dimension {self.reduced_dim}"
            )
        if shape[self.reduced_dim] % result[self.reduced_dim]:
            raise VerifyException(
                f"{op_label(self)}: {shape[self.reduced_dim]} elements along dimension "
                f"{self.reduced_dim} do not fall into {result[self.reduced_dim]} equal groups"
            )
        verify_sum_types(self, self.input, self.result, "tb.cast")
        verify_epilogue(self, self.result)

    def result_bounds(self, operands: Sequence[Bounds]) -> Bounds:
        """The operand's; every sum exists, also one of no elements."""
        return whole_along(operands[0], self.reduced_dim)

    def identities(self, operand: int, bounds: Bounds) -> Padding:
        """Zeros along the reduced dimension."""
        return {self.reduced_dim: 0.0}

    def tile_indices(self) -> Sequence[TileIndex]:
        """The reduced dimension, and those that stay."""
        rank = len(shape_of(self.result.type))
        return [
            *parallel_indices(rank, 1, all_but(rank, self.reduced_dim)),
            summed_index(self.groups(), self.reduced_dim),
        ]

    def linear_in(self) -> Sequence[frozenset[int]]:
        """In its operand."""
        return (frozenset({0}),)

    def result_padding(self, operands: Sequence[Padding]) -> Padding:
        """Sums of zeros along the other dimensions."""
        return {
            dim: 0.0
            for dim, value in operands[0].items()
            if dim != self.reduced_dim and value == 0.0
        }

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """The operand is innermost or swizzled along the dimension the threads walk.

        Neighbouring lanes share a sum, so that may be the reduced dimension.
        """
        rank = len(shape_of(self.input.type))
        add_iteration_constraints(problem, self, [self.input], range(rank))

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Lanes and results as scheduling will choose them."""
        _, block, _ = enclosing_graph(self)
        lanes, order = self.work_sharing(block[0] * block[1] * block[2])
        return reduction_accesses(self.input, self.result, self.reduced_dim, lanes, order)

    def work_sharing(self, threads: int) -> tuple[int, tuple[int, ...]]:
        """How many lanes share a sum, and the order in which threads take the results."""
        results = math.prod(shape_of(self.result.type))
        lanes = choose_lanes(results, self.groups().count, threads)
        return lanes, result_order(partitioned_operand(self.result))


@irdl_op_definition
class ReductionOp(AnyReductionOp):
    """The sum over one dimension, whose extent becomes 1: ``tb.reduction %x dim 1``."""

    name = "tb.reduction"

    def groups(self) -> Groups:
        """All elements along the dimension."""
        return Groups(shape_of(self.input.type)[self.reduced_dim], 1, 0)

    def verify_(self) -> None:
        """As any reduction; the extent becomes 1."""
        super().verify_()
        if shape_of(self.result.type)[self.reduced_dim] != 1:
            raise VerifyException(
                f"{op_label(self)}: dimension {self.reduced_dim} of the result has extent "
                f"{shape_of(self.result.type)[self.reduced_dim]}, expected 1; for groups use "
                "tb.reduction_to_dimx_strided or tb.reduction_to_dimx_contiguous"
            )


@irdl_op_definition
class ReductionMaxOp(IRDLOperation, HasLayoutConstraints, HasSharedAccesses, HasTileIndices):
    """The running maximum along one dimension, over the iterations of the loop as well.

    With m_before the maximum after the iteration before, -infinity in the first one::

        maximum    = max(m_before, max over the dimension of x_it)
        difference = 0 where m_before is -infinity, else m_before - maximum

    Both are values of the loop body, in which the dimension's extent is 1.  exp(difference) is what
    a sum of exponentials below the old maximum is multiplied by to be one below the new maximum.
    The difference is that of the maxima as they are stored.  NaN in x makes both NaN from then on.

    ``%m, %d = tb.reduction_max %x dim 1 : !tb.stensor<16x64xf16> -> (!tb.stensor<16x1xf32>,
    !tb.stensor<16x1xf32>)``
    """

    name = "tb.reduction_max"

    input = operand_def(STensorType)
    dim = prop_def(IntegerAttr.constr(type=i64))
    maximum = result_def(STensorType)
    difference = result_def(STensorType)
    # What it keeps from iteration to iteration is seen through its results only, so that it may be
    # dropped, or merged with an equal one.
    traits = traits_def(Pure())

    assembly_format = (
        "$input `dim` $dim attr-dict `:` type($input) `->` "
        "`(` type($maximum) `,` type($difference) `)`"
    )

    def __init__(self, operand: SSAValue, dim: int, result_types: Sequence[Attribute]) -> None:
        super().__init__(
            operands=[operand],
            result_types=list(result_types),
            properties={"dim": IntegerAttr(dim, i64)},
        )

    @property
    def reduced_dim(self) -> int:
        """The dimension that the maximum is taken over."""
        return self.dim.value.data

    def groups(self) -> Groups:
        """All elements along the dimension."""
        return Groups(shape_of(self.input.type)[self.reduced_dim], 1, 0)

    def verify_(self) -> None:
        """Checks the dimension, the results' extents, and that the operator is in the loop."""
        shape = list(shape_of(self.input.type))
        if not 0 <= self.reduced_dim < len(shape):
            raise VerifyException(
                f"{op_label(self)}: dimension {self.reduced_dim} does not exist in "
                f"{dims(shape)}: expected 0 to {len(shape) - 1}"
            )
        shape[self.reduced_dim] = 1
        expect_shape(self, shape, self.maximum)
        expect_shape(self, shape, self.difference)
        verify_no_integers(self, [self.input, *self.results], "tb.cast")

    def tile_indices(self) -> Sequence[TileIndex]:
        """What the running maximum is in an iteration depends on the tiles before."""
        rank = len(shape_of(self.maximum.type))
        return [
            *parallel_indices(rank, 1, all_but(rank, self.reduced_dim)),
            TileIndex(IndexKind.WHOLE, (self.reduced_dim,)),
        ]

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """As a reduction."""
        rank = len(shape_of(self.input.type))
        add_iteration_constraints(problem, self, [self.input], range(rank))

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """As a reduction with two results."""
        _, block, _ = enclosing_graph(self)
        lanes, order = self.work_sharing(block[0] * block[1] * block[2])
        return [
            *reduction_accesses(self.input, self.maximum, self.reduced_dim, lanes, order),
            SharedAccess(self.difference, order[0], 1),
        ]

    def work_sharing(self, threads: int) -> tuple[int, tuple[int, ...]]:
        """How many lanes share a maximum, and the order in which threads take the results."""
        results = math.prod(shape_of(self.maximum.type))
        lanes = choose_lanes(results, self.groups().count, threads)
        return lanes, result_order(partitioned_operand(self.maximum))


@irdl_op_definition
class ReductionToDimxStridedOp(AnyReductionOp):
    """Result j of dimx sums elements j, j + dimx, j + 2 * dimx ... along one dimension."""

    name = "tb.reduction_to_dimx_strided"

    def groups(self) -> Groups:
        """Elements dimx apart."""
        dim = self.reduced_dim
        return strided_groups(shape_of(self.input.type)[dim], shape_of(self.result.type)[dim])


@irdl_op_definition
class ReductionToDimxContiguousOp(AnyReductionOp):
    """Result j of dimx sums the j-th run of extent / dimx neighbours along one dimension."""

    name = "tb.reduction_to_dimx_contiguous"

    def groups(self) -> Groups:
        """Runs of neighbours."""
        dim = self.reduced_dim
        return contiguous_groups(shape_of(self.input.type)[dim], shape_of(self.result.type)[dim])
