"""Reading a module with every dialect of every installed package at hand."""

from __future__ import annotations

import os
import sys
from functools import cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.universe import Universe

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


def read_module(path: str, context: Context) -> ModuleOp:
    """The verified module in a file, or in stdin for ``-``."""
    name = "stdin" if path == "-" else path
    module = Parser(context, read_text(path), name).parse_module()
    module.verify()
    return module
