"""``--read-windows``: kernels load windows of a tensor where it lies."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from mugraph.dialects import kn, tb
from mugraph.dialects.functions import is_foreign
from mugraph.dialects.kn.customized import match_arguments
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import element_type_of, layout_of

TILE = 64
"""Elements along the first and the last dimension that a block writes."""
THREADS = 128


def loads_of(op: kn.WindowsOp) -> list[tb.InputOp] | None:
    """The loads of custom kernels that alone use windows; ``None`` where others do."""
    found: list[tb.InputOp] = []
    for use in op.result.uses:
        graph = use.operation
        if not isinstance(graph, kn.CustomizedOp):
            return None
        for inner in graph.body.block.args[use.index].uses:
            load = inner.operation
            if not isinstance(load, tb.InputOp) or load.ends:
                return None
            if load.through is not None or load.windows is not None:
                return None
            found.append(load)
    return found


def read_in_place(op: kn.WindowsOp, loads: list[tb.InputOp]) -> None:
    """Rewrite: kernels get the tensor for its windows."""
    source = op.input
    for load in loads:
        new = tb.InputOp(
            load.dtensor, load.map_, load.loop_dim, load.result.type, windows=op.windows
        )
        new.result.name_hint = load.result.name_hint
        Rewriter.replace_op(load, new)
    op.result.replace_all_uses_with(source)
    match_arguments(source)
    Rewriter.erase_op(op)


def write(op: kn.WindowsOp) -> None:
    """Rewrite: a kernel writes the windows."""
    shape = op.windows.shape
    tile, map_, grid = list(shape), [-1, -1, -1], [1, 1, 1]
    for axis, dim in enumerate(dict.fromkeys((0, len(shape) - 1))):
        tile[dim] = min(TILE, shape[dim])
        map_[axis], grid[axis] = dim, math.ceil(shape[dim] / tile[dim])
    body = Block(arg_types=[op.input.type])
    body.args[0].name_hint = op.input.name_hint
    type_ = op.result.type
    tile_type = tb.STensorType(tile, element_type_of(type_))
    load = tb.InputOp(body.args[0], map_, -1, tile_type, windows=op.windows)
    body.add_ops([load, tb.OutputOp(load.result, map_, type_)])
    graph = kn.CustomizedOp([op.input], [type_], grid, [THREADS, 1, 1], 1, body)
    graph.results[0].name_hint = op.result.name_hint
    Rewriter.replace_op(op, graph)


@dataclass(frozen=True)
class ReadWindowsPass(ModulePass):
    """Takes ``kn.windows`` out of µGraphs.

    Kernels that alone use windows load them from the tensor: ``tb.input %x modes ... origin ...``.
    Windows that others use are written by a kernel.
    """

    name = "read-windows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites in every µGraph of the module."""
        for function in op.walk():
            if not isinstance(function, FuncOp) or is_foreign(function):
                continue
            for each in list(function.body.block.ops):
                if isinstance(each, kn.WindowsOp):
                    loads = None if layout_of(each.result.type) is not None else loads_of(each)
                    if loads:
                        read_in_place(each, loads)
                    else:
                        write(each)


__all__ = ["ReadWindowsPass", "loads_of", "read_in_place", "write"]
