"""Sums and maxima along a dimension."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mugraph.dialects.assembly import ThenEpilogue
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr, epilogue_attribute
from mugraph.dialects.interfaces import HasBufferEffects, HasSharedAccesses, SharedAccess
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.rows import LinearRows
from mugraph.dialects.sched.accesses import HasThreadAccesses, ThreadAccess
from mugraph.dialects.sched.compute_accesses import reduce_accesses, row_accesses
from mugraph.dialects.sched.distribution import (
    Destination,
    Source,
    accumulated,
    partition_attribute,
)
from mugraph.dialects.sched.structure import verify_partition
from mugraph.dialects.sched.types import (
    DealtBy,
    DealtOut,
    FragmentType,
    LinearPartitionAttr,
    SliceAttr,
)
from mugraph.dialects.tb.layouts import reduction_accesses
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tb.reduction import Groups, contiguous_groups, strided_groups
from mugraph.dialects.tensor_types import dims, op_label, shape_of, value_label


class Grouping(StrEnum):
    """Which elements of the reduced dimension each result of a reduction sums."""

    STRIDED = "strided"
    CONTIGUOUS = "contiguous"


@irdl_attr_definition
class GroupingAttr(EnumAttribute[Grouping], SpacedOpaqueSyntaxAttribute):
    """``#sched<grouping strided>``."""

    name = "sched.grouping"


class Combiner(StrEnum):
    """How a reduction makes one number of two."""

    SUM = "sum"
    MAX = "max"


@irdl_attr_definition
class CombinerAttr(EnumAttribute[Combiner], SpacedOpaqueSyntaxAttribute):
    """``#sched<combiner max>``."""

    name = "sched.combiner"


def combiner_attribute(combiner: Combiner) -> CombinerAttr | None:
    """A combiner as a property; ``None`` for a sum."""
    return None if combiner is Combiner.SUM else CombinerAttr(combiner)


class CombiningOp(IRDLOperation, ABC):
    """A reduction by sums or by maxima."""

    combiner = opt_prop_def(CombinerAttr)

    @property
    def combination(self) -> Combiner:
        """How one number is made of two; a sum unless the operator says otherwise."""
        return Combiner.SUM if self.combiner is None else self.combiner.data

    def verify_difference(self, difference: SSAValue | None, destination: SSAValue) -> None:
        """Raises ``VerifyException`` for a difference that is not that of a running maximum."""
        if difference is None:
            return
        if self.combination is not Combiner.MAX or not epilogue_of(self).accumulates:
            raise VerifyException(
                f"{op_label(self)}: a difference is that of a running maximum; expected "
                "'combine max' and 'then [accum]'"
            )
        if shape_of(difference.type) != shape_of(destination.type):
            raise VerifyException(
                f"{op_label(self)}: the difference has {dims(shape_of(difference.type))}, expected "
                f"{dims(shape_of(destination.type))} as the destination"
            )


@irdl_op_definition
class ReduceOp(CombiningOp, HasSharedAccesses, HasThreadAccesses, HasBufferEffects):
    """Sums groups of elements along one dimension; ``lanes`` neighbouring threads share a sum.

    ``by`` deals the results out to the groups of lanes.
    Result j of n sums elements j, j + n ... (``strided``) or the j-th run of extent / n
    neighbours (``contiguous``).  The order of additions is fixed.

    With ``combine max`` the result is the largest element, and ``accum`` keeps the larger of it and
    the destination.  ``difference`` is a second destination, of the same extents, for what the
    destination was less what it becomes, as stored; 0 where it was -infinity.

    Results may be the rows of a fragment (``#sched.slice``), of which every lane then has its
    rows' results.  The source is that fragment, whose lanes combine what they hold by shuffles, or
    a buffer, of which every thread reduces by itself what belongs to its rows (``lanes 1``).
    """

    name = "sched.reduce"

    source = operand_def(Source)
    destination = operand_def(Destination)
    difference = opt_operand_def(Destination)
    dim = prop_def(IntegerAttr.constr(type=i64))
    grouping = prop_def(GroupingAttr)
    lanes = prop_def(IntegerAttr.constr(type=i64))
    partition = prop_def(DealtOut)
    epilogue = opt_prop_def(EpilogueAttr)

    assembly_format = (
        "$source `to` $destination (`difference` $difference^)? custom<ThenEpilogue>($epilogue) "
        "(`combine` $combiner^)? `dim` $dim $grouping `lanes` $lanes "
        "custom<DealtBy>($partition) attr-dict "
        "`:` type($source) `to` type($destination) (`,` type($difference)^)?"
    )
    custom_directives = (ThenEpilogue, DealtBy)

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        dim: int,
        grouping: Grouping,
        lanes: int,
        partition: LinearPartition | Attribute,
        epilogue: Epilogue,
        combiner: Combiner = Combiner.SUM,
        difference: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[source, destination, difference],
            properties={
                "combiner": combiner_attribute(combiner),
                "dim": IntegerAttr(dim, i64),
                "grouping": GroupingAttr(grouping),
                "lanes": IntegerAttr(lanes, i64),
                "partition": partition_attribute(partition),
                "epilogue": epilogue_attribute(epilogue),
            },
        )

    @property
    def reduced_dim(self) -> int:
        """The dimension summed over."""
        return self.dim.value.data

    @property
    def lane_count(self) -> int:
        """How many neighbouring threads share one sum."""
        return self.lanes.value.data

    def groups(self) -> Groups:
        """Which elements each result sums."""
        extent = shape_of(self.source.type)[self.reduced_dim]
        results = shape_of(self.destination.type)[self.reduced_dim]
        if self.grouping.data is Grouping.STRIDED:
            return strided_groups(extent, results)
        return contiguous_groups(extent, results)

    def buffers_read(self) -> Sequence[SSAValue]:
        """The source; the destination too where the epilogue accumulates."""
        return [self.source, *accumulated(self, self.destination)]

    def buffers_written(self) -> Sequence[SSAValue]:
        """The destination, and that of the difference."""
        return [self.destination, *([] if self.difference is None else [self.difference])]

    def verify_(self) -> None:
        """Checks extents and lanes."""
        self.verify_difference(self.difference, self.destination)
        source, result = shape_of(self.source.type), shape_of(self.destination.type)
        dim = self.reduced_dim
        same = len(source) == len(result) and all(
            source[other] == result[other] for other in range(len(source)) if other != dim
        )
        if not 0 <= dim < len(source) or not same or source[dim] % result[dim]:
            raise VerifyException(
                f"{op_label(self)}: {dims(source)} does not reduce to {dims(result)} along "
                f"dimension {dim}"
            )
        lanes = self.lane_count
        if not isinstance(self.partition, LinearPartitionAttr):
            self._verify_rows()
        else:
            verify_partition(self, self.partition.data, self.destination)
            if any(isinstance(value.type, FragmentType) for value in self.operands):
                raise VerifyException(
                    f"{op_label(self)}: results in registers are dealt out as rows of a fragment; "
                    "expected 'by #sched.slice<...>'"
                )
        if lanes not in (1, 2, 4, 8, 16, 32):
            raise VerifyException(
                f"{op_label(self)}: {lanes} lanes cannot share a sum; expected a power of two up "
                "to 32"
            )

    def _verify_rows(self) -> None:
        """Checks a reduction whose results are the rows of a fragment."""
        partition, source = self.partition, self.source.type
        results = [self.destination, *([] if self.difference is None else [self.difference])]
        for value in results:
            if not isinstance(value.type, FragmentType) or value.type.layout != partition:
                raise VerifyException(
                    f"{op_label(self)} is dealt out as {partition}; {value_label(value)} must be a "
                    "fragment that is held so"
                )
        if not isinstance(partition, SliceAttr) or partition.dim.data != self.reduced_dim:
            raise VerifyException(
                f"{op_label(self)}: {partition} does not deal out rows along dimension "
                f"{self.reduced_dim}"
            )
        if self.grouping.data is not Grouping.CONTIGUOUS:
            raise VerifyException(f"{op_label(self)}: a row of a fragment is contiguous")
        if not isinstance(source, FragmentType):
            if self.lane_count != 1:
                raise VerifyException(
                    f"{op_label(self)}: every thread reduces by itself what it reads from "
                    "memory for the rows of a fragment; expected 'lanes 1'"
                )
            return
        if source.layout != partition.parent or source.get_shape() != partition.get_shape():
            raise VerifyException(
                f"{op_label(self)}: the source is held as {source.layout}, the results are rows of "
                f"{partition.parent}"
            )
        rows = self.rows
        if rows is not None and (not rows.combines or rows.lanes != self.lane_count):
            raise VerifyException(
                f"{op_label(self)}: {rows.lanes} threads share a row, expected a power of two up "
                f"to 32 and as many lanes, not {self.lane_count}; rows of whole warps are reduced "
                "by 'sched.reduce_warps' first"
            )

    @property
    def rows(self) -> LinearRows | None:
        """The rows of a linear fragment that the results are, if they are."""
        type_ = self.destination.type
        return type_.rows if isinstance(type_, FragmentType) else None

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Lanes walk along the reduced dimension, groups of lanes along the results."""
        if not isinstance(self.partition, LinearPartitionAttr):
            if isinstance(self.source.type, FragmentType):
                return []
            return [SharedAccess(self.source, self.reduced_dim, self.groups().count)]
        accesses = reduction_accesses(
            self.source,
            self.destination,
            self.reduced_dim,
            self.lane_count,
            self.partition.data.order,
        )
        if self.difference is not None:
            accesses.append(SharedAccess(self.difference, self.partition.data.inner, 1))
        return accesses

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The lanes' reads of the source, then lane 0's access to the sum and the difference."""
        if not isinstance(self.partition, LinearPartitionAttr):
            if self.rows is None or isinstance(self.source.type, FragmentType):
                return []
            return row_accesses(self, self.groups(), self.reduced_dim, self.rows)
        return reduce_accesses(
            self,
            self.groups(),
            self.reduced_dim,
            self.lane_count,
            self.partition.data,
            accumulates=epilogue_of(self).accumulates,
        )
