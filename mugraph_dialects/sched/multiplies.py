"""The operands that products of warps and products of warp groups have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, opt_prop_def

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.elementwise import EpilogueAttr
from mugraph.dialects.sched.matrix_part import shape_of_one, start_of
from mugraph.dialects.sched.types import TileType
from mugraph.dialects.tensor_types import element_type_of, shape_of


class MultipliesMatrices(IRDLOperation, Abstract):
    """A product: the left matrix in memory or a fragment, the right one in shared memory.

    ``through`` are functions that are applied to elements of the right one before; ``lhs_start``
    says where the left one of several starts in its buffer.
    """

    if TYPE_CHECKING:
        # Operators define them, in front of their accumulators.
        lhs: SSAValue
        rhs: SSAValue

    through = opt_prop_def(EpilogueAttr)
    lhs_start = opt_prop_def(DenseArrayBase.constr(i64))

    @property
    def start_of_lhs(self) -> tuple[int, ...]:
        """Where in its buffer the left matrix starts."""
        return start_of(self.lhs_start, len(shape_of(self.lhs.type)))

    @property
    def lhs_shape(self) -> tuple[int, ...]:
        """The extents of what is multiplied from the left."""
        return shape_of_one(self.lhs, self.lhs_start)

    @property
    def multiplied_type(self) -> Attribute:
        """The type of what is multiplied of the right matrix."""
        return element_type_of((self.rhs if self.through is None else self.lhs).type)

    @property
    def lhs_in_registers(self) -> bool:
        """Whether the left matrix is a fragment."""
        return isinstance(self.lhs.type, TileType)
