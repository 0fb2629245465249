"""What a graph writes into its inputs, such as a cache: last of all, or where it is made."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from mugraph.torch.operator import import_torch


@dataclass(frozen=True)
class Mutations:
    """Inputs that are written, and what is written to each at the end of a graph."""

    inputs: frozenset[str]
    sources: int
    """How many there are: the last outputs of the graph, an input and its new value in turn."""


def take_out_mutations(graph_module: Any) -> Mutations:
    """Makes of each write to an input an output of the graph, so that no reader comes too late."""
    aten = import_torch().ops.aten
    graph = graph_module.graph
    written: list[tuple[Any, Any]] = []
    for node in graph.find_nodes(op="call_function", target=aten.copy_.default):
        target, source = node.args[:2]
        if target.op == "placeholder":
            # What returns the input has it as it is at the end; what reads it here has its value.
            node.replace_all_uses_with(target, _is_output)
            node.replace_all_uses_with(source)
            graph.erase_node(node)
            written.append((target, source))
    output = graph.output_node()
    output.args = ((*output.args[0], *(each for pair in written for each in pair)),)
    graph_module.recompile()
    return Mutations(frozenset(target.name for target, _ in written), len(written))


def _is_output(node: Any) -> bool:
    return node.op == "output"


def put_back_mutations(graph_module: Any, mutations: Mutations) -> None:
    """Writes the outputs that :func:`take_out_mutations` added.

    A compiled program writes rows of a table where they belong, if nothing else reads that; so does
    a call that stays in torch.  All else is copied behind everything.
    """
    torch = import_torch()
    graph = graph_module.graph
    output = graph.output_node()
    results = list(output.args[0])
    first = len(results) - 2 * mutations.sources
    copied: list[tuple[Any, Any]] = []
    for target, source in zip(results[first::2], results[first + 1 :: 2], strict=True):
        if not _is_written_in_place(graph_module, target, source):
            copied.append((target, source))
    if copied:
        with graph.inserting_before(output):
            targets, sources = (list(side) for side in zip(*copied, strict=True))
            graph.call_function(torch._foreach_copy_, (targets, sources))
    output.args = (tuple(results[:first]),)


def _is_written_in_place(graph_module: Any, target: Any, source: Any) -> bool:
    """Makes what computes a new value write it to the input; false where that cannot be."""
    aten = import_torch().ops.aten
    maker, result = source, 0
    if source.op == "call_function" and source.target is operator.getitem:
        maker, result = source.args
    # The input itself is an output, too, until its new value is written.
    if {*target.users} != {maker, graph_module.graph.output_node()}:
        return False
    if maker.target is aten.index_put.default and maker.args[0] is target:
        maker.target = aten.index_put_.default
        return True
    if maker.op != "call_module":
        return False
    program = getattr(graph_module, maker.target)
    given = getattr(program, "in_place", {}).get(result)
    if given is None or maker.args[given] is not target or maker.args.count(target) > 1:
        return False
    program.writes[result] = given
    return True
