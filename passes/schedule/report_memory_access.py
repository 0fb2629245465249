"""``--report-memory-access``: bank conflicts and coalescing of a schedule, access by access."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.printer import Printer

from mugraph.dialects import sched, te
from mugraph.dialects.locations import place_of
from mugraph.passes.memory.memory_access import AccessCost, memory_access_costs
from mugraph.passes.texpr.analysis.access_costs import TexprAccessCost, texpr_access_costs

_HEADER = ("operator", "buffer", "instruction", "count", "moved", "ideal", "excess", "runs")


def memory_access_table(kernel: sched.KernelOp, costs: Sequence[AccessCost]) -> str:
    """The costs as a table in fixed columns, one access a line, buffers named as printed."""
    printer = Printer(stream=StringIO())
    printer.print_op(kernel)  # gives every value the name it is printed with
    rows: list[tuple[str, ...]] = [_HEADER]
    blocks = kernel.grid_dim[0] * kernel.grid_dim[1] * kernel.grid_dim[2]
    for cost in costs:
        access = cost.access
        buffer = printer.print_ssa_value(access.value)
        what = (access.operation.name, f"%{buffer}", access.instruction)
        rows.append(_row(what, cost, cost.executions // blocks, shared=not access.in_device_memory))
    return _table(f"memory accesses of @{kernel.sym_name.data}, {blocks} blocks:", rows)


def texpr_access_table(kernel: te.KernelOp, costs: Iterable[TexprAccessCost]) -> str:
    """The costs of a mapped kernel as a table, each with its place in the source."""
    rows: list[tuple[str, ...]] = [(*_HEADER, "place")]
    for cost in costs:
        op, buffer = cost.access.op, cost.access.buffer
        what = (op.name, f"%{buffer.name_hint or 'buffer'}", cost.instruction)
        row = _row(what, cost, cost.executions, shared=cost.in_shared_memory)
        rows.append((*row, place_of(op) or ""))
    name, blocks = kernel.symbol.data, kernel.iterations
    return _table(f"memory accesses of '{name}', {blocks} blocks:", rows)


def _row(
    what: tuple[str, str, str], cost: AccessCost | TexprAccessCost, runs: int, *, shared: bool
) -> tuple[str, ...]:
    """What an access is, and what it costs."""
    unit = "wavefronts" if shared else "sectors"
    numbers = (cost.ideal, cost.excess, runs)
    return (*what, str(cost.instructions), f"{cost.transactions} {unit}", *map(str, numbers))


def _table(title: str, rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([title, *lines, ""])


@dataclass(frozen=True)
class ReportMemoryAccessPass(ModulePass):
    """Prints, to standard error, what every access to memory of a schedule costs.

    A line is one access of an operator: how many instructions a block executes with it (over its
    warps), the wavefronts of shared memory or sectors of device memory they move, the least that
    their bytes need, the excess, and how often a block runs the operator.  The IR stays as it is.

    Of a mapped tensor expression, or a kernel on CuTe tensors, a line has the place in the source
    too; an operator runs once a step, for all iterations of the loops in it.

    Pre-condition: ``--lower-threadblock``, or ``--te-promote``.  Before ``--plan-stensor-memory``
    buffers are taken to start at a multiple of 128 bytes.

    Example line::

        sched.mma  %sx  ldmatrix.x4  32  128 wavefronts  128  0  32
    """

    name = "report-memory-access"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Reports every kernel of the module, in order."""
        for kernel in op.walk():
            if isinstance(kernel, sched.KernelOp):
                sys.stderr.write(memory_access_table(kernel, memory_access_costs(kernel)))
            elif isinstance(kernel, te.KernelOp):
                sys.stderr.write(texpr_access_table(kernel, texpr_access_costs(kernel)))
