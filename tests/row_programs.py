"""Programs of rows, which a test reduces."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp

import mugraph.build as mi


def softmax(rows: int, columns: int) -> ModuleOp:
    """The softmax of rows of f16."""
    graph = mi.new_kernel_graph("rows")
    graph.mark_output(mi.softmax(graph.new_input((rows, columns), dtype=mi.float16)))
    return graph.module()


def layer_norm(rows: int, columns: int, dtype: Any = mi.float16) -> ModuleOp:
    """The layer norm of rows, with weights and biases."""
    graph = mi.new_kernel_graph("rows")
    shapes = ((rows, columns), (columns,), (columns,))
    inputs = [graph.new_input(shape, dtype=dtype) for shape in shapes]
    graph.mark_output(mi.layer_norm(*inputs, eps=1e-5))
    return graph.module()
