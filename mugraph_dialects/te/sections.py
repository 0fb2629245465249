"""Boxes of buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import AffineMapAttr, IndexType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.te.indices import IndexList, verify_indices
from mugraph.dialects.te.types import BufferType
from mugraph.dialects.tensor_types import dims


class IndexedOp(IRDLOperation, Abstract):
    """An operator on a place in a buffer, in index expressions of its ``indices``."""

    buffer = operand_def(BufferType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    custom_directives = (IndexList,)

    @property
    def buffer_type(self) -> BufferType:
        """The type of the buffer."""
        return cast(BufferType, self.buffer.type)

    @property
    def index_map(self) -> AffineMap:
        """The index expressions, in the ``indices`` operands."""
        return self.map.data

    def move(self, buffer: SSAValue, indices: Sequence[SSAValue], map_: AffineMap) -> None:
        """Gives it another place, in a buffer of the same elements."""
        before = self.operands[: list(self.operands).index(self.buffer)]
        self.operands = [*before, buffer, *indices]
        self.properties["map"] = AffineMapAttr(map_)


@irdl_op_definition
class SectionOp(IndexedOp):
    """A box of a buffer, as a buffer: ``te.section %A[%i * 16, 0]``, its extents in the result.

    ``... : !te.buffer<64x64xf16> -> !te.buffer<16x64xf16, (16,64):(64,1)>``.  It is no copy.
    """

    name = "te.section"

    result = result_def(BufferType)
    assembly_format = (
        "$buffer custom<IndexList>($indices, $map) attr-dict `:` type($buffer) `->` type($result)"
    )

    def __init__(
        self,
        buffer: SSAValue,
        indices: Sequence[SSAValue],
        map_: AffineMapAttr,
        shape: Sequence[int],
    ) -> None:
        super().__init__(
            operands=[buffer, indices],
            properties={"map": map_},
            result_types=[section_type(cast(BufferType, buffer.type), shape)],
        )

    def verify_(self) -> None:
        """Checks the start and the extents."""
        verify_indices("'te.section'", self.index_map, self.indices)
        source, result = cast(BufferType, self.buffer.type), self.result.type
        if len(self.index_map.results) != len(source.get_shape()):
            raise VerifyException(
                f"'te.section': a box of {dims(source.get_shape())} starts at "
                f"{len(source.get_shape())} indices, not {len(self.index_map.results)}"
            )
        if len(result.get_shape()) != len(source.get_shape()) or any(
            part > whole for part, whole in zip(result.get_shape(), source.get_shape(), strict=True)
        ):
            raise VerifyException(
                f"'te.section': {dims(result.get_shape())} is no box of {dims(source.get_shape())}"
            )
        if result != section_type(source, result.get_shape()):
            raise VerifyException(
                f"'te.section': a box of {source} keeps its elements, strides and space: "
                f"{section_type(source, result.get_shape())}, not {result}"
            )


def section_type(source: BufferType, shape: Sequence[int]) -> BufferType:
    """The type of a box of those extents of a buffer."""
    layout = LayoutAttr(Layout(tuple(shape), source.strides()))
    return BufferType.of(shape, source.element_type, layout, source.memory_space)
