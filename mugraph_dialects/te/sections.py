"""Boxes of buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

from xdsl.dialects.builtin import AffineMapAttr, IndexType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.te.accesses import ParsedAccess
from mugraph.dialects.te.indices import print_index_list, verify_indices
from mugraph.dialects.te.types import BufferType
from mugraph.dialects.tensor_types import dims


@irdl_op_definition
class SectionOp(IRDLOperation):
    """A box of a buffer, as a buffer: ``te.section %A[%i * 16, 0]``, its extents in the result.

    ``... : !te.buffer<64x64xf16> -> !te.buffer<16x64xf16, (16,64):(64,1)>``.  It is no copy.
    """

    name = "te.section"

    buffer = operand_def(BufferType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    result = result_def(BufferType)

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

    @property
    def index_map(self) -> AffineMap:
        """Where the box starts, in the ``indices`` operands."""
        return self.map.data

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

    def print(self, printer: Printer) -> None:
        """Prints the box."""
        printer.print_string(" ")
        printer.print_ssa_value(self.buffer)
        print_index_list(printer, self.index_map, self.indices)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.buffer.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses the box."""
        place = ParsedAccess(parser)
        parser.parse_punctuation("->")
        position = parser.pos
        type_ = parser.parse_type()
        if not isinstance(type_, BufferType):
            parser.raise_error("expected a !te.buffer type", position, parser.pos)
        section = cls.build(
            operands=[place.buffer, place.indices],
            properties={"map": place.map},
            attributes=place.attributes,
            result_types=[type_],
        )
        return section


def section_type(source: BufferType, shape: Sequence[int]) -> BufferType:
    """The type of a box of those extents of a buffer."""
    layout = LayoutAttr(Layout(tuple(shape), source.strides()))
    return BufferType.of(shape, source.element_type, layout, source.memory_space)
