"""Which parts of a graph become programs: the largest that torch's partitioner finds."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from mugraph.torch.aten import CONVERSIONS, views
from mugraph.torch.operator import import_torch


def fold_constants(graph_module: Any) -> None:
    """Computes what depends on no input ahead, by torch; random numbers stay."""
    torch = import_torch()
    folding = import_module("torch._inductor.constant_folding")

    class Folder(folding.ConstantFolder):
        def is_impure(self, node: Any) -> bool:
            """Whether a call must be made each time."""
            tags = getattr(node.target, "tags", ())
            parent: Any = super()
            return torch.Tag.nondeterministic_seeded in tags or bool(parent.is_impure(node))

    modes = import_module("torch.utils._python_dispatch")
    with modes._disable_current_modes():
        folder = Folder(graph_module)
        folder.run()
        for node, constant in folder.node_replacements.items():
            folding.replace_node_with_constant(graph_module, node, constant)
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
    for node in graph_module.graph.find_nodes(op="get_attr"):
        node.meta["val"] = getattr(graph_module, node.target)


def copy_returned_constants(graph_module: Any) -> None:
    """Gives a caller, who may write to it, a copy of each constant that a graph returns."""
    graph = graph_module.graph
    output = graph.output_node()
    clone = import_torch().ops.aten.clone.default
    with graph.inserting_before(output):
        results = [
            graph.call_function(clone, (each,)) if getattr(each, "op", "") == "get_attr" else each
            for each in output.args[0]
        ]
    output.args = (tuple(results),)


def split_off_programs(graph_module: Any, refusal: Callable[[Any], str | None]) -> Any:
    """The graph with each largest part that mugraph takes as a module of its own, that is called.

    ``refusal`` says of a node why it stays, or ``None``.  No way out of such a part leads back into
    it.
    """
    import_torch()
    partitioner = import_module("torch.fx.passes.infra.partitioner")

    class Support:
        def is_node_supported(self, _: Any, node: Any) -> bool:
            return refusal(node) is None

    return partitioner.CapabilityBasedPartitioner(
        graph_module, Support(), allows_single_node_partition=True
    ).partition_and_fuse()


def programs_of(graph_module: Any) -> dict[str, Any]:
    """The modules that :func:`split_off_programs` made, by name, but for those that only view."""
    names = [node.target for node in graph_module.graph.nodes if node.op == "call_module"]
    parts = {name: getattr(graph_module, name) for name in names}
    programs = {name: part for name, part in parts.items() if hasattr(part, "graph")}
    return {name: part for name, part in programs.items() if _computes(part)}


def _computes(part: Any) -> bool:
    names = [str(node.target) for node in part.graph.nodes if node.op == "call_function"]
    return any(CONVERSIONS.get(name) not in views.VIEWS for name in names if name in CONVERSIONS)
