"""From a document to a module: containers, and the kernel graph."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.sharding import (
    MESH,
    Mesh,
    Sharding,
    mesh_attribute,
    set_per_device,
    with_shardings,
)
from mugraph.dialects.tensor_types import layout_of, shape_of
from mugraph.tools.import_mirage.devices import mesh_in, sharding_in
from mugraph.tools.import_mirage.document import MirageImportError, Node
from mugraph.tools.import_mirage.generations import Generation, find_generation
from mugraph.tools.import_mirage.kernel import READERS
from mugraph.tools.import_mirage.tensors import (
    DTENSOR_LAYOUTS,
    Tensors,
    expect_tensor_count,
    read_strides,
    read_tensor,
)
from mugraph.tools.import_mirage.threadblock import read_customized
from mugraph.tools.import_mirage.verification import verify_at

FREE_STRIDES = "strides_are_free"
"""Our field of an input: its strides are only Mirage's default, and the layout pass may choose."""


@dataclass
class _KernelGraph:
    """The function as it grows."""

    generation: Generation
    tensors: Tensors
    block: Block = field(default_factory=Block)
    outputs: list[SSAValue] = field(default_factory=list[SSAValue])
    mesh: Mesh | None = None
    arguments: list[Sharding] = field(default_factory=list[Sharding])
    results: list[Sharding] = field(default_factory=list[Sharding])


def import_mirage(
    text: str,
    index: int | None = None,
    generation: int | None = None,
    *,
    file_name: str = "the file",
    symbol: str = "mugraph",
    mesh: Mesh | None = None,
) -> tuple[ModuleOp, list[str]]:
    """The µGraph of a JSON text as a verified module with one function, and notes to the user.

    ``index`` chooses among several graphs, ``generation`` (1, 2 or 3) overrides what the data types
    say, ``symbol`` names the function.  With a ``mesh``, or where inputs say how many GPUs there
    are, it is the program of each device.  Raises ``MirageImportError`` for whatever cannot be
    imported.
    """
    graphs = graphs_of(text, file_name)
    found = Generation(generation) if generation is not None else find_generation(graphs)
    operators = Node(_choose(graphs, index, file_name), "").operators("operator")
    graph = _KernelGraph(found, Tensors("DTensor"), mesh=mesh or mesh_in(operators))
    layouts = _output_layouts(operators)
    for operator in operators:
        _read_operator(graph, operator, layouts)
    if not graph.outputs:
        raise MirageImportError(f"{file_name}: the graph has no kn_output_op, so no result.")
    graph.block.add_op(ReturnOp(*graph.outputs))
    types = FunctionType.from_lists(
        [argument.type for argument in graph.block.args], [value.type for value in graph.outputs]
    )
    name = re.sub(r"\W", "_", symbol, flags=re.ASCII) or "mugraph"
    function = FuncOp(name, types, Region(graph.block))
    if graph.mesh is not None:
        function.attributes[MESH] = mesh_attribute(graph.mesh)
        set_per_device(function)
        function.arg_attrs = with_shardings(None, graph.arguments)
        function.res_attrs = with_shardings(None, graph.results)
    module = ModuleOp([function])
    module.verify()
    return module, [found.note] if found.note else []


def graphs_of(text: str, file_name: str) -> list[Any]:
    """The graphs of a JSON text, which is one graph or a list of graphs.

    Raises ``MirageImportError`` for what is neither.
    """
    try:
        document: object = json.loads(text)
    except json.JSONDecodeError as error:
        hint = " The file seems to be truncated." if error.pos >= len(text.rstrip()) else ""
        raise MirageImportError(
            f"{file_name}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}.{hint}"
        ) from error
    if not isinstance(document, list):
        raise MirageImportError(
            f"{file_name}: expected a list of operators or a list of graphs, as Mirage writes it."
        )
    elements = cast(list[Any], document)
    if not elements:
        raise MirageImportError(f"{file_name}: the list is empty; there is no graph in it.")
    return elements if isinstance(elements[0], list) else [elements]


def _choose(graphs: list[Any], index: int | None, file_name: str) -> list[Any]:
    """The operators of the chosen graph."""
    count = len(graphs)
    held = "one graph" if count == 1 else f"{count} graphs"
    if index is None and count > 1:
        raise MirageImportError(
            f"{file_name} holds {held}; say which one with --index 0 to {count - 1}."
        )
    if index is not None and not 0 <= index < count:
        raise MirageImportError(
            f"{file_name} holds {held}; there is no --index {index}, only 0 to {count - 1}."
        )
    chosen = graphs[index or 0]
    if not isinstance(chosen, list):
        raise MirageImportError(f"{file_name}: graph {index or 0} is not a list of operators.")
    return cast(list[Any], chosen)


def _output_layouts(operators: Sequence[Node]) -> dict[int, tuple[int, ...]]:
    """The strides that ``kn_output_op``s ask for, by the guid of their operand."""
    strides: dict[int, tuple[int, ...]] = {}
    for operator in operators:
        if operator.field("op_type").text() != "kn_output_op":
            continue
        (operand,) = expect_tensor_count(operator, "input_tensors", 1)
        guid = operand.field("guid").integer()
        asked = operator.optional_field("output_strides")
        found = None if asked is None else read_strides(asked, operand)
        if found is not None and strides.setdefault(guid, found) != found:
            assert asked is not None
            raise asked.error("this tensor is an output twice, with different strides.")
    return strides


def _read_operator(
    graph: _KernelGraph, operator: Node, layouts: dict[int, tuple[int, ...]]
) -> None:
    kind = operator.field("op_type").text()
    match kind:
        case "kn_input_op":
            _read_input(graph, operator, layouts)
            return
        case "kn_output_op":
            _read_output(graph, operator, layouts)
            return
        case _:
            pass
    reader = READERS.get(kind)
    if reader is None and kind != "kn_customized_op":
        raise operator.field("op_type").error(f"{kind!r} is no kernel-level operator.")
    inputs, outputs = (None, None) if reader is None else (reader.inputs, reader.results)
    operands = [
        graph.tensors.use(tensor, graph.generation)
        for tensor in expect_tensor_count(operator, "input_tensors", inputs)
    ]
    results = expect_tensor_count(operator, "output_tensors", outputs)
    if not results:
        raise operator.field("output_tensors").error("holds no tensors; expected at least one.")
    types = [_dtensor_type(graph, tensor, layouts) for tensor in results]
    if reader is None:
        op = read_customized(operator, graph.generation, operands, types)
    else:
        op = reader.make(operator, operands, types)
    graph.block.add_op(op)
    verify_at(op, operator)
    for tensor, value in zip(results, op.results, strict=True):
        graph.tensors.define(tensor, value, graph.generation)


def _read_input(graph: _KernelGraph, operator: Node, layouts: dict[int, tuple[int, ...]]) -> None:
    expect_tensor_count(operator, "input_tensors", 0)
    (tensor,) = expect_tensor_count(operator, "output_tensors", 1)
    recorded = operator.optional_field("input_strides")
    strides = None if recorded is None else read_strides(recorded, tensor)
    are_free = operator.optional_field(FREE_STRIDES)
    if are_free is not None and are_free.boolean():
        strides = None
    guid = tensor.field("guid").integer()
    asked = layouts if strides is None else {guid: strides}
    argument = graph.block.insert_arg(_dtensor_type(graph, tensor, asked), len(graph.block.args))
    rank = len(shape_of(argument.type))
    graph.arguments.append(sharding_in(operator, "input_map", rank, graph.mesh))
    graph.tensors.define(tensor, argument, graph.generation)


def _read_output(graph: _KernelGraph, operator: Node, layouts: dict[int, tuple[int, ...]]) -> None:
    (tensor,) = expect_tensor_count(operator, "input_tensors", 1)
    value = graph.tensors.use(tensor, graph.generation)
    rank = len(shape_of(value.type))
    graph.results.append(sharding_in(operator, "output_map", rank, graph.mesh))
    asked = layouts.get(tensor.field("guid").integer())
    layout = layout_of(value.type)
    if (
        isinstance(value.owner, Block)
        and asked is not None
        and layout != Layout(shape_of(value.type), asked)
    ):
        # An input that is an output too, with other strides: a copy of it.
        copy = kn.CopyOp(value, _dtensor_type(graph, tensor, layouts))
        graph.block.add_op(copy)
        value = copy.result
    graph.outputs.append(value)


def _dtensor_type(
    graph: _KernelGraph, tensor: Node, strides: dict[int, tuple[int, ...]]
) -> TensorType[Attribute]:
    shape, element_type = read_tensor(tensor, graph.generation, DTENSOR_LAYOUTS)
    asked = strides.get(tensor.field("guid").integer())
    if asked is None:
        return TensorType(element_type, shape)
    return TensorType(element_type, shape, LayoutAttr(Layout(shape, asked)))
