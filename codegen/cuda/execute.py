"""The host side of a generated file: ``_execute_mugraph``, one block a launch in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from mugraph.codegen.cuda.cpp import CodegenError, Writer
from mugraph.codegen.cuda.host import (
    HostPrinter,
    Joined,
    declare_arguments,
    own_workspace_bytes,
    print_host_operation,
    print_launch,
    print_table,
)
from mugraph.dialects import kn, sched
from mugraph.dialects.kn.overlap import RuntimePart, launches_of
from mugraph.dialects.kn.workspace import memory_root
from mugraph.dialects.sched.programs import is_task
from mugraph.dialects.tensor_types import op_label


def print_parts(launch: Sequence[Operation], printer: HostPrinter) -> None:
    """Prints one launch of several operators, each of which is a part of it."""
    kernels = [op for op in launch if isinstance(op, sched.LaunchOp)]
    if kernels:
        print_joined(kernels, printer)
        return
    writer, parts = printer.writer, [f"part{number}" for number in range(len(launch))]
    for op, part in zip(launch, parts, strict=True):
        print_part(op, part, printer)
    overlaps = all(isinstance(op, RuntimePart) and op.overlaps for op in launch)
    writer.line(f"kn::launch_parts({printer.queue(overlaps=overlaps)}, {', '.join(parts)});")


def print_part(op: Operation, name: str, printer: HostPrinter) -> None:
    """Prints a variable that is an operator's part of a launch."""
    printer.writer.open(f"auto const {name} = [&] {{")
    printer.writer.line(f"// OP type: {op.name}")
    print_host_operation(op, replace(printer, joins=True))
    printer.writer.close("}();")


def print_joined(launches: Sequence[sched.LaunchOp], printer: HostPrinter) -> None:
    """Prints one launch of several kernels."""
    kernels = [launch.resolve() for launch in launches]
    blocks = sum(launch.task_count() for launch in launches if launch.has_blocks)
    printer.writer.line(f"// OP type: {launches[0].name}, {len(launches)} in one")
    pointers = declare_arguments(launches, printer)
    for launch in launches:
        if launch.last is not None:
            pointers.append(f"(unsigned*)((char*)buf + {counters_of(launch).start})")
    smem = max(kernel.smem_bytes or 0 for kernel in kernels)
    if (cluster := launches[-1].cluster) is not None:
        _, smem = launches[-1].cluster_tensors(launches[0], cluster.value.data)
    print_launch(
        printer,
        printer.joined_names[Joined.of(launches)],
        [blocks],
        [max(kernel.threads for kernel in kernels), 1, 1],
        smem,
        pointers,
        overlaps=kernels[0].waits_for_grids(),
    )


def counters_of(launch: sched.LaunchOp) -> range:
    """The bytes of the workspace by which last blocks count; raises :class:`CodegenError`."""
    counters = launch.counter_bytes
    if counters is None:
        raise CodegenError(
            f"{op_label(launch)} runs in last blocks, which have no counters; "
            "--combine-in-last-blocks gives them a place in the workspace"
        )
    return counters


EXECUTE = "_execute_mugraph"
"""The function that a call of a generated file is of."""


def print_init(writer: Writer) -> None:
    """Prints ``_init``."""
    writer.open("[[maybe_unused]] static void _init() {")
    writer.close()
    writer.line()


def print_counters(function: FuncOp, writer: Writer) -> None:
    """Prints that what last blocks count by is zero.

    Blocks leave it so; the workspace of a call may be new memory.
    """
    counters = [
        each
        for op in function.walk()
        if isinstance(op, sched.LaunchOp) and (each := op.counter_bytes) is not None
    ]
    if counters:
        start, stop = min(each.start for each in counters), max(each.stop for each in counters)
        place = f"(char*)buf + {start}, 0, {stop - start}, stream"
        writer.line(f'mugraph::check(cudaMemsetAsync({place}), "setting counters to zero");')


def print_early_tables(function: FuncOp, printer: HostPrinter) -> None:
    """Prints that tables are there which kernels load before they wait, but for the new rows.

    They are copied first of all, where results lie elsewhere.  The first kernel starts behind that,
    and behind all that was launched before the call; all others start behind its start.
    """
    early = [
        memory_root(op.arguments[table])
        for op in function.walk()
        if isinstance(op, sched.LaunchOp)
        for table in op.resolve().arriving_rows
    ]
    for root in dict.fromkeys(early):
        scatter = root.owner
        assert isinstance(scatter, kn.ScatterOp)  # as verified
        printer.writer.open("{")
        values = (scatter.table, scatter.result)
        names = dict(zip(values, printer.declare_all(values), strict=True))
        print_table(scatter, names, printer)
        printer.writer.close()
    printer.waits = bool(early)


def execute_head(name: str) -> str:
    """The start of a function that launches kernels."""
    return (
        f"[[maybe_unused]] static void {name}(std::vector<void const *> input_tensors, "
        "std::vector<void*> output_tensors, void* buf, cudaStream_t stream) {"
    )


def print_execute(
    function: FuncOp, printer: HostPrinter, first: Iterable[str], name: str = EXECUTE
) -> None:
    """Prints what launches the kernels of a function, and what a call does ``first``.

    The printer's names gave the kernels theirs, so that no local variable hides a kernel.
    """
    needed = own_workspace_bytes(function)
    writer = printer.writer
    writer.line(f"// buf: {needed} bytes of device memory for intermediates.")
    writer.open(execute_head(name))
    writer.lines(first)
    print_counters(function, writer)
    print_early_tables(function, printer)
    for launch in launches_of(function.body.block.ops):
        op = launch[0]
        if isinstance(op, ReturnOp) or (is_task(op) and op not in printer.program_launches):
            continue
        writer.open("{")
        if is_task(op):
            printer.program_launches[op](printer)
        elif len(launch) > 1:
            print_parts(launch, printer)
        else:
            writer.line(f"// OP type: {op.name}")
            print_host_operation(op, printer)
        writer.close()
    if needed == 0:
        writer.line("(void)buf;")
    writer.close()
