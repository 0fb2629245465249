"""Numbers that are observed, and indices as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntegerAttr, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.accessors import number_of
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.te.indices import Index, verify_indices
from mugraph.dialects.te.types import ELEMENT_TYPES


@irdl_op_definition
class AnchorOp(IRDLOperation):
    """A value that is observed here: ``te.anchor %v : f32``.

    It is evaluated at this place of the program, once each time that control comes here, and after
    all that comes before.  What it is made of is neither removed nor repeated nor moved over
    another operator that touches the same buffers.
    """

    name = "te.anchor"

    value = operand_def(Attribute)
    assembly_format = "$value attr-dict `:` type($value)"

    def __init__(self, value: SSAValue) -> None:
        super().__init__(operands=[value])

    def verify_(self) -> None:
        """Checks that it is a number."""
        if self.value.type not in ELEMENT_TYPES.values():
            raise VerifyException(
                f"'te.anchor' observes a number ({', '.join(ELEMENT_TYPES)}), not {self.value.type}"
            )


class IndexExpressionOp(IRDLOperation, Abstract):
    """An index expression as a value: ``NAME %i * 2 + 1``."""

    RESULT_TYPE: ClassVar[Attribute]

    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    result = result_def(Attribute)
    custom_directives = (Index,)
    assembly_format: ClassVar[str | None] = "custom<Index>($indices, $map) attr-dict"

    def __init__(self, indices: Sequence[SSAValue], map_: AffineMapAttr) -> None:
        super().__init__(
            operands=[indices], properties={"map": map_}, result_types=[self.RESULT_TYPE]
        )

    @property
    def expression(self) -> AffineExpr:
        """The index expression."""
        return self.map.data.results[0]

    def verify_(self) -> None:
        """Checks the expression."""
        verify_indices(f"'{self.name}'", self.map.data, self.indices)
        if len(self.map.data.results) != 1:
            raise VerifyException(f"'{self.name}' has one index expression")


@irdl_op_definition
class IndexOfOp(IRDLOperation):
    """A number as an index: ``%i = te.index_of %v below 256``, from 0 to 255.

    Which number it is nobody knows before the program runs: analyses take what is accessed by it
    to be any element.
    """

    name = "te.index_of"

    value = operand_def(i32)
    limit = prop_def(IntegerAttr.constr(type=i64))
    result = result_def(IndexType)
    assembly_format = "$value `below` $limit attr-dict"

    def __init__(self, value: SSAValue, below: int) -> None:
        super().__init__(
            operands=[value],
            properties={"limit": IntegerAttr(below, i64)},
            result_types=[IndexType()],
        )

    below = number_of("limit")
    """What it is below."""


@irdl_op_definition
class IndexValueOp(IndexExpressionOp):
    """An index expression as a number: ``%n = te.index %i * 2 + 1``, an i32."""

    name = "te.index"
    RESULT_TYPE: ClassVar[Attribute] = i32

    result = result_def(i32)
