"""Reading a module with every dialect of every installed package at hand."""

from __future__ import annotations

import argparse
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from typing import NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp, UnknownLoc
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.universe import Universe
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span

from mugraph.dialects.locations import file_location, reported_within
from mugraph.tools.diagnostics import ToolError


@cache
def multiverse() -> Universe:
    """xDSL's universe and those of all installed packages, looked up once."""
    return Universe.get_multiverse()


def make_context() -> Context:
    """A context in which every dialect is registered, and none loaded."""
    context = Context()
    for name, factory in multiverse().all_dialects.items():
        context.register_dialect(name, factory)
    return context


def read_text(path: str) -> str:
    """The text of a file, or of stdin for ``-``; ``ToolError`` where it is no text."""
    try:
        if path == "-":
            return sys.stdin.read()
        if os.path.isdir(path):
            raise ToolError(f"{path} is a folder, not a file.")
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} is not UTF-8 text: {error}.") from error


def read_te(text: str, name: str, sizes: Sequence[str]) -> ModuleOp:
    """The module that a `.te` text describes, checked; ``sizes`` are such as ``M=64,N=32``."""
    from mugraph.texpr import read_texpr

    return read_texpr(text, name, parse_sizes(sizes))


def parse_sizes(texts: Sequence[str]) -> dict[str, int]:
    """Sizes as the command line has them, ``M=64,N=32``; ``ToolError`` where they are none."""
    sizes: dict[str, int] = {}
    for part in ",".join(texts).split(","):
        if not part:
            continue
        name, _, value = part.partition("=")
        if not (name.isidentifier() and value.isdigit() and int(value)):
            raise ToolError(f"--size {part} gives no size; write --size M=64,N=32.")
        sizes[name] = int(value)
    return sizes


def add_size_argument(parser: argparse.ArgumentParser) -> None:
    """``--size M=64,N=32``: the named sizes of a `.te` file."""
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=VALUE[,...]",
        help="values of the named sizes of a .te file",
    )


def read_module(path: str, context: Context, sizes: Sequence[str] = ()) -> ModuleOp:
    """The verified module in a file, or in stdin for ``-``; ``sizes`` are those of a `.te` file."""
    name = "stdin" if path == "-" else path
    if path.endswith(".te"):
        return read_te(read_text(path), name, sizes)
    refuse_sizes(sizes)
    module = parse_text(context, read_text(path), name)
    with reported_within(module):
        module.verify()
    return module


def parse_text(
    context: Context,
    text: str,
    name: str,
    *,
    allow_implicit_module: bool = True,
    lines_before: int = 0,
) -> ModuleOp:
    """The module that IR text describes, not verified; raises ``ParseError``.

    The location of each operation is its place in ``name``, of which the text is what follows
    ``lines_before`` lines, unless the text gives it another with ``loc(...)``.
    """
    refuse_open_strings(text, name)
    return _LocatingParser(context, text, name, lines_before).parse_module(allow_implicit_module)


class _LocatingParser(Parser):
    """xDSL's parser, with locations of operations, and errors in the line that is not complete."""

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
        op = super().parse_operation()
        if isinstance(op.location, UnknownLoc) and self._location_end != self.pos:
            line = bisect_right(self._line_starts, start)
            column = start - self._line_starts[line - 1] + 1
            name = self.lexer.input.name
            op.location = file_location(name, line + self._lines_before, column)
        self._operation_end = self.pos
        return op

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
        place = at_position.start if isinstance(at_position, Span) else at_position
        if place in (None, self.pos) and self.pos != self._operation_end:
            end = self._end_of_unfinished_line()
            if end is not None:
                at_position, end_position = Span(end, end, self.lexer.input), None
        if isinstance(at_position, int) and end_position is not None:
            at_position, end_position = Span(at_position, end_position, self.lexer.input), None
        super().raise_error(msg, at_position)

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


_STRINGS = re.compile(r'//[^\n]*|"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*"|(?P<open>")')
"""Comments, strings as MLIR has them, and what begins as a string and is none."""


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


def refuse_sizes(sizes: Sequence[str]) -> None:
    """Raises ``ToolError`` where sizes are given of a file that is none of `.te` text."""
    if sizes:
        raise ToolError(
            f"--size {sizes[0]} is of a .te file; IR has its sizes in its types: leave it out."
        )
