"""Persistent kernels: one ``__global__`` function whose blocks run the tasks of several kernels.

What kernels do is printed once, however often they are launched; a struct has their operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mugraph.codegen.cuda.channels import (
    MapParameter,
    block_at,
    map_names,
    map_parameters,
    print_host_maps,
)
from mugraph.codegen.cuda.cpp import Writer, stored_type
from mugraph.codegen.cuda.host import HostPrinter
from mugraph.codegen.cuda.kernel import TASK, open_kernel
from mugraph.codegen.cuda.names import Names
from mugraph.dialects import sched
from mugraph.dialects.sched.programs import PersistentProgram, tasks_of

HEADER = "tasks.h"


@dataclass(frozen=True)
class Operands:
    """The C++ struct that has the operands of a kernel's tasks."""

    kernel: sched.KernelOp
    type: str
    task: str
    """The function of a task."""
    member: str
    """The array of them among those of the persistent kernel."""
    launches: list[sched.LaunchOp] = field(default_factory=list[sched.LaunchOp])
    names: Names = field(default_factory=Names)

    def maps(self) -> dict[MapParameter, str]:
        """Its tensor maps, and what they are called."""
        return map_names(map_parameters(self.kernel), self.kernel.body.block.args, self.names)

    def print(self, writer: Writer) -> list[str]:
        """Prints the struct; returns the names of its members in order."""
        writer.open(f"struct {self.type} {{")
        members: list[str] = []
        for argument in self.kernel.body.block.args:
            constness = " const" if argument.index < self.kernel.input_count else ""
            members.append(self.names.of(argument))
            writer.line(f"{stored_type(argument)}{constness}* {members[-1]};")
        for name in self.maps().values():
            members.append(name)
            writer.line(f"CUtensorMap {name};")
        writer.close("};")
        return members


@dataclass(frozen=True)
class PrintedProgram:
    """The C++ names of a persistent kernel."""

    program: PersistentProgram
    kernel: str
    operands: str
    of_kernels: list[Operands]


def print_program(
    program: PersistentProgram, task_names: Mapping[str, str], names: Names, writer: Writer
) -> PrintedProgram:
    """Prints a persistent kernel; ``task_names`` has the functions of its kernels' tasks."""
    stem = f"{program.launches[0].kernel.string_value()}_program"
    kernel = names.fresh(stem)
    of_kernels: dict[sched.KernelOp, Operands] = {}
    for launch in program.launches:
        called = launch.resolve()
        if called not in of_kernels:
            task = task_names[called.sym_name.data]
            type_ = names.fresh(f"{task}_operands")
            of_kernels[called] = Operands(called, type_, task, f"of_{task}")
        of_kernels[called].launches.append(launch)
    all_operands = list(of_kernels.values())
    members = [each.print(writer) for each in all_operands]
    printed = PrintedProgram(program, kernel, names.fresh(f"{kernel}_operands"), all_operands)
    writer.open(f"struct {printed.operands} {{")
    for each in all_operands:
        writer.line(f"{each.type} {each.member}[{len(each.launches)}];")
    writer.line("unsigned* counters;")
    writer.close("};")
    steps, counts = names.fresh(f"{kernel}_steps"), names.fresh(f"{kernel}_counts")
    _print_steps(printed, steps, counts, writer)
    resident = program.launches[0].resident
    bounds = [program.threads, *([] if resident is None else [resident.value.data])]
    open_kernel(writer, kernel, [f"const __grid_constant__ {printed.operands} given"], bounds, None)
    writer.line("#pragma unroll 1")
    writer.open(f"for (int number = 0; number < {len(program.launches)}; ++number) {{")
    writer.line(f"tb::Step const step = {steps}[number];")
    writer.line("#pragma unroll 1")
    writer.open("for (int at = tb::first_task(step); at < step.tasks; at += gridDim.x) {")
    writer.line(
        f"tb::Task const {TASK} = {{given.counters, {counts} + step.awaits, {counts} + step.end}};"
    )
    for number, (each, fields) in enumerate(zip(all_operands, members, strict=True)):
        columns, rows, _ = each.kernel.grid_dim
        few = f" && threadIdx.x < {each.kernel.threads}"
        writer.open(
            f"if (step.kernel == {number}{few if each.kernel.threads < program.threads else ''}) {{"
        )
        writer.line(f"{each.type} const& of = given.{each.member}[step.operands];")
        place = f"tb::{block_at(each.kernel)}(at, {columns}, {rows})"
        listed = ", ".join([place, TASK, *(f"of.{name}" for name in fields)])
        writer.line(f"{each.task}({listed});")
        writer.close()
    writer.line("tb::end_task(given.counters + number);")
    writer.close()
    writer.close()
    writer.close()
    writer.line()
    return printed


def _print_steps(printed: PrintedProgram, steps: str, counts: str, writer: Writer) -> None:
    """Prints the tables of launches and of what their tasks wait for."""
    launches = printed.program.launches
    rows: list[str] = []
    awaited: list[tuple[int, int]] = []
    for launch in launches:
        kernel = launch.resolve()
        number = next(n for n, each in enumerate(printed.of_kernels) if each.kernel is kernel)
        first = 0 if launch.first is None else launch.first.value.data
        start = len(awaited)
        awaited += launch.awaited_counts()
        row = (
            number,
            printed.of_kernels[number].launches.index(launch),
            tasks_of(launch),
            first,
            start,
            len(awaited),
        )
        rows.append(_braced(row))
    _print_table("tb::Step", steps, rows, writer)
    # An array has an element at least.
    _print_table("tb::Count", counts, [_braced(each) for each in awaited or [(0, 0)]], writer)


def _print_table(type_: str, name: str, rows: Sequence[str], writer: Writer) -> None:
    writer.line(f"__constant__ {type_} const {name}[] = {{{', '.join(rows)}}};")


def _braced(numbers: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, numbers))}}}"


def print_program_launch(printed: PrintedProgram, printer: HostPrinter) -> None:
    """Prints the launch of a persistent kernel."""
    program, writer = printed.program, printer.writer
    writer.line(f"// OP type: {program.launches[0].name}, {len(program.launches)} in one")
    values = [value for each in program.launches for value in (*each.arguments, *each.outputs)]
    printer.declare_all(values)
    writer.line(f"{printed.operands} given{{}};")
    for each in printed.of_kernels:
        maps = map_parameters(each.kernel)
        for number, launch in enumerate(each.launches):
            tensors = (*launch.arguments, *launch.outputs)
            pointers = [printer.names.of(value) for value in tensors]
            pointers += print_host_maps(maps, tensors, writer, printer.names)
            writer.line(f"given.{each.member}[{number}] = {{{', '.join(pointers)}}};")
    writer.line(f"given.counters = (unsigned*)((char*)buf + {program.counters.start});")
    writer.line(
        f'mugraph::launch_program("{printed.kernel}", {printed.kernel}, {program.blocks}, '
        f"{program.threads}, {program.smem_bytes}, stream, {len(program.launches)}, given);"
    )


__all__ = ["HEADER", "PrintedProgram", "print_program", "print_program_launch"]
