"""The threadblock graph of a ``kn_customized_op``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.launch_extents import MAX_GRID, MAX_THREADS
from mugraph.dialects.maps import PartitionError, Slicing
from mugraph.dialects.tensor_types import dims, shape_of
from mugraph.tools.import_mirage.document import Node
from mugraph.tools.import_mirage.generations import (
    ACCUMULATOR_NAMES,
    ACCUMULATOR_PREFIXES,
    RESCALED_NAMES,
    TO_DIMX_NAME,
    Generation,
)
from mugraph.tools.import_mirage.readers import (
    Reader,
    along_each_dim,
    elementwise_readers,
    read_dim,
    read_epsilon,
    read_precision,
    read_weight,
)
from mugraph.tools.import_mirage.tensors import (
    DTENSOR_LAYOUTS,
    STENSOR_LAYOUTS,
    Tensors,
    expect_tensor_count,
    read_shape,
    read_tensor,
)
from mugraph.tools.import_mirage.verification import verify_at

Operands = Sequence[SSAValue]
Types = Sequence[Attribute]


def _matmul(operator: Node, operands: Operands, types: Types) -> Operation:
    return tb.MatmulOp(operands[0], operands[1], types[0], read_precision(operator))


def _rms_norm(operator: Node, operands: Operands, types: Types) -> Operation:
    """Mirage's norm has one operand; ours writes a weight as the second, and a field epsilon."""
    weight = read_weight(operator, operands)
    return tb.RmsNormOp(operands[0], types[0], weight, read_epsilon(operator))


def _reduction(operator: Node, operands: Operands, types: Types) -> Operation:
    dim = read_dim(operator, "reduce_dim", required=True)
    return tb.ReductionOp(operands[0], dim, types[0])


def _reduction_to_dimx(operator: Node, operands: Operands, types: Types) -> Operation:
    """What the search that wrote these files means is the strided sum."""
    dim = read_dim(operator, "reduce_dim", required=True)
    return tb.ReductionToDimxStridedOp(operands[0], dim, types[0])


def _maximum(operator: Node, operands: Operands, types: Types) -> Operation:
    return tb.ReductionMaxOp(operands[0], read_dim(operator, "reduce_dim", required=True), types)


def _split(operator: Node, operands: Operands, types: Types) -> Operation:
    """The parts have the extents of the results; Mirage names this operator but saves none."""
    return tb.SplitOp(operands[0], read_dim(operator, "split_dim"), types)


def _concat(operator: Node, operands: Operands, types: Types) -> Operation:
    return tb.ConcatOp(operands, read_dim(operator, "concat_dim", required=True), types[0])


def _accumulator_readers() -> dict[str, Reader]:
    """By name without the prefix."""

    def plain(kind: tb.AccumulatorKind) -> Reader:
        return Reader(1, 1, lambda node, x, types: tb.ForloopAccumOp(kind, x[0], types[0]))

    def rescaled(kind: tb.RescaledKind) -> Reader:
        return Reader(
            2, 1, lambda node, x, types: tb.ForloopAccumRescaleOp(kind, x[0], x[1], types[0])
        )

    # The saved µGraphs compute their function only with the strided meaning.
    to_dimx = Reader(1, 1, lambda node, x, types: tb.ForloopAccumSumToDimxStridedOp(x[0], types[0]))
    return {
        **{name: plain(kind) for kind, name in ACCUMULATOR_NAMES.items()},
        **{name: rescaled(kind) for kind, name in RESCALED_NAMES.items()},
        TO_DIMX_NAME: to_dimx,
    }


_READERS: dict[str, Reader] = {
    **elementwise_readers("tb", tb.UNARY_OPERATORS, tb.BINARY_OPERATORS, _matmul),
    **{
        f"{prefix}{name}_op": reader
        for name, reader in _accumulator_readers().items()
        for prefix in ACCUMULATOR_PREFIXES
    },
    "tb_rms_norm_op": Reader(None, 1, _rms_norm),
    "tb_concat_then_matmul_op": Reader(
        4, 1, lambda node, x, types: tb.ConcatThenMatmulOp(x, types[0])
    ),
    **along_each_dim("tb_reduction_{}_op", Reader(1, 1, _reduction)),
    **along_each_dim("tb_reduction_{}_to_dimx_op", Reader(1, 1, _reduction_to_dimx)),
    **along_each_dim("tb_reduction_{}_max_op", Reader(1, 2, _maximum)),
    **along_each_dim("tb_split_{}_op", Reader(1, None, _split)),
    **along_each_dim("tb_concat_{}_op", Reader(2, 1, _concat)),
}
"""How the operator of each ``op_type`` is made, inputs and outputs aside."""

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
    if kind in _UNSUPPORTED:
        raise operator.field("op_type").error(f"unsupported: {_UNSUPPORTED[kind]}")
    reader = _READERS.get(kind)
    if reader is None:
        raise operator.field("op_type").error(f"{kind!r} is no threadblock operator.")
    operands = [
        graph.tensors.use(tensor, graph.generation)
        for tensor in expect_tensor_count(operator, "input_tensors", reader.inputs)
    ]
    results = expect_tensor_count(operator, "output_tensors", reader.results)
    op = reader.make(operator, operands, [_stensor_type(graph, result) for result in results])
    _expect_reduced_extent(graph, operator, op)
    after = kn.accumulates(op) or any(operand in graph.after_loop for operand in operands)
    for result, value in zip(results, op.results, strict=True):
        _define(graph, result, value, after)
    return op


def _expect_reduced_extent(graph: _ThreadblockGraph, operator: Node, op: Operation) -> None:
    """Raises unless a reduction leaves 1 or, to dimx, what the graph says, and records that."""
    if isinstance(op, tb.ForloopAccumSumToDimxOp):
        if op.dimx != graph.reduction_dimx:
            raise _extents_of_result(operator).error(
                f"the last extent is {op.dimx}, but the graph's reduction_dimx is "
                f"{graph.reduction_dimx}."
            )
    elif isinstance(op, tb.AnyReductionOp):
        size = 1 if isinstance(op, tb.ReductionOp) else graph.reduction_dimx
        recorded = operator.field("reduce_size")
        if recorded.integer() != size:
            raise recorded.error(f"{recorded.value} does not fit the op_type; expected {size}.")
        shape, dim = shape_of(op.result.type), op.reduced_dim
        if dim < len(shape) and shape[dim] != size:
            raise _extents_of_result(operator).error(
                f"dimension {dim} has extent {shape[dim]} after the reduction; expected {size}."
            )


def _extents_of_result(operator: Node) -> Node:
    return operator.field("output_tensors").items()[0].field("dim")


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
    fordim_number = -1 if fordim is None else fordim.integer(-1)
    slicing = Slicing(shape, map_node.xyz(-1), fordim_number, graph.grid, graph.forloop_range)
    try:
        evenly = slicing.tile_shape(name)
    except PartitionError as error:
        raise map_node.error(f"{error}.") from error
    try:
        slicing._replace(tile=recorded).tile_shape(name)
    except PartitionError as error:
        raise tile.field("dim").error(
            f"the tile has {dims(recorded)}, but the maps cut {dims(evenly)} from a tensor of "
            f"{dims(shape)}."
        ) from error


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
