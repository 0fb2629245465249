"""How each threadblock operator is written in a schedule: one function an operator.

An operator of another dialect takes part by registering a function of its own with
:func:`schedule_operator`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import singledispatch
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import sched, tb
from mugraph.dialects.cute.atoms import MmaAtom, loads_as_stored
from mugraph.dialects.element_types import element_type_name
from mugraph.dialects.elementwise import Epilogue, ScalarFunction
from mugraph.dialects.kn import running_maxima
from mugraph.dialects.partition import LinearPartition, choose_move_partition
from mugraph.dialects.programming_model import MATRIX_ROW_BYTES
from mugraph.dialects.ragged import ragged_dims
from mugraph.dialects.sched.warpgroup import is_of_warpgroups
from mugraph.dialects.tb.layouts import partitioned_operand
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    element_type_of,
    innermost_of,
    leading_strides,
    op_label,
    resolved_layout_of,
    shape_of,
)
from mugraph.passes.schedule.lower_threadblock.builder import KernelBuilder, sum_type
from mugraph.passes.schedule.lower_threadblock.levels import updates_in_place
from mugraph.passes.schedule.lower_threadblock.products import is_promoted

NO_EPILOGUE = Epilogue()
TRANSPOSED_BYTES = 2
"""The size of the elements that ``ldmatrix.trans`` transposes."""


@singledispatch
def schedule_operator(op: Operation, builder: KernelBuilder) -> None:
    """Appends the schedule of one operator to the phase that ``builder`` is writing."""
    raise PassFailedException(
        f"--lower-threadblock: {op_label(op)} cannot be scheduled as it is; composite operators "
        "need --decompose-threadblock first"
    )


class Destination(NamedTuple):
    """The buffers that an element-wise operation reads, and how it writes another or registers."""

    sources: Sequence[SSAValue]
    written: SSAValue
    partition: LinearPartition
    epilogue: Epilogue


def elementwise_destination(
    op: Operation, epilogue: Epilogue, builder: KernelBuilder
) -> Destination:
    """Where an element-wise operation writes; what is added up in one iteration is what it adds."""
    result = op.results[0]
    sources = [builder.buffer(value) for value in op.operands]
    if builder.graph.forloop_range == 1:
        epilogue = Epilogue(epilogue.functions)
    if op in builder.choices.register_accumulators:
        partition = builder.partition(result, sources)
        layout = sched.LinearPartitionAttr(partition)
        added_in = sum_type(element_type_of(result.type))
        type_ = sched.TileType.of(shape_of(result.type), added_in, layout)
        destination = builder.register_accumulator(op, type_)
    elif epilogue.accumulates:
        destination = builder.shared_accumulator(op)
        partition = builder.partition(destination, sources)
    else:
        destination = builder.allocate(result)
        partition = builder.partition(destination, sources)
    return Destination(sources, destination, partition, epilogue)


def write_elementwise(
    op: Operation, function: ScalarFunction, epilogue: Epilogue, builder: KernelBuilder
) -> None:
    """An element-wise operation into a buffer or an accumulator."""
    sources, destination, partition, epilogue = elementwise_destination(op, epilogue, builder)
    builder.here.append(sched.MapOp(function, sources, destination, epilogue, partition))


@schedule_operator.register
def _(op: tb.MaskOp, builder: KernelBuilder) -> None:
    (source,), destination, partition, epilogue = elementwise_destination(
        op, tb.epilogue_of(op), builder
    )
    builder.here.append(
        sched.MaskOp(
            source, destination, op.constant, op.ragged, epilogue, partition, op.local_forms()
        )
    )


@schedule_operator.register
def _(op: tb.ElementwiseOp, builder: KernelBuilder) -> None:
    write_elementwise(op, op.function, tb.epilogue_of(op), builder)


def write_combination(
    function: ScalarFunction, sources: Sequence[SSAValue], total: SSAValue, builder: KernelBuilder
) -> None:
    """Makes a new total in shared memory of the old one, the first of the function's operands."""
    operands = [total, *(builder.buffer(value) for value in sources)]
    write_elementwise_to(total, function, operands, builder)


def write_elementwise_to(
    destination: SSAValue,
    function: ScalarFunction,
    sources: Sequence[SSAValue],
    builder: KernelBuilder,
    epilogue: Epilogue = NO_EPILOGUE,
) -> None:
    """An element-wise operation on buffers into one, which may be among them."""
    others = [source for source in sources if source is not destination]
    partition = builder.partition(destination, others)
    builder.here.append(sched.MapOp(function, sources, destination, epilogue, partition))


@schedule_operator.register
def _(op: tb.ForloopAccumRescaleOp, builder: KernelBuilder) -> None:
    if op.kind.data is not tb.RescaledKind.NONE:
        raise PassFailedException(
            f"--lower-threadblock: {op_label(op)} reduces; run --decompose-threadblock first"
        )
    total = builder.shared_accumulator(op)
    function = ScalarFunction("mul_add")
    write_combination(function, [op.rescale, op.input], total, builder)


@schedule_operator.register
def _(op: tb.ReductionMaxOp, builder: KernelBuilder) -> None:
    lanes, order = op.work_sharing(builder.threads)
    graph = builder.graph
    runs = op in running_maxima(graph.body.block, graph.forloop_range) or bool(
        op.start is not None or op.difference.uses
    )
    builder.here.append(
        sched.ReduceOp(
            builder.buffer(op.input),
            builder.running_buffer(op.maximum, op.least) if runs else builder.allocate(op.maximum),
            op.reduced_dim,
            Epilogue(accumulates=True) if runs else None,
            sched.Combiner.MAX,
            builder.allocate(op.difference) if runs else None,
            lanes=lanes,
            partition=LinearPartition(builder.threads, 1, order),
        )
    )


@schedule_operator.register
def _(op: tb.ForloopAccumOp, builder: KernelBuilder) -> None:
    if op.kind.data is tb.AccumulatorKind.MAX:
        total = builder.shared_accumulator(op, -math.inf)
        write_combination(ScalarFunction("max"), [op.input], total, builder)
        return
    if op.kind.data is not tb.AccumulatorKind.NONE:
        raise PassFailedException(
            f"--lower-threadblock: {op_label(op)} reduces; run --decompose-threadblock first"
        )
    write_elementwise(op, ScalarFunction("identity"), Epilogue(accumulates=True), builder)


@schedule_operator.register
def _(op: tb.CarriedOp, builder: KernelBuilder) -> None:
    builder.running_buffer(op.result, op.first)


@schedule_operator.register
def _(op: tb.CarryOp, builder: KernelBuilder) -> None:
    state = builder.buffer(op.state)
    builder.buffers[op.result] = state
    function, operands, epilogue = ScalarFunction("identity"), [op.input], Epilogue()
    update = op.input.owner
    if isinstance(update, tb.ElementwiseOp) and updates_in_place(update):
        function, operands, epilogue = update.function, update.operands, tb.epilogue_of(update)
    elif op.input is op.state:
        return
    sources = [builder.buffer(operand) for operand in operands]
    write_elementwise_to(state, function, sources, builder, epilogue)


@schedule_operator.register
def _(op: tb.MovingOp, builder: KernelBuilder) -> None:
    for result in op.results:
        if result.uses:
            builder.allocate(result)
    for tile, other, start in op.moves():
        if not other.uses:
            continue
        source, destination = builder.buffer_as_typed(tile), builder.buffer(other)
        part, whole = source, destination
        if isinstance(op, tb.SplitOp):
            part, whole = destination, source
        partition = choose_move_partition(
            partitioned_operand(part), partitioned_operand(whole), start, builder.threads
        )
        builder.here.append(sched.MoveOp(source, destination, start, partition))


@schedule_operator.register
def _(op: tb.AnyReductionOp, builder: KernelBuilder) -> None:
    epilogue = tb.epilogue_of(op)
    if epilogue.accumulates:
        destination = builder.shared_accumulator(op)
    else:
        destination = builder.allocate(op.result)
    lanes, order = op.work_sharing(builder.threads)
    groups = op.groups()
    strided = groups.start_step == 1 and groups.step > 1
    builder.here.append(
        sched.ReduceOp(
            builder.buffer(op.input),
            destination,
            op.reduced_dim,
            epilogue,
            grouping=sched.Grouping.STRIDED if strided else sched.Grouping.CONTIGUOUS,
            lanes=lanes,
            partition=LinearPartition(builder.threads, 1, order),
        )
    )


def suits_ldmatrix(buffer: SSAValue, atom: MmaAtom, depth: int) -> bool:
    """Whether ``ldmatrix`` can load a matrix whose dimension ``depth`` is summed over.

    The instruction takes its elements as they are stored, a matrix dimension is innermost, and
    rows start at multiples of 16 bytes.  Only elements of 16 bits can be transposed on the way,
    for others the innermost dimension must be ``depth``.
    """
    shape = shape_of(buffer.type)
    element = element_type_name(element_type_of(buffer.type))
    by_lines = atom.reads_lines and depth == -2
    by_lanes = atom.is_scalar or atom.reads_runs or by_lines or is_of_warpgroups(atom)
    if by_lanes or not loads_as_stored(atom, element):
        return False
    innermost = innermost_of(buffer)
    if innermost is None or innermost < len(shape) - 2:
        return False
    size = element_bytes_of(buffer.type)
    if size != TRANSPOSED_BYTES and innermost != len(shape) + depth:
        return False
    strides = leading_strides(resolved_layout_of(buffer))
    return all(
        strides[dim] * size % MATRIX_ROW_BYTES == 0
        for dim in range(len(shape))
        if dim != innermost and shape[dim] > 1
    )


@schedule_operator.register
def _(op: tb.MatmulOp, builder: KernelBuilder) -> None:
    epilogue = tb.epilogue_of(op)
    functions = Epilogue(epilogue.functions)
    type_ = builder.mma_fragment_type(op)
    lhs, rhs = builder.buffer_as_typed(op.lhs), builder.buffer_as_typed(op.rhs)
    atom = builder.choices.warp_layouts[op].atom
    ldmatrix = (suits_ldmatrix(lhs, atom, -1), suits_ldmatrix(rhs, atom, -2))
    in_registers = op in builder.choices.register_accumulators
    promoted = is_promoted(op, builder.choices.warp_layouts[op], builder.graph.decided)
    if in_registers and not functions and not promoted:
        total = builder.register_accumulator(op, type_)
        builder.here.append(multiply(op, builder, total, ldmatrix))
        return
    if in_registers:
        product = write_product(op, builder, ldmatrix)
        total = builder.register_accumulator(op, type_)
        adds = Epilogue(functions.functions, accumulates=True)
        builder.here.append(sched.MapOp(ScalarFunction("identity"), [product], total, adds))
        return
    destination = (
        builder.shared_accumulator(op) if epilogue.accumulates else builder.allocate(op.result)
    )
    if type_.parts > op.slices:
        parts = builder.partial_sums(op)
        builder.here.append(sched.StoreOp(write_product(op, builder, ldmatrix), parts, Epilogue()))
        builder.here.append(builder.sum_of_parts(parts, destination, epilogue))
        return
    for start, extents in builder.pieces_of(op):
        at = None if extents == shape_of(op.result.type) else start
        product = write_product(op, builder, ldmatrix, at, extents)
        builder.here.append(sched.StoreOp(product, destination, epilogue, at))


def multiply(
    op: tb.MatmulOp,
    builder: KernelBuilder,
    total: SSAValue,
    ldmatrix: tuple[bool, bool],
    start: Sequence[int] | None = None,
) -> Operation:
    """Adds the product, or the part of it that begins at ``start``, to a fragment."""
    lhs, rhs = builder.buffer(op.lhs), builder.buffer(op.rhs)
    if is_of_warpgroups(builder.choices.warp_layouts[op].atom):
        return sched.WarpgroupMmaOp(lhs, rhs, total)
    return sched.MmaOp(lhs, rhs, total, ldmatrix, start)


def write_product(
    op: tb.MatmulOp,
    builder: KernelBuilder,
    ldmatrix: tuple[bool, bool],
    start: Sequence[int] | None = None,
    extents: Sequence[int] | None = None,
) -> SSAValue:
    """A product, or the part of it that begins at ``start``, in registers of its own."""
    product = sched.EmptyOp(builder.mma_fragment_type(op, extents))
    product.result.name_hint = op.result.name_hint
    builder.here.extend(
        [
            product,
            sched.FillOp(product.result, 0.0),
            multiply(op, builder, product.result, ldmatrix, start),
        ]
    )
    return product.result


@schedule_operator.register
def _(op: tb.OutputOp, builder: KernelBuilder) -> None:
    source = builder.buffer(op.stensor)
    copy = op.resolved_copy()
    through = None if op.through is None else builder.tensors[op.through]
    tile = builder.tile(builder.outputs[op.dtensor], copy, through)
    partition = builder.copy_partition(copy, element_bytes_of(source.type))
    within = [entry.dim for entry in ragged_dims(op.bounds())]
    builder.here.append(sched.CopyOp(source, tile, partition, within=within))
