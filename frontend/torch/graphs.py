"""New calls in a graph of ATen operators, which know what they give."""

from __future__ import annotations

from typing import Any

from mugraph.torch.operator import import_torch


def insert_call(graph_module: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    """A new call where the graph inserts; its ``val`` is the fake tensor that torch computes."""
    fx = import_torch().fx
    made = graph_module.graph.call_function(target, args, kwargs)
    values: list[Any] = [node.meta["val"] for node in made.all_input_nodes]
    modes: list[Any] = [x.fake_mode for x in values if hasattr(x, "fake_mode")]

    def fake(node: Any) -> Any:
        """What a node gives; constants are real tensors, which do not go with others."""
        value = node.meta["val"]
        is_real = isinstance(value, import_torch().Tensor) and not hasattr(value, "fake_mode")
        return modes[0].from_tensor(value) if modes and is_real else value

    given = fx.node.map_arg((args, kwargs), fake)
    made.meta["val"] = target(*given[0], **given[1])
    return made
