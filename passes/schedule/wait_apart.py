"""``--wait-apart``: threads wait for tiles of a loop of one iteration where they read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter
from mugraph.passes.each import KernelPass
from mugraph.passes.schedule.tile_values import tiles_by_registers


@dataclass(frozen=True)
class Arrivals:
    """Tiles that one group brings before a loop of one iteration, behind a wait for kernels."""

    asked: Sequence[sched.CopyOp]
    """The copies of tiles that the kernel has asked for before it waits."""
    others: Sequence[sched.CopyOp]
    commit: sched.CommitOp
    wait: sched.WaitOp


def arrivals_of(kernel: sched.KernelOp) -> Arrivals | None:
    """Analysis: those of a kernel without roles that has such a loop, and no other group."""
    phases = list(kernel.body.block.ops)
    prologue = next((op for op in phases if isinstance(op, sched.PrologueOp)), None)
    loop = next((op for op in phases if isinstance(op, sched.ForloopOp)), None)
    if prologue is None or loop is None or loop.trip_count != 1:
        return None
    before, inside = list(prologue.body.block.ops), list(loop.body.block.ops)
    commits = [op for op in (*before, *inside) if isinstance(op, sched.CommitOp)]
    waits = [op for op in (*before, *inside) if isinstance(op, sched.WaitOp)]
    copies = [op for op in before if isinstance(op, sched.CopyOp) and op.is_async]
    late = next((at for at, op in enumerate(before) if isinstance(op, sched.GridWaitOp)), None)
    if len(commits) != 1 or len(waits) != 1 or late is None or waits[0] is not inside[0]:
        return None
    tiles = {op.tile for op in before[:late] if isinstance(op, sched.PrefetchOp)}
    asked = [copy for copy in copies if copy.source in tiles and copy not in before[:late]]
    if not asked or commits[0] not in before:
        return None
    return Arrivals(asked, [copy for copy in copies if copy not in asked], commits[0], waits[0])


def places_of(arrivals: Arrivals) -> Mapping[sched.CopyOp, Operation] | None:
    """Analysis: the last barrier in front of the first operator that touches each tile asked for.

    ``None`` where one is not read in the loop, or none stands there.
    """
    loop = arrivals.wait.parent
    assert loop is not None
    ops = list(loop.ops)
    places: dict[sched.CopyOp, Operation] = {}
    for copy in arrivals.asked:
        uses = [loop.find_ancestor_op_in_block(use.operation) for use in copy.destination.uses]
        read = min((ops.index(op) for op in uses if op is not None), default=0)
        barriers = [op for op in ops[:read] if isinstance(op, sched.BarrierOp)]
        if not barriers:
            return None
        places[copy] = barriers[-1]
    return places


def wait_apart(arrivals: Arrivals, places: Mapping[sched.CopyOp, Operation]) -> None:
    """Rewrite: copies of each place are a group, in order, and threads wait for it there.

    All others are the first group, which is waited for as before.  The groups stand behind all
    other copies: a query that threads load to registers would queue behind keys and values.
    """
    block, loop = arrivals.commit.parent, arrivals.wait.parent
    assert block is not None and loop is not None
    ordered = [op for op in loop.ops if op in places.values()]
    first = arrivals.commit if arrivals.others else arrivals.asked[-1]
    copies = [op for op in block.ops if op is first or isinstance(op, sched.CopyOp)]
    last = copies[-1]
    for number, barrier in enumerate(ordered):
        for copy in [copy for copy in arrivals.asked if places[copy] is barrier]:
            if copy is not last:
                copy.detach()
                block.insert_op_after(copy, last)
                last = copy
        commit = sched.CommitOp()
        block.insert_op_after(commit, last)
        last = commit
        loop.insert_op_before(sched.WaitOp(len(ordered) - 1 - number), barrier)
    if arrivals.others:
        loop.insert_op_before(sched.WaitOp(len(ordered)), arrivals.wait)
    else:
        Rewriter.erase_op(arrivals.commit)
    Rewriter.erase_op(arrivals.wait)


class WaitApartPass(KernelPass):
    """Lets threads wait for tiles of a loop of one iteration where they first read them.

    Attention of a decode step whose keys and values all come before its loop first normalises and
    rotates its query, then multiplies it by keys, and what becomes of that by values.  Tiles that a
    kernel asks for before it waits for others (``--prefetch-tables``) are groups of ``cp.async`` of
    their own here, in the order in which they are read, and ``sched.wait`` stands in front of the
    last barrier before that.  What it loads else comes first.  Only kernels whose loop has one
    iteration.  Pre-condition: ``--prefetch-tables``.

    Before: ``copy async %k``, ``copy async %v``, ``commit``; ``wait pending 0``, ``barrier``,
    ``mma %q, %k``, ``barrier``, ``mma %p, %v``

    After: ``copy async %k``, ``commit``, ``copy async %v``, ``commit``; ``wait pending 1``,
    ``barrier``, ``mma %q, %k``, ``wait pending 0``, ``barrier``, ``mma %p, %v``
    """

    name = "wait-apart"

    def run(self, kernel: sched.KernelOp) -> None:
        """Rewrites a kernel."""
        arrivals = arrivals_of(kernel)
        places = None if arrivals is None else places_of(arrivals)
        if arrivals and places and (arrivals.others or len({*places.values()}) > 1):
            with tiles_by_registers(kernel):
                wait_apart(arrivals, places)
