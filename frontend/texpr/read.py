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
from mugraph.texpr.open_sizes import (
    REFUSALS,
    Values,
    combinations,
    estimate_sizes,
    in_order,
    open_sizes,
)
from mugraph.texpr.parser import parse_text

MOST_ESTIMATED = 48
"""Combinations of open sizes that are estimated where a program is read; of more as many, drawn."""


def read_texpr(
    text: str, name: str, sizes: Mapping[str, int], *, of_call: bool = False
) -> ModuleOp:
    """The module of a `.te` text, without races and accesses out of bounds.

    As :func:`mugraph.texpr.build.build_module`; sizes that are open, ``size T = 64 | 128``, have
    the values of the least estimated time, and with ``of_call`` sizes that a call says, by the
    text, are left to the call.  Raises ``ParseError`` with the place of the first error.
    """
    if of_call:
        said = {size.name for size in parse_text(text, name).sizes if size.is_of_call}
        sizes = {size: value for size, value in sizes.items() if size not in said}
    values = open_sizes(text, name, sizes)
    if values:
        return _choose(text, name, sizes, values, DEFAULT_TARGET)[1]
    return _read(text, name, sizes)


def choose_sizes(
    text: str, name: str, sizes: Mapping[str, int], values: Values, arch: str
) -> dict[str, int]:
    """The values of open sizes with which a program takes the least by estimate.

    Values with which it has no meaning, or is no program of kernels, are left out; with all of them
    what the first ones raise is raised.
    """
    return _choose(text, name, sizes, values, arch)[0]


def _choose(
    text: str, name: str, sizes: Mapping[str, int], values: Values, arch: str
) -> tuple[dict[str, int], ModuleOp]:
    """The values, and the module that has them."""
    found, refused = in_order(
        combinations(values, MOST_ESTIMATED),
        lambda one: estimate_sizes(text, name, sizes, one, arch),
    )
    problems = [problem for _one, problem in refused]
    for estimate in found:
        chosen = dict(estimate.sizes)
        try:
            return chosen, _read(text, name, {**sizes, **chosen})
        except REFUSALS as problem:
            problems.append(problem)
    raise problems[0]


def _read(text: str, name: str, sizes: Mapping[str, int]) -> ModuleOp:
    module = build_module(text, name, sizes)
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
