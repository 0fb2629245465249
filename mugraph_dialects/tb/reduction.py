"""Sums and maxima along one dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type, FloatAttr, IntegerAttr, f32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import FromNumber, ThenEpilogue
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.element_types import verify_no_integers, verify_sum_types
from mugraph.dialects.interfaces import (
    HasEpilogue,
    IndexKind,
    SharedAccess,
    TileIndex,
)
from mugraph.dialects.partition import choose_lanes, result_order
from mugraph.dialects.ragged import Bounds, Padding
from mugraph.dialects.reductions import ReducesDimension, ReductionOperator
from mugraph.dialects.tb.layouts import (
    partitioned_operand,
    reduction_accesses,
)
from mugraph.dialects.tb.moves import enclosing_graph
from mugraph.dialects.tb.operators import (
    TileOperator,
    all_but,
    expect_shape,
    parallel_indices,
    verify_epilogue,
)
from mugraph.dialects.tb.ragged import whole_along
from mugraph.dialects.tb.types import STensorType
from mugraph.dialects.tensor_types import dims, op_label, shape_of, value_label


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


class ReducesTile(ReducesDimension, TileOperator):
    """An operator that reduces a dimension of a tile; its results have the same extents."""

    input = operand_def(STensorType)

    def groups(self) -> Groups:
        """Which elements each result is made of: all along the dimension."""
        return Groups(shape_of(self.input.type)[self.reduced_dim], 1, 0)

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Lanes and results as scheduling will choose them."""
        lanes, order = self.work_sharing(enclosing_graph(self).threads)
        first, *others = self.results
        return [
            *reduction_accesses(self.input, first, self.reduced_dim, lanes, order),
            *(SharedAccess(other, order[0], 1) for other in others),
        ]

    def work_sharing(self, threads: int) -> tuple[int, tuple[int, ...]]:
        """How many lanes share a result, and the order in which threads take the results."""
        result = self.results[0]
        lanes = choose_lanes(math.prod(shape_of(result.type)), self.groups().count, threads)
        return lanes, result_order(partitioned_operand(result))


class AnyReductionOp(ReductionOperator, ReducesTile, HasEpilogue):
    """A sum over groups of elements along one dimension."""

    input = operand_def(STensorType)
    result = result_def(STensorType)
    traits = traits_def(Pure())

    assembly_format = (
        "$input `dim` $dim custom<ThenEpilogue>($epilogue) attr-dict "
        "`:` type($input) `->` type($result)"
    )
    custom_directives = (ThenEpilogue,)

    def verify_(self) -> None:
        """Checks the dimension, and that the result's extent divides the operand's."""
        shape, result = self.shape_with_dimension(), shape_of(self.result.type)
        if len(result) != len(shape) or any(
            result[dim] != shape[dim] for dim in range(len(shape)) if dim != self.reduced_dim
        ):
            raise OperatorError(
                f"the result has {dims(result)}; it must equal the operand's {dims(shape)} but for "
                f"dimension {self.reduced_dim}"
            )
        if shape[self.reduced_dim] % result[self.reduced_dim]:
            raise OperatorError(
                f"{shape[self.reduced_dim]} elements along dimension {self.reduced_dim} do not "
                f"fall into {result[self.reduced_dim]} equal groups"
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


@irdl_op_definition
class ReductionOp(AnyReductionOp):
    """The sum over one dimension, whose extent becomes 1: ``tb.reduction %x dim 1``."""

    name = "tb.reduction"

    def verify_(self) -> None:
        """As any reduction; the extent becomes 1."""
        super().verify_()
        if shape_of(self.result.type)[self.reduced_dim] != 1:
            raise OperatorError(
                f"dimension {self.reduced_dim} of the result has extent "
                f"{shape_of(self.result.type)[self.reduced_dim]}, expected 1; for groups use "
                "tb.reduction_to_dimx_strided or tb.reduction_to_dimx_contiguous"
            )


def no_running_maximum(
    bounds: Bounds, dim: int, grid: Sequence[int], iterations: int
) -> str | None:
    """Why no running maximum can be taken along a dimension of a tile; ``None`` where one can.

    A clause that follows the name of the tile.
    """
    for other, bound in enumerate(bounds):
        if bound is not None and bound.moves and other != dim:
            return (
                f"has other elements along dimension {other} from iteration to iteration; choose a "
                "forloop that divides it, for each row has a maximum of its own"
            )
    along = bounds[dim]
    last = tuple(extent - 1 for extent in grid)
    if along is not None and along.existing(last, iterations - 1) == 0:
        return (
            f"has no element along dimension {dim} in the last block and iteration, of which a "
            "maximum could be taken; choose fewer blocks, or a smaller forloop"
        )
    return None


@irdl_op_definition
class ReductionMaxOp(ReducesTile):
    """The running maximum along one dimension, over the iterations of the loop as well.

    With m_before the maximum after the iteration before, in the first one -infinity or what it is
    ``from``, a number below all elements that count::

        maximum    = max(m_before, max over the dimension of x_it)
        difference = 0 where m_before is -infinity, else m_before - maximum

    Both are values of the loop body, in which the dimension's extent is 1.  exp(difference) is what
    a sum of exponentials below the old maximum is multiplied by to be one below the new maximum.
    A row of -infinity alone has no number below which its exponentials are 0, unless the maximum
    is ``from`` one.  The difference is that of the maxima as they are stored.  NaN in x makes both
    NaN from then on.

    ``%m, %d = tb.reduction_max %x dim 1 : !tb.stensor<16x64xf16> -> (!tb.stensor<16x1xf32>,
    !tb.stensor<16x1xf32>)``
    """

    name = "tb.reduction_max"

    input = operand_def(STensorType)
    maximum = result_def(STensorType)
    difference = result_def(STensorType)
    start = opt_prop_def(FloatAttr[Float32Type])
    # What it keeps from iteration to iteration is seen through its results only, so that it may be
    # dropped, or merged with an equal one.
    traits = traits_def(Pure())

    assembly_format = (
        "$input `dim` $dim custom<FromNumber>($start) attr-dict `:` type($input) `->` "
        "`(` type($maximum) `,` type($difference) `)`"
    )
    custom_directives = (FromNumber,)

    def __init__(
        self,
        operand: SSAValue,
        dim: int,
        result_types: Sequence[Attribute],
        start: float = -math.inf,
    ) -> None:
        super().__init__(
            operands=[operand],
            result_types=list(result_types),
            properties={"dim": IntegerAttr(dim, i64)},
        )
        self.least = start

    @property
    def least(self) -> float:
        """The maximum of no element."""
        return -math.inf if self.start is None else self.start.value.data

    @least.setter
    def least(self, start: float) -> None:
        self.start = None if start == -math.inf else FloatAttr(start, f32)

    @property
    def falls_at_first(self) -> bool:
        """Whether it is used how far the maximum falls from ``from``, in the first iteration."""
        return self.start is not None and bool(self.difference.uses)

    def verify_(self) -> None:
        """Checks the dimension, the results' extents, and that the operator is in the loop."""
        shape = list(self.shape_with_dimension())
        shape[self.reduced_dim] = 1
        expect_shape(self, shape, self.maximum)
        expect_shape(self, shape, self.difference)
        verify_no_integers(self, [self.input, *self.results], "tb.cast")

    def result_bounds(self, operands: Sequence[Bounds]) -> Bounds:
        """The operand's; a maximum is of one element at least, in every block and iteration."""
        graph, dim = enclosing_graph(self), self.reduced_dim
        why = no_running_maximum(operands[0], dim, graph.grid_dim, graph.forloop_range)
        if why is not None:
            raise VerifyException(f"{op_label(self)}: {value_label(self.input)} {why}")
        return whole_along(operands[0], dim)

    def identities(self, operand: int, bounds: Bounds) -> Padding:
        """What is below all elements, along the reduced dimension."""
        return {self.reduced_dim: -math.inf}

    def tile_indices(self) -> Sequence[TileIndex]:
        """What the running maximum is in an iteration depends on the tiles before."""
        rank = len(shape_of(self.maximum.type))
        return [
            *parallel_indices(rank, 1, all_but(rank, self.reduced_dim)),
            TileIndex(IndexKind.WHOLE, (self.reduced_dim,)),
        ]


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
