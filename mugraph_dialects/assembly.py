"""Pieces of assembly formats that the dialects share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntAttr, IntegerAttr, NoneAttr, f32, i64
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    OptionalOperandVariable,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from mugraph.dialects.cute.attributes import (
    LayoutAttr,
    parse_layout_parameter,
    print_layout_parameter,
)
from mugraph.dialects.elementwise import (
    EpilogueAttr,
    ScalarFunctionAttr,
    parse_epilogue,
    parse_fp32,
    parse_scalar_function,
)


class _FunctionsClause(CustomDirective):
    """A keyword and functions, or nothing where the operator has none."""

    KEYWORD: ClassVar[str]

    epilogue: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parses the clause if it is there."""
        if parser.parse_optional_keyword(self.KEYWORD):
            self.epilogue.set(state, EpilogueAttr(parse_epilogue(parser)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Prints the clause if the operator has functions."""
        epilogue = self.epilogue.get(op)
        if isinstance(epilogue, EpilogueAttr):
            state.print_whitespace(printer)
            printer.print_string(f"{self.KEYWORD} {epilogue.data}")


@irdl_custom_directive
class ThenEpilogue(_FunctionsClause):
    """``then [exp, accum]``, or nothing where the operator has no epilogue."""

    KEYWORD: ClassVar[str] = "then"

    epilogue: AttributeVariable


@irdl_custom_directive
class ThroughFunctions(_FunctionsClause):
    """``through [mul_scalar(0.5)]``: what is made of an operand's elements, or nothing."""

    KEYWORD: ClassVar[str] = "through"

    epilogue: AttributeVariable


@irdl_custom_directive
class TripCount(CustomDirective):
    """``16``, or ``%n`` where it is known only when the kernel runs."""

    range: AttributeVariable
    bound: OptionalOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parses a number or a value."""
        bound = parser.parse_optional_unresolved_operand()
        self.bound.set(state, bound)
        if bound is None:
            self.range.set(state, IntegerAttr(parser.parse_integer(), i64))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Prints the number or the value."""
        bound, number = self.bound.get(op), self.range.get(op)
        state.print_whitespace(printer)
        if bound is not None:
            printer.print_ssa_value(bound)
        elif isinstance(number, IntegerAttr):
            printer.print_int(number.value.data)


@irdl_custom_directive
class Fp32Number(CustomDirective):
    """An fp32 number without its type, ``-inf`` included."""

    number: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parses the number."""
        self.number.set(state, FloatAttr(parse_fp32(parser), f32))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Prints the number, so that it parses to the same one."""
        number = self.number.get(op)
        if isinstance(number, FloatAttr):
            state.print_whitespace(printer)
            value = number.value.data
            if math.isinf(value):
                printer.print_string("inf" if value > 0 else "-inf")
            else:
                printer.print_float(value, f32)


@irdl_custom_directive
class FromNumber(Fp32Number):
    """``from`` and an fp32 number, or nothing."""

    number: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parses the clause if it is there."""
        if parser.parse_optional_keyword("from"):
            super().parse(parser, state)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Prints the clause if there is a number."""
        if self.number.get(op) is not None:
            state.print_whitespace(printer)
            printer.print_string("from")
            super().print(printer, state, op)


@irdl_custom_directive
class NamedFunction(CustomDirective):
    """A scalar function by its name: ``exp``, ``mul_scalar(0.5)``."""

    function: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parses the function."""
        self.function.set(state, ScalarFunctionAttr(parse_scalar_function(parser)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Prints the function."""
        function = self.function.get(op)
        if isinstance(function, ScalarFunctionAttr):
            state.print_whitespace(printer)
            printer.print_string(str(function.data))


def parse_shaped_type_parameters(
    parser: AttrParser, parse_extra: Callable[[AttrParser], Attribute]
) -> Sequence[Attribute]:
    """Parses ``<16x128xf16>`` or ``<16x128xf16, extra>`` as shape, element type, extra."""
    with parser.in_angle_brackets():
        shape, element_type = parser.parse_ranked_shape()
        extra: Attribute = NoneAttr()
        if parser.parse_optional_punctuation(","):
            extra = parse_extra(parser)
    return ArrayAttr([IntAttr(extent) for extent in shape]), element_type, extra


def parse_layout_attribute(parser: AttrParser) -> Attribute:
    """Parses a layout in CuTe's notation, without the ``#cute.layout`` around it."""
    return LayoutAttr(parse_layout_parameter(parser))


def print_shaped_type_parameters(
    printer: Printer, shape: Sequence[int], element_type: Attribute, extra: Attribute
) -> None:
    """Prints what :func:`parse_shaped_type_parameters` parses."""
    with printer.in_angle_brackets():
        printer.print_dimension_list(shape)
        printer.print_string("x")
        printer.print_attribute(element_type)
        if isinstance(extra, NoneAttr):
            return
        printer.print_string(", ")
        if isinstance(extra, LayoutAttr):
            print_layout_parameter(printer, extra.data)
        else:
            printer.print_attribute(extra)
