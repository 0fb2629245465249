"""Attention as one operator of torch, so that no decomposition takes it apart before it is seen."""

from __future__ import annotations

from functools import cache
from typing import Any

from mugraph.torch.operator import define, import_torch

SCHEMA = "(Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal, float? scale) -> Tensor"


@cache
def attention_operator() -> Any:
    """``torch.ops.mugraph.attention``: registered once; where it stays in torch it is
    ``scaled_dot_product_attention``."""
    torch = import_torch()
    functional = torch.nn.functional

    def run(q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None) -> Any:
        result = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=q.dim() > 3
        )
        return _heads_inside(result)

    def fake(q: Any, k: Any, v: Any, *_: Any) -> Any:
        return _heads_inside(q.new_empty((*q.shape[:-1], v.shape[-1])))

    return define("attention", SCHEMA, run, fake)


def _heads_inside(result: Any) -> Any:
    """Heads of a token side by side in memory, as the layer after attention reads them."""
    if result.dim() < 3:
        return result.contiguous()
    return result.transpose(-2, -3).contiguous().transpose(-2, -3)


def keep_attention_whole(graph_module: Any) -> None:
    """Makes ``torch.ops.mugraph.attention`` of each attention without dropout, in place."""
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
                node.target, node.args, node.kwargs = operator, arguments, {}
    graph_module.recompile()


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
