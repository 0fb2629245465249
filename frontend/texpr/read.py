"""Reading `.te` text: a module that has a meaning, or an error at its place in the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span

from mugraph.dialects import te
from mugraph.passes.targets import DEFAULT_TARGET
from mugraph.passes.texpr.te_check import TexprError, check_module
from mugraph.texpr.build import build_module, build_operator
from mugraph.texpr.open_sizes import choose_sizes, open_sizes


def read_texpr(
    text: str, name: str, sizes: Mapping[str, int], *, of_call: bool = False
) -> ModuleOp:
    """The module of a `.te` text, without races and accesses out of bounds.

    As :func:`mugraph.texpr.build.build_module`; sizes that are open, ``size T = 64 | 128``, have
    the values of the least estimated time.  Raises ``ParseError`` with the place of the first
    error.
    """
    values = open_sizes(text, name, sizes)
    if values:
        sizes = {**sizes, **choose_sizes(text, name, sizes, values, DEFAULT_TARGET)}
    module = build_module(text, name, sizes, of_call=of_call)
    _check(module, text, name)
    return module


def read_operator(
    text: str,
    name: str,
    function: str,
    types: Sequence[te.BufferType],
    sizes: Mapping[str, int],
) -> tuple[str, ModuleOp]:
    """A function of a `.te` text for parameters of these types, and a module that has it.

    As :func:`mugraph.texpr.build.build_operator`, without races and accesses out of bounds.
    """
    symbol, module = build_operator(text, name, function, types, sizes)
    _check(module, text, name)
    return symbol, module


def _check(module: ModuleOp, text: str, name: str) -> None:
    """Raises ``ParseError`` at the place of a race or of an access out of bounds."""
    try:
        check_module(module)
    except TexprError as error:
        if error.location is None:
            raise
        # The rest of the line, since a location has no end.
        lines = text.splitlines(keepends=True)
        line, column = error.location.line.data, error.location.column.data
        start = sum(map(len, lines[: line - 1])) + column - 1
        end = start + len(lines[line - 1][column - 1 :].split("--")[0].rstrip())
        raise ParseError(Span(start, end, Input(text, name)), error.message) from error
