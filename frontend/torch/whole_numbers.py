"""Whole numbers whose bounds are known, in terms of operators that programs have.

Of a router's experts, of places and counts: sorts of few numbers are counting sorts, sums and
quotients that fp32 has exactly are computed in it, and choices that bounds decide are no choices.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

from mugraph.torch.bounds import EXACT, Bounds, clamps, divisor, total_of
from mugraph.torch.graphs import insert_call
from mugraph.torch.operator import define, import_torch
from mugraph.torch.rules import Rules

MOST_GROUPS = 4096
"""A counting sort counts no more different numbers, in the shared memory of a block."""

LARGEST_DIVIDED = 1 << 22
"""Whole numbers below this one have right quotients in fp32, whose steps are 1/4 there."""

SCHEMA = "(Tensor groups, int count) -> (Tensor, Tensor, Tensor)"


@cache
def sort_groups_operator() -> Any:
    """``torch.ops.mugraph.sort_groups``: order, places and ends, int32, of ``kn.sort_groups``."""
    torch = import_torch()

    def run(groups: Any, count: int) -> Any:
        ordered, order = torch.sort(groups, stable=True)
        numbers = torch.arange(count, device=groups.device, dtype=groups.dtype)
        ends = torch.searchsorted(ordered, numbers, right=True)
        return order.int(), torch.argsort(order).int(), ends.int()

    def fake(groups: Any, count: int) -> Any:
        rows = groups.shape[0]
        return tuple(groups.new_empty((each,), dtype=torch.int32) for each in (rows, rows, count))

    return define("sort_groups", SCHEMA, run, fake)


def simplify_whole_numbers(graph_module: Any) -> None:
    """Rewrites a graph of functional ATen operators in place."""
    rewriting = _Rewriting(graph_module, Bounds(graph_module))
    for node in list(graph_module.graph.nodes):
        # In order, so that bounds follow from those of what operands became.
        known = rewriting.bounds[node]
        rewrite = _REWRITES.get(str(node.target)) if node.op == "call_function" else None
        if rewrite is None:
            continue
        with graph_module.graph.inserting_before(node):
            made = rewrite(rewriting, node)
        if made is not None:
            rewriting.bounds.take(made, known)
            node.replace_all_uses_with(made)
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()


@dataclass
class _Rewriting:
    """What rewrites know of the graph."""

    graph_module: Any
    bounds: Bounds
    orders: dict[Any, Any] = field(default_factory=dict[Any, Any])
    """Of the order of a counting sort the places of its rows."""
    ends: dict[Any, Any] = field(default_factory=dict[Any, Any])
    """Of the numbers of rows of each group the ends of these."""
    sorted_groups: dict[Any, Any] = field(default_factory=dict[Any, Any])
    """Of a list that was sorted, and of the same in order, the counting sort."""

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """A new call before the node that is rewritten."""
        return insert_call(self.graph_module, target, *args, **kwargs)

    def cast(self, x: Any, dtype: Any) -> Any:
        """A tensor in another type."""
        if x.meta["val"].dtype == dtype:
            return x
        return self.call(import_torch().ops.aten._to_copy.default, x, dtype=dtype)

    def in_fp32(self, node: Any) -> Any:
        """A call whose results fp32 has exactly, computed in it."""
        torch = import_torch()
        dtype = node.meta["val"].dtype
        wide = self.cast(node.args[0], torch.float32)
        options = {name: each for name, each in node.kwargs.items() if name != "dtype"}
        return self.cast(self.call(node.target, wide, *node.args[1:], **options), dtype)


_REWRITES = Rules[Callable[[_Rewriting, Any], Any]]()
"""By operator: what a call is replaced by, or ``None``."""


def _is_like(a: Any, b: Any) -> bool:
    values: list[Any] = [getattr(each, "meta", {}).get("val") for each in (a, b)]
    return all(each is not None for each in values) and (
        values[0].shape == values[1].shape and values[0].dtype == values[1].dtype
    )


@_REWRITES.of("where.self")
def _choice(rewriting: _Rewriting, node: Any) -> Any:
    """One of both, where bounds decide which."""
    known = rewriting.bounds[node.args[0]]
    if known is None or known.first != known.last:
        return None
    chosen = node.args[1 if known.first else 2]
    return chosen if _is_like(chosen, node) else None


@_REWRITES.of("clamp.default")
def _clamp(rewriting: _Rewriting, node: Any) -> Any:
    """Nothing, where all numbers are between the bounds, which are no symbols."""
    known, (low, high) = rewriting.bounds[node.args[0]], clamps(node)
    is_known_late = node.all_input_nodes != [node.args[0]]
    if known is None or is_known_late or not _is_like(node.args[0], node):
        return None
    above = low is None or low <= known.first
    below = high is None or known.last <= high
    return node.args[0] if above and below else None


@_REWRITES.of("_assert_async.default", "_assert_async.msg")
def _assertion(rewriting: _Rewriting, node: Any) -> None:
    """Nothing, where bounds say that it holds."""
    known = rewriting.bounds[node.args[0]]
    if known is not None and known.within(1, 1):
        rewriting.graph_module.graph.erase_node(node)


@_REWRITES.of("sort.default", "sort.stable")
def _sort(rewriting: _Rewriting, node: Any) -> Any:
    """A counting sort, where there are few different numbers."""
    torch = import_torch()
    # sort(x, dim, descending) and sort(x, *, stable, dim, descending)
    groups, falls = node.args[0], node.kwargs.get("descending", node.args[2:3] == (True,))
    value, known = groups.meta["val"], rewriting.bounds[groups]
    if known is None or not known.within(0, MOST_GROUPS - 1) or falls:
        return None
    if value.dim() != 1 or value.dtype not in (torch.int32, torch.int64):
        return None
    made = rewriting.call(sort_groups_operator(), groups, known.last + 1)
    order, places, _ = (rewriting.call(operator.getitem, made, at) for at in range(3))
    rewriting.orders[order] = places
    rewriting.sorted_groups[groups] = made
    wide = rewriting.cast(order, torch.int64)
    rewriting.orders[wide] = places
    for part in list(node.users):
        if part.args[1] == 1:
            part.replace_all_uses_with(wide)
        else:
            with rewriting.graph_module.graph.inserting_before(part):
                ordered = rewriting.call(torch.ops.aten.index_select.default, groups, 0, wide)
            rewriting.sorted_groups[ordered] = made
            part.replace_all_uses_with(ordered)
    return None


@_REWRITES.of("histc.default")
def _count(rewriting: _Rewriting, node: Any) -> Any:
    """The rows of each group, where these are sorted and each number has a bin."""
    torch = import_torch()
    aten = torch.ops.aten
    x, bins, first, last = [*node.args, 100, 0, 0][:4]
    groups: Any = x
    while groups not in rewriting.sorted_groups:
        if str(getattr(groups, "target", "")) != "aten._to_copy.default":
            return None
        groups = groups.args[0]
    known = rewriting.bounds[groups]
    if known is None or not known.within(0, bins - 1) or (first, last) != (0, bins - 1):
        return None
    made = rewriting.sorted_groups[groups]
    if made.args[1] != bins:
        # Groups behind the last one that there may be are empty.
        made = rewriting.call(sort_groups_operator(), made.args[0], bins)
    ends = rewriting.call(operator.getitem, made, 2)
    zero = rewriting.call(aten.mul.Tensor, rewriting.call(aten.slice.Tensor, ends, 0, 0, 1), 0)
    begins = rewriting.call(aten.slice.Tensor, ends, 0, 0, bins - 1)
    begins = rewriting.call(aten.cat.default, [zero, begins])
    counts = rewriting.call(aten.sub.Tensor, ends, begins)
    result = rewriting.cast(counts, node.meta["val"].dtype)
    rewriting.ends[result] = ends
    return result


@_REWRITES.of("cumsum.default", "sum.dim_IntList")
def _total(rewriting: _Rewriting, node: Any) -> Any:
    """The ends of groups, or a sum in fp32, which has all of its numbers."""
    operand, dtype = node.args[0], node.meta["val"].dtype
    if dtype.is_floating_point or dtype.is_complex:
        return None
    if operand in rewriting.ends and str(node.target) == "aten.cumsum.default":
        return rewriting.cast(rewriting.ends[operand], dtype)
    known = rewriting.bounds[operand]
    if known is None or not total_of(node, known).within(-EXACT, EXACT):
        return None
    return rewriting.in_fp32(node)


@_REWRITES.of("argmax.default", "amax.default", "amin.default")
def _choice_of_elements(rewriting: _Rewriting, node: Any) -> Any:
    """The largest of whole numbers that fp32 has."""
    dtype, known = node.args[0].meta["val"].dtype, rewriting.bounds[node.args[0]]
    if dtype.is_floating_point or known is None or not known.within(-EXACT, EXACT):
        return None
    return rewriting.in_fp32(node)


@_REWRITES.of("mm.default")
def _product_of_bytes(rewriting: _Rewriting, node: Any) -> Any:
    """A product of matrices of bytes, with whole sums."""
    torch = import_torch()
    known = rewriting.bounds.all_of(*node.args)
    if known is None or not all(each.within(-128, 127) for each in known):
        return None
    if node.meta["val"].dtype != torch.int32:
        return None
    operands: list[Any] = []
    for each in node.args:
        is_cast = str(each.target) == "aten._to_copy.default"
        source = each.args[0] if is_cast else each
        is_byte = source.meta["val"].dtype == torch.int8
        operands.append(source if is_byte else rewriting.cast(each, torch.int8))
    return rewriting.call(torch.ops.aten._int_mm.default, *operands)


@_REWRITES.of("index_put.default")
def _inverse(rewriting: _Rewriting, node: Any) -> Any:
    """The places of a sort, where each place is put behind the row that comes to it."""
    torch = import_torch()
    table, indices, values = node.args[:3]
    places = rewriting.orders.get(indices[0]) if len(indices) == 1 else None
    if places is None or not _is_like(table, values) or not _counts(rewriting, values):
        return None
    same = places.meta["val"].shape == table.meta["val"].shape
    is_whole = table.meta["val"].dtype in (torch.int32, torch.int64)
    return rewriting.cast(places, table.meta["val"].dtype) if same and is_whole else None


def _counts(rewriting: _Rewriting, node: Any) -> bool:
    """Whether a constant is 0, 1, 2 and so on."""
    if node.op != "get_attr":
        return False
    value = getattr(rewriting.graph_module, node.target)
    with import_module("torch.utils._python_dispatch")._disable_current_modes():
        return value.tolist() == list(range(len(value)))


@_REWRITES.of("div.Tensor_mode", "remainder.Scalar")
def _quotient(rewriting: _Rewriting, node: Any) -> Any:
    """The next whole number below (x + 1/2) / c, which no rounding makes another."""
    torch = import_torch()
    aten = torch.ops.aten
    by, known = divisor(node), rewriting.bounds[node.args[0]]
    if by is None or known is None or not known.within(-LARGEST_DIVIDED, LARGEST_DIVIDED):
        return None
    x, dtype = node.args[0], node.meta["val"].dtype
    wide = rewriting.call(aten.add.Tensor, rewriting.cast(x, torch.float32), 0.5)
    quotient = rewriting.call(aten.floor.default, rewriting.call(aten.mul.Tensor, wide, 1 / by))
    if str(node.target) == "aten.div.Tensor_mode":
        return rewriting.cast(quotient, dtype)
    below = rewriting.cast(rewriting.call(aten.mul.Tensor, quotient, float(by)), dtype)
    return rewriting.call(aten.sub.Tensor, x, below)
