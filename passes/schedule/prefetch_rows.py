"""``--prefetch-rows``: threads that wait for rows which start anywhere ask for later ones first."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr, i64

from mugraph.dialects import sched
from mugraph.passes.each import TargetPass, UnplannedKernelPass

ITERATIONS = 2
"""How many iterations before a tile is loaded threads ask for it."""


def waiting_loads(kernel: sched.KernelOp) -> Iterator[sched.CopyOp]:
    """Choice: loads in loops of several iterations whose threads wait for what they load.

    What all blocks load is in the cache already.  Where numbers say how many iterations a block
    has they ask for nothing.
    """
    for op in kernel.body.walk():
        if isinstance(op, sched.CopyOp) and op.may_prefetch and _is_of_a_block(op):
            loop = sched.enclosing_loop(op)
            if loop is not None and isinstance(loop.trip_count, int) and loop.trip_count > 1:
                yield op


def _is_of_a_block(load: sched.CopyOp) -> bool:
    tile = load.source.owner
    return isinstance(tile, sched.LocalTileOp) and any(tile.block_strides())


class PrefetchRowsPass(TargetPass, UnplannedKernelPass):
    """Lets threads ask for tiles that they load later, where they wait for what they load.

    Rows that do not start at multiples of 16 bytes are shifted in registers, so that ``cp.async``
    cannot bring them: threads wait for each tile.  They ask for the tile of a later iteration
    (``sched.copy ... prefetch 2``), and find it in the second-level cache then.  Nothing changes
    for targets without bulk copies.  Pre-condition: ``--pipeline-loads``.

    Before: ``sched.copy %w_tile to %w by <128, vector 8, order [1, 0]>``

    After: ``sched.copy %w_tile to %w by <128, vector 8, order [1, 0]> prefetch 2``
    """

    name = "prefetch-rows"

    def run(self, kernel: sched.KernelOp) -> None:
        """Marks the loads of a kernel."""
        if self.target.bulk_bytes_in_flight is None:
            return
        for load in list(waiting_loads(kernel)):
            load.prefetch = IntegerAttr(ITERATIONS, i64)
