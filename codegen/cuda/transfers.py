"""Buffers and tiles, what moves elements between them as they are, and synchronisation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdsl.ir import Block, BlockArgument, Operation

from mugraph.codegen.cuda.cpp import CodegenError, layout_type, stored_type
from mugraph.codegen.cuda.printer import (
    KernelPrinter,
    offset_by,
    partition_of,
    print_operation,
    wide_index,
)
from mugraph.codegen.cuda.stages import Iteration
from mugraph.dialects import sched
from mugraph.dialects.cute import Layout
from mugraph.dialects.maps import Bound
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.ragged import RaggedDim
from mugraph.dialects.sched.channel import RunsAtIteration
from mugraph.dialects.sched.domain import fewest_iterations
from mugraph.dialects.tensor_types import (
    base_layout,
    element_bytes_of,
    op_label,
    physical_elements,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)

WARP_MEMORY = "warp_smem"
"""What the shared memory of one of the warps is called that are launched as one block."""
MAX_TILE_ELEMENTS = 2**32
"""What the unsigned 32-bit offsets inside a tile reach (``runtime/include/mugraph/layout.h``)."""


@print_operation.register
def _(op: sched.AllocOp, printer: KernelPrinter) -> None:
    if op.byte_offset is None:
        raise CodegenError(
            f"{op_label(op)} has no offset in shared memory; run --plan-stensor-memory first"
        )
    type_ = stored_type(op.result)
    name = printer.names.of(op.result)
    memory = "smem" if printer.kernel.packed is None else WARP_MEMORY
    printer.writer.line(
        f"{type_}* const {name} = reinterpret_cast<{type_}*>({memory} + {op.byte_offset});  "
        f"// {op.name}, {op.stage_count} x {op.stage_bytes()} bytes"
    )


@print_operation.register
def _(op: sched.LocalTileOp, printer: KernelPrinter) -> None:
    if all(isinstance(use.operation, sched.BulkCopyOp) for use in op.result.uses):
        return  # tensor maps say where such tiles are
    if op.windows is not None:
        return  # copies find each element
    elements = physical_elements(resolved_layout_of(op.result))
    if elements > MAX_TILE_ELEMENTS:
        raise CodegenError(
            f"{op_label(op)} spans {elements} elements of {value_label(op.source)}; inside a tile "
            f"offsets have 32 bits, at most {MAX_TILE_ELEMENTS}: choose smaller tiles"
        )
    name, source = printer.names.of(op.result), printer.names.of(op.source)
    # What threads load in vectors is aligned in the tensor; so is the tensor.
    loads = [use.operation for use in op.result.uses if isinstance(use.operation, sched.LoadOp)]
    promised = max((load.aligned_to for load in loads), default=0)
    start = f"mugraph::aligned<{promised}>({source})" if promised else source
    for axis, stride in zip("xyz", op.block_strides(), strict=True):
        if stride:
            start = offset_by(start, wide_index(f"blockIdx.{axis}", op.source), stride)
    printer.writer.line(f"auto* const {name} = {start};  // {op.name} {source}")


@print_operation.register
def _(op: sched.CommitOp, printer: KernelPrinter) -> None:
    printer.writer.line(f"tb::commit_group();  // {op.name}")


@print_operation.register
def _(op: sched.WaitOp, printer: KernelPrinter) -> None:
    printer.writer.line(f"tb::wait_group<{op.pending_groups}>();  // {op.name}")


@print_operation.register
def _(op: sched.BarrierOp, printer: KernelPrinter) -> None:
    role = printer.role
    if role is None:
        print_block_barrier(printer, op.name)
        return
    printer.writer.line(
        f"mugraph::named_barrier({role.barrier_number}, {role.threads});  // {op.name}"
    )


@print_operation.register
def _(op: sched.GridWaitOp, printer: KernelPrinter) -> None:
    print_grid_wait(printer, op.name)


@print_operation.register
def _(op: sched.GridLaunchOp, printer: KernelPrinter) -> None:
    if not printer.is_task:
        printer.writer.line(f"tb::grid_launch();  // {op.name}")


@print_operation.register
def _(op: sched.PrefetchOp, printer: KernelPrinter) -> None:
    iteration = Iteration(op.fixed_iteration or 0)
    run, tile = op.run, op.tile
    amount = str(run.elements * element_bytes_of(tile.type))
    if run.ragged is not None:
        number = printer.tile_of(iteration)
        exist = existing_elements(run.ragged.bound, number, None, printer.parts)
        amount = f"{exist} * {amount}"
    call = f"tb::prefetch({printer.pointer(tile, iteration)}, {amount})"
    exists = _is_in_span(iteration, printer)
    asks = "thread == 0" if exists is None else f"thread == 0 && {exists}"
    printer.writer.line(f"if ({asks}) {call};  // {op.name}")


def print_grid_wait(printer: KernelPrinter, why: str) -> None:
    """Prints that threads wait for kernels before theirs, or for other tasks."""
    call = "tb::grid_wait()"
    if printer.is_task:
        together = f"task.wait_together({printer.kernel.threads})"
        call = together if printer.role is None else "task.wait()"
        if printer.role is None and printer.maps:
            # One thread has waited; any may issue bulk copies.
            call += "; tb::fence_of_bulk_copies()"
    printer.writer.line(f"{call};  // {why}")


def print_block_barrier(printer: KernelPrinter, why: str) -> None:
    """Prints a barrier of all threads of the kernel's blocks."""
    call = "__syncwarp()" if printer.kernel.packed is not None else "__syncthreads()"
    if printer.is_task:
        call = f"mugraph::named_barrier(tb::kTaskBarrier, {printer.kernel.threads})"
    printer.writer.line(f"{call};  // {why}")


def _is_in_span(iteration: Iteration, printer: KernelPrinter) -> str | None:
    """What says whether a block has an iteration that is a number; ``None`` where all blocks do."""
    if printer.span is None or iteration.start:
        return None
    if not iteration.ahead and fewest_iterations(printer.kernel):
        return None
    return f"{iteration} < {printer.span}.count"


def scope_of(op: Operation, iteration: Iteration, ahead: int, printer: KernelPrinter) -> str:
    """Opens the scope of an operator that does nothing where the loop has no such iteration."""
    loop = sched.enclosing_loop(op)
    fixed = isinstance(op, RunsAtIteration | sched.CopyOp) and op.fixed_iteration is not None
    if loop is None and (fixed or iteration.ahead):
        exists = _is_in_span(iteration, printer)
        if exists is not None:
            return f"if ({exists}) {{"
    if not ahead or loop is None:
        return "{"
    if 0 < ahead < loop.step_of:
        return "{"
    bound = f"{iteration} < {printer.trip_count(loop)}" if ahead > 0 else f"{iteration} >= 0"
    return f"if ({bound}) {{"


@print_operation.register
def _(op: sched.CopyOp, printer: KernelPrinter) -> None:
    partition = partition_of(op, printer)
    shape = shape_of(op.source.type)
    held = [isinstance(value.type, sched.TileType) for value in op.operands]
    iteration = printer.iteration + op.ahead_of
    if op.fixed_iteration is not None:
        iteration = Iteration(op.fixed_iteration)
    scope = scope_of(op, iteration, op.ahead_of, printer)
    kind, method = ("CopyAsync" if op.is_async else "Copy"), "run"
    dims, counts, tensor = "", "", ""
    if op.is_shifted and isinstance(op.source.type, sched.GlobalType):
        kind, tensor = "CopyShifted", f"{memory_of(op.source.owner, printer)}, "
    elif op.is_shifted:
        kind = "StoreShifted"
    elif op.checked_dims:
        kind += "Within"
        if not op.is_async:
            method = "load" if isinstance(op.source.type, sched.GlobalType) else "store"
    if op.checked_dims:
        ends = {dim: printer.number(value) for dim, value in op.end_of().items()}
        tile = printer.tile_of(iteration)
        dims, counts = ragged_arguments(op.ragged(), shape, partition, tile, ends, printer.parts)
    writer = printer.writer
    writer.open(f"{scope}  {printer.describe(op)}")
    if op.is_arriving:
        print_arriving_row(op, partition, iteration, printer)
        writer.close()
        return
    if any(held):
        tile = op.operands[held.index(False)]
        writer.line(f"using Tile = {printer.layout(tile, shape, partition.order)};")
        source, destination = (printer.pointer(value, iteration) for value in op.operands)
        method = "store" if held[0] else "load_shifted" if op.is_shifted else "load"
        writer.line(
            f"tb::HeldCopy<{partition.threads}, {partition.vector}, Tile{dims}>::"
            f"{method}({destination}, {source}, {tensor}thread{counts});"
        )
        writer.close()
        return
    if (tile := sched.tile_of_named_rows(op.destination)) is not None:
        writer.line(f"using Source = {printer.layout(op.source, shape, partition.order)};")
        writer.line(f"using Target = {printer.layout(op.destination, shape, partition.order)};")
        writer.line(f"using Rows = {printer.named_rows(tile, partition)};")
        arguments = f"{partition.threads}, {partition.vector}, Target, Source, Rows{dims}"
        writer.line(
            f"tb::CopyThrough<{arguments}>::store({printer.start_in_rows(tile, iteration)}, "
            f"{printer.pointer(op.source, iteration)}, {printer.numbers_of(tile, iteration)}, "
            f"thread{counts});"
        )
        writer.close()
        return
    tile = op.source.owner
    if not (isinstance(tile, sched.LocalTileOp) and tile.windows is not None):
        writer.line(f"using Source = {printer.layout(op.source, shape, partition.order)};")
    writer.line(f"using Target = {printer.layout(op.destination, shape, partition.order)};")
    if isinstance(tile, sched.LocalTileOp) and tile.windows is not None:
        together = partition.vector
        apart = Layout((together, math.prod(shape) // together), (1, 0))
        writer.line(f"using Alone = {layout_type(apart.flat_shape, apart.flat_stride, apart)};")
        writer.line(f"using Places = {printer.window_places(tile, partition)};")
        arguments = f"{partition.threads}, {together}, Target, Alone, Places{dims}"
        writer.line(f"using Copy = tb::CopyThrough<{arguments}>;")
        writer.line(
            f"Copy::{'run_async' if op.is_async else 'run'}("
            f"{printer.pointer(op.destination, iteration)}, {printer.names.of(tile.source)}, "
            f"{printer.starts_of(tile, iteration)}, thread{counts});"
        )
        writer.close()
        return
    if isinstance(tile, sched.LocalTileOp) and tile.rows_in_tile > 1:
        rows = printer.named_rows(tile, partition)
        writer.line(f"using Rows = {rows};")
        arguments = f"{partition.threads}, {partition.vector}, Target, Source, Rows{dims}"
        writer.line(f"using Copy = tb::CopyThrough<{arguments}>;")
        writer.line(
            f"Copy::{'run_async' if op.is_async else 'run'}("
            f"{printer.pointer(op.destination, iteration)}, "
            f"{printer.start_in_rows(tile, iteration)}, {printer.numbers_of(tile, iteration)}, "
            f"thread{counts});"
        )
        writer.close()
        return
    writer.line(
        f"tb::{kind}<{partition.threads}, {partition.vector}, Target, Source{dims}>::{method}("
        f"{printer.pointer(op.destination, iteration)}, "
        f"{printer.pointer(op.source, iteration)}, {tensor}thread{counts});"
    )
    writer.close()


def print_arriving_row(
    op: sched.CopyOp, partition: LinearPartition, iteration: Iteration, printer: KernelPrinter
) -> None:
    """Prints the copy of the one row of a tile that early copies may have brought too early."""
    tile = op.source.owner
    assert isinstance(tile, sched.LocalTileOp) and isinstance(tile.source, BlockArgument)
    number, dim = printer.kernel.arriving_rows[tile.source.index]
    run = op.run_of_row(dim)
    if run is None:
        raise CodegenError(
            f"{op_label(op)}: the elements of a row of its tile are not neighbours in the order "
            "in which it is copied"
        )
    shape, writer = shape_of(op.source.type), printer.writer
    stride = strides_of(resolved_layout_of(op.source))[dim]
    axes = zip("xyz", tile.map_, tile.block_strides(), strict=True)
    starts = [f"{step // stride} * blockIdx.{axis}" for axis, to, step in axes if to == dim]
    given = printer.names.of(printer.kernel.body.block.args[number])
    rows = shape_of(tile.source.type)[dim]
    writer.line(f"using Source = {printer.layout(op.source, shape, partition.order)};")
    writer.line(f"using Target = {printer.layout(op.destination, shape, partition.order)};")
    place = f"tb::row_in_tile<{rows}>({given}, {' + '.join(starts) or 0})"
    writer.line(
        f"tb::CopyRow<{partition.threads}, {partition.vector}, Target, Source, {run}, "
        f"{shape[dim]}>::run({printer.pointer(op.destination, iteration)}, "
        f"{printer.pointer(op.source, iteration)}, thread, {place});"
    )


def memory_of(tile: Operation | Block, printer: KernelPrinter) -> str:
    """Where the elements of the tensor that a tile is cut from begin and end."""
    assert isinstance(tile, sched.LocalTileOp)  # of other tiles no copy is shifted
    begin = printer.names.of(tile.source)
    elements = physical_elements(resolved_layout_of(tile.source))
    return f"mugraph::Tensor<{stored_type(tile.source)}>{{{begin}, {begin} + {elements}}}"


def ragged_arguments(
    ragged: Sequence[RaggedDim],
    shape: Sequence[int],
    partition: LinearPartition,
    iteration: str,
    ends: Mapping[int, str] | None = None,
    parts: str | None = None,
) -> tuple[str, str]:
    """The ragged dimensions as template arguments, and how many elements exist along each.

    ``ends`` are variables that say how many elements of the tensor exist along a dimension, and
    ``parts`` one that says how many blocks take tiles in turn.
    """
    dims, counts = "", ""
    for entry in ragged:
        place = partition.order.index(entry.dim)
        before = math.prod(shape[dim] for dim in partition.order[:place])
        dims += f", mugraph::Along<{before}, {shape[entry.dim]}>"
        end = (ends or {}).get(entry.dim)
        counts += f", {existing_elements(entry.bound, iteration, end, parts)}"
    return dims, counts


def existing_elements(
    bound: Bound, iteration: str, end: str | None = None, parts: str | None = None
) -> str:
    """How many elements of a tile exist along a dimension, as an expression.

    ``end`` is a variable that says how many of the tensor do, ``parts`` one that says how many
    blocks take tiles in turn.
    """
    block = "0"
    for axis, blocks in zip("xyz", bound.blocks, strict=True):
        if blocks > 1:
            index = f"blockIdx.{axis}"
            block = index if block == "0" else f"({block}) * {blocks} + {index}"
    if bound.stride is not None:
        # Tiles are numbered over all blocks of an iteration, and then over iterations.
        block = f"({iteration}) * {parts or bound.stride // bound.step} + {block}"
        bound = bound._replace(moves=False)
    at = f"({block}, {iteration if bound.moves else '0'}"
    if end is not None:
        return f"tb::existing_of<{bound.step}, {bound.tile}>{at}, {end})"
    return f"tb::existing<{bound.extent}, {bound.step}, {bound.tile}>{at})"


@print_operation.register
def _(op: sched.MoveOp, printer: KernelPrinter) -> None:
    partition = partition_of(op, printer)
    writer = printer.writer
    writer.open(f"{{  {printer.describe(op)}")
    for name, value in (("Source", op.source), ("Target", op.destination)):
        layout = op.layout_of_part(value)
        plain = base_layout(layout)
        writer.line(f"using {name} = {layout_type(plain.flat_shape, plain.flat_stride, layout)};")
    writer.line(
        f"tb::Copy<{partition.threads}, {partition.vector}, Target, Source>::run("
        f"{printer.pointer(op.destination)}, {printer.pointer(op.source)}, thread);"
    )
    writer.close()
