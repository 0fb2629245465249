"""The threadblock graph of a ``kn_customized_op``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.launch_extents import MAX_GRID, MAX_THREADS
from mugraph.dialects.maps import PartitionError, tile_shape
from mugraph.dialects.tensor_types import dims
from mugraph.tools.import_mirage.constants import (
    read_constants,
    read_precision,
    with_constants,
    without_constants,
)
from mugraph.tools.import_mirage.document import Node
from mugraph.tools.import_mirage.generations import OWN_FUNCTIONS, Generation
from mugraph.tools.import_mirage.tensors import (
    DTENSOR_LAYOUTS,
    STENSOR_LAYOUTS,
    Tensors,
    expect_tensor_count,
    read_shape,
    read_tensor,
)
from mugraph.tools.import_mirage.verification import verify_at

_Make = Callable[[SSAValue, Attribute], Operation]

_UNARY: dict[str, _Make] = without_constants("tb", tb.UNARY_OPERATORS)
_UNARY_WITH_CONSTANTS = with_constants("tb", tb.UNARY_OPERATORS)
_BINARY: dict[str, Callable[[SSAValue, SSAValue, Attribute], Operation]] = {
    "tb_matmul_op": tb.MatmulOp,
    **{
        f"tb_{name}_op": operator
        for name, operator in tb.BINARY_OPERATORS.items()
        if name not in OWN_FUNCTIONS
    },
}


def _accumulate(kind: tb.AccumulatorKind) -> _Make:
    return lambda operand, type_: tb.ForloopAccumOp(kind, operand, type_)


# Without the prefix, which was tb_accum_ until March 2025 and is tb_forloop_accum_ since.
_ACCUMULATORS: dict[str, _Make] = {
    "nored_op": _accumulate(tb.AccumulatorKind.NONE),
    "red_ld_sum_op": _accumulate(tb.AccumulatorKind.SUM),
    "red_ld_mean_op": _accumulate(tb.AccumulatorKind.MEAN),
    "red_ld_rms_op": _accumulate(tb.AccumulatorKind.RMS),
    "max_op": _accumulate(tb.AccumulatorKind.MAX),
    # The saved µGraphs compute their function only with the strided meaning.
    "redtox_ld_sum_op": tb.ForloopAccumSumToDimxStridedOp,
}
_RESCALED_ACCUMULATORS: dict[str, tb.RescaledKind] = {
    "nored_rescale_op": tb.RescaledKind.NONE,
    "red_ld_sum_rescale_op": tb.RescaledKind.SUM,
}
_ACCUMULATOR_PREFIXES = ("tb_accum_", "tb_forloop_accum_")
_TO_DIMX_ACCUMULATOR = "redtox_ld_sum_op"

_REDUCTIONS: dict[str, tuple[int, bool]] = {
    f"tb_reduction_{dim}{suffix}_op": (dim, bool(suffix))
    for dim in range(3)
    for suffix in ("", "_to_dimx")
}
"""The reduced dimension of each reduction, and whether it reduces to ``reduction_dimx``."""
_CONCATS = {f"tb_concat_{dim}_op": dim for dim in range(3)}
"""The dimension along which each concat puts its two operands one after the other."""
_MAXIMA = {f"tb_reduction_{dim}_max_op": dim for dim in range(3)}
"""The reduced dimension of each running maximum, which has two results."""

_SPLITS = {f"tb_split_{dim}_op": dim for dim in range(3)}
"""The dimension along which each split cuts its operand."""

_UNSUPPORTED = {"tb_customized_op": "mugraph has no such threadblock operator."}


@dataclass
class _ThreadblockGraph:
    """The body as it grows."""

    generation: Generation
    grid: tuple[int, int, int]
    forloop_range: int
    reduction_dimx: int
    result_types: Sequence[TensorType[Attribute]]
    block: Block
    tensors: Tensors = field(default_factory=lambda: Tensors("STensor"))
    places: dict[Operation, Node] = field(default_factory=dict[Operation, Node])
    after_loop: set[SSAValue] = field(default_factory=set[SSAValue])
    input_count: int = 0
    output_count: int = 0


def read_customized(
    operator: Node,
    generation: Generation,
    operands: Sequence[SSAValue],
    result_types: Sequence[TensorType[Attribute]],
) -> kn.CustomizedOp:
    """The ``kn.customized`` of a ``kn_customized_op``, its body verified operator by operator.

    Raises ``MirageImportError``, placed at the threadblock operator where there is one to blame.
    """
    bgraph = operator.field("bgraph")
    level = bgraph.optional_field("graph_level")
    if level is not None and level.text() != "thread_block_graph":
        raise level.error(f"{level.value!r} is not 'thread_block_graph'.")
    grid, block = bgraph.field("grid_dim"), bgraph.field("block_dim")
    for axis, extent, limit in zip("xyz", grid.xyz(1), MAX_GRID, strict=True):
        if extent > limit:
            raise grid.field(axis).error(f"{extent} blocks; the hardware allows {limit}.")
    if math.prod(block.xyz(1)) > MAX_THREADS:
        raise block.error(
            f"a block of {math.prod(block.xyz(1))} threads; the hardware allows {MAX_THREADS}."
        )
    graph = _ThreadblockGraph(
        generation,
        grid.xyz(1),
        bgraph.field("forloop_range").integer(1),
        bgraph.field("reduction_dimx").integer(1),
        result_types,
        Block(arg_types=[operand.type for operand in operands]),
    )
    for argument, operand in zip(graph.block.args, operands, strict=True):
        argument.name_hint = operand.name_hint
    place = Node(bgraph.field("operators").value, operator.place)
    for body_operator in place.operators("threadblock operator"):
        op = _read_operator(graph, operator, body_operator)
        graph.block.add_op(op)
        graph.places[op] = body_operator
    for what, count, name in (
        ("tb_input_op", graph.input_count, "input_tensors"),
        ("tb_output_op", graph.output_count, "output_tensors"),
    ):
        bound = len(operator.field(name).items())
        if count != bound:
            raise operator.field(name).error(
                f"holds {bound} tensors, but the threadblock graph has {count} {what}; the i-th "
                "tensor is bound to the i-th of them."
            )
    customized = kn.CustomizedOp(
        operands,
        result_types,
        graph.grid,
        block.xyz(1),
        graph.forloop_range,
        graph.block,
    )
    for op, body_operator in graph.places.items():
        verify_at(op, body_operator)
    return customized


def _read_operator(graph: _ThreadblockGraph, customized: Node, operator: Node) -> Operation:
    kind = operator.field("op_type").text()
    if kind == "tb_input_op":
        return _read_input(graph, customized, operator)
    if kind == "tb_output_op":
        return _read_output(graph, customized, operator)
    if kind in _CONCATS or kind == "tb_concat_then_matmul_op":
        return _read_concat(graph, operator, _CONCATS.get(kind))
    if kind in _MAXIMA:
        return _read_maximum(graph, operator, _MAXIMA[kind])
    if kind in _SPLITS:
        return _read_split(graph, operator, _SPLITS[kind])
    if kind == "tb_rms_norm_op":
        return _read_norm(graph, operator)
    if kind in _UNSUPPORTED:
        raise operator.field("op_type").error(f"unsupported: {_UNSUPPORTED[kind]}")
    accumulator = next(
        (kind.removeprefix(prefix) for prefix in _ACCUMULATOR_PREFIXES if kind.startswith(prefix)),
        None,
    )
    known = any(kind in table for table in (_UNARY, _UNARY_WITH_CONSTANTS, _BINARY, _REDUCTIONS))
    rescaled = _RESCALED_ACCUMULATORS.get(accumulator or "")
    if not known and accumulator not in _ACCUMULATORS and rescaled is None:
        raise operator.field("op_type").error(f"{kind!r} is no threadblock operator.")
    arity = 2 if kind in _BINARY or rescaled is not None else 1
    operands = [
        graph.tensors.use(tensor, graph.generation)
        for tensor in expect_tensor_count(operator, "input_tensors", arity)
    ]
    (result,) = expect_tensor_count(operator, "output_tensors", 1)
    type_ = _stensor_type(graph, result)
    if kind == "tb_matmul_op":
        op = tb.MatmulOp(operands[0], operands[1], type_, read_precision(operator))
    elif kind in _BINARY:
        op = _BINARY[kind](operands[0], operands[1], type_)
    elif kind in _UNARY:
        op = _UNARY[kind](operands[0], type_)
    elif kind in _UNARY_WITH_CONSTANTS:
        op = _UNARY_WITH_CONSTANTS[kind](operands[0], type_, read_constants(operator))
    elif rescaled is not None:
        op = tb.ForloopAccumRescaleOp(rescaled, operands[0], operands[1], type_)
    elif kind in _REDUCTIONS:
        op = _read_reduction(graph, operator, operands[0], type_)
    else:
        assert accumulator is not None
        if accumulator == _TO_DIMX_ACCUMULATOR and type_.get_shape()[-1] != graph.reduction_dimx:
            raise result.field("dim").error(
                f"the last extent is {type_.get_shape()[-1]}, but the graph's reduction_dimx is "
                f"{graph.reduction_dimx}."
            )
        op = _ACCUMULATORS[accumulator](operands[0], type_)
    after = accumulator is not None or any(operand in graph.after_loop for operand in operands)
    _define(graph, result, op.results[0], after)
    return op


def _read_reduction(
    graph: _ThreadblockGraph, operator: Node, operand: SSAValue, type_: tb.STensorType
) -> Operation:
    dim, to_dimx = _REDUCTIONS[operator.field("op_type").text()]
    size = graph.reduction_dimx if to_dimx else 1
    for name, expected in (("reduce_dim", dim), ("reduce_size", size)):
        recorded = operator.field(name)
        if recorded.integer() != expected:
            raise recorded.error(f"{recorded.value} does not fit the op_type; expected {expected}.")
    shape = type_.get_shape()
    if dim < len(shape) and shape[dim] != size:
        raise (
            operator.field("output_tensors")
            .items()[0]
            .field("dim")
            .error(f"dimension {dim} has extent {shape[dim]} after the reduction; expected {size}.")
        )
    # As with the accumulator: what the search that wrote these files means is the strided sum.
    make = tb.ReductionToDimxStridedOp if to_dimx else tb.ReductionOp
    return make(operand, dim, type_)


def _read_maximum(graph: _ThreadblockGraph, operator: Node, dim: int) -> Operation:
    recorded = operator.field("reduce_dim")
    if recorded.integer() != dim:
        raise recorded.error(f"{recorded.value} does not fit the op_type; expected {dim}.")
    (tensor,) = expect_tensor_count(operator, "input_tensors", 1)
    operand = graph.tensors.use(tensor, graph.generation)
    results = expect_tensor_count(operator, "output_tensors", 2)
    op = tb.ReductionMaxOp(operand, dim, [_stensor_type(graph, result) for result in results])
    for result, value in zip(results, op.results, strict=True):
        _define(graph, result, value, operand in graph.after_loop)
    return op


def _read_norm(graph: _ThreadblockGraph, operator: Node) -> Operation:
    """Mirage's norm has one operand; ours writes a weight as the second, and a field epsilon."""
    tensors = operator.field("input_tensors").items()
    if len(tensors) not in (1, 2):
        raise operator.field("input_tensors").error(
            f"holds {len(tensors)} tensors; expected 1, or 2 with a weight."
        )
    operands = [graph.tensors.use(tensor, graph.generation) for tensor in tensors]
    (result,) = expect_tensor_count(operator, "output_tensors", 1)
    weight = operands[1] if len(operands) == 2 else None
    epsilon = operator.optional_field("epsilon")
    number = 0.0 if epsilon is None else epsilon.number()
    op = tb.RmsNormOp(operands[0], _stensor_type(graph, result), weight, number)
    _define(graph, result, op.result, any(operand in graph.after_loop for operand in operands))
    return op


def _read_split(graph: _ThreadblockGraph, operator: Node, dim: int) -> Operation:
    """The parts have the extents of the results; Mirage names this operator but saves none."""
    recorded = operator.optional_field("split_dim")
    if recorded is not None and recorded.integer() != dim:
        raise recorded.error(f"{recorded.value} does not fit the op_type; expected {dim}.")
    (tensor,) = expect_tensor_count(operator, "input_tensors", 1)
    operand = graph.tensors.use(tensor, graph.generation)
    results = operator.field("output_tensors").items()
    op = tb.SplitOp(operand, dim, [_stensor_type(graph, result) for result in results])
    for result, value in zip(results, op.parts, strict=True):
        _define(graph, result, value, operand in graph.after_loop)
    return op


def _read_concat(graph: _ThreadblockGraph, operator: Node, dim: int | None) -> Operation:
    """A concat along a dimension, or (``None``) the product of two concats."""
    operands = [
        graph.tensors.use(tensor, graph.generation)
        for tensor in expect_tensor_count(operator, "input_tensors", 4 if dim is None else 2)
    ]
    (result,) = expect_tensor_count(operator, "output_tensors", 1)
    type_ = _stensor_type(graph, result)
    after = any(operand in graph.after_loop for operand in operands)
    if dim is None:
        op = tb.ConcatThenMatmulOp(operands, type_)
    else:
        recorded = operator.field("concat_dim")
        if recorded.integer() != dim:
            raise recorded.error(f"{recorded.value} does not fit the op_type; expected {dim}.")
        op = tb.ConcatOp(operands, dim, type_)
    _define(graph, result, op.results[0], after)
    return op


def _read_input(graph: _ThreadblockGraph, customized: Node, operator: Node) -> Operation:
    expect_tensor_count(operator, "input_tensors", 0)
    dtensor = _bound_dtensor(graph, customized, operator, "input_tensors", graph.input_count)
    (result,) = expect_tensor_count(operator, "output_tensors", 1)
    imap, fordim = operator.field("input_map"), operator.field("forloop_dim")
    argument = graph.block.args[graph.input_count]
    type_ = _stensor_type(graph, result)
    _expect_tile(graph, dtensor, (imap, fordim), result)
    op = tb.InputOp(argument, imap.xyz(-1), fordim.integer(-1), type_)
    graph.input_count += 1
    _define(graph, result, op.result, after_loop=False)
    return op


def _read_output(graph: _ThreadblockGraph, customized: Node, operator: Node) -> Operation:
    expect_tensor_count(operator, "output_tensors", 0)
    dtensor = _bound_dtensor(graph, customized, operator, "output_tensors", graph.output_count)
    (tile,) = expect_tensor_count(operator, "input_tensors", 1)
    stensor = graph.tensors.use(tile, graph.generation)
    omap = operator.field("output_map")
    # Mirage has outputs of every iteration, but does not save them; ours has this field.
    fordim = operator.optional_field("forloop_dim")
    _expect_tile(graph, dtensor, (omap, fordim), tile, "omap")
    # The result's type, which may have a layout that this record does not hold.
    result_type = graph.result_types[graph.output_count]
    loop_dim = -1 if fordim is None else fordim.integer(-1)
    op = tb.OutputOp(stensor, omap.xyz(-1), result_type, loop_dim)
    graph.output_count += 1
    return op


def _bound_dtensor(
    graph: _ThreadblockGraph, customized: Node, operator: Node, name: str, index: int
) -> Node:
    """The ``dtensor`` of a tb_input or tb_output, checked against the tensor it is bound to."""
    dtensor = operator.field("dtensor")
    bound = customized.field(name).items()
    if index >= len(bound):
        raise operator.field("op_type").error(
            f"the threadblock graph has more {operator.field('op_type').value} than {name} of its "
            f"kn_customized_op holds tensors ({len(bound)}); the i-th is bound to the i-th."
        )
    for key in ("guid", "dim", "num_dims", "data_type"):
        recorded, expected = dtensor.field(key), bound[index].field(key)
        if recorded.value != expected.value:
            raise recorded.error(
                f"{recorded.value} differs from the {expected.value} of {name}[{index}] of the "
                f"kn_customized_op, to which this {operator.field('op_type').value} is bound."
            )
    read_tensor(dtensor, graph.generation, DTENSOR_LAYOUTS)
    return dtensor


def _expect_tile(
    graph: _ThreadblockGraph,
    dtensor: Node,
    maps: tuple[Node, Node | None],
    tile: Node,
    name: str = "imap",
) -> None:
    """Raise unless the tile's record has the extents that the maps cut from the DTensor."""
    map_node, fordim = maps
    shape, recorded = read_shape(dtensor), read_shape(tile)
    try:
        expected = tile_shape(
            shape,
            map_node.xyz(-1),
            -1 if fordim is None else fordim.integer(-1),
            graph.grid,
            graph.forloop_range,
            name=name,
        )
    except PartitionError as error:
        raise map_node.error(f"{error}.") from error
    if recorded != expected:
        raise tile.field("dim").error(
            f"the tile has {dims(recorded)}, but the maps cut {dims(expected)} from a tensor of "
            f"{dims(shape)}."
        )


def _stensor_type(graph: _ThreadblockGraph, tensor: Node) -> tb.STensorType:
    return tb.STensorType(*read_tensor(tensor, graph.generation, STENSOR_LAYOUTS))


def _define(graph: _ThreadblockGraph, tensor: Node, value: SSAValue, after_loop: bool) -> None:
    """Give the value its guid; what the record says of the loop must be so."""
    recorded = tensor.field("after_accum")
    if recorded.boolean() != after_loop:
        made = "after" if after_loop else "before"
        raise recorded.error(f"this value is made {made} the accumulators.")
    graph.tensors.define(tensor, value, graph.generation)
    if after_loop:
        graph.after_loop.add(value)
