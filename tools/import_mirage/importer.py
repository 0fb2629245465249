"""From a document to a module: containers, and the kernel graph."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.tensor_types import layout_of, shape_of
from mugraph.tools.import_mirage.constants import (
    read_constants,
    read_precision,
    with_constants,
    without_constants,
)
from mugraph.tools.import_mirage.document import MirageImportError, Node
from mugraph.tools.import_mirage.generations import OWN_FUNCTIONS, Generation, find_generation
from mugraph.tools.import_mirage.tensors import (
    DTENSOR_LAYOUTS,
    Tensors,
    expect_tensor_count,
    read_strides,
    read_tensor,
)
from mugraph.tools.import_mirage.threadblock import read_customized
from mugraph.tools.import_mirage.verification import verify_at
from mugraph.tools.import_mirage.whole_tensors import WHOLE_TENSOR

NOT_SHARDED = (-1, -1, -1)

FREE_STRIDES = "strides_are_free"
"""Our field of an input: its strides are only Mirage's default, and the layout pass may choose."""

_UNARY: dict[str, Callable[[SSAValue, Attribute], Operation]] = {
    **without_constants("kn", kn.UNARY_OPERATORS)
}
_UNARY_WITH_CONSTANTS = with_constants("kn", kn.UNARY_OPERATORS)
_BINARY: dict[str, Callable[[SSAValue, SSAValue, Attribute], Operation]] = {
    "kn_matmul_op": kn.MatmulOp,
    **{
        f"kn_{name}_op": operator
        for name, operator in kn.BINARY_OPERATORS.items()
        if name not in OWN_FUNCTIONS
    },
}


@dataclass
class _KernelGraph:
    """The function as it grows."""

    generation: Generation
    tensors: Tensors
    block: Block = field(default_factory=Block)
    outputs: list[SSAValue] = field(default_factory=list[SSAValue])


def import_mirage(
    text: str,
    index: int | None = None,
    generation: int | None = None,
    *,
    file_name: str = "the file",
    symbol: str = "mugraph",
) -> tuple[ModuleOp, list[str]]:
    """The µGraph of a JSON text as a verified module with one function, and notes to the user.

    ``index`` chooses among several graphs, ``generation`` (1, 2 or 3) overrides what the data types
    say, ``symbol`` names the function.  Raises ``MirageImportError`` for whatever cannot be
    imported.
    """
    document = _parse(text, file_name)
    found = Generation(generation) if generation is not None else find_generation(document)
    graph = _KernelGraph(found, Tensors("DTensor"))
    operators = Node(_choose(document, index, file_name), "").operators("operator")
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
    module = ModuleOp([FuncOp(name, types, Region(graph.block))])
    module.verify()
    return module, [found.note] if found.note else []


def _parse(text: str, file_name: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        hint = " The file seems to be truncated." if error.pos >= len(text.rstrip()) else ""
        raise MirageImportError(
            f"{file_name}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}.{hint}"
        ) from error


def _choose(document: object, index: int | None, file_name: str) -> list[Any]:
    """The operators of the chosen graph; a document is one graph or a list of graphs."""
    if not isinstance(document, list):
        raise MirageImportError(
            f"{file_name}: expected a list of operators or a list of graphs, as Mirage writes it."
        )
    elements = cast(list[Any], document)
    if not elements:
        raise MirageImportError(f"{file_name}: the list is empty; there is no graph in it.")
    if not isinstance(elements[0], list):
        elements = [elements]
    count = len(elements)
    held = "one graph" if count == 1 else f"{count} graphs"
    if index is None and count > 1:
        raise MirageImportError(
            f"{file_name} holds {held}; say which one with --index 0 to {count - 1}."
        )
    if index is not None and not 0 <= index < count:
        raise MirageImportError(
            f"{file_name} holds {held}; there is no --index {index}, only 0 to {count - 1}."
        )
    chosen = elements[index or 0]
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
    arity = {
        **dict.fromkeys((*_UNARY, *_UNARY_WITH_CONSTANTS), 1),
        **dict.fromkeys(_BINARY, 2),
    }.get(kind)
    if arity is None and kind != "kn_customized_op" and kind not in WHOLE_TENSOR:
        raise operator.field("op_type").error(f"{kind!r} is no kernel-level operator.")
    operands = [
        graph.tensors.use(tensor, graph.generation)
        for tensor in expect_tensor_count(operator, "input_tensors", arity)
    ]
    results = expect_tensor_count(operator, "output_tensors", None if arity is None else 1)
    if not results:
        raise operator.field("output_tensors").error("holds no tensors; expected at least one.")
    types = [_dtensor_type(graph, tensor, layouts) for tensor in results]
    if kind in _UNARY:
        op = _UNARY[kind](operands[0], types[0])
    elif kind in _UNARY_WITH_CONSTANTS:
        constants = read_constants(operator)
        op = _UNARY_WITH_CONSTANTS[kind](operands[0], types[0], constants)
    elif kind in WHOLE_TENSOR:
        op = WHOLE_TENSOR[kind](operator, operands, types)
    elif kind == "kn_matmul_op":
        op = kn.MatmulOp(
            operands[0], operands[1], types[0], _computation(operator), read_precision(operator)
        )
    elif kind in _BINARY:
        op = _BINARY[kind](operands[0], operands[1], types[0])
    else:
        op = read_customized(operator, graph.generation, operands, types)
    graph.block.add_op(op)
    verify_at(op, operator)
    for tensor, value in zip(results, op.results, strict=True):
        graph.tensors.define(tensor, value, graph.generation)


def _computation(operator: Node) -> kn.Computation | None:
    """The type in which a product accumulates: our field ``compute``."""
    found = operator.optional_field("compute")
    if found is None:
        return None
    known = [str(computation) for computation in kn.Computation]
    if found.text() not in known:
        raise found.error(f"{found.value!r} is none of {', '.join(known)}.")
    return kn.Computation(found.text())


def _read_input(graph: _KernelGraph, operator: Node, layouts: dict[int, tuple[int, ...]]) -> None:
    expect_tensor_count(operator, "input_tensors", 0)
    (tensor,) = expect_tensor_count(operator, "output_tensors", 1)
    _expect_one_gpu(operator, "input_map")
    recorded = operator.optional_field("input_strides")
    strides = None if recorded is None else read_strides(recorded, tensor)
    are_free = operator.optional_field(FREE_STRIDES)
    if are_free is not None and are_free.boolean():
        strides = None
    guid = tensor.field("guid").integer()
    asked = layouts if strides is None else {guid: strides}
    argument = graph.block.insert_arg(_dtensor_type(graph, tensor, asked), len(graph.block.args))
    graph.tensors.define(tensor, argument, graph.generation)


def _read_output(graph: _KernelGraph, operator: Node, layouts: dict[int, tuple[int, ...]]) -> None:
    (tensor,) = expect_tensor_count(operator, "input_tensors", 1)
    _expect_one_gpu(operator, "output_map")
    value = graph.tensors.use(tensor, graph.generation)
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


def _expect_one_gpu(operator: Node, name: str) -> None:
    recorded = operator.optional_field(name)
    if recorded is not None and recorded.xyz(-1) != NOT_SHARDED:
        raise recorded.error("tensors sharded over several GPUs are not supported.")


def _dtensor_type(
    graph: _KernelGraph, tensor: Node, strides: dict[int, tuple[int, ...]]
) -> TensorType[Attribute]:
    shape, element_type = read_tensor(tensor, graph.generation, DTENSOR_LAYOUTS)
    asked = strides.get(tensor.field("guid").integer())
    if asked is None:
        return TensorType(element_type, shape)
    return TensorType(element_type, shape, LayoutAttr(Layout(shape, asked)))
