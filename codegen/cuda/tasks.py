"""Persistent kernels: one ``__global__`` function whose blocks run the tasks of several operators.

What a kernel does is printed once, however often it is launched; a struct has the operands of all.
Operators of the runtime are parts, as in launches that they share: objects whose type the function
of the host finds out, so that what has some is a template.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from mugraph.codegen.cuda.channels import (
    block_at,
    map_names,
    map_parameters,
    print_host_maps,
)
from mugraph.codegen.cuda.cpp import Writer, stored_type
from mugraph.codegen.cuda.execute import print_part
from mugraph.codegen.cuda.host import HostPrinter
from mugraph.codegen.cuda.kernel import TASK, open_kernel
from mugraph.codegen.cuda.names import Names
from mugraph.dialects import sched
from mugraph.dialects.kn.overlap import JOINED, OVERLAPS, PART_THREADS
from mugraph.dialects.likeness import likeness_of
from mugraph.dialects.sched import programs
from mugraph.dialects.sched.programs import PersistentProgram

HEADER = "tasks.h"


@dataclass
class Kind(ABC):
    """Operators whose tasks are the same code on other operands."""

    type: str
    """The C++ type of their operands."""
    ops: list[Operation] = field(default_factory=list[Operation])

    @property
    @abstractmethod
    def threads(self) -> int:
        """How many threads run a task."""

    @property
    def member(self) -> str:
        """The array of operands among those of the persistent kernel."""
        return f"of_{self.type}"

    @abstractmethod
    def print_task(self, writer: Writer) -> None:
        """Prints what task ``at`` does with its operands ``of``."""

    @abstractmethod
    def print_operands(self, op: Operation, place: str, printer: HostPrinter) -> None:
        """Prints that the host puts the operands of an operator to their place."""


@dataclass
class KernelKind(Kind):
    """Launches of a scheduled kernel."""

    task: str = ""
    """The function of a task."""
    members: list[str] = field(default_factory=list[str])

    @property
    def kernel(self) -> sched.KernelOp:
        """The kernel."""
        first = self.ops[0]
        assert isinstance(first, sched.LaunchOp)  # as all of them
        return first.resolve()

    @property
    def threads(self) -> int:
        """Those of the kernel's blocks."""
        return self.kernel.threads

    def print_struct(self, writer: Writer) -> None:
        """Prints the struct of a launch's operands."""
        names, arguments = Names(), self.kernel.body.block.args
        writer.open(f"struct {self.type} {{")
        for argument in arguments:
            constness = " const" if argument.index < self.kernel.input_count else ""
            self.members.append(names.of(argument))
            writer.line(f"{stored_type(argument)}{constness}* {names.of(argument)};")
        for name in map_names(map_parameters(self.kernel), arguments, names).values():
            self.members.append(name)
            writer.line(f"CUtensorMap {name};")
        writer.close("};")

    def print_task(self, writer: Writer) -> None:
        """A call of its function."""
        columns, rows, _ = self.kernel.grid_dim
        place = f"tb::{block_at(self.kernel)}(at, {columns}, {rows})"
        given = ", ".join([place, TASK, *(f"of.{name}" for name in self.members)])
        writer.line(f"{self.task}({given});")

    def print_operands(self, op: Operation, place: str, printer: HostPrinter) -> None:
        """Pointers and tensor maps."""
        tensors = (*op.operands, *op.results)
        pointers = [printer.names.of(value) for value in tensors]
        maps = map_parameters(self.kernel)
        pointers += print_host_maps(maps, tensors, printer.writer, printer.names)
        printer.writer.line(f"{place} = {{{', '.join(pointers)}}};")


@dataclass
class PartKind(Kind):
    """Operators of the runtime that are alike."""

    @property
    def threads(self) -> int:
        """Those of all parts."""
        return PART_THREADS

    def print_task(self, writer: Writer) -> None:
        """A block of the part."""
        writer.line(f"{TASK}.wait_together({PART_THREADS});")
        writer.line("kn::run_block_of(of, at);")
        writer.line(f"{TASK}.count({PART_THREADS});")

    def print_operands(self, op: Operation, place: str, printer: HostPrinter) -> None:
        """The part, which has been made."""


@dataclass(frozen=True)
class PrintedProgram:
    """The C++ names of a persistent kernel, and its kinds of tasks."""

    program: PersistentProgram
    kernel: str
    operands: str
    kinds: list[Kind]

    @property
    def parts(self) -> list[PartKind]:
        """The kinds whose types are parameters of templates."""
        return [kind for kind in self.kinds if isinstance(kind, PartKind)]

    def with_parts(self, name: str, types: Sequence[str]) -> str:
        """A class or function for these types of its parts."""
        return f"{name}<{', '.join(types)}>" if types else name


def kinds_of(program: PersistentProgram, task_names: Mapping[str, str], names: Names) -> list[Kind]:
    """The kinds of a persistent kernel's tasks, in the order of their first operators."""
    kinds: dict[Hashable, Kind] = {}
    said = (programs.TASK, programs.PROGRAM, JOINED, OVERLAPS, "workspace")
    for op in program.ops:
        if isinstance(op, sched.LaunchOp):
            key: Hashable = op.resolve()
            task = task_names[op.resolve().sym_name.data]
            if key not in kinds:
                kinds[key] = KernelKind(names.fresh(f"{task}_operands"), task=task)
        else:
            key = likeness_of(op, besides=said)
            if key not in kinds:
                kinds[key] = PartKind(names.fresh("Part"))
        kinds[key].ops.append(op)
    return list(kinds.values())


def print_program(
    program: PersistentProgram, task_names: Mapping[str, str], names: Names, writer: Writer
) -> PrintedProgram:
    """Prints a persistent kernel; ``task_names`` has the functions of its kernels' tasks."""
    stem = next(op for op in program.ops if isinstance(op, sched.LaunchOp)).kernel.string_value()
    kernel = names.fresh(f"{stem}_program")
    kinds = kinds_of(program, task_names, names)
    printed = PrintedProgram(program, kernel, names.fresh(f"{kernel}_operands"), kinds)
    for kind in kinds:
        if isinstance(kind, KernelKind):
            kind.print_struct(writer)
    types = [kind.type for kind in printed.parts]
    template = f"template <{', '.join(f'class {each}' for each in types)}>"
    if types:
        writer.line(template)
    writer.open(f"struct {printed.operands} {{")
    for kind in kinds:
        writer.line(f"{kind.type} {kind.member}[{len(kind.ops)}];")
    writer.line("unsigned* counters;")
    writer.close("};")
    steps, counts = names.fresh(f"{kernel}_steps"), names.fresh(f"{kernel}_counts")
    _print_steps(printed, steps, counts, writer)
    if types:
        writer.line(template)
    given = f"const __grid_constant__ {printed.with_parts(printed.operands, types)} given"
    open_kernel(writer, kernel, [given], [program.threads, program.blocks.resident], None)
    writer.line("#pragma unroll 1")
    writer.open(f"for (int number = 0; number < {len(program.ops)}; ++number) {{")
    writer.line(f"tb::Step const step = {steps}[number];")
    writer.line("#pragma unroll 1")
    writer.open("for (int at = tb::first_task(step); at < step.tasks; at += gridDim.x) {")
    awaited = f"{counts} + step.awaits, {counts} + step.end"
    writer.line(f"tb::Task const {TASK} = {{given.counters, number, {awaited}}};")
    for number, kind in enumerate(kinds):
        few = f" && threadIdx.x < {kind.threads}" if kind.threads < program.threads else ""
        writer.open(f"if (step.kind == {number}{few}) {{")
        writer.line(f"{kind.type} const& of = given.{kind.member}[step.operands];")
        kind.print_task(writer)
        writer.close()
    writer.line("__syncthreads();  // the next task has the shared memory")
    writer.close()
    writer.close()
    writer.close()
    writer.line()
    return printed


def _print_steps(printed: PrintedProgram, steps: str, counts: str, writer: Writer) -> None:
    """Prints the tables of operators and of what their tasks wait for."""
    rows: list[Sequence[int]] = []
    awaited: list[tuple[int, int]] = []
    places = {
        op: (number, place)
        for number, kind in enumerate(printed.kinds)
        for place, op in enumerate(kind.ops)
    }
    program = printed.program
    for op, task in zip(program.ops, program.tasks, strict=True):
        start = len(awaited)
        awaited += task.awaits
        rows.append((*places[op], op.task_count(), task.first, start, len(awaited)))
    _print_table("tb::Step", steps, rows, writer)
    # An array has an element at least.
    _print_table("tb::Count", counts, awaited or [(0, 0)], writer)


def _print_table(type_: str, name: str, rows: Sequence[Sequence[int]], writer: Writer) -> None:
    listed = ", ".join(f"{{{', '.join(map(str, row))}}}" for row in rows)
    writer.line(f"__constant__ {type_} const {name}[] = {{{listed}}};")


def print_program_launch(printed: PrintedProgram, printer: HostPrinter) -> None:
    """Prints the launch of a persistent kernel."""
    program, writer = printed.program, printer.writer
    writer.line(f"// OP type: {program.ops[0].name}, {len(program.ops)} in one")
    launches = [op for op in program.ops if isinstance(op, sched.LaunchOp)]
    # Parts declare their own pointers, each in a scope of its own.
    types: list[str] = []
    made: list[str] = []
    for kind in printed.parts:
        names = [printer.names.fresh("part") for _ in kind.ops]
        for op, name in zip(kind.ops, names, strict=True):
            print_part(op, name, printer)
        types.append(f"std::decay_t<decltype({names[0]})>")
        made += [f"given.{kind.member}[{at}] = {name};" for at, name in enumerate(names)]
    printer.declare_all([value for op in launches for value in (*op.operands, *op.results)])
    writer.line(f"{printed.with_parts(printed.operands, types)} given{{}};")
    writer.lines(made)
    for kind in printed.kinds:
        for at, op in enumerate(kind.ops):
            kind.print_operands(op, f"given.{kind.member}[{at}]", printer)
    writer.line(f"given.counters = (unsigned*)((char*)buf + {program.counters.start});")
    writer.line(
        f'mugraph::launch_program("{printed.kernel}", '
        f"{printed.with_parts(printed.kernel, types)}, {program.blocks.blocks}, "
        f"{program.threads}, {program.smem_bytes}, stream, {len(program.ops)}, given);"
    )
