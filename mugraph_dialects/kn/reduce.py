"""Kernels that combine the elements along a dimension."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_prop_def

from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.device_cuts import DeviceCut, HasDeviceCuts, is_rounded
from mugraph.dialects.element_types import PLACES, verify_no_integers
from mugraph.dialects.interfaces import HasTileIndices, IndexKind, TileIndex
from mugraph.dialects.kn.kernel import KernelOp, prefer_same_innermost
from mugraph.dialects.kn.overlap import CanOverlap
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.reductions import (
    Combiner,
    CombinerAttr,
    ReductionOperator,
    combiner_attribute,
)
from mugraph.dialects.shapes import ShapeError
from mugraph.dialects.tb import Groups
from mugraph.dialects.tb.operators import all_but, parallel_indices
from mugraph.dialects.tensor_types import element_type_of, shape_of


class RunOperator(ReductionOperator, KernelOp, CanOverlap, HasDeviceCuts):
    """A kernel that makes one result of each run of neighbours along a dimension."""

    input = operand_def(TensorType)

    def groups(self) -> Groups:
        """Which elements along the dimension each result is made of."""
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

    def cuts_of_others(self) -> list[DeviceCut]:
        """Along other dimensions."""
        dims = all_but(len(shape_of(self.input.type)), self.reduced_dim)
        return [DeviceCut((dim,), (dim,)) for dim in dims]

    def device_cuts(self) -> Sequence[DeviceCut]:
        """Other dimensions, and whole runs."""
        dim = self.reduced_dim
        return [*self.cuts_of_others(), DeviceCut((dim,), (dim,))]

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Operand and result share their innermost dimension, unless it is reduced."""
        prefer_same_innermost(problem, self, self.input, self.result, [self.reduced_dim])


@irdl_op_definition
class ReductionOp(RunOperator, HasTileIndices):
    """Sums along one dimension, or the largest elements, to the extent that the result has there.

    Result j of n sums the j-th run of extent / n neighbours, in fp32; with n = 1 it is the sum over
    the dimension.  With ``combine max`` it is the largest element, and NaN where one is.
    ``%y = kn.reduction %x dim 1 : tensor<10x8x3xf16> -> tensor<10x2x3xf16>``,
    ``%m = kn.reduction %x combine max dim 1 : tensor<10x8x3xf16> -> tensor<10x1x3xf16>``.
    """

    name = "kn.reduction"

    combiner = opt_prop_def(CombinerAttr)

    assembly_format = (
        "$input (`combine` $combiner^)? `dim` $dim (`workspace` $workspace^)? attr-dict "
        "`:` type($input) `->` type($result)"
    )

    def __init__(
        self,
        operand: SSAValue,
        dim: int,
        result_type: Attribute,
        combiner: Combiner = Combiner.SUM,
    ) -> None:
        super().__init__(operand, dim, result_type)
        self.combiner = combiner_attribute(combiner)

    @property
    def combination(self) -> Combiner:
        """How two numbers become one."""
        return Combiner.SUM if self.combiner is None else self.combiner.data

    def tile_indices(self) -> Sequence[TileIndex]:
        """The reduced dimension, and those that stay."""
        rank, dim = len(shape_of(self.result.type)), self.reduced_dim
        is_sum = self.combination is Combiner.SUM and shape_of(self.result.type)[dim] == 1
        kind = IndexKind.SUMMED if is_sum else IndexKind.WHOLE
        return [*parallel_indices(rank, 1, all_but(rank, dim)), TileIndex(kind, (dim,))]

    def linear_in(self) -> Sequence[frozenset[int]]:
        """In its operand, of sums."""
        return (frozenset({0}),) if self.combination is Combiner.SUM else ()

    def device_cuts(self) -> Sequence[DeviceCut]:
        """Other dimensions, whole runs, and parts of what is combined into one."""
        dim = self.reduced_dim
        if shape_of(self.result.type)[dim] > 1 or is_rounded(self):
            return super().device_cuts()
        return [*self.cuts_of_others(), DeviceCut((dim,), (None,), self.combination)]

    def verify_(self) -> None:
        """As any kernel; of floating-point numbers."""
        super().verify_()
        verify_no_integers(self, [self.input, self.result], "kn.cast")


@irdl_op_definition
class ArgMaxOp(RunOperator):
    """The place of the largest element along a dimension, or in each of the runs it falls into.

    Of equal elements the first one counts, and a NaN is larger than all numbers, as in numpy.
    ``%i = kn.arg_max %x dim 1 : tensor<4x1000xf16> -> tensor<4x1xi32>``.
    """

    name = "kn.arg_max"

    assembly_format = (
        "$input `dim` $dim (`workspace` $workspace^)? attr-dict `:` type($input) `->` type($result)"
    )

    def verify_(self) -> None:
        """As any kernel; of floating-point numbers, into i32 or i64."""
        super().verify_()
        verify_no_integers(self, [self.input], "kn.cast")
        if (type_ := element_type_of(self.result.type)) not in PLACES:
            raise OperatorError(f"places are of i32 or i64, but the result has elements of {type_}")
