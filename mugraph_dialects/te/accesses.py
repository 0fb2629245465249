"""Buffers and accesses to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import Self, cast

from xdsl.dialects.builtin import AffineMapAttr, IndexType, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
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

from mugraph.dialects.te.indices import IndexReader, print_index_list, verify_indices
from mugraph.dialects.te.types import BufferType, parse_word
from mugraph.dialects.tensor_types import dims


class AccessKind(StrEnum):
    """What an access does to its element."""

    READ = "read"
    WRITE = "write"
    RED = "red"
    ATOMIC = "atomic"


class Combination(StrEnum):
    """How a reduction or an atomic operation combines the old element with a number."""

    ADD = "add"
    MAX = "max"
    MIN = "min"


@irdl_op_definition
class NewOp(IRDLOperation):
    """A buffer that exists from here to the end of the block it stands in: ``te.new``.

    Each time that control comes here it is another one, with undefined contents.
    ``%t = te.new : !te.buffer<256xf32, shared>``.
    """

    name = "te.new"

    result = result_def(BufferType)
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, type_: BufferType) -> None:
        super().__init__(result_types=[type_])


class AccessOp(IRDLOperation, ABC):
    """An operator that reads or writes one element of a buffer.

    With one index it is that element in row-major order; with as many as the buffer has dimensions
    it is that coordinate.
    """

    buffer = operand_def(BufferType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)

    @property
    @abstractmethod
    def kind(self) -> AccessKind:
        """What the access does to the element."""

    @property
    def combines(self) -> Combination | None:
        """How the old element takes part, of a reduction or an atomic operation."""
        return None

    @property
    def buffer_type(self) -> BufferType:
        """The type of the buffer."""
        return cast(BufferType, self.buffer.type)

    @property
    def index_map(self) -> AffineMap:
        """The index expressions, in the ``indices`` operands."""
        return self.map.data

    def _verify_access(self) -> None:
        verify_indices(f"'{self.name}'", self.index_map, self.indices)
        verify_index_count(f"'{self.name}'", self.buffer_type, len(self.index_map.results))

    def _verify_value(self, value: SSAValue) -> None:
        if value.type != self.buffer_type.element_type:
            raise VerifyException(
                f"'{self.name}': a value of type {value.type} for an element of type "
                f"{self.buffer_type.element_type}"
            )

    def _print_access(self, printer: Printer) -> None:
        printer.print_ssa_value(self.buffer)
        print_index_list(printer, self.index_map, self.indices)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.buffer.type)


def verify_index_count(label: str, type_: BufferType, count: int) -> None:
    """Raises ``VerifyException`` unless there is one index, or one a dimension."""
    rank = len(type_.get_shape())
    if count not in (1, rank):
        raise VerifyException(
            f"{label}: {count} indices of a buffer of {dims(type_.get_shape())}; expected "
            + (f"{rank}, or 1 in row-major order" if rank > 1 else "1")
        )


class ParsedAccess:
    """Buffer, indices, attributes and type of an access, as its text has them."""

    def __init__(self, parser: Parser) -> None:
        reader = IndexReader(parser)
        buffer = parser.parse_unresolved_operand()
        expressions = reader.expressions()
        self.attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        type_ = parser.parse_type()
        if not isinstance(type_, BufferType):
            parser.raise_error("expected a !te.buffer type", position, parser.pos)
        self.buffer = parser.resolve_operand(buffer, type_)
        self.type = type_
        self.map = reader.map(expressions)
        self.indices = reader.operands


@irdl_op_definition
class ViewOp(AccessOp):
    """The element at an index: ``%a = te.view %A[%i * 64 + %k] : !te.buffer<4096xf16>``."""

    name = "te.view"

    result = result_def(Attribute)

    def __init__(self, buffer: SSAValue, indices: Sequence[SSAValue], map_: AffineMapAttr) -> None:
        type_ = cast(BufferType, buffer.type)
        super().__init__(
            operands=[buffer, indices],
            properties={"map": map_},
            result_types=[type_.element_type],
        )

    @property
    def kind(self) -> AccessKind:
        """A read."""
        return AccessKind.READ

    def verify_(self) -> None:
        """Checks the indices and the type."""
        self._verify_access()
        self._verify_value(self.result)

    def print(self, printer: Printer) -> None:
        """Prints the access."""
        printer.print_string(" ")
        self._print_access(printer)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses the access."""
        place = ParsedAccess(parser)
        view = cls(place.buffer, place.indices, place.map)
        view.attributes |= place.attributes
        return view


@irdl_op_definition
class BindOp(AccessOp):
    """Stores a value at an index: ``te.bind %v, %C[%i * 64 + %j] : !te.buffer<4096xf32>``."""

    name = "te.bind"

    value = operand_def(Attribute)

    def __init__(
        self,
        value: SSAValue,
        buffer: SSAValue,
        indices: Sequence[SSAValue],
        map_: AffineMapAttr,
    ) -> None:
        super().__init__(operands=[value, buffer, indices], properties={"map": map_})

    @property
    def kind(self) -> AccessKind:
        """A write."""
        return AccessKind.WRITE

    def verify_(self) -> None:
        """Checks the indices and the value."""
        self._verify_access()
        self._verify_value(self.value)

    def print(self, printer: Printer) -> None:
        """Prints the access."""
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(", ")
        self._print_access(printer)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses the access."""
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        place = ParsedAccess(parser)
        stored = parser.resolve_operand(value, place.type.element_type)
        bind = cls(stored, place.buffer, place.indices, place.map)
        bind.attributes |= place.attributes
        return bind


class CombiningOp(AccessOp, ABC):
    """An access that combines the element with a value."""

    value = operand_def(Attribute)
    combination = prop_def(StringAttr)

    def __init__(
        self,
        combination: Combination,
        value: SSAValue,
        buffer: SSAValue,
        indices: Sequence[SSAValue],
        map_: AffineMapAttr,
    ) -> None:
        super().__init__(
            operands=[value, buffer, indices],
            properties={"map": map_, "combination": StringAttr(str(combination))},
            result_types=self._result_types(buffer),
        )

    @classmethod
    def _result_types(cls, buffer: SSAValue) -> Sequence[Attribute]:
        """The types of what it gives, of the element before."""
        return []

    @property
    def combines(self) -> Combination:
        """How the old element takes part."""
        return Combination(self.combination.data)

    def verify_(self) -> None:
        """Checks the combination, the indices and the value."""
        if self.combination.data not in list(Combination):
            raise VerifyException(
                f"'{self.name}' combines by {', '.join(Combination)}, not by "
                f"'{self.combination.data}'"
            )
        self._verify_access()
        self._verify_value(self.value)

    def print(self, printer: Printer) -> None:
        """Prints the access."""
        printer.print_string(f" {self.combination.data} ")
        printer.print_ssa_value(self.value)
        printer.print_string(", ")
        self._print_access(printer)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parses the access."""
        combination = parse_word(parser, Combination)
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        place = ParsedAccess(parser)
        number = parser.resolve_operand(value, place.type.element_type)
        access = cls(combination, number, place.buffer, place.indices, place.map)
        access.attributes |= place.attributes
        return access


@irdl_op_definition
class RedOp(CombiningOp):
    """Adds to a reduction: ``te.red add %v, %S[0] : !te.buffer<1xf32>``.

    The element becomes its old value combined with those of all iterations that come here, in any
    order and association; it may be read once the parallel loops whose iterations share it have
    ended.
    """

    name = "te.red"

    @property
    def kind(self) -> AccessKind:
        """A reduction."""
        return AccessKind.RED


@irdl_op_definition
class AtomicOp(CombiningOp):
    """Changes an element in one indivisible step, and gives what it was before.

    ``%old = te.atomic add %v, %S[0] : !te.buffer<1xi32>``.
    """

    name = "te.atomic"

    result = result_def(Attribute)

    @classmethod
    def _result_types(cls, buffer: SSAValue) -> Sequence[Attribute]:
        """That of the element."""
        return [cast(BufferType, buffer.type).element_type]

    @property
    def kind(self) -> AccessKind:
        """An atomic operation."""
        return AccessKind.ATOMIC

    def verify_(self) -> None:
        """Checks the combination, the indices and the values."""
        super().verify_()
        self._verify_value(self.result)


def accesses_in(op: Operation) -> list[AccessOp]:
    """The accesses in an operator's regions, in the order of the text."""
    return [inner for inner in op.walk() if isinstance(inner, AccessOp)]
