"""Threads of a block that do the same, where threads wait for each other through mbarriers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mugraph.dialects import te
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.programming_model import GROUP_THREADS
from mugraph.dialects.te.points import Rows, all_hold
from mugraph.passes.texpr.analysis.evaluate import variables_of

WAITS = (te.MbarrierWaitOp, te.NamedBarrierOp)
"""What threads wait at for some others of the block."""


def takes_turns(threads: te.LoopOp) -> bool:
    """Whether threads of a block wait for each other, but for barriers of the whole block."""
    asynchronous = (te.MbarrierOp, te.BulkCopyOp, te.WarpgroupMmaOp, te.NamedBarrierOp)
    return any(
        isinstance(op, asynchronous)
        or (isinstance(op, te.BarrierOp) and enclosing(op, te.StepOp) is not None)
        for op in threads.walk()
    )


def roles_of(threads: te.LoopOp) -> Iterator[Rows]:
    """The threads of each role, in the order of the first ones.

    Those of a role come to the same waits, and are of one warp group where there are products.
    """
    every = np.arange(threads.iterations)
    marks = [np.zeros(len(every), np.int64)]
    if any(isinstance(op, te.WarpgroupMmaOp) for op in threads.walk()):
        marks.append(every // GROUP_THREADS)
    decided = [
        op
        for op in threads.walk()
        if isinstance(op, te.IfOp) and set(variables_of(list(op.indices))) == {threads.variable}
    ]
    for op in decided:
        if any(isinstance(one, WAITS) for one in op.walk()):
            # Threads that do not come to a condition do not differ by it.
            around = [one for one in decided if one.is_ancestor(op)]
            holds = all_hold(around, {threads.variable: every})
            marks.append(np.broadcast_to(holds, every.shape).astype(np.int64))
    _, roles = np.unique(np.stack(marks, axis=1), axis=0, return_inverse=True)
    roles = roles.reshape(-1)
    firsts = sorted(set(roles.tolist()), key=lambda one: int(np.argmax(roles == one)))
    yield from (every[roles == one] for one in firsts)
