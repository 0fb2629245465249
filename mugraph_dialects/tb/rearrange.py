"""Operators that put tiles together and cut them, and compute nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.interfaces import (
    SharedAccess,
    TileIndex,
)
from mugraph.dialects.pieces import Concatenation, Cut, Move
from mugraph.dialects.ragged import Bounds
from mugraph.dialects.tb.layouts import elementwise_accesses
from mugraph.dialects.tb.moves import enclosing_graph
from mugraph.dialects.tb.operators import TileOperator, moved_indices
from mugraph.dialects.tb.ragged import require_same_bound
from mugraph.dialects.tb.types import STensorType
from mugraph.dialects.tensor_types import op_label, shape_of, value_label


class MovingOp(IRDLOperation, TileOperator):
    """An operator that moves parts of tiles as they are, one after the other."""

    @property
    @abstractmethod
    def moved_dim(self) -> int:
        """The dimension along which the parts stand."""

    def tile_indices(self) -> Sequence[TileIndex]:
        """Along the dimension of the parts they are whole."""
        rank = len(shape_of(self.operands[0].type))
        return moved_indices(rank, len(self.operands), self.moved_dim)

    def linear_in(self) -> Sequence[frozenset[int]]:
        """In all tiles together."""
        return (frozenset(range(len(self.operands))),)

    @abstractmethod
    def moves(self) -> Sequence[Move]:
        """What goes where."""

    def result_bounds(self, operands: Sequence[Bounds]) -> Bounds:
        """Those of the operands, which are whole along the parts and else alike."""
        first, dim = operands[0], self.moved_dim
        for value, bounds in zip(self.operands, operands, strict=True):
            if bounds[dim] is not None:
                raise VerifyException(
                    f"{op_label(self)} moves whole tiles along dimension {dim}, but "
                    f"{value_label(value)} is ragged there: some of its elements do not exist in "
                    "some blocks or iterations; choose a grid and a forloop that divide its extents"
                )
            for at, (own, other) in enumerate(zip(first, bounds, strict=True)):
                require_same_bound(self, (self.operands[0], at, own), (value, at, other))
        return first

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Reads and writes of the parts, along the dimension that scheduling will choose."""
        threads = enclosing_graph(self).threads
        accesses: list[SharedAccess] = []
        for source, destination, _ in self.moves():
            part, whole = sorted((source, destination), key=lambda value: shape_of(value.type))
            found = elementwise_accesses(part, [], threads)
            accesses += found
            accesses += [SharedAccess(whole, access.walk, access.chunk) for access in found]
        return accesses


@irdl_op_definition
class ConcatOp(Concatenation, MovingOp):
    """Tiles one after the other along a dimension.

    ``%z = tb.concat %x, %y dim 1 : (!tb.stensor<4x3xf16>, !tb.stensor<4x5xf16>) ->
    !tb.stensor<4x8xf16>``.
    """

    name = "tb.concat"

    inputs = var_operand_def(STensorType)
    result = result_def(STensorType)

    assembly_format = "$inputs `dim` $dim attr-dict `:` functional-type(operands, results)"

    @property
    def moved_dim(self) -> int:
        """The dimension along which they stand."""
        return self.joined_dim


@irdl_op_definition
class SplitOp(Cut, MovingOp):
    """Parts of any extents along a dimension, which the results' types give.

    ``%a, %b = tb.split %x dim 1 : (!tb.stensor<4x8xf16>) -> (!tb.stensor<4x3xf16>,
    !tb.stensor<4x5xf16>)``.
    """

    name = "tb.split"

    input = operand_def(STensorType)
    parts = var_result_def(STensorType)

    assembly_format = "$input `dim` $dim attr-dict `:` functional-type(operands, results)"

    @property
    def moved_dim(self) -> int:
        """The dimension that is cut."""
        return self.cut_dim
