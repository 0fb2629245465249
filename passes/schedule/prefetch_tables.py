"""``--prefetch-tables``: kernels ask for a table before they wait for what writes a row of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, SSAValue

from mugraph.dialects import kn, sched
from mugraph.dialects.alignment import alignment_of
from mugraph.dialects.kn.workspace import memory_root
from mugraph.dialects.programming_model import VECTOR_BYTES
from mugraph.passes.each import TargetPass


def is_table(value: SSAValue) -> bool:
    """Analysis: whether a tensor lies in a table of which the program writes some rows in place.

    One that begins at whole vectors, as requests do.
    """
    scatter = memory_root(value).owner
    if not isinstance(scatter, kn.ScatterOp) or scatter.table_to_write() is None:
        return False
    return alignment_of(value) % VECTOR_BYTES == 0


def table_inputs(kernel: sched.KernelOp, launches: Sequence[sched.LaunchOp]) -> set[int]:
    """Analysis: the inputs of a kernel that lie in such tables in all of its launches."""
    return {
        index
        for index in range(kernel.input_count)
        if launches and all(is_table(launch.arguments[index]) for launch in launches)
    }


@dataclass(frozen=True)
class Waiting:
    """Loads of tables behind a wait for other kernels, in a prologue."""

    wait: sched.GridWaitOp
    loads: Sequence[sched.CopyOp]


def waiting_loads(kernel: sched.KernelOp, tables: set[int]) -> Iterator[Waiting]:
    """Choice: the loads of tables that a kernel's threads ask for before they wait.

    Of tiles that all come before the loop.  Where the loop goes on loading, the memory has enough
    to do, and requests for more are in the way of weights: attention of 8 rows, in 5 iterations,
    gained nothing.
    """
    for phase in kernel.body.block.ops:
        if not isinstance(phase, sched.PrologueOp):
            continue
        ops = list(phase.body.block.ops)
        for place, op in enumerate(ops):
            if isinstance(op, sched.GridWaitOp):
                copies = [each for each in ops[place:] if isinstance(each, sched.CopyOp)]
                yield Waiting(op, [each for each in copies if loads_table(each, tables)])


def loads_table(op: sched.CopyOp, tables: set[int]) -> bool:
    """Analysis: whether a copy loads a tile of a table that comes before the loop as a whole."""
    tile = op.source.owner
    if not op.is_async or not isinstance(tile, sched.LocalTileOp):
        return False
    if not isinstance(tile.source, BlockArgument) or tile.source.index not in tables:
        return False
    early = all(use.operation.parent_op() is op.parent_op() for use in tile.result.uses)
    return early and sched.run_of(tile) is not None


def ask_before_wait(waiting: Waiting) -> None:
    """Rewrite: requests for the tiles that are loaded, in front of the wait."""
    block = waiting.wait.parent
    assert block is not None
    for load in waiting.loads:
        block.insert_op_before(sched.PrefetchOp(load.source, load.fixed_iteration), waiting.wait)


class PrefetchTablesPass(TargetPass):
    """Lets kernels ask for the tiles of a table before they wait for those that write rows of it.

    Attention of a decode step reads a cache into which the kernel before it stores one row.  It
    must wait for that row, but all others are where they were: it asks for its tiles in the
    second-level cache while it waits (``sched.prefetch``), and then loads them from there, not
    behind the weights of the kernels after it, which are on their way by then.  Only tiles that
    come before the loop, by ``cp.async``, and whose elements lie side by side.  Nothing changes for
    targets without programmatic launches.  Pre-condition: ``--programmatic-launch``.

    Before: ``sched.grid_wait``, ``sched.copy async %tile to %buffer``

    After: ``sched.prefetch %tile``, ``sched.grid_wait``, ``sched.copy async %tile to %buffer``
    """

    name = "prefetch-tables"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites the kernels of the module."""
        if not self.target.has_programmatic_launch:
            return
        launches = sched.launches_by_kernel(op)
        for kernel in op.body.block.ops:
            if isinstance(kernel, sched.KernelOp):
                for waiting in list(waiting_loads(kernel, table_inputs(kernel, launches[kernel]))):
                    ask_before_wait(waiting)
