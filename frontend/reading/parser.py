"""xDSL's parser, which reads each type once, with places of operations and of what is wrong."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterable
from typing import NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, UnknownLoc
from xdsl.ir import Operation, TypeAttribute
from xdsl.parser import Parser
from xdsl.parser.generic_parser import ParserState
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Span

from mugraph.dialects.locations import file_location
from mugraph.reading.lexer import QuickLexer

_STRINGS = re.compile(r'//[^\n]*|"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*"|(?P<open>")')
"""Comments, strings as MLIR has them, and what begins as a string and is none."""


def _in_angle_brackets(depth: int) -> str:
    """A pattern of balanced brackets with neither strings, comments nor arrows in them."""
    nested = f"|{_in_angle_brackets(depth - 1)}" if depth else ""
    return rf'<(?:[^<>"/-]++|-(?!>){nested})*+>'


_PARAMETRIZED_TYPE = re.compile(rf"!?[A-Za-z_][\w.$]*+{_in_angle_brackets(3)}")


class TypeCachingParser(Parser):
    """xDSL's parser, which does not parse the text of a type a second time.

    IR names the same few types on every line, and parsing them takes most of the time.  An alias
    cannot change its meaning within a text, so that one text of a type is one type.
    """

    def __init__(self, context: Context, text: str, name: str = "<unknown>") -> None:
        super().__init__(context, text, name)
        self._parser_state = ParserState(QuickLexer(self.lexer.input))
        self._types: dict[str, TypeAttribute] = {}

    def parse_optional_type(self) -> TypeAttribute | None:
        """A type, if there is one."""
        text = self.lexer.input.content
        match = _PARAMETRIZED_TYPE.match(text, self.pos)
        if match is None:
            return super().parse_optional_type()
        known = self._types.get(match[0])
        if known is not None:
            self._resume_from(match.end())
            return known
        try:
            parsed = super().parse_optional_type()
        except VerifyException as error:
            self.raise_error(str(error), match.start(), match.end())
        if parsed is not None and not text[match.end() : self.pos].strip():
            self._types[match[0]] = parsed
        return parsed


_CLEARER = {
    "Could not parse entire input!": "expected an operation",
    " in block definition": "expected an operation or '}'",
    "Expected shape type.": "expected an element type, such as f16, bf16, f32, i8 or i32",
}
"""What xDSL's parser says, in words for who wrote the text."""

_UNREGISTERED = re.compile(r"'(.+)' is not registered")

_UNDEFINED = re.compile(r"values used but not defined: \[(%[\w.$-]+)")


class LocatingParser(TypeCachingParser):
    """A parser with locations of operations, and errors in the line that is not complete."""

    def __init__(self, context: Context, text: str, name: str, lines_before: int) -> None:
        super().__init__(context, text, name)
        self._lines_before = lines_before
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._operation_end = 0
        """Where the token stands that follows the last operation parsed."""
        self._location_end = -1
        """Where the token stands that follows the last location parsed."""

    def parse_operation(self) -> Operation:
        """An operation; its location is where it starts, unless the text says another."""
        start = self.pos
        try:
            op = super().parse_operation()
        except struct.error:
            # xDSL packs lists of integers without asking whether they fit.
            self._refuse_wide_integer(start)
            raise
        except VerifyException as error:
            # An operation of this text cannot be built: its place is all that is known.
            self.raise_error(str(error), start, self.pos)
        if isinstance(op.location, UnknownLoc) and self._location_end != self.pos:
            line = bisect_right(self._line_starts, start)
            column = start - self._line_starts[line - 1] + 1
            name = self.lexer.input.name
            op.location = file_location(name, line + self._lines_before, column)
        self._operation_end = self.pos
        return op

    def _get_op_by_name(self, name: str) -> type[Operation]:
        """The operation of that name; ``ParseError`` at the name, with what may be meant."""
        stack = self._parser_state.dialect_stack
        found = self.ctx.get_optional_op(name, dialect_stack=stack)
        if found is not None:
            return found
        # A name in quotes may be written with escapes.
        start = max(self.lexer.input.content.rfind(name, 0, self.pos), 0)
        self.raise_error(self._unknown("operator", name), start, start + len(name))

    def _unknown(self, kind: str, name: str) -> str:
        """That nothing has that name, and which name is like it."""
        prefix, dot, rest = name.partition(".")
        dialect = self.ctx.get_optional_dialect(prefix) if dot else None
        if dialect is None:
            near = closest(prefix, self.ctx.registered_dialect_names) if dot else []
            near = [f"{each}.{rest}" for each in near]
        else:
            known = dialect.operations if kind == "operator" else dialect.attributes
            near = closest(name, (each.name for each in known))
        return f"there is no {kind} '{name}'" + (f"; is {near[0]} meant?" if near else "")

    def _refuse_wide_integer(self, start: int) -> None:
        """Raises ``ParseError`` at the first integer of a text that 64 bits do not hold."""
        for match in re.finditer(r"-?\b\d+\b", self.lexer.input.content[start : self.pos]):
            if not -(2**63) <= int(match[0]) < 2**63:
                place = start + match.start()
                self.raise_error(
                    f"{match[0]} does not fit into 64 bits", place, start + match.end()
                )

    def parse_optional_location(self) -> LocationAttr | None:
        """A location, if there is one."""
        location = super().parse_optional_location()
        if location is not None:
            self._location_end = self.pos
        return location

    def raise_error(
        self,
        msg: str,
        at_position: Span[str] | int | None = None,
        end_position: int | None = None,
    ) -> NoReturn:
        """Raises ``ParseError``; where a line ends too early, at its end and not in the next."""
        msg = _CLEARER.get(msg, msg) if self.lexer.input.content.strip() else "the input is empty"
        if unknown := _UNREGISTERED.fullmatch(msg):
            msg = self._unknown("type or attribute", unknown[1])
        if undefined := _UNDEFINED.match(msg):
            self._refuse_undefined(undefined[1])
        place = at_position.start if isinstance(at_position, Span) else at_position
        if place in (None, self.pos) and self.pos != self._operation_end:
            end = self._end_of_unfinished_line()
            if end is not None:
                at_position, end_position = Span(end, end, self.lexer.input), None
        if isinstance(at_position, int) and end_position is not None:
            at_position, end_position = Span(at_position, end_position, self.lexer.input), None
        super().raise_error(msg, at_position)

    def _refuse_undefined(self, name: str) -> NoReturn:
        """Raises ``ParseError`` where a value is used first that nothing defines."""
        text = self.lexer.input.content
        place = re.search(rf"{re.escape(name)}(?![\w.$-])", text)
        start = place.start() if place else self.pos
        self.raise_error(f"{name} is used, but nothing defines it", start, start + len(name))

    def _end_of_unfinished_line(self) -> int | None:
        """Where the text before the next token ends, if that token is the first of its line."""
        text = self.lexer.input.content
        line = bisect_right(self._line_starts, self.pos) - 1
        if text[self._line_starts[line] : self.pos].strip():
            return None
        while line > 0:
            line -= 1
            start, end = self._line_starts[line : line + 2]
            for match in _STRINGS.finditer(text, start, end):
                if match[0].startswith("//"):
                    end = match.start()
            before = text[start:end].rstrip()
            if before:
                return start + len(before)
        return None


def closest(name: str, known: Iterable[str]) -> list[str]:
    """The known name that is most like ``name``, if one is like it."""
    # Only errors need it.
    import difflib

    return difflib.get_close_matches(name, list(known), n=1)


def refuse_open_strings(text: str, name: str) -> None:
    """Raises ``ParseError`` at the first string that does not end on its line, or is none.

    xDSL's lexer would take time exponential in the length of the line.
    """
    for match in _STRINGS.finditer(text):
        if match["open"] is not None:
            raise ParseError(
                Span(match.start(), match.end(), Input(text, name)),
                "this string does not end on its line, or has an escape that is none of \\n, \\t, "
                '\\", \\\\ and two hexadecimal digits',
            )
