"""Reading a module with every dialect of every installed package at hand."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect
from xdsl.universe import Universe

from mugraph.errors import UserError


@cache
def multiverse() -> Universe:
    """xDSL's universe and those of all installed packages, looked up once.

    ``linalg`` is xDSL's with what front ends write besides.
    """
    universe = Universe.get_multiverse()
    universe.all_dialects["linalg"] = _linalg
    return universe


def _linalg() -> Dialect:
    from mugraph.dialects.linalg import Linalg

    return Linalg


def make_context() -> Context:
    """A context in which every dialect is registered, and none loaded."""
    context = Context()
    for name, factory in multiverse().all_dialects.items():
        context.register_dialect(name, factory)
    return context


def read_text(path: str) -> str:
    """The text of a file, or of stdin for ``-``; ``UserError`` where it is no text."""
    try:
        if path == "-":
            return sys.stdin.read()
        if os.path.isdir(path):
            raise UserError(f"{path} is a folder, not a file.")
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}.") from error


def read_te(text: str, name: str, sizes: Sequence[str], *, of_call: bool = False) -> ModuleOp:
    """The module that a `.te` text describes, checked; ``sizes`` are such as ``M=64,N=32``.

    With ``of_call`` those that a call says, by the text, are left to the call.
    """
    from mugraph.texpr import read_texpr

    return read_texpr(text, name, parse_sizes(sizes, least=0 if of_call else 1), of_call=of_call)


def parse_sizes(texts: Sequence[str], least: int = 1) -> dict[str, int]:
    """Sizes as the command line has them, ``M=64,N=32``; ``UserError`` where they are none."""
    sizes: dict[str, int] = {}
    for part in ",".join(texts).split(","):
        if not part:
            continue
        name, _, value = part.partition("=")
        if not (name.isidentifier() and value.isdecimal() and int(value) >= least):
            raise UserError(f"--size {part} gives no size; write --size M=64,N=32.")
        sizes[name] = int(value)
    return sizes


def read_module(
    path: str, context: Context, sizes: Sequence[str] = (), *, of_call: bool = False
) -> ModuleOp:
    """The verified module in a file, or in stdin for ``-``; ``sizes`` are those of a `.te` file.

    ``of_call`` is that of :func:`read_te`.
    """
    name = "stdin" if path == "-" else path
    if path.endswith(".te"):
        return read_te(read_text(path), name, sizes, of_call=of_call)
    refuse_sizes(sizes)
    module = parse_text(context, read_text(path), name)
    from mugraph.dialects.locations import reported_within

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
    # Not before there is a text: the tools start without the dialects.
    from mugraph.reading.parser import LocatingParser, refuse_open_strings

    refuse_open_strings(text, name)
    return LocatingParser(context, text, name, lines_before).parse_module(allow_implicit_module)


def refuse_sizes(sizes: Sequence[str]) -> None:
    """Raises ``UserError`` where sizes are given of a file that is none of `.te` text."""
    if sizes:
        raise UserError(
            f"--size {sizes[0]} is of a .te file; IR has its sizes in its types: leave it out."
        )
