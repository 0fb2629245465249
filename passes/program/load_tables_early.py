"""``--load-tables-early``: kernels load a table before they wait for what writes a row of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i64
from xdsl.ir import BlockArgument, SSAValue
from xdsl.passes import ModulePass

from mugraph.dialects import kn, sched
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.kn.workspace import memory_root
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.programs import is_task
from mugraph.dialects.tensor_types import (
    bytes_of,
    element_type_of,
    resolved_layout_of,
    shape_of,
    strides_of,
)
from mugraph.passes.program.plan_dtensor_memory import plan_anew
from mugraph.passes.schedule.tile_values import tiles_by_registers

EARLY_BYTES = 48 * 1024
"""A block loads so much of tables early at least.

The row comes behind the number that says which one it is: a load more that threads wait for.  On an
H200 a step of Qwen3-1.7B, whose blocks load 72 KB of keys and values, takes 2 % less, one of
Llama-3.2-1B, with 36 KB, 0.3 % more, and two layers of Qwen3-8B, with 24 KB, as long
(``benchmarks/results/decode_layers_h200.md``).
"""


@dataclass(frozen=True)
class Table:
    """An input of a kernel of which another kernel writes one row, in all of its launches."""

    input: int
    dim: int
    """The dimension of the rows."""
    numbers: Sequence[SSAValue]
    """What has the row's number, of each launch."""


@dataclass(frozen=True)
class Load:
    """A copy of a tile of a table, which the kernel has asked for before it waits."""

    request: sched.PrefetchOp
    copy: sched.CopyOp
    table: Table


def table_of(
    kernel: sched.KernelOp, index: int, launches: Sequence[sched.LaunchOp]
) -> Table | None:
    """Analysis: which row of an input is written late; ``None`` where more may be."""
    scatters = [memory_root(launch.arguments[index]).owner for launch in launches]
    rows = {each.placed_rows() if isinstance(each, kn.ScatterOp) else None for each in scatters}
    if len(rows) != 1 or (placed := rows.pop()) is None:
        return None
    parameter = kernel.body.block.args[index]
    pairs = zip(shape_of(parameter.type), strides_of(resolved_layout_of(parameter)), strict=True)
    dims = [n for n, pair in enumerate(pairs) if pair == (placed.rows, placed.row_stride)]
    if len(dims) != 1:
        return None
    numbers = [each.rows for each in scatters if isinstance(each, kn.ScatterOp)]
    alike = all(
        launch.arriving_fault(index, number, dims[0]) is None
        for launch, number in zip(launches, numbers, strict=True)
    )
    return Table(index, dims[0], numbers) if alike else None


def loads_of(kernel: sched.KernelOp, launches: Sequence[sched.LaunchOp], least: int) -> list[Load]:
    """Choice: the loads that stand in front of the wait of a kernel's prologue, of ``least`` bytes.

    All that it asks for there; none where one of them could not, or where an output is placed.
    """
    found: list[Load] = []
    for request in [op for op in kernel.body.walk() if isinstance(op, sched.PrefetchOp)]:
        tile = request.tile.owner
        source = tile.source if isinstance(tile, sched.LocalTileOp) else None
        copies = [use.operation for use in request.tile.uses if use.operation is not request]
        copy = copies[0] if len(copies) == 1 else None
        if not isinstance(source, BlockArgument) or not isinstance(copy, sched.CopyOp):
            return []
        table = table_of(kernel, source.index, launches)
        if table is None or copy.parent is not request.parent or kernel.placed_rows:
            return []
        before = list(copy.parent.ops)[: list(copy.parent.ops).index(copy)] if copy.parent else []
        if not copy.is_async or copy.run_of_row(table.dim) is None:
            return []
        if any(isinstance(op, sched.BarrierOp) for op in before):
            return []  # the buffer may have another use in front of it
        found.append(Load(request, copy, table))
    waits = [op for op in kernel.body.walk() if isinstance(op, sched.GridWaitOp)]
    enough = sum(bytes_of(load.copy.source.type) for load in found) >= least
    return found if enough and len(waits) == 1 else []


def add_number(
    kernel: sched.KernelOp, launches: Sequence[sched.LaunchOp], table: Table
) -> sched.ArrivingRow:
    """Rewrite: gives a kernel the number of the row as an input, and its launches."""
    place = kernel.input_count
    number = table.numbers[0]
    element, layout = element_type_of(number.type), LayoutAttr(resolved_layout_of(number))
    type_ = sched.GlobalType.of(shape_of(number.type), element, layout)
    kernel.body.block.insert_arg(type_, place)
    kernel.inputs = IntegerAttr(place + 1, i64)
    for launch, number in zip(launches, table.numbers, strict=True):
        launch.operands = [*launch.operands, number]
    return sched.ArrivingRow(place, table.dim)


def load_early(
    kernel: sched.KernelOp, launches: Sequence[sched.LaunchOp], loads: Sequence[Load]
) -> None:
    """Rewrite: copies of whole tiles in front of the wait, behind it those of rows."""
    (wait,) = (op for op in kernel.body.walk() if isinstance(op, sched.GridWaitOp))
    block = wait.parent
    assert block is not None
    for table in {load.table.input: load.table for load in loads}.values():
        kernel.expect_row(table.input, add_number(kernel, launches, table))
    for load in loads:
        early = load.copy.clone()
        early.early = UnitAttr()
        load.copy.arriving = UnitAttr()
        block.insert_op_before(early, wait)
        Rewriter.erase_op(load.request)
    block.insert_op_before(sched.CommitOp(), wait)
    block.insert_op_after(sched.WaitOp(0), wait)


@dataclass(frozen=True)
class LoadTablesEarlyPass(ModulePass):
    """Lets kernels load a table before they wait for the kernel that writes one row of it.

    Attention of a decode step reads a cache into which the kernel before it stores one row.  Its
    threads load whole tiles before they wait, with what lies in place of that row by then, and the
    row once they have waited (``sched.copy ... arriving``).  Only tiles that the kernel has asked
    for (``--prefetch-tables``), in blocks that load ``least`` bytes of them, of tables that are
    results of the function: in the workspace others may lie there before.  The first kernel of such
    a function starts when all that was launched before is complete, so that what others wrote
    to the table is there.  The workspace is planned anew.
    Pre-condition: ``--wait-apart``, ``--store-rows``.

    Before: ``sched.prefetch %tile``, ``sched.grid_wait``, ``sched.copy async %tile to %buffer``

    After: ``sched.copy async %tile to %buffer early``, ``sched.commit``, ``sched.grid_wait``,
    ``sched.wait pending 0``, ``sched.copy async %tile to %buffer arriving``
    """

    name = "load-tables-early"

    least: int = EARLY_BYTES

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites the kernels of the module."""
        if any(map(is_task, op.walk())):
            return
        changed: list[sched.LaunchOp] = []
        for kernel, launches in sched.launches_by_kernel(op).items():
            loads = loads_of(kernel, launches, self.least)
            if loads:
                with tiles_by_registers(kernel):
                    load_early(kernel, launches, loads)
                changed += launches
        # Numbers of rows are needed for longer.
        plan_anew(changed)
