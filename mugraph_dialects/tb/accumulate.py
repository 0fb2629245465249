"""Accumulators: what a value becomes when the for-loop has run over it.

An accumulator takes a value of the loop body and gives a value after the loop.  ``x_it`` below is
the operand's value in iteration ``it``.  Source: Mirage's ``forloop_accum``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Operation, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.element_types import verify_no_integers, verify_sum_types
from mugraph.dialects.elementwise import Epilogue
from mugraph.dialects.interfaces import (
    FusesWithProducer,
    IndexKind,
    SharedAccess,
    TileIndex,
)
from mugraph.dialects.ragged import Bounds, Padding
from mugraph.dialects.shapes import broadcast_shape
from mugraph.dialects.tb.layouts import elementwise_accesses
from mugraph.dialects.tb.moves import enclosing_graph
from mugraph.dialects.tb.operators import TileOperator, expect_shape, parallel_indices
from mugraph.dialects.tb.ragged import (
    accumulated_bounds,
    merged_bounds,
    moving_dims,
    whole_along,
)
from mugraph.dialects.tb.reduction import Groups, contiguous_groups, strided_groups, summed_index
from mugraph.dialects.tb.types import STensorType
from mugraph.dialects.tensor_types import dims, op_label, shape_of, value_label


def expect_whole(op: Operation, operands: Sequence[Bounds]) -> None:
    """Raises ``VerifyException`` where some elements of an operand may not exist."""
    for value, bounds in zip(op.operands, operands, strict=True):
        if any(bound is not None for bound in bounds):
            raise VerifyException(
                f"{op_label(op)} works on whole tiles, but elements of {value_label(value)} are "
                "missing in some blocks or iterations; choose a grid and a forloop that divide "
                "its extents"
            )


class AccumulatorOp(IRDLOperation, TileOperator):
    """Any accumulator: one value of the loop body in, one value after the loop out."""

    IDENTITY: ClassVar[float] = 0.0
    """What changes no result when it is accumulated."""

    input = operand_def(STensorType)
    result = result_def(STensorType)
    traits = traits_def(Pure())

    @abstractmethod
    def result_shape(self) -> tuple[int, ...]:
        """The extents the result must have; raises ``VerifyException`` where none fit."""

    def verify_(self) -> None:
        """Checks the result's extents and the element types."""
        expect_shape(self, self.result_shape(), self.result)
        verify_sum_types(self, self.input, self.result, "tb.cast")

    def reduces_last(self) -> bool:
        """Whether elements of the last dimension are combined as well."""
        return shape_of(self.result.type) != shape_of(self.input.type)

    @abstractmethod
    def tile_indices(self) -> Sequence[TileIndex]:
        """Indices within a tile; over the iterations an accumulator combines besides."""

    @property
    @abstractmethod
    def adds(self) -> bool:
        """Whether it adds up what its operand is in the iterations, as it is."""

    def result_bounds(self, operands: Sequence[Bounds]) -> Bounds:
        """The operand's in the first iteration, whole along a dimension that is reduced."""
        bounds = accumulated_bounds(operands[0])
        return whole_along(bounds, len(bounds) - 1) if self.reduces_last() else bounds

    def identities(self, operand: int, bounds: Bounds) -> Padding:
        """The identity where elements are missing in some iterations, or a dimension is reduced."""
        combined = moving_dims(bounds)
        if self.reduces_last():
            combined.append(len(bounds) - 1)
        return dict.fromkeys(combined, self.IDENTITY)

    def result_padding(self, operands: Sequence[Padding]) -> Padding:
        """The identity stays what it is."""
        last = len(shape_of(self.input.type)) - 1
        return {
            dim: value
            for dim, value in operands[0].items()
            if value == self.IDENTITY and not (self.reduces_last() and dim == last)
        }

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """As an element-wise operator on its operands; reduced results are single elements."""
        threads = enclosing_graph(self).threads
        first, *others = self.operands
        if shape_of(self.result.type) == shape_of(first.type):
            return elementwise_accesses(self.result, [*others, first], threads)
        last = len(shape_of(first.type)) - 1
        return [
            *elementwise_accesses(first, others, threads),
            SharedAccess(self.result, last, 1),
        ]


class AccumulatorKind(StrEnum):
    """What ``tb.forloop_accum`` keeps of the last dimension."""

    NONE = "none"
    SUM = "sum"
    MEAN = "mean"
    RMS = "rms"
    MAX = "max"


@irdl_attr_definition
class AccumulatorKindAttr(EnumAttribute[AccumulatorKind], SpacedOpaqueSyntaxAttribute):
    """``#tb<accumulator rms>``: which of the accumulators a ``tb.forloop_accum`` is."""

    name = "tb.accumulator"


@irdl_op_definition
class ForloopAccumOp(AccumulatorOp, FusesWithProducer):
    """Combines what its operand is in the iterations of the for-loop.

    - ``none``: sum over it of x_it; same extents.
    - ``sum``: the same, then summed over the last dimension, whose extent becomes 1.
    - ``mean``: the same as ``sum``, divided by the number of elements that exist: of whole tiles,
      last extent * iterations.
    - ``rms``: sqrt(sum over it and the last dimension of x_it² / that number); the last extent
      becomes 1.
    - ``max``: the largest x_it of each element; same extents.  NaN where one is.

    ``%ar = tb.forloop_accum rms %sx : !tb.stensor<16x128xf16> -> !tb.stensor<16x1xf16>``
    """

    name = "tb.forloop_accum"

    kind = prop_def(AccumulatorKindAttr)

    assembly_format = "$kind $input attr-dict `:` type($input) `->` type($result)"

    def __init__(self, kind: AccumulatorKind, operand: SSAValue, result_type: Attribute) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"kind": AccumulatorKindAttr(kind)},
        )

    def verify_(self) -> None:
        """As any accumulator; all but sums are of floating-point numbers."""
        super().verify_()
        if self.kind.data not in (AccumulatorKind.NONE, AccumulatorKind.SUM):
            verify_no_integers(self, [self.input, self.result], "tb.cast")

    @property
    def adds(self) -> bool:
        """True of ``none`` and ``sum``; a mean stays what it is if its operand does."""
        return self.kind.data in (AccumulatorKind.NONE, AccumulatorKind.SUM)

    def tile_indices(self) -> Sequence[TileIndex]:
        """The last one is summed where it is reduced."""
        rank = len(shape_of(self.input.type))
        if not self.reduces_last():
            return parallel_indices(rank, 1)
        summed = TileIndex(IndexKind.SUMMED, (rank - 1,))
        return [*parallel_indices(rank, 1, range(rank - 1)), summed]

    def result_shape(self) -> tuple[int, ...]:
        """The operand's extents; the last one 1 for ``sum``, ``mean`` and ``rms``."""
        shape = shape_of(self.input.type)
        keeps = self.kind.data in (AccumulatorKind.NONE, AccumulatorKind.MAX)
        return shape if keeps else (*shape[:-1], 1)

    def reduces_last(self) -> bool:
        """True but for ``none`` and ``max``."""
        return self.kind.data not in (AccumulatorKind.NONE, AccumulatorKind.MAX)

    def result_bounds(self, operands: Sequence[Bounds]) -> Bounds:
        """As any sum; maxima are of the same elements in all iterations."""
        if self.kind.data is AccumulatorKind.MAX and moving_dims(operands[0]):
            expect_whole(self, operands)
        return super().result_bounds(operands)

    def fused_onto(self, epilogue: Epilogue) -> Epilogue | None:
        """The epilogue followed by the accumulation; only where nothing is reduced."""
        return epilogue.then_accumulate() if self.kind.data is AccumulatorKind.NONE else None


class RescaledKind(StrEnum):
    """What ``tb.forloop_accum_rescale`` keeps of the last dimension."""

    NONE = "none"
    SUM = "sum"


@irdl_attr_definition
class RescaledKindAttr(EnumAttribute[RescaledKind], SpacedOpaqueSyntaxAttribute):
    """``#tb<rescaled sum>``: which of the accumulators a ``tb.forloop_accum_rescale`` is."""

    name = "tb.rescaled"


@irdl_op_definition
class ForloopAccumRescaleOp(AccumulatorOp):
    """Sums over the iterations, with what was summed before rescaled in each of them.

    - ``none``: acc_it = acc_(it-1) * r_it + x_it, from 0 on; same extents.
    - ``sum``: the same, then summed over the last dimension, whose extent becomes 1.

    ``r`` has the operand's extents, or 1 where it is the same along a dimension.

    ``%o = tb.forloop_accum_rescale none %x by %r : (!tb.stensor<16x64xf16>,
    !tb.stensor<16x1xf32>) -> !tb.stensor<16x64xf16>``
    """

    name = "tb.forloop_accum_rescale"

    # Operands are in the order of the class that defines them, so the first one stands here too.
    input = operand_def(STensorType)
    rescale = operand_def(STensorType)
    kind = prop_def(RescaledKindAttr)

    assembly_format = (
        "$kind $input `by` $rescale attr-dict `:` `(` type($input) `,` type($rescale) `)` "
        "`->` type($result)"
    )

    def __init__(
        self, kind: RescaledKind, operand: SSAValue, rescale: SSAValue, result_type: Attribute
    ) -> None:
        super().__init__(
            operands=[operand, rescale],
            result_types=[result_type],
            properties={"kind": RescaledKindAttr(kind)},
        )

    def result_shape(self) -> tuple[int, ...]:
        """The operand's extents; the last one 1 for ``sum``."""
        shape, factors = shape_of(self.input.type), shape_of(self.rescale.type)
        broadcast = broadcast_shape([shape, factors])
        if broadcast != shape:
            raise VerifyException(
                f"{op_label(self)}: the factors have {dims(factors)}, more than the {dims(shape)} "
                "that they rescale"
            )
        return shape if self.kind.data is RescaledKind.NONE else (*shape[:-1], 1)

    def verify_(self) -> None:
        """As any accumulator; of floating-point numbers."""
        super().verify_()
        verify_no_integers(self, [*self.operands, self.result], "tb.cast")

    def result_bounds(self, operands: Sequence[Bounds]) -> Bounds:
        """As any sum; factors that are not broadcast have the operand's elements."""
        merged_bounds(self, operands)
        return super().result_bounds(operands)

    @property
    def adds(self) -> bool:
        """False: what was added before is rescaled."""
        return False

    def tile_indices(self) -> Sequence[TileIndex]:
        """As a plain sum; factors of one element are broadcast."""
        rank = len(shape_of(self.input.type))
        if self.kind.data is RescaledKind.NONE:
            return parallel_indices(rank, 2, broadcasts=True)
        rows = parallel_indices(rank, 2, range(rank - 1), broadcasts=True)
        return [*rows, TileIndex(IndexKind.SUMMED, (rank - 1, rank - 1), broadcasts=True)]


class ForloopAccumSumToDimxOp(AccumulatorOp):
    """Sums over the iterations, then over groups of the last dimension; dimx results remain."""

    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"

    def __init__(self, operand: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[operand], result_types=[result_type])

    @property
    def dimx(self) -> int:
        """The extent of the result's last dimension."""
        return shape_of(self.result.type)[-1]

    def reduces_last(self) -> bool:
        """True: groups may be of one element, but all of them exist."""
        return True

    @abstractmethod
    def groups(self) -> Groups:
        """Which elements of the last dimension each result sums."""

    @property
    def adds(self) -> bool:
        """True."""
        return True

    def tile_indices(self) -> Sequence[TileIndex]:
        """The last one falls into groups."""
        rank = len(shape_of(self.input.type))
        last = summed_index(self.groups(), rank - 1)
        return [*parallel_indices(rank, 1, range(rank - 1)), last]

    def result_shape(self) -> tuple[int, ...]:
        """The operand's extents, the last one dimx, which must divide it."""
        shape = shape_of(self.input.type)
        if shape[-1] % self.dimx:
            raise VerifyException(
                f"{op_label(self)}: the last extent of {dims(shape)} does not fall into "
                f"{self.dimx} equal groups"
            )
        return (*shape[:-1], self.dimx)


@irdl_op_definition
class ForloopAccumSumToDimxStridedOp(ForloopAccumSumToDimxOp):
    """With s the sum over the iterations: out[j] = sum over k of s[j + k * dimx].

    What Mirage's search and its saved µGraphs mean by "sum to dimx".
    """

    name = "tb.forloop_accum_sum_to_dimx_strided"

    def groups(self) -> Groups:
        """Elements dimx apart."""
        return strided_groups(shape_of(self.input.type)[-1], self.dimx)


@irdl_op_definition
class ForloopAccumSumToDimxContiguousOp(ForloopAccumSumToDimxOp):
    """With s the sum over the iterations: out[j] = sum over k < n of s[j * n + k], n = last / dimx.

    What Mirage's runtime and its published table mean by "sum to dimx".
    """

    name = "tb.forloop_accum_sum_to_dimx_contiguous"

    def groups(self) -> Groups:
        """Runs of neighbours."""
        return contiguous_groups(shape_of(self.input.type)[-1], self.dimx)
