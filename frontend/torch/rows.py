"""Linear layers on rows of several dimensions, as they were before torch made a matrix of them."""

from __future__ import annotations

from typing import Any

from mugraph.torch.graphs import insert_call
from mugraph.torch.operator import import_torch
from mugraph.torch.symbols import is_symbol


def keep_rows_apart(graph_module: Any) -> None:
    """Makes ``aten.linear`` of products whose rows are several dimensions, a symbol among them.

    Torch views ``(b, t, in)`` as ``(b * t, in)``, multiplies, and views the result as ``(b, t,
    out)``; no program has a dimension that is a symbol times another extent.
    """
    aten = import_torch().ops.aten
    for node in list(graph_module.graph.nodes):
        if node.target not in (aten.mm.default, aten.addmm.default) or node.kwargs:
            continue
        *bias, rows, matrix = node.args
        if rows.target is aten.view.default and _is_taken_apart(node, rows.args[0]):
            with graph_module.graph.inserting_before(node):
                weight = insert_call(graph_module, aten.permute.default, matrix, [1, 0])
                operands = rows.args[0], weight, *bias
                linear = insert_call(graph_module, aten.linear.default, *operands)
            for view in list(node.users):
                view.replace_all_uses_with(linear)
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()


def _is_taken_apart(product: Any, source: Any) -> bool:
    """Whether all that use a product see the rows of ``source`` again."""
    aten = import_torch().ops.aten
    extent = product.meta["val"].shape[0]
    if not is_symbol(extent) or extent.node.expr.is_Symbol:
        return False
    leading = source.meta["val"].shape[:-1]
    return all(
        user.target is aten.view.default and user.meta["val"].shape[:-1] == leading
        for user in product.users
    )
