"""Files of µGraphs, for tools that take no tensor expressions."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mugraph.dialects import te
from mugraph.dialects.functions import mugraphs_of
from mugraph.reading import read_module
from mugraph.tools.diagnostics import ToolError


def read_mugraphs(path: str, context: Context, why: str) -> ModuleOp:
    """The verified module in a file; ``ToolError`` with ``why`` if it is a tensor expression."""
    if not path.endswith(".te"):
        module = read_module(path, context)
        if not any(te.is_texpr(function) for function in mugraphs_of(module)):
            return module
    raise ToolError(f"{path} is a tensor expression; {why}")
