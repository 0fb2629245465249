"""Reductions of rows that several warps share, first half: what each warp makes of its part."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.interfaces import HasBufferEffects, HasSharedAccesses, SharedAccess
from mugraph.dialects.rows import LinearRows
from mugraph.dialects.sched.accesses import AccessError, HasThreadAccesses, ThreadAccess
from mugraph.dialects.sched.compute_accesses import warp_accesses
from mugraph.dialects.sched.reduction import Combiner, CombinerAttr
from mugraph.dialects.sched.types import SharedType, SliceAttr, TileType
from mugraph.dialects.tensor_types import dims, op_label, shape_of


@irdl_op_definition
class ReduceWarpsOp(IRDLOperation, HasSharedAccesses, HasThreadAccesses, HasBufferEffects):
    """Each warp reduces its part of each row of a fragment, along a dimension, to one number.

    ``sched.reduce_warps %x to %parts by <1x4096 dim 1 of #sched.linear<512, ...>> : ...``

    The numbers of a row lie side by side in the destination, in the order of the warps, and in fp32
    (sums of integers in i32).  After a barrier ``sched.reduce %parts to %row`` combines them.
    """

    name = "sched.reduce_warps"

    source = operand_def(TileType)
    destination = operand_def(SharedType)
    combiner = opt_prop_def(CombinerAttr)
    along = opt_prop_def(IntegerAttr.constr(type=i64))
    partition = prop_def(SliceAttr)

    assembly_format = (
        "$source `to` $destination (`combine` $combiner^)? (`results` $along^)? "
        "`by` $partition attr-dict `:` type($source) `to` type($destination)"
    )

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        partition: SliceAttr,
        combiner: Combiner = Combiner.SUM,
        results: int = 1,
    ) -> None:
        super().__init__(
            operands=[source, destination],
            properties={
                "combiner": None if combiner is Combiner.SUM else CombinerAttr(combiner),
                "along": IntegerAttr(results, i64) if results > 1 else None,
                "partition": partition,
            },
        )

    @property
    def combination(self) -> Combiner:
        """How one number is made of two; a sum unless the operator says otherwise."""
        return Combiner.SUM if self.combiner is None else self.combiner.data

    @property
    def results_along(self) -> int:
        """How many rows there are along the reduced dimension."""
        return 1 if self.along is None else self.along.value.data

    @property
    def rows(self) -> LinearRows | None:
        """The rows of a linear fragment; ``None`` for other fragments."""
        return self.partition.linear_rows(self.results_along)

    def buffers_read(self) -> Sequence[SSAValue]:
        """The source."""
        return [self.source]

    def buffers_written(self) -> Sequence[SSAValue]:
        """The destination."""
        return [self.destination]

    def verify_(self) -> None:
        """Checks the fragment, its rows, and the room for the parts of each row."""
        source = self.source.type
        assert isinstance(source, TileType)
        if source.layout != self.partition.parent or (
            source.get_shape() != self.partition.get_shape()
        ):
            raise VerifyException(
                f"{op_label(self)}: the source is held as {source.layout}, the rows are those of "
                f"{self.partition.parent}"
            )
        try:
            rows = self.rows
        except ValueError as error:
            raise VerifyException(f"{op_label(self)}: {error}") from error
        if rows is None:
            return
        if not rows.combines or rows.lanes < 32:
            raise VerifyException(
                f"{op_label(self)}: {rows.lanes} threads share a row; expected whole warps"
            )
        expected = list(rows.result_shape())
        expected[rows.dim] *= rows.warps
        if list(shape_of(self.destination.type)) != expected:
            raise VerifyException(
                f"{op_label(self)}: the destination has {dims(shape_of(self.destination.type))}, "
                f"expected {dims(expected)}: {rows.warps} parts of each row"
            )

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """The parts of a row, one a warp."""
        return [SharedAccess(self.destination, self.partition.dim.data, 1)]

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The writes of the warps' first lanes."""
        rows = self.rows
        if rows is None:
            raise AccessError(f"{op_label(self)}: the parts of {self.partition} are not modelled")
        return warp_accesses(self, rows)


__all__ = ["ReduceWarpsOp"]
