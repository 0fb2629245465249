"""Calls that give what they take: whole slices such as ``x[:, :]``, and whole numbers plus 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mugraph.torch.operator import import_torch
from mugraph.torch.strided_views import views_memory
from mugraph.torch.symbols import are_equal, is_symbol


def leave_out_unchanged(graph_module: Any) -> None:
    """Takes such calls out of a graph of ATen operators, where an extent is a symbol, in place.

    A slice of a symbol's dimension is no part of a program, although it may be all of that.  What a
    graph returns stays: a caller sees whose memory it is.
    """
    graph = graph_module.graph
    output = graph.output_node()
    for node in graph.nodes:
        if node.op == "call_function" and output not in node.users and _is_unchanged(node):
            node.replace_all_uses_with(node.args[0])
    graph.eliminate_dead_code()
    graph_module.recompile()


def _is_unchanged(node: Any) -> bool:
    values: list[Any] = [getattr(each, "meta", {}).get("val") for each in (node, *node.args[:1])]
    if len(values) < 2 or not all(isinstance(each, import_torch().Tensor) for each in values):
        return False
    result, given = values
    if result.is_conj() != given.is_conj() or result.is_neg() != given.is_neg():
        return False
    if not _are_same([result.storage_offset()], [given.storage_offset()]):
        return False
    if result.dtype != given.dtype or not any(map(is_symbol, result.shape)):
        return False
    if not _are_same(result.shape, given.shape) or not _are_same(result.stride(), given.stride()):
        return False
    if str(node.target) == "aten.add.Tensor":
        return node.args[1:] == (0,) and not result.is_floating_point()
    return views_memory(node)


def _are_same(numbers: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(numbers) == len(others) and all(map(are_equal, numbers, others))
