"""Sums and maxima along a dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.str_enum import StrEnum

from mugraph.dialects.accessors import number_of, number_or
from mugraph.dialects.assembly import ThenEpilogue
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr, epilogue_attribute
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.reductions import Combiner, CombinerAttr, combiner_attribute
from mugraph.dialects.rows import LinearRows, rows_like
from mugraph.dialects.sched.accesses import AccessError, HasThreadAccesses, ThreadAccess
from mugraph.dialects.sched.compute_accesses import (
    part_accesses,
    reduce_accesses,
    reduced_modes,
    row_accesses,
    warp_accesses,
)
from mugraph.dialects.sched.distribution import (
    Destination,
    Source,
    accumulated,
    is_held_alike,
)
from mugraph.dialects.sched.mappings import MappingError, iteration_layout
from mugraph.dialects.sched.role import verify_partition
from mugraph.dialects.sched.tile_values import TiedTiles, WritesTiles, tile_types
from mugraph.dialects.sched.types import (
    DealtBy,
    LinearPartitionAttr,
    SharedType,
    TileType,
)
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tb.reduction import Groups, contiguous_groups, strided_groups
from mugraph.dialects.tensor_types import (
    AnyLayout,
    dims,
    resolved_layout_of,
    shape_of,
    value_label,
)


class Grouping(StrEnum):
    """Which elements of the reduced dimension each result of a reduction sums."""

    STRIDED = "strided"
    CONTIGUOUS = "contiguous"


@irdl_attr_definition
class GroupingAttr(EnumAttribute[Grouping], SpacedOpaqueSyntaxAttribute):
    """``#sched<grouping strided>``."""

    name = "sched.grouping"


@irdl_op_definition
class ReduceOp(WritesTiles, HasThreadAccesses):
    """Sums groups of elements along one dimension, or takes their largest (``combine max``).

    Result j of n is that of elements j, j + n ... (``strided``) or of the j-th run of extent / n
    neighbours (``contiguous``).  The order in which elements are combined is fixed.  ``accum`` adds
    to the destination, or keeps the larger of both.  ``difference`` is a second destination, of the
    same extents, for what a running maximum was less what it becomes, as stored; 0 where it was
    -infinity.

    How threads share the work follows from where results are.

    - In memory: ``lanes`` neighbouring threads share a result, and ``by`` deals the results out to
      the groups of lanes.
    - In registers: results are a slice of a fragment (``#sched.slice``), which every thread of a
      row has.  The source is that fragment, of which each thread combines what it holds of a row,
      pairs of neighbours in order; lanes that share the row then combine theirs by shuffles over
      the distances lanes / 2, ..., 2, 1.  Or it is a buffer, of which every thread reduces by
      itself what belongs to its rows.
    - A slice of a product with a column for each lane keeps what each lane has.  Reduced again, to
      one column, it is combined by shuffles.
    - A row of a fragment that several warps share goes through memory: with ``parts n`` each of
      its n warps writes what it makes of its part of the row.  The parts of a row lie side by side
      along the dimension, in the order of the warps, to be reduced again after a barrier.
    - Results without the dimension are sums of what lies along it, in order, of which each thread
      adds whole vectors: ``sched.reduce %parts to %sum dim 0 contiguous by <256, vector 4, order
      [1, 0]> : 8x16x64 to 16x64``.  They are in memory, or in a fragment that says who adds what.
    """

    name = "sched.reduce"

    TIED: ClassVar[Sequence[str]] = ("destination", "difference")

    source = operand_def(Source)
    destination = operand_def(Destination)
    difference = opt_operand_def(Destination)
    combiner = opt_prop_def(CombinerAttr)
    dim = prop_def(IntegerAttr.constr(type=i64))
    grouping = prop_def(GroupingAttr)
    lanes = opt_prop_def(IntegerAttr.constr(type=i64))
    parts = opt_prop_def(IntegerAttr.constr(type=i64))
    partition = opt_prop_def(LinearPartitionAttr)
    epilogue = opt_prop_def(EpilogueAttr)

    assembly_format = (
        "$source `to` $destination (`difference` $difference^)? custom<ThenEpilogue>($epilogue) "
        "(`combine` $combiner^)? `dim` $dim $grouping (`lanes` $lanes^)? "
        "(`parts` $parts^)? custom<DealtBy>($partition) attr-dict "
        "`:` type($source) `to` type($destination) (`,` type($difference)^)? "
        "custom<TiedTiles>(type($tiles))"
    )
    custom_directives = (ThenEpilogue, DealtBy, TiedTiles)

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        dim: int,
        epilogue: Epilogue | None = None,
        combiner: Combiner = Combiner.SUM,
        difference: SSAValue | None = None,
        *,
        grouping: Grouping = Grouping.CONTIGUOUS,
        lanes: int | None = None,
        parts: int | None = None,
        partition: LinearPartition | None = None,
    ) -> None:
        """``lanes`` and ``partition`` are those of results in memory."""
        super().__init__(
            operands=[source, destination, difference],
            result_types=[tile_types(destination, difference)],
            properties={
                "combiner": combiner_attribute(combiner),
                "dim": IntegerAttr(dim, i64),
                "grouping": GroupingAttr(grouping),
                "lanes": None if lanes is None else IntegerAttr(lanes, i64),
                "parts": None if parts is None else IntegerAttr(parts, i64),
                "partition": None if partition is None else LinearPartitionAttr(partition),
                "epilogue": epilogue_attribute(epilogue),
            },
        )

    @property
    def combination(self) -> Combiner:
        """How one number is made of two; a sum unless the operator says otherwise."""
        return Combiner.SUM if self.combiner is None else self.combiner.data

    reduced_dim = number_of("dim")
    """The dimension summed over."""

    @property
    def drops_dim(self) -> bool:
        """Whether the results do not have the reduced dimension, along which their parts lie."""
        return len(shape_of(self.destination.type)) < len(shape_of(self.source.type))

    part_count = number_or("parts", 1)
    """How many warps leave a part each of a result."""

    @property
    def distribution(self) -> Attribute | None:
        """Who computes which result: as the fragment of the results is held, or ``by``."""
        type_ = self.destination.type
        return type_.layout if isinstance(type_, TileType) else self.partition

    @property
    def is_partial(self) -> bool:
        """Whether each lane that shares a row keeps its own part of it."""
        type_ = self.destination.type
        return (
            isinstance(type_, TileType)
            and type_.arrangement is not None
            and type_.get_shape()[-1] != 1
        )

    @property
    def lane_count(self) -> int:
        """How many neighbouring threads share one sum."""
        if self.lanes is not None:
            return self.lanes.value.data
        type_ = self.destination.type
        if not isinstance(self.source.type, TileType) or not isinstance(type_, TileType):
            return 1
        return type_.thread_values().holders

    def groups(self) -> Groups:
        """Which elements each result sums."""
        extent = shape_of(self.source.type)[self.reduced_dim]
        results = self.reduced_shape()[self.reduced_dim]
        if self.grouping.data is Grouping.STRIDED:
            return strided_groups(extent, results)
        return contiguous_groups(extent, results)

    def reduced_shape(self) -> tuple[int, ...]:
        """The extents that the source is reduced to, with a 1 for a dimension that is left out."""
        shape = list(shape_of(self.destination.type))
        if self.drops_dim:
            shape.insert(self.reduced_dim, 1)
        elif self.parts is not None:
            shape[self.reduced_dim] //= self.part_count
        return tuple(shape)

    def in_source(self, order: Sequence[int]) -> list[int]:
        """The dimensions of the source that some of the results are."""
        return [dim + (self.drops_dim and dim >= self.reduced_dim) for dim in order]

    def modes(self, order: Sequence[int]) -> tuple[Layout, Layout]:
        """The elements of one result, and where those of each result start, in the order ``order``.

        Raises ``AccessError`` where boxes side by side are cut across.
        """
        shape, dim = self.reduced_shape(), self.reduced_dim
        try:
            return reduced_modes(self.source, shape, self.groups(), dim, self.in_source(order))
        except MappingError as error:
            raise AccessError(f"{value_label(self.source)}: {error}") from error

    def layout_of_part(self, order: Sequence[int]) -> AnyLayout:
        """The layout of the first part of the results, in an order of their dimensions."""
        extents = shape_of(self.source.type)
        layout = resolved_layout_of(self.source)
        return iteration_layout(layout, extents, extents, self.in_source(order))

    def buffers_read(self) -> Sequence[SSAValue]:
        """The source; the destination too where the epilogue accumulates."""
        return [self.source, *accumulated(self, self.destination)]

    def verify_(self) -> None:
        """Checks extents and lanes."""
        self._verify_difference()
        source, result = shape_of(self.source.type), shape_of(self.destination.type)
        dim = self.reduced_dim
        reduced = self.reduced_shape() if 0 <= dim < len(source) else ()
        same = len(source) == len(reduced) and all(
            source[other] == reduced[other] for other in range(len(source)) if other != dim
        )
        if not same or not reduced[dim] or source[dim] % reduced[dim]:
            raise OperatorError(
                f"{dims(source)} does not reduce to {dims(result)} along dimension {dim}"
            )
        if self.drops_dim:
            self._verify_sum_of_parts()
            return
        if self.parts is not None:
            self._verify_parts_of_warps()
            return
        if isinstance(self.destination.type, TileType):
            self._verify_registers(self.destination.type)
            return
        if self.partition is None or self.lanes is None:
            raise OperatorError(
                "results in memory are dealt out; expected 'lanes <n> by <threads, vector, order>'"
            )
        verify_partition(self, self.partition.data, self.destination)
        if any(isinstance(value.type, TileType) for value in self.operands):
            raise OperatorError(
                "a fragment is reduced to a slice of it, or by in 'parts'; results in memory are "
                "those of a buffer"
            )
        if self.lane_count not in (1, 2, 4, 8, 16, 32):
            raise OperatorError(
                f"{self.lane_count} lanes cannot share a sum; expected a power of two up to 32"
            )

    def _verify_difference(self) -> None:
        if self.difference is None:
            return
        if self.combination is not Combiner.MAX or not epilogue_of(self).accumulates:
            raise OperatorError(
                "a difference is that of a running maximum; expected 'combine max' and 'then "
                "[accum]'"
            )
        own, expected = shape_of(self.difference.type), shape_of(self.destination.type)
        if own != expected:
            raise OperatorError(
                f"the difference has {dims(own)}, expected {dims(expected)} as the destination"
            )

    def _verify_sum_of_parts(self) -> None:
        """Checks sums of what lies along a dimension that they do not have."""
        if self.combination is not Combiner.SUM or self.lanes or self.parts:
            raise OperatorError(
                f"results without dimension {self.reduced_dim} are sums, each thread's its own; "
                "leave out 'combine', 'lanes' and 'parts'"
            )
        if not isinstance(self.source.type, SharedType):
            raise OperatorError("what is added must be in shared memory")
        if isinstance(self.destination.type, TileType) and self.partition is not None:
            raise OperatorError("the fragment says which thread adds what; leave out 'by'")
        partition = self.distribution
        if not isinstance(partition, LinearPartitionAttr):
            raise OperatorError(
                f"results are dealt out as {partition}; expected 'by <threads, vector, order>' or "
                "a fragment that is held so"
            )
        verify_partition(self, partition.data, self.destination)

    def _verify_parts_of_warps(self) -> None:
        """Checks what each warp writes of the rows of a fragment."""
        source, rows = self.source.type, self.rows
        if not isinstance(source, TileType) or not isinstance(self.destination.type, SharedType):
            raise OperatorError("warps leave parts of a fragment's rows in shared memory")
        if rows is None:
            raise OperatorError(
                f"{source.layout} does not hold even rows along dimension {self.reduced_dim}"
            )
        if not rows.combines or rows.lanes < WARP:
            raise OperatorError(f"{rows.lanes} threads share a row; expected whole warps")
        if self.part_count != rows.warps or shape_of(self.destination.type)[self.reduced_dim] % (
            rows.warps
        ):
            raise OperatorError(
                f"{rows.warps} warps share a row, expected 'parts {rows.warps}' and as many "
                f"elements for each along dimension {self.reduced_dim}"
            )
        if epilogue_of(self) or self.lanes or self.partition:
            raise OperatorError(
                "the fragment says which warps share a row; leave out 'lanes', 'by' and 'then'"
            )

    def _verify_registers(self, result: TileType) -> None:
        """Checks a reduction whose results are a slice of a fragment."""
        held = result.slice
        if held is None or held.dim.data != self.reduced_dim:
            raise OperatorError(
                f"the destination is {result.layout}, expected a slice along dimension "
                f"{self.reduced_dim}"
            )
        if self.lanes is not None or self.partition is not None:
            raise OperatorError(
                "the fragment says which threads share a result; leave out 'lanes' and 'by'"
            )
        other = self.difference
        if other is not None and (
            not isinstance(other.type, TileType) or not is_held_alike(other.type.layout, held)
        ):
            raise OperatorError(
                f"{value_label(other)} must be a fragment that is held as {held}, as the "
                "destination"
            )
        if self.grouping.data is not Grouping.CONTIGUOUS:
            raise OperatorError("a row of a fragment is contiguous")
        source = self.source.type
        if not isinstance(source, TileType):
            if result.rows is None:
                raise OperatorError(
                    "what threads read from memory is reduced to rows of a #sched.linear, not of "
                    f"{held.parent}"
                )
            return
        if is_held_alike(source.layout, held):
            if source.arrangement is None or source.get_shape()[-1] == 1 or self.is_partial:
                raise OperatorError(f"nothing is left to combine of {dims(source.get_shape())}")
            return
        if not is_held_alike(source.layout, held.parent) or (
            held.get_shape() not in ((), source.get_shape())
        ):
            raise OperatorError(
                f"the source is held as {source.layout}, the results are rows of {held.parent}"
            )
        self._verify_lanes(source, result)

    def _verify_lanes(self, source: TileType, result: TileType) -> None:
        """Checks that what shares a row is a warp at most, and has all of it."""
        rows, mma = result.rows, source.tiled_mma
        if rows is not None and (not rows.combines or rows.lanes > WARP):
            raise OperatorError(
                f"{rows.lanes} threads share a row, expected a power of two up to 32; rows of "
                "whole warps are reduced in 'parts' first"
            )
        if mma is not None and source.get_shape()[-1] % mma_atom(mma.atom).shape_mnk[1]:
            raise OperatorError(
                f"{value_label(self.source)} has {source.get_shape()[-1]} columns over {mma}; a "
                "row must fill its instructions"
            )

    @property
    def rows(self) -> LinearRows | None:
        """The rows of a linear fragment that the results are, or are parts of, if they are."""
        source, result = self.source.type, self.destination.type
        if self.parts is None:
            return result.rows if isinstance(result, TileType) else None
        partition = source.partition if isinstance(source, TileType) else None
        return partition and rows_like(partition, shape_of(source), self.reduced_shape())

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The lanes' reads of the source, then lane 0's access to the sum and the difference."""
        accumulates = epilogue_of(self).accumulates
        if self.drops_dim:
            assert isinstance(self.distribution, LinearPartitionAttr)  # verified
            partition = self.distribution.data
            layout, (parts, _) = self.layout_of_part(partition.order), self.modes(partition.order)
            return part_accesses(self, layout, parts, partition, accumulates=accumulates)
        if self.parts is not None and self.rows is not None:
            return warp_accesses(self, self.rows)
        if self.partition is None:
            if self.rows is None or isinstance(self.source.type, TileType):
                return []
            return row_accesses(self, self.modes(self.rows.partition.order), self.rows)
        partition = self.partition.data
        return reduce_accesses(
            self,
            self.modes(partition.order),
            self.lane_count,
            partition,
            accumulates=accumulates,
        )
