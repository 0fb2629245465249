"""What a graph writes into its inputs, such as a cache: last of all, or where it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mugraph.torch.operator import import_torch


@dataclass(frozen=True)
class Mutations:
    """Inputs that are written, and what is written to each at the end of a graph."""

    inputs: frozenset[str]
    sources: int
    """How many there are: the last outputs of the graph."""


def take_out_mutations(graph_module: Any) -> Mutations:
    """Makes of each write to an input an output of the graph, so that no reader comes too late.

    What is put into an input that nothing else reads is written there at once, without a copy.
    """
    aten = import_torch().ops.aten
    graph = graph_module.graph
    written: set[str] = set()
    targets: list[tuple[Any, Any]] = []
    for node in graph.find_nodes(op="call_function", target=aten.copy_.default):
        target, source = node.args[:2]
        if target.op != "placeholder":
            continue
        written.add(target.name)
        graph.erase_node(node)
        if source.target is aten.index_put.default and _alone(target, source):
            source.target = aten.index_put_.default
        else:
            targets.append((target, source))
    output = graph.output_node()
    output.args = ((*output.args[0], *(each for pair in targets for each in pair)),)
    graph_module.recompile()
    return Mutations(frozenset(written), len(targets))


def _alone(target: Any, source: Any) -> bool:
    """Whether a call that puts elements into an input is all that reads that."""
    return source.args[0] is target and set(target.users) == {source}


def put_back_mutations(graph_module: Any, mutations: Mutations) -> None:
    """Writes the outputs that :func:`take_out_mutations` added, behind everything else."""
    aten = import_torch().ops.aten
    graph = graph_module.graph
    output = graph.output_node()
    results = list(output.args[0])
    first = len(results) - 2 * mutations.sources
    with graph.inserting_before(output):
        for at in range(first, len(results), 2):
            graph.call_function(aten.copy_.default, (results[at], results[at + 1]))
    output.args = (tuple(results[:first]),)
