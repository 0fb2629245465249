"""Operators that put tiles together and cut them, and compute nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.interfaces import (
    HasLayoutConstraints,
    HasSharedAccesses,
    HasTileIndices,
    IndexKind,
    SharedAccess,
    TileIndex,
)
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.pieces import starts_of, verify_pieces
from mugraph.dialects.tb.layouts import add_iteration_constraints, elementwise_accesses
from mugraph.dialects.tb.memory import enclosing_graph
from mugraph.dialects.tb.operators import all_but, parallel_indices
from mugraph.dialects.tb.types import STensorType
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of, value_label

Move = tuple[SSAValue, SSAValue, tuple[int, ...]]
"""A source, a destination, and where the smaller of them starts in the larger one."""


class MovingOp(IRDLOperation, HasLayoutConstraints, HasSharedAccesses, HasTileIndices, ABC):
    """An operator that moves parts of tiles as they are, one after the other."""

    @property
    @abstractmethod
    def moved_dim(self) -> int:
        """The dimension along which the parts stand."""

    def tile_indices(self) -> Sequence[TileIndex]:
        """Along the dimension of the parts they are whole."""
        rank, operands = len(shape_of(self.operands[0].type)), len(self.operands)
        whole = TileIndex(IndexKind.WHOLE, (self.moved_dim,) * operands)
        return [*parallel_indices(rank, operands, all_but(rank, self.moved_dim)), whole]

    def linear_in(self) -> Sequence[frozenset[int]]:
        """In all tiles together."""
        return (frozenset(range(len(self.operands))),)

    @abstractmethod
    def moves(self) -> Sequence[Move]:
        """What goes where."""

    def verify_element_types(self) -> None:
        """Raises ``VerifyException`` unless all tiles have one element type."""
        first, *others = [*self.operands, *self.results]
        for other in others:
            if element_type_of(other.type) != element_type_of(first.type):
                raise VerifyException(
                    f"{op_label(self)} moves elements as they are, but {value_label(first)} has "
                    f"{element_type_of(first.type)} and {value_label(other)} "
                    f"{element_type_of(other.type)}"
                )

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """As an element-wise operator on all tiles."""
        values = [*self.operands, *self.results]
        add_iteration_constraints(problem, self, values, range(len(shape_of(values[0].type))))

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Reads and writes of the parts, along the dimension that scheduling will choose."""
        _, block, _ = enclosing_graph(self)
        threads = block[0] * block[1] * block[2]
        accesses: list[SharedAccess] = []
        for source, destination, _ in self.moves():
            part, whole = sorted((source, destination), key=lambda value: shape_of(value.type))
            found = elementwise_accesses(part, [], threads)
            accesses += found
            accesses += [SharedAccess(whole, access.walk, access.chunk) for access in found]
        return accesses


@irdl_op_definition
class ConcatOp(MovingOp):
    """Tiles one after the other along a dimension.

    ``%z = tb.concat %x, %y dim 1 : (!tb.stensor<4x3xf16>, !tb.stensor<4x5xf16>) ->
    !tb.stensor<4x8xf16>``.
    """

    name = "tb.concat"

    inputs = var_operand_def(STensorType)
    dim = prop_def(IntegerAttr.constr(type=i64))
    result = result_def(STensorType)
    traits = traits_def(Pure())

    assembly_format = "$inputs `dim` $dim attr-dict `:` functional-type(operands, results)"

    def __init__(self, operands: Sequence[SSAValue], dim: int, result_type: Attribute) -> None:
        super().__init__(
            operands=[list(operands)],
            result_types=[result_type],
            properties={"dim": IntegerAttr(dim, i64)},
        )

    @property
    def joined_dim(self) -> int:
        """The dimension along which they stand."""
        return self.dim.value.data

    @property
    def moved_dim(self) -> int:
        """The same."""
        return self.joined_dim

    def verify_(self) -> None:
        """Checks that the operands make up the result."""
        verify_pieces(self, self.joined_dim, self.result, self.inputs)
        self.verify_element_types()

    def moves(self) -> Sequence[Move]:
        """One an operand."""
        starts = starts_of(self.joined_dim, self.inputs)
        return [(part, self.result, start) for part, start in zip(self.inputs, starts, strict=True)]


@irdl_op_definition
class SplitOp(MovingOp):
    """Parts of any extents along a dimension, which the results' types give.

    ``%a, %b = tb.split %x dim 1 : (!tb.stensor<4x8xf16>) -> (!tb.stensor<4x3xf16>,
    !tb.stensor<4x5xf16>)``.
    """

    name = "tb.split"

    input = operand_def(STensorType)
    dim = prop_def(IntegerAttr.constr(type=i64))
    parts = var_result_def(STensorType)
    traits = traits_def(Pure())

    assembly_format = "$input `dim` $dim attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue, dim: int, result_types: Sequence[Attribute]) -> None:
        super().__init__(
            operands=[operand],
            result_types=[list(result_types)],
            properties={"dim": IntegerAttr(dim, i64)},
        )

    @property
    def cut_dim(self) -> int:
        """The dimension that is cut."""
        return self.dim.value.data

    @property
    def moved_dim(self) -> int:
        """The same."""
        return self.cut_dim

    def verify_(self) -> None:
        """Checks that the results make up the operand."""
        verify_pieces(self, self.cut_dim, self.input, self.parts)
        self.verify_element_types()

    def moves(self) -> Sequence[Move]:
        """One a part."""
        starts = starts_of(self.cut_dim, self.parts)
        return [(self.input, part, start) for part, start in zip(self.parts, starts, strict=True)]
