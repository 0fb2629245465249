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
        print_operation(inner, printer)


@print_operation.register
def _(op: sched.PrologueOp, printer: KernelPrinter) -> None:
    print_phase(op, printer)


@print_operation.register
def _(op: sched.EpilogueOp, printer: KernelPrinter) -> None:
    print_phase(op, printer)


@print_operation.register
def _(op: sched.ForloopOp, printer: KernelPrinter) -> None:
    writer = printer.writer
    writer.line()
    writer.line(f"// {op.name}")
    if op.iterations == 1:
        writer.open("{")
        inner = replace(printer, iteration="0")
    else:
        # Unrolling would multiply the code; the stages' indices are cheap to compute.
        writer.line("#pragma unroll 1")
        writer.open(f"for (int it = 0; it < {op.iterations}; ++it) {{")
        inner = replace(printer, iteration="it")
    for step in op.body.block.ops:
        print_operation(step, inner)
    writer.close()
