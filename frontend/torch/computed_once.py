"""What depends on weights alone: computed at the first call, and again where they change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from mugraph.torch.operator import import_torch

Finish = Callable[[Any], Any]
"""From a tensor that a graph has to the one that is kept in its place."""


def depends_on_weights(graph_module: Any, weights: Iterable[str]) -> set[Any]:
    """The nodes that give the same tensor at each call: weights, and functions of nothing else."""
    torch = import_torch()
    names, found = set(weights), set[Any]()
    for node in graph_module.graph.nodes:
        if node.op == "get_attr" or (node.op == "placeholder" and node.name in names):
            found.add(node)
        elif node.op == "call_function" and node.all_input_nodes:
            tags = getattr(node.target, "tags", ())
            is_function = torch.Tag.nondeterministic_seeded not in tags and not node.is_impure()
            if is_function and all(each in found for each in node.all_input_nodes):
                found.add(node)
    return found


def function_of(graph_module: Any, node: Any) -> tuple[Any, list[Any]]:
    """A module that computes a node alone, and the inputs of the graph that it takes."""
    torch = import_torch()
    graph = torch.fx.Graph()
    copies: dict[Any, Any] = {}
    sources: list[Any] = []

    def copy(each: Any) -> Any:
        if each not in copies:
            if each.op == "placeholder":
                sources.append(each)
                copies[each] = graph.placeholder(each.name)
            else:
                for before in each.all_input_nodes:
                    copy(before)
                copies[each] = graph.node_copy(each, copies.__getitem__)
        return copies[each]

    graph.output(copy(node))
    return torch.fx.GraphModule(graph_module, graph), sources


def insert_computed_once(graph_module: Any, node: Any, finish: Finish) -> Any:
    """A node, where the graph inserts, of what ``finish`` makes of a node of weights alone."""
    function, sources = function_of(graph_module, node)
    name = f"computed_once_{sum(1 for _ in graph_module.children())}"
    graph_module.add_submodule(name, _kept(function, finish))
    made = graph_module.graph.call_module(name, tuple(sources))
    made.meta["val"] = finish(node.meta["val"])
    return made


def value_of(graph_module: Any, node: Any, inputs: Mapping[str, Any]) -> Any:
    """What a node of weights is now; ``None`` where an input that it needs is not there."""
    function, sources = function_of(graph_module, node)
    given = [inputs.get(each.name) for each in sources]
    if any(each is None or hasattr(each, "fake_mode") for each in given):
        return None
    with import_module("torch.utils._python_dispatch")._disable_current_modes():
        return function(*given)


def _kept(function: Callable[..., Any], finish: Finish) -> Any:
    """A module that calls a function again only where its arguments have changed."""
    seen: tuple[object, ...] = ()
    held: list[Any] = []
    """The arguments' memory: none of another tensor is at these addresses as long as it lives."""
    made: Any = None
    torch = import_torch()

    class ComputedOnce(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            """What was made of these tensors, as long as nothing was written to them."""
            nonlocal seen, held, made
            now = tuple(map(_state, given))
            if made is None or now != seen:
                with torch.no_grad():
                    made, seen = finish(function(*given)), now
                held = [each.detach() for each in given]
            return made

    return ComputedOnce()


def _state(tensor: Any) -> object:
    """What is another where a tensor was written to, or is another one.

    Of tensors that were made in inference mode torch counts no writes: it is another each time.
    """
    return object() if tensor.is_inference() else (tensor.data_ptr(), tensor._version)
