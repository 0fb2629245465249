"""Indices that are all places of a dimension in order: what they pick is a copy of a view.

Masks of padded batches are written so, ``mask[batch[:, None, None, None], keys]``, where ``batch``
and ``keys`` count all rows and columns.  Torch makes rows of a table of that, which programs do not
have where extents are symbols.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Sequence
from typing import Any, cast

from mugraph.torch.operator import import_torch
from mugraph.torch.symbols import are_equal, is_symbol

WHOLE = slice(None, None, None)


def view_whole_indices(graph_module: Any) -> None:
    """Rewrites a graph in place, as ``torch.compile`` caught it, where an extent is a symbol.

    What indices pick is new memory, and so is a copy of the view: either may be written later.
    """
    graph = graph_module.graph
    written = _written(graph)
    for node in graph.find_nodes(op="call_function", target=operator.getitem):
        view = _view_of(node, written)
        if view is not None:
            with graph.inserting_before(node):
                seen = graph.call_function(operator.getitem, (node.args[0], view))
                copy = graph.call_method("clone", (seen,))
            copy.meta = {**node.meta}
            node.replace_all_uses_with(copy)
            graph.erase_node(node)
    # The indices go when the graph has no writes any more, which look like dead code here.
    graph_module.recompile()


def _written(graph: Any) -> set[Any]:
    """What calls write to: each tensor, and what it may be a view of."""
    found = set[Any]()
    for node in graph.nodes:
        if not node.op.startswith("call_"):
            continue
        first: Any = node.args[0] if node.args and _writes(node) else None
        targets = cast("Sequence[Any]", first) if isinstance(first, list | tuple) else [first]
        for target in (*targets, node.kwargs.get("out")):
            source: Any = target
            while hasattr(source, "op") and source not in found:
                found.add(source)
                source = source.args[0] if source.args else None
    return found


def _writes(node: Any) -> bool:
    """Whether a call writes to its first operand: ``x[0] = 1``, ``x += 1``, ``x.add_(1)``.

    Those of lists, such as ``torch._foreach_add_``, write to each tensor of one.
    """
    name: str = getattr(node.target, "__name__", str(node.target))
    is_changed = name.endswith("_") and not name.endswith("__")
    return is_changed or name in _IN_PLACE


_IN_PLACE = frozenset(
    {"setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"}
    | {"iand", "ior", "ixor", "ilshift", "irshift"}
)
"""What ``x[0] = 1``, ``x += 1`` and the like are called in ``operator``."""


def _view_of(node: Any, written: Container[Any]) -> tuple[Any, ...] | None:
    """The index of a view that gives the same; ``None`` where indices pick elements."""
    given, result = _value(node.args[0]), _value(node)
    indices = _bracketed(node)
    if given is None or result is None or not any(map(is_symbol, result.shape)):
        return None
    if len(indices) != given.dim():
        return None
    axes = [_counted(*each, written) for each in zip(indices, given.shape, strict=True)]
    view: list[Any] = []
    dimensions = 0
    for axis, extent in zip(axes, given.shape, strict=True):
        if axis is None:
            return None
        if not is_symbol(extent) and extent == 1:
            view.append(0)
            continue
        place = result.dim() - 1 - axis
        if place < dimensions:
            return None  # a view keeps the order of dimensions
        view += [*[None] * (place - dimensions), WHOLE]
        dimensions = place + 1
    return (*view, *[None] * (result.dim() - dimensions))


def _counted(index: Any, extent: Any, written: Container[Any]) -> int | None:
    """The dimension, from the last, along which an index counts all places of an extent."""
    value, axis = _value(index), _axis(index, written)
    if value is None or axis is None:
        return None
    return axis if are_equal(value.shape[value.dim() - 1 - axis], extent) else None


def _axis(node: Any, written: Container[Any]) -> int | None:
    """The dimension, from the last, along which a tensor is 0, 1, 2 and so on; others are 1."""
    torch = import_torch()
    value = _value(node)
    if value is None or node in written or node.op not in ("call_function", "call_method"):
        return None
    if node.target is torch.arange:
        return 0 if len(node.args) == 1 and not {"end", "start", "step"} & {*node.kwargs} else None
    source = node.args[0] if node.args else None
    before, inner = _value(source), _axis(source, written) if hasattr(source, "op") else None
    if before is None or inner is None:
        return None
    if node.target in (operator.add, "add", torch.add) and node.args[1:] == (0,):
        return inner
    if node.target == "to" and value.dtype == before.dtype:
        return inner
    place: int = before.dim() - 1 - inner
    if node.target in ("unsqueeze", torch.unsqueeze) and len(node.args) == 2:
        new: int = node.args[1] % value.dim()
        return value.dim() - 1 - (place + (new <= place))
    if node.target is operator.getitem:
        index = _bracketed(node)
        kept = [at for at, each in enumerate(index) if each == WHOLE]
        if len(kept) == before.dim() and all(each is None or each == WHOLE for each in index):
            return len(index) - 1 - kept[place]
    return None


def _bracketed(node: Any) -> tuple[Any, ...]:
    """What stands in the square brackets of an item, where it is several things."""
    given = node.args[1]
    return cast("tuple[Any, ...]", given) if isinstance(given, tuple) else ()


def _value(node: Any) -> Any:
    """The fake tensor that a node gives, if it gives one."""
    meta: Any = getattr(node, "meta", {})
    value = meta.get("example_value", meta.get("val"))
    return value if isinstance(value, import_torch().Tensor) else None
