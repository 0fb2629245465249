"""Caches that grow: new keys and values behind those of earlier calls."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from mugraph.torch.attention import attention_operator
from mugraph.torch.graphs import insert_call
from mugraph.torch.operator import import_torch
from mugraph.torch.symbols import is_symbol


def equate_key_counts(attentions: list[Any]) -> None:
    """Has torch know which attentions have as many keys: of one as values, and of several caches.

    ``attentions`` are nodes of a graph as ``torch.compile`` caught it.  Torch gives the cache of
    each layer an extent of its own.  A guard of the graph says that those which are equal in this
    call always are, so that a call where they are not compiles again; layers that are alike are the
    same program then.
    """
    check = import_torch()._check
    known: dict[int, Any] = {}
    for node in attentions:
        keys, values = (each.meta["example_value"].shape[-2] for each in node.args[1:3])
        if is_symbol(keys) or is_symbol(values):
            check(keys == values)
        if is_symbol(keys) and keys.node.expr.is_Add and keys.node.has_hint():
            check(known.setdefault(keys.node.hint, keys) == keys)


def grow_in_order(graph_module: Any) -> None:
    """Lets caches that a graph makes longer have the dimension that grows first in memory.

    A program reads them in place then, whatever their length, and torch joins what they had and
    what is new by one copy.  Only caches that are given back and that attention alone reads are
    changed; they have torch's shapes.
    """
    for node in [*_grown(graph_module)]:
        with graph_module.graph.inserting_before(node):
            result = insert_call(graph_module, grown_cache, *node.args)
        result.meta = {**node.meta, **result.meta}
        node.replace_all_uses_with(result)
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()


def grown_cache(parts: list[Any], dim: int) -> Any:
    """Tensors joined along a dimension, which is the first one in memory.

    ``torch.cat`` alone would choose an order by the strides of what it joins.
    """
    moved = [part.movedim(dim, 0) for part in parts]
    first, *others = moved
    rows = first.shape[0] + sum(part.shape[0] for part in others)
    made = first.new_empty((rows, *first.shape[1:]))
    import_torch().cat(moved, out=made)
    return made.movedim(0, dim)


def _grown(graph_module: Any) -> Iterator[Any]:
    """The calls that put something behind a tensor that the graph is given, and give that back."""
    graph, cat = graph_module.graph, import_torch().ops.aten.cat.default
    output = graph.output_node()
    for node in graph.find_nodes(op="call_function", target=cat):
        readers = [user for user in node.users if user is not output]
        if len(readers) == len(node.users) or len(node.args) < 2 or not readers:
            continue
        shape, dim = node.meta["val"].shape, node.args[1] % node.meta["val"].dim()
        is_first = not any(map(is_symbol, shape[:dim])) and math.prod(shape[:dim]) == 1
        is_read = all(_reads_in_any_order(user, node) for user in readers)
        if node.args[0][0].op == "placeholder" and is_read and not is_first:
            node.args = node.args[0], dim
            yield node


def _reads_in_any_order(user: Any, node: Any) -> bool:
    """Whether a call is attention, or makes what is repeated for it, whatever order memory has."""
    torch = import_torch()
    aten = torch.ops.aten
    if user.target is aten.clone.default:
        return user.kwargs.get("memory_format") is torch.contiguous_format
    if user.target in (aten.unsqueeze.default, aten.expand.default):
        return all(_reads_in_any_order(each, user) for each in user.users)
    return user.target is attention_operator() and node in user.args[1:3]


__all__ = ["equate_key_counts", "grow_in_order", "grown_cache"]
