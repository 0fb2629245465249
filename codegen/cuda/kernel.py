"""A ``sched.kernel`` as a ``__global__`` function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from xdsl.dialects.builtin import IndexType

from mugraph.codegen.cuda.channels import (
    block_at,
    map_declarations,
    map_names,
    map_parameters,
    print_map_prefetch,
    print_task_end,
)
from mugraph.codegen.cuda.cpp import CodegenError, Writer, placed_type, stored_type
from mugraph.codegen.cuda.elementwise import start_of
from mugraph.codegen.cuda.grid import grid_extents, total_blocks
from mugraph.codegen.cuda.names import Names
from mugraph.codegen.cuda.operations import KernelPrinter
from mugraph.codegen.cuda.transfers import WARP_MEMORY, print_grid_wait
from mugraph.dialects import sched
from mugraph.dialects.launch_extents import GridCut
from mugraph.dialects.maps import AXES
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.sched.domain import fewest_iterations
from mugraph.dialects.sched.structure import most_iterations
from mugraph.dialects.tensor_types import op_label

KernelKind = Literal["kernel", "part", "task"]
"""What is printed of a kernel: all of it, or what a block does, for a kernel that does more."""
TASK = "task"
"""What a task calls what it waits for."""


def _held_by_nobody_else(kernel: sched.KernelOp, *, is_task: bool) -> frozenset[int]:
    """The arguments whose tensors nothing else writes to while the kernel runs.

    C++ compilers take ``__restrict__`` for this promise, and move loads across everything,
    ``griddepcontrol.wait`` too.  In a kernel that may start before the one in front of it has
    ended, and in a task, only constant inputs keep it.
    """
    if is_task or kernel.waits_for_grids():
        return kernel.constant_inputs
    return frozenset(range(len(kernel.body.block.args)))


def parameters_of(kernel: sched.KernelOp, names: Names, *, is_task: bool = False) -> list[str]:
    """The declarations of a kernel's parameters, but for tensor maps."""
    alone = _held_by_nobody_else(kernel, is_task=is_task)
    parameters: list[str] = []
    placed = kernel.placed_rows
    for argument in kernel.body.block.args:
        if isinstance(argument.type, IndexType):
            parameters.append(f"int const {names.of(argument)}")
            continue
        if argument.index in placed:
            type_ = placed_type(placed[argument.index], stored_type(argument))
            parameters.append(f"{type_} const {names.of(argument)}")
            continue
        constness = " const" if argument.index < kernel.input_count else ""
        restrict = " __restrict__" if argument.index in alone else ""
        parameters.append(f"{stored_type(argument)}{constness}*{restrict} {names.of(argument)}")
    return parameters


def print_joined_kernel(
    launches: Sequence[sched.LaunchOp],
    parts: Sequence[str],
    name: str,
    writer: Writer,
    *,
    swizzles_addresses: bool = False,
) -> None:
    """Prints a kernel whose blocks run those of several, which are printed as functions.

    Of launches of one kernel each has its own parameters.  Threads that a block has no use for
    leave: barriers of a block wait for the others.
    """
    kernels = [launch.resolve() for launch in launches]
    threads = max(kernel.threads for kernel in kernels)
    all_names = Names()
    names_of = [all_names.beside() for _ in kernels]
    lists = [parameters_of(kernel, names) for kernel, names in zip(kernels, names_of, strict=True)]
    given = [
        [names.of(argument) for argument in kernel.body.block.args]
        for kernel, names in zip(kernels, names_of, strict=True)
    ]
    resident, cluster = launches[0].resident, launches[-1].cluster
    bounds = [threads, *([] if resident is None else [resident.value.data])]
    clusters = None if cluster is None else [cluster.value.data, 1, 1]
    counters = {op: all_names.fresh("counters") for op in launches if op.last is not None}
    parameters = [each for one in lists for each in one]
    parameters += [f"unsigned* {each}" for each in counters.values()]
    open_kernel(writer, name, parameters, bounds, clusters)
    if cluster is not None:
        print_shared_memory(writer, swizzles_addresses=swizzles_addresses)
        print_cluster(launches, cluster.value.data, parts, given, writer)
    first = 0
    for number, launch in enumerate(launches):
        if cluster is not None or not launch.has_blocks:
            continue
        kernel, end = kernels[number], first + launch.task_count()
        block = f"blockIdx.x - {first}" if first else "blockIdx.x"
        call = call_of_part(kernel, parts[number], block, given[number])
        writer.open(f"if (blockIdx.x < {end}) {{")
        if kernel.threads < threads:
            writer.line(f"if (threadIdx.x >= {kernel.threads}) return;")
        for following in launches[number + 1 : number + 2]:
            if following not in counters:
                continue
            writer.line(call)
            block = f"({block}) % {following.task_count()}"
            print_last(launch, following, counters[following], block, writer)
            kernel = kernels[number + 1]
            call = call_of_part(kernel, parts[number + 1], block, given[number + 1])
        writer.line(f"return {call}")
        writer.close()
        first = end
    writer.close()
    writer.line()


def call_of_part(
    kernel: sched.KernelOp, function: str, block: str, arguments: Sequence[str]
) -> str:
    """What runs the block of that number of a kernel that is printed as a function."""
    columns, rows, _ = kernel.grid_dim
    place = f"tb::block_at<1>({block}, {columns}, {rows})"
    return f"{function}({', '.join([place, *arguments])});"


def print_cluster(
    launches: Sequence[sched.LaunchOp],
    size: int,
    parts: Sequence[str],
    given: Sequence[list[str]],
    writer: Writer,
) -> None:
    """Prints what the blocks of a cluster run: those of a kernel, and one or all of its consumer's.

    The tensors between the two lie in shared memory of the first block of the cluster, or of each,
    whose numbers go to all.
    """
    producer, consumer = launches
    front, kernel = producer.resolve(), consumer.resolve()
    writes, reads = given
    writer.line(f"unsigned const cluster = blockIdx.x / {size}, rank = blockIdx.x % {size};")
    by_all = consumer.is_of_each_block(producer)
    given_to_all: list[str] = []
    tensors, _ = consumer.cluster_tensors(producer, size)
    for output, index in consumer.consumed(producer):
        elements, offset, step = tensors[output]
        own = f"reinterpret_cast<{stored_type(consumer.arguments[index])}*>(smem + {offset})"
        reads[index] = f"{own} - cluster * {elements}"
        of_first = f"mugraph::in_block({own}, 0) - cluster * {elements}"
        writes[output] = reads[index] if by_all else of_first
        given_to_all.append(f"mugraph::give_to_cluster<{size}>({own} + rank * {step});")
    block = f"cluster + rank * {producer.task_count() // size}"
    if by_all:
        writer.line("mugraph::cluster_arrive();")
        writer.line(call_of_part(front, parts[0], block, writes))
        writer.line("__syncthreads();")
        writer.line("mugraph::cluster_wait();  // all blocks run")
        writer.lines(given_to_all)
    else:
        writer.line("mugraph::cluster_start();  // the first block runs")
        writer.line(call_of_part(front, parts[0], block, writes))
    writer.line("mugraph::cluster_barrier();  // all parts are there")
    if not by_all:
        writer.line("if (rank != 0) return;")
    if kernel.threads < front.threads:
        writer.line(f"if (threadIdx.x >= {kernel.threads}) return;")
    writer.line(call_of_part(kernel, parts[1], block if by_all else "cluster", reads))


def print_last(
    producer: sched.LaunchOp, consumer: sched.LaunchOp, counters: str, block: str, writer: Writer
) -> None:
    """Prints that all blocks leave but the last one of those whose parts a block combines."""
    assert consumer.last is not None
    size, threads = consumer.last.value.data, consumer.resolve().threads
    writer.line(
        f"if (!tb::is_last({counters} + {block}, {size})) return;  // the last one has all parts"
    )
    if threads < producer.resolve().threads:
        writer.line(f"if (threadIdx.x >= {threads}) return;")


def print_kernel(
    kernel: sched.KernelOp,
    name: str,
    writer: Writer,
    *,
    swizzles_addresses: bool = False,
    kind: KernelKind = "kernel",
) -> None:
    """Prints one kernel under the given C++ name; raises :class:`CodegenError` if unplanned.

    A part of a joined kernel is a function that is given the block's place in the grid; so is a
    task of a persistent one, which is also given what it waits for.
    """
    if kernel.smem_bytes is None:
        raise CodegenError(
            f"{op_label(kernel)} has no shared-memory plan; run --plan-stensor-memory first"
        )
    names = Names(sched.registers_of)
    is_task = kind == "task"
    if is_task:
        names.reserve(TASK)
    parameters = parameters_of(kernel, names, is_task=is_task)
    maps = map_names(map_parameters(kernel), kernel.body.block.args, names)
    parameters += map_declarations(maps, is_kernel=kind == "kernel")
    together = kernel.packed_blocks
    bounds = [kernel.threads * together]
    if kernel.resident_blocks is not None:
        bounds.append(max(kernel.resident_blocks // together, 1))
    cluster = kernel.cluster_dim if kernel.cluster is not None else None
    if kind != "kernel":
        given = ["uint3 const blockIdx", *([f"tb::Task const& {TASK}"] if is_task else [])]
        listed = ", ".join([*given, *parameters])
        writer.open(f"__device__ __forceinline__ void {name}({listed}) {{")
    else:
        open_kernel(writer, name, parameters, bounds, cluster)
    printer = KernelPrinter(writer, names, kernel, maps={**maps}, is_task=is_task)
    # Where bulk copies swizzle they do so by address; all kernels of a file declare it alike.
    print_shared_memory(writer, swizzles_addresses=bool(maps) or swizzles_addresses)
    if kernel.packed is not None:
        print_packing(printer)
    writer.line(f"int const thread = {_thread_number(printer)};")
    if kernel.raster_rows > 1 and kernel.persistent_blocks is None and kind == "kernel":
        function = "rastered_block" if block_at(kernel).startswith("block_in") else "grouped_block"
        writer.line(f"uint3 const blockIdx = tb::{function}<{kernel.raster_rows}>();  // raster")
    if kernel.descending_columns is not None:
        columns = kernel.descending_columns
        of_what = "plane" if kernel.planes is not None else "block"
        writer.line(f"uint3 const blockIdx = tb::descending_{of_what}<{columns}>();  // descending")
    if is_task and not kernel.waits_for_grids():
        print_grid_wait(printer, "what the task needs is done")
    operators = list(kernel.body.block.ops)
    while operators and isinstance(operators[0], sched.GridWaitOp):
        printer.print(operators.pop(0))
    for length in kernel.held_lengths:
        holder = kernel.body.block.args[length.argument]
        name = names.fresh(f"{names.of(holder)}_length")
        printer.lengths.append(name)
        held = names.of(holder)
        if length.axis >= 0:
            held = f"{held} + blockIdx.{AXES[length.axis]}"
        read = f"tb::length_in({held}, {length.largest})"
        if kernel.is_number(length.argument):
            read = f"static_cast<int>({held})"
        writer.line(f"int const {name} = {read};  // lengths")
    for cut in kernel.cuts:
        if not kernel.is_number(cut.argument) and kernel.persistent_blocks is None:
            print_leave(kernel, cut, printer)
    if kernel.domain is not None:
        printer.span = names.fresh("span")
        if (parts := kernel.block_parts) is not None:
            printer.parts = names.fresh("parts")
            counted = f"tb::parts_of<{kernel.grid_dim[parts.axis]}, {parts.at_once}>"
            blocks = total_blocks(grid_extents(kernel, printer.arguments()))
            writer.line(f"int const {printer.parts} = {counted}({blocks});  // parts")
        writer.line(f"tb::Span const {printer.span} = {span_of_block(kernel, printer)};  // where")
    if maps:
        print_map_prefetch(maps, writer, "thread")
    for op in operators:
        # The tiles of a persistent block move.
        if kernel.persistent_blocks is None or not isinstance(op, sched.LocalTileOp):
            printer.print(op)
    if is_task:
        print_task_end(printer)
    writer.close()
    writer.line()


def print_shared_memory(writer: Writer, *, swizzles_addresses: bool) -> None:
    """Declares the block's memory; it begins where the patterns of address swizzles do."""
    alignment = 1024 if swizzles_addresses else 128
    writer.line(f"extern __shared__ __align__({alignment}) char smem[];")


def print_packing(printer: KernelPrinter) -> None:
    """Prints which block of the grid a warp is, and where its shared memory is."""
    kernel, writer = printer.kernel, printer.writer
    together, blocks = kernel.packed_blocks, grid_extents(kernel, printer.arguments())[0]
    writer.line(f"uint3 const blockIdx = tb::packed_block<{together}>();  // packed")
    if not blocks.isdigit() or int(blocks) % together:
        writer.line(f"if (blockIdx.x >= {blocks}) return;")
    writer.line(f"char* const {WARP_MEMORY} = smem + threadIdx.x / {WARP} * {kernel.smem_bytes};")


def open_kernel(
    writer: Writer,
    name: str,
    parameters: Sequence[str],
    bounds: Sequence[int],
    cluster: Sequence[int] | None,
) -> None:
    """Begins a kernel; ``bounds`` are the threads of a block, and perhaps how many share an SM."""
    clause = "" if cluster is None else f" __cluster_dims__({', '.join(map(str, cluster))})"
    writer.open(
        f"__global__ void __launch_bounds__({', '.join(map(str, bounds))}){clause} "
        f"{name}({', '.join(parameters)}) {{"
    )


def print_leave(kernel: sched.KernelOp, cut: GridCut, printer: KernelPrinter) -> None:
    """Prints that blocks leave which have none of the elements that a length counts."""
    together = kernel.cluster_blocks
    first = f"static_cast<int>(blockIdx.{'xyz'[cut.axis]})"
    if together > 1:
        first = f"{first} / {together} * {together}"
    length = printer.number(kernel.body.block.args[cut.argument])
    printer.writer.line(f"if ({first} * {cut.step} >= {length}) return;  // cut")


def span_of_block(kernel: sched.KernelOp, printer: KernelPrinter) -> str:
    """The iterations that a block runs, as an expression.

    Where blocks take tiles in turn, and it depends on the launch which do, those of its tiles.
    """
    bounds: list[str] = []
    parts, iterations = kernel.block_parts, most_iterations(kernel)
    for form in kernel.domain_forms():
        moves = [*form.coefficients]
        step, moves[len(AXES)] = moves[len(AXES)], 0
        if parts is not None:
            step, moves[parts.axis] = moves[parts.axis], 0
        bounds.append(f"tb::bound<{step}>({start_of(form.constant, moves, printer)})")
    least = "" if fewest_iterations(kernel) else ", 0"
    if parts is not None:
        tiles = f"tb::span<{iterations * kernel.grid_dim[parts.axis]}, 0>({', '.join(bounds)})"
        block = f"static_cast<int>(blockIdx.{'xyz'[parts.axis]})"
        return f"tb::part_of({tiles}.count, {block}, {printer.parts})"
    return f"tb::span<{iterations}{least}>({', '.join(bounds)})"


def _thread_number(printer: KernelPrinter) -> str:
    """The number of a thread in its block; where it computes on fragments, also that it has one.

    Values that only some threads had would have to be set by the others too.  Large products by
    themselves are left alone: there ptxas would keep more addresses than registers hold.
    """
    kernel, index = printer.kernel, printer.block_thread
    if kernel.packed is not None:
        return f"{index} % {WARP}"
    if any(map(sched.computes_on_product, kernel.walk())):
        return f"mugraph::thread_of<{kernel.threads}>({index})"
    return index
