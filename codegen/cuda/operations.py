"""How every operator of a schedule is printed, and the phases and the loop around them.

A family of operators has a module that says how each is printed; importing this one registers all.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from mugraph.codegen.cuda import elementwise, products, reductions
from mugraph.codegen.cuda.fragments import (
    atom_class,
    atom_of,
    fragment_class,
    fragment_type_of,
    matrix_type,
)
from mugraph.codegen.cuda.printer import KernelPrinter, offset_by, print_operation
from mugraph.codegen.cuda.stages import LOOP_VARIABLE, Iteration, moved_on, rings_of
from mugraph.codegen.cuda.transfers import scope_of
from mugraph.dialects import sched
from mugraph.dialects.interfaces import written_by

__all__ = [
    "KernelPrinter",
    "atom_class",
    "atom_of",
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
    print_phase(op, printer)


@print_operation.register
def _(op: sched.YieldOp, printer: KernelPrinter) -> None:
    pass  # the tiles stay in their registers


@print_operation.register
def _(op: sched.ForloopOp, printer: KernelPrinter) -> None:
    writer = printer.writer
    writer.line()
    writer.line(f"// {op.name}")
    runs_once = op.trip_count == op.step_of
    first = 1 if op.is_peeled and not runs_once else 0
    if first or runs_once:
        _print_iteration(op, printer, "{")
    if runs_once:
        return
    counters = _declare_counters(op, printer, first)
    counted_inside = max((_begins(step, op) for step in op.body.block.ops), default=0)
    advance = "++it" if op.step_of == 1 else f"it += {op.step_of}"
    advance = ", ".join([advance, *moved_on(counters.values(), op.step_of - counted_inside)])
    # Unrolling would multiply the code; stages are counted cheaply.
    writer.line("#pragma unroll 1")
    opening = f"for (int it = {first}; it < {printer.trip_count(op)}; {advance}) {{"
    current = replace(printer.counters, current=counters)
    inner = replace(printer, iteration=Iteration(start=LOOP_VARIABLE), counters=current)
    _print_iteration(op, inner, opening)
    for value in _kept_along(op):
        writer.line(f"mugraph::keep({printer.names.of(value)});")


def _kept_along(loop: sched.ForloopOp) -> list[SSAValue]:
    """The left matrices that are in registers before a loop, of products finished one by one.

    ptxas gives their registers to others, unless something behind the loop reads them.
    """
    inside = list(loop.body.walk())
    written = {sched.registers_of(value) for op in inside for value in written_by(op)}
    products = [op for op in inside if isinstance(op, sched.WarpgroupMmaOp) and not op.is_async]
    matrices = dict.fromkeys(op.lhs for op in products if op.lhs_in_registers)
    return [value for value in matrices if sched.registers_of(value) not in written]


def _declare_counters(op: sched.ForloopOp, printer: KernelPrinter, first: int) -> dict[int, str]:
    """Declares what counts the stages of rings along a loop, from its ``first`` iteration on."""
    siblings = op.parent.ops if op.parent is not None else (op,)
    number = [each for each in siblings if isinstance(each, sched.ForloopOp)].index(op)
    counters = {stages: printer.counter("stage", stages, number) for stages in rings_of([op])}
    for stages, name in counters.items():
        place = printer.stage(Iteration(first), stages)
        printer.writer.line(f"tb::Stage<{stages}> {name} = {place};")
    return counters


def _print_iteration(op: sched.ForloopOp, printer: KernelPrinter, opening: str) -> None:
    """Prints the body; of several iterations, each counts stages on where it begins to read.

    Otherwise the stages of all of them would be in registers.
    """
    writer = printer.writer
    writer.open(opening)
    for step in op.body.block.ops:
        counters = printer.counters
        ahead = _begins(step, op) - counters.past
        if counters.current and ahead > 0:
            writer.line(f"{', '.join(moved_on(counters.current.values(), ahead))};")
            moved = replace(counters, past=counters.past + ahead)
            printer = replace(printer, counters=moved)
        printer.print(step)
    writer.close()


def _begins(op: Operation, loop: sched.ForloopOp) -> int:
    """Which iteration of a body of several begins to read with an operator; 0 if none."""
    if not isinstance(op, sched.ConsumeOp) or op.ahead_of >= loop.step_of:
        return 0
    return op.ahead_of


@print_operation.register
def _(op: sched.CustomOp, printer: KernelPrinter) -> None:
    # What only tensor expressions need takes a while to load.
    from mugraph.codegen.cuda.custom import print_custom

    print_custom(op, printer)
