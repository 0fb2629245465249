"""``--te-sync``: the fewest barriers that the dependences between threads need.

:mod:`.dependences` says between which parts of a program threads must meet, :mod:`.choice` at
which places; the pass puts barriers there.
"""

from __future__ import annotations

import sys

from xdsl.rewriter import InsertPoint

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.passes.each import TexprKernelPass
from mugraph.passes.texpr.analysis.sums import remark_of, unordered_sums
from mugraph.passes.texpr.te_sync.between_blocks import life_of_parts
from mugraph.passes.texpr.te_sync.choice import choose_barriers
from mugraph.passes.texpr.te_sync.dependences import dependences_of
from mugraph.passes.texpr.te_sync.leaves import leaves_of


def synchronise(kernel: te.KernelOp) -> None:
    """Puts barriers into a kernel."""
    holder = kernel.threads
    life = life_of_parts(kernel)
    leaves = [*life[:1], *leaves_of(holder), *life[1:]]
    chosen = choose_barriers(leaves, dependences_of(leaves, holder))
    for index, scope in chosen.items():
        Rewriter.insert_op(te.BarrierOp(scope), InsertPoint.before(leaves[index].place))
    for leaf in life:
        Rewriter.erase_op(leaf.op)


class TeSyncPass(TexprKernelPass):
    """Puts ``te.barrier`` between the steps of kernels, where threads exchange data.

    Two accesses of which one writes, to the same element of shared or device memory or to buffers
    that share bytes, in different threads of a block, need a barrier on the way from one to the
    other, also into later iterations of a loop and under conditions: of the warp where the threads
    are always of one warp, else of the block; in blocks of a cluster, one of the cluster; in
    blocks of a cooperative kernel, one of the grid.  isl
    decides which there are.  Of all places the ones are taken that the fewest barriers run at;
    ``te.all_reduce`` is a barrier of the block.  Between kernels nothing is needed.  A barrier of
    the cluster also comes before the first access to shared memory of another block, which must
    run, and behind the last one, where it must still run.  Pre-condition: ``--te-promote``.

    A remark on stderr names each sum of floating-point numbers that several threads add to in any
    order, with ``te.red`` or ``te.atomic`` in memory: it may differ from run to run.
    """

    name = "te-sync"

    def run(self, kernel: te.KernelOp) -> None:
        """Puts barriers into a kernel."""
        synchronise(kernel)
        for access in unordered_sums(kernel):
            print(remark_of(access), file=sys.stderr)
