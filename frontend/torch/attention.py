"""Attention as one operator of torch, so that no decomposition takes it apart before it is seen."""

from __future__ import annotations

import math
from collections.abc import Container
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.reductions import LEAST
from mugraph.torch.operator import define, import_torch
from mugraph.torch.places import KnownPlaces
from mugraph.torch.symbols import is_symbol

SCHEMA = (
    "(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal, float? scale, bool heads_inside,"
    " bool at_end=False, bool may_be_empty=False, bool has_least=False) -> Tensor"
)
"""``heads_inside``: heads of a token side by side in memory, as torch's fused kernels give them.

``causal``: the first query sees the first key alone, the next one another one; ``at_end``: the last
query sees the last key, as where the keys are those of earlier calls, too.  ``may_be_empty``: a row
of a mask of numbers may be minus infinity throughout, whose result is 0; ``has_least``: other rows
may be a number throughout that is nearly the least of its type, and keep a softmax.
"""


@cache
def attention_operator() -> Any:
    """``torch.ops.mugraph.attention``: registered once; where it stays in torch it is
    ``scaled_dot_product_attention``."""
    torch = import_torch()
    functional = torch.nn.functional

    def run(
        q: Any,
        k: Any,
        v: Any,
        mask: Any,
        causal: bool,
        scale: float | None,
        heads_inside: bool,
        at_end: bool = False,
        may_be_empty: bool = False,
        has_least: bool = False,
    ) -> Any:
        del may_be_empty, has_least  # torch's own is so
        if at_end:
            rows, keys = q.shape[-2], k.shape[-2]
            mask = torch.ones(rows, keys, dtype=torch.bool, device=q.device).tril(keys - rows)
            causal = False
        result = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=q.dim() > 3
        )
        return _laid_out(result, heads_inside)

    def fake(
        q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None, heads_inside: bool,
        *others: bool,
    ) -> Any:  # fmt: skip
        del k, mask, causal, scale, others
        return _laid_out(q.new_empty((*q.shape[:-1], v.shape[-1])), heads_inside)

    return define("attention", SCHEMA, run, fake)


def _laid_out(result: Any, heads_inside: bool) -> Any:
    """Heads of a token side by side in memory, or row-major."""
    if not heads_inside:
        return result.contiguous()
    return result.transpose(-2, -3).contiguous().transpose(-2, -3)


def keep_attention_whole(graph_module: Any) -> list[Any]:
    """Makes ``torch.ops.mugraph.attention`` of each attention without dropout, in place.

    Returns these.
    """
    found: list[Any] = []
    torch = import_torch()
    operator = attention_operator()
    targets = (
        torch.nn.functional.scaled_dot_product_attention,
        torch.ops.aten.scaled_dot_product_attention.default,
    )
    for node in graph_module.graph.nodes:
        if node.op == "call_function" and node.target in targets:
            arguments = _arguments(*node.args, **node.kwargs)
            if arguments is not None:
                # As torch lays it out, since the model may view it so.
                given = node.meta["example_value" if "example_value" in node.meta else "val"]
                arguments = *arguments, not given.is_contiguous()
                node.target, node.args, node.kwargs = operator, arguments, {}
                found.append(node)
    graph_module.recompile()
    return found


def leave_out_known_masks(graph_module: Any) -> None:
    """Leaves out masks of truths that say no more than that there is none, or a triangle.

    Models make such masks of positions.  They are constants once these are folded; where an extent
    is a symbol, they follow from the places of elements.
    """
    torch = import_torch()
    modes = import_module("torch.utils._python_dispatch")
    places = KnownPlaces(graph_module)
    for node in graph_module.graph.find_nodes(
        op="call_function", target=attention_operator(), sort=False
    ):
        q, k, v, mask, causal, *others = node.args
        if causal or mask is None or mask.meta["val"].dtype != torch.bool:
            continue
        with modes._disable_current_modes():
            triangle = _triangle(graph_module, mask, places)
        if triangle is not None:
            scale, heads_inside = others[:2]
            node.args = (q, k, v, None, triangle.causal, scale, heads_inside, *triangle[1:])
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()


def note_empty_rows(graph_module: Any, weights: Container[str]) -> None:
    """Says of each attention whether rows of its mask of numbers may be minus infinity throughout.

    They may where a graph fills it with that, or makes it of numbers that it is given at a call.
    ``weights`` are inputs that are the same at each call; a mask that is constant is looked at.
    """
    attention = attention_operator()
    modes = import_module("torch.utils._python_dispatch")
    for node in graph_module.graph.find_nodes(op="call_function", target=attention, sort=False):
        mask = node.args[3]
        if mask is None or not mask.meta["val"].is_floating_point():
            continue
        with modes._disable_current_modes():
            empty, least = _lowest(graph_module, mask, weights)
            if empty:
                at_end = node.args[7] if len(node.args) > 7 else False
                node.args = (*node.args[:7], at_end, empty, least)


def _lowest(graph_module: Any, mask: Any, weights: Container[str]) -> tuple[bool, bool]:
    """Whether rows may be minus infinity throughout, and others nearly the least number."""
    fills = least = given = False
    known, pending = {mask}, [mask]
    for node in pending:
        if node.op == "get_attr":
            constant = getattr(graph_module, node.target)
            if constant.is_floating_point():
                empty = constant.isneginf()
                fills |= bool((empty.all(-1) if node is mask else empty).any())
                least |= bool(((constant < LEAST) & ~empty).any())
        elif node.op == "placeholder":
            value = node.meta["val"]
            is_number = not is_symbol(value) and value.is_floating_point()
            given |= is_number and node.name not in weights
        numbers = _numbers_of(node)
        fills |= -math.inf in numbers
        least |= any(-math.inf < number < LEAST for number in numbers)
        pending += [each for each in node.all_input_nodes if each not in known]
        known.update(pending)
    return fills or given, least


def _numbers_of(node: Any) -> list[float]:
    """The fractions among the arguments of a call."""
    values = [*node.args, *node.kwargs.values()]
    return [value for value in values if isinstance(value, float)]


class _Triangle(NamedTuple):
    """What a mask keeps: all, where it is not causal.

    ``may_be_empty``: there may be fewer keys than queries, the first of which have none then.
    """

    causal: bool
    at_end: bool = False
    may_be_empty: bool = False


def _triangle(graph_module: Any, mask: Any, places: KnownPlaces) -> _Triangle | None:
    """What is kept by a mask that keeps a triangle, or all; ``None`` of others."""
    torch = import_torch()
    rows, columns = mask.meta["val"].shape[-2:]
    if (known := places[mask]) is not None and known.is_condition:
        if not known.forms:
            return _Triangle(causal=False)
        more = 0 if str(rows) == str(columns) else _expression(columns) - _expression(rows)
        triangle = LinearForm((*[0] * (mask.meta["val"].dim() - 2), 1, -1), more)
        if known.forms != (triangle,):
            return None
        is_short = _may_be_negative(columns - rows)
        return _Triangle(causal=True, at_end=more != 0, may_be_empty=more != 0 and is_short)
    kept: Any = getattr(graph_module, mask.target) if mask.op == "get_attr" else None
    if not isinstance(kept, torch.Tensor):
        return None
    if bool(kept.all()):
        return _Triangle(causal=False)
    is_square = str(rows) == str(columns)
    is_triangle = is_square and bool((kept == torch.ones_like(kept).tril()).all())
    return _Triangle(causal=True) if is_triangle else None


def _may_be_negative(number: Any) -> bool:
    """Whether a number may be less than 0 at a call, for all that torch knows of its symbols."""
    if not is_symbol(number):
        return number < 0
    return not number.node.shape_env.bound_sympy(number.node.expr).lower >= 0


def _expression(extent: Any) -> Any:
    """A number, or what torch knows of one that is a symbol."""
    return extent.node.expr if is_symbol(extent) else extent


def _arguments(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Any, ...] | None:
    """The arguments of our operator; ``None`` where there is dropout, which is for training."""
    if dropout_p != 0:
        return None
    return query, key, value, attn_mask, is_causal, scale
