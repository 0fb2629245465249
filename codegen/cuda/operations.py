"""How every operator of a schedule is printed, and the phases and the loop around them.

A family of operators has a module that says how each is printed; importing this one registers all.
"""

from __future__ import annotations

from dataclasses import replace

from mugraph.codegen.cuda import elementwise, products, reductions
from mugraph.codegen.cuda.fragments import (
    atom_class,
    atom_of,
    fragment_class,
    fragment_type_of,
    matrix_type,
)
from mugraph.codegen.cuda.printer import KernelPrinter, offset_by, print_operation
from mugraph.codegen.cuda.transfers import scope_of
from mugraph.dialects import sched

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
    first = 1 if op.is_peeled and op.iterations > 1 else 0
    if first or op.trip_count == op.step_of:
        _print_iteration(op, replace(printer, iteration="0"), "{")
    if op.trip_count == op.step_of:
        return
    # Unrolling would multiply the code; the stages' indices are cheap to compute.
    writer.line("#pragma unroll 1")
    advance = "++it" if op.step_of == 1 else f"it += {op.step_of}"
    opening = f"for (int it = {first}; it < {printer.trip_count(op)}; {advance}) {{"
    _print_iteration(op, replace(printer, iteration="it"), opening)


def _print_iteration(op: sched.ForloopOp, printer: KernelPrinter, opening: str) -> None:
    writer = printer.writer
    writer.open(opening)
    for step in op.body.block.ops:
        printer.print(step)
    writer.close()


@print_operation.register
def _(op: sched.CustomOp, printer: KernelPrinter) -> None:
    # What only tensor expressions need takes a while to load.
    from mugraph.codegen.cuda.custom import print_custom

    print_custom(op, printer)
