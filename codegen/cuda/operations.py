"""How every operator of a schedule is printed, and the phases and the loop around them.

A family of operators has a module that says how each is printed; importing this one registers all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Operation

from mugraph.codegen.cuda import elementwise, products, reductions
from mugraph.codegen.cuda.fragments import (
    atom_class,
    atom_of,
    fragment_class,
    fragment_type_of,
    matrix_type,
)
from mugraph.codegen.cuda.printer import Iteration, KernelPrinter, offset_by, print_operation
from mugraph.codegen.cuda.transfers import scope_of
from mugraph.dialects import sched

__all__ = [
    "KernelPrinter",
    "atom_class",
    "atom_of",
    "declare_stages",
    "elementwise",
    "fragment_class",
    "fragment_type_of",
    "matrix_type",
    "offset_by",
    "print_operation",
    "print_phase",
    "products",
    "reductions",
    "scope_of",
]


def print_phase(op: sched.PhaseOp, printer: KernelPrinter) -> None:
    """Prints the operators of a prologue or an epilogue in order."""
    printer.writer.line()
    printer.writer.line(f"// {op.name}")
    for inner in op.body.block.ops:
        printer.print(inner)


@print_operation.register
def _(op: sched.PrologueOp, printer: KernelPrinter) -> None:
    print_phase(op, printer)


@print_operation.register
def _(op: sched.EpilogueOp, printer: KernelPrinter) -> None:
    past = 0
    if printer.counts_on and op.parent is not None:
        past = sum(loop.iterations for loop in op.parent.ops if isinstance(loop, sched.ForloopOp))
    print_phase(op, replace(printer, counted_past=past))


@print_operation.register
def _(op: sched.YieldOp, printer: KernelPrinter) -> None:
    pass  # the tiles stay in their registers


@print_operation.register
def _(op: sched.ForloopOp, printer: KernelPrinter) -> None:
    writer = printer.writer
    writer.line()
    writer.line(f"// {op.name}")
    first = op.step_of if op.is_peeled and op.iterations > 1 else 0
    runs_once = op.trip_count == op.step_of
    if printer.counts_on:
        stages = [printer.counted_stages[stages] for stages in rings_of([op])]
    else:
        stages = [] if runs_once else declare_stages([op], printer, first)
    counted_inside = max((_begins(step, op) for step in op.body.block.ops), default=0)
    advance = _counted_on(stages, op.step_of - counted_inside)
    if first or runs_once:
        _print_iteration(op, stages, printer, "{")
        if printer.counts_on and advance:
            writer.line(f"{', '.join(advance)};")
    if runs_once:
        return
    steps = ", ".join(["++it" if op.step_of == 1 else f"it += {op.step_of}", *advance])
    # Unrolling would multiply the code; stages are counted cheaply.
    writer.line("#pragma unroll 1")
    opening = f"for (int it = {first}; it < {printer.trip_count(op)}; {steps}) {{"
    _print_iteration(op, stages, replace(printer, iteration=Iteration(start="it")), opening)


def _print_iteration(
    op: sched.ForloopOp, stages: Sequence[str], printer: KernelPrinter, opening: str
) -> None:
    """Prints the body, and in one of several iterations where each of them begins to read."""
    writer = printer.writer
    writer.open(opening)
    for step in op.body.block.ops:
        past = _begins(step, op)
        if stages and past > printer.counted_past:
            writer.line(f"{', '.join(_counted_on(stages, past - printer.counted_past))};")
            printer = replace(printer, counted_past=past)
        printer.print(step)
    writer.close()


def _begins(op: Operation, loop: sched.ForloopOp) -> int:
    """Which iteration of a body of several begins to read with an operator; 0 if none."""
    if not isinstance(op, sched.ConsumeOp) or op.ahead_of >= loop.step_of:
        return 0
    return op.ahead_of


def _counted_on(stages: Sequence[str], iterations: int) -> list[str]:
    """What moves the variables that count stages on."""
    return [f"++{each}" if iterations == 1 else f"{each} += {iterations}" for each in stages]


def rings_of(phases: Sequence[Operation]) -> list[int]:
    """The numbers of stages of the rings that phases use."""
    operands = (value for phase in phases for op in phase.walk() for value in op.operands)
    found = {value: value.owner for value in operands}
    channels = {op.stage_count for op in found.values() if isinstance(op, sched.ChannelOp)}
    buffers = {op.stage_count for op in found.values() if isinstance(op, sched.AllocOp)}
    return sorted(channels | (buffers - {1}))


def declare_stages(
    phases: Sequence[Operation], printer: KernelPrinter, iteration: int
) -> list[str]:
    """Declares what counts the stages of rings that phases use, from an iteration on.

    Returns the variables, one for all rings of so many stages.
    """
    found: list[str] = []
    for stages in rings_of(phases):
        name = printer.counted_stages.get(stages) or printer.names.fresh("stage")
        printer.counted_stages[stages] = name
        printer.writer.line(f"tb::Stage<{stages}> {name} = {iteration};")
        found.append(name)
    return found


@print_operation.register
def _(op: sched.CustomOp, printer: KernelPrinter) -> None:
    # What only tensor expressions need takes a while to load.
    from mugraph.codegen.cuda.custom import print_custom

    print_custom(op, printer)
