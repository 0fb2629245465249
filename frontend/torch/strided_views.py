"""Views by strides, which read the memory of what they view: more than a program gives of it."""

from __future__ import annotations

from typing import Any

from mugraph.torch.operator import import_torch


def read_whole_memory(graph_module: Any) -> None:
    """Lets ``as_strided`` of views read what these are views of, in place.

    A program gives of a slice its elements alone, not what stands around them in torch's memory.
    Views of inputs are as torch makes them, as these may start anywhere at another call.
    """
    graph = graph_module.graph
    target = import_torch().ops.aten.as_strided.default
    for node in graph.find_nodes(op="call_function", target=target):
        source = node.args[0]
        while views_memory(source):
            source = source.args[0]
        if source is node.args[0] or source.op != "call_function":
            continue
        places = node.args[1:3]
        offset = node.args[3] if len(node.args) > 3 else None
        if offset is None:
            offset = node.args[0].meta["val"].storage_offset()
        if isinstance(offset, int) or hasattr(offset, "op"):
            node.args = source, *places, offset
    graph_module.recompile()


def views_memory(node: Any) -> bool:
    """Whether a call gives a view of its first operand."""
    return node.op == "call_function" and getattr(node.target, "is_view", False)
