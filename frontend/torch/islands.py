"""Which parts of a graph become programs: the largest that torch's partitioner finds."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

from mugraph.torch.aten import CONVERSIONS, views
from mugraph.torch.operator import import_torch
from mugraph.torch.symbols import is_symbol, may_be_handed_over
from mugraph.torch.translation import devices_among, merged_extents, tensor_like

PLACE = "mugraph_place"
"""The key of a node's meta that says where it stood in the whole graph."""


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


def place_constants(graph_module: Any) -> None:
    """Gives calls their constants without dimensions where, and in a type that, programs take.

    Torch lets such a constant be on the CPU beside tensors on a GPU, and of f64 beside others.
    """
    torch = import_torch()
    modes = import_module("torch.utils._python_dispatch")
    for constant in graph_module.graph.find_nodes(op="get_attr"):
        value = getattr(graph_module, constant.target)
        if not isinstance(value, torch.Tensor) or value.dim():
            continue
        for call in [*constant.users]:
            result = call.meta.get("val")
            if not isinstance(result, torch.Tensor) or len(call.all_input_nodes) < 2:
                continue
            is_wide = value.dtype == torch.float64 != result.dtype
            dtype = torch.float32 if is_wide else value.dtype
            if (result.device, dtype) == (value.device, value.dtype):
                continue
            name = f"{constant.target}_{call.name}"
            with modes._disable_current_modes():
                graph_module.register_buffer(name, value.to(result.device, dtype))
            with graph_module.graph.inserting_before(call):
                placed = graph_module.graph.get_attr(name)
            placed.meta["val"] = getattr(graph_module, name)
            call.replace_input_with(constant, placed)
    graph_module.graph.eliminate_dead_code()


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


def returns_shared_memory(graph_module: Any) -> bool:
    """Whether results of a graph, as ``torch.compile`` caught it, share what it makes.

    Views of an input are made by torch behind the graph.
    """
    graph = graph_module.graph
    given = {_memory_of(node) for node in graph.find_nodes(op="placeholder")}
    memories = [_memory_of(each) for each in graph.output_node().args[0]]
    made = [each for each in memories if each is not None and each not in given]
    return len({*made}) < len(made)


def _memory_of(node: Any) -> int | None:
    value: Any = getattr(node, "meta", {}).get("example_value")
    is_tensor = isinstance(value, import_torch().Tensor)
    return value.untyped_storage()._cdata if is_tensor else None


def keep_shared_memory(graph_module: Any, results: int) -> set[Any]:
    """Makes results that are views of one tensor anew of that, by calls that are to stay in torch.

    A caller may write to one, and read the others: what a program gives are tensors of their own.
    Only the first ``results`` count.
    """
    graph = graph_module.graph
    output = graph.output_node()
    roots = [_roots(each) for each in output.args[0][:results]]
    shared = Counter(chain[-1] for chain in roots)
    made: dict[Any, Any] = {}
    changed = [*output.args[0]]
    with graph.inserting_before(output):
        for at, (*views, root) in enumerate(roots):
            if shared[root] < 2 or getattr(root, "op", "") != "call_function":
                continue
            source = root
            for view in reversed(views):
                if view not in made:
                    before = made.get(view.all_input_nodes[0], view.all_input_nodes[0])
                    made[view] = graph.node_copy(view, partial(_given, before))
                source = made[view]
            changed[at] = source
    output.args = (tuple(changed),)
    graph.eliminate_dead_code()
    return {*made.values()}


def _given(node: Any, _: Any) -> Any:
    """A node, whichever it is to stand for."""
    return node


def _roots(node: Any) -> list[Any]:
    """A node, what it is a view of, what that is one of, and so on."""
    chain = [node]
    while getattr(chain[-1], "op", "") == "call_function" and (
        getattr(_maker(chain[-1]).target, "is_view", False)
    ):
        inputs = chain[-1].all_input_nodes
        if len(inputs) != 1:
            break
        chain.append(inputs[0])
    return chain


def split_off_programs(
    graph_module: Any, refusal: Callable[[Any], str | None], stays: Callable[[Any, str], None]
) -> Any:
    """The graph with each largest part that mugraph takes as a module of its own, that is called.

    ``refusal`` says of a node why it stays, or ``None``.  No way out of such a part leads back into
    it.  Where tensors whose strides change with an extent would enter or leave, calls stay;
    ``stays`` is told of those that are no views.
    """
    import_torch()
    module = import_module("torch.fx.passes.infra.partitioner")
    for place, node in enumerate(graph_module.graph.nodes):
        node.meta[PLACE] = place
    apart: set[Any] = set()

    class Support:
        def is_node_supported(self, _: Any, node: Any) -> bool:
            return _maker(node) not in apart and refusal(node) is None

    partitioner = module.CapabilityBasedPartitioner(
        graph_module, Support(), allows_single_node_partition=True
    )
    while True:
        partitions = [
            module.Partition(nodes=nodes)
            for part in partitioner.propose_partitions()
            for of_device in _apart(part.nodes, devices_among)
            for nodes in _apart(of_device, merged_extents)
        ]
        outside = {node for part in partitions for node in _at_wrong_ends(part.nodes)}
        if not outside:
            parts = partitioner.fuse_partitions(partitions)
            for part in programs_of(parts).values():
                _put_in_order(part)
            return parts
        apart |= outside
        for node in outside:
            if not is_view(node):
                stays(node, "the strides of what it takes or gives change with an extent")


def _put_in_order(part: Any) -> None:
    """Gives a part's calls the order that they had: what is computed one after another stays so.

    Versions of torch put calls first that need few others, so that kernels are searched for among
    what has nothing to do with each other.
    """
    nodes = [*part.graph.nodes]
    calls = [node for node in nodes if node.op not in ("placeholder", "output")]
    for node in sorted(calls, key=lambda node: node.meta.get(PLACE, -1)):
        nodes[-1].prepend(node)
    part.recompile()


def _apart(nodes: Iterable[Any], kind: Callable[[Any], set[str]]) -> Iterable[list[Any]]:
    """The calls of a part, those of one kind together.

    None takes what another device has, or gives what has merged rows to one that has none.
    """
    apart: dict[str, list[Any]] = {}
    for node in nodes:
        apart.setdefault(" ".join(sorted(kind(node))), []).append(node)
    return apart.values()


def _maker(node: Any) -> Any:
    """The call of several results that a node picks one of, or the node itself."""
    return node.args[0] if node.target is operator.getitem else node


def _at_wrong_ends(nodes: Collection[Any]) -> Iterator[Any]:
    """The calls of a part that take or give, across its ends, a tensor that no program can have."""
    for node in nodes:
        leaves = any(user not in nodes for user in node.users)
        if leaves and (not _may_cross(node) or _is_last_view(node, nodes)):
            yield _maker(node)
        if any(each not in nodes and not _may_cross(each) for each in node.all_input_nodes):
            yield node


def _is_last_view(node: Any, nodes: Collection[Any]) -> bool:
    """Whether a program would only copy what it gives, for a view that torch has without it."""
    extents = getattr(node.meta["val"], "shape", ())
    if not is_view(node) or not any(map(is_symbol, extents)):
        return False
    return not any(user in nodes for user in node.users)


def is_view(node: Any) -> bool:
    """Whether a call computes nothing."""
    return CONVERSIONS.get(str(node.target)) in views.VIEWS


def _may_cross(node: Any) -> bool:
    value = node.meta.get("val")
    if not isinstance(value, import_torch().Tensor):
        return True
    like = tensor_like(value)
    return may_be_handed_over(like.shape, like.strides)


def programs_of(graph_module: Any) -> dict[str, Any]:
    """The modules that :func:`split_off_programs` made, by name, but for those that only view."""
    names = [node.target for node in graph_module.graph.nodes if node.op == "call_module"]
    parts = {name: getattr(graph_module, name) for name in names}
    programs = {name: part for name, part in parts.items() if hasattr(part, "graph")}
    return {name: part for name, part in programs.items() if _computes(part)}


def _computes(part: Any) -> bool:
    names = [str(node.target) for node in part.graph.nodes if node.op == "call_function"]
    return any(CONVERSIONS.get(name) not in views.VIEWS for name in names if name in CONVERSIONS)
