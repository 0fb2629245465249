"""Threads of a block that do the same, where threads wait for each other through mbarriers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.ir import Operation

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

    Those of a role come to the same waits, and are of one warp group where there are products: one
    that multiplies stays together, and waits together where some of it do.
    """
    every = np.arange(threads.iterations)
    marks = [np.zeros(len(every), np.int64)]
    decided = [
        op
        for op in threads.walk()
        if isinstance(op, te.IfOp) and set(variables_of(list(op.indices))) == {threads.variable}
    ]

    def come(op: Operation) -> Rows:
        around = [one for one in decided if one.is_ancestor(op)]
        found = all_hold(around, {threads.variable: every})
        return np.broadcast_to(found, every.shape).astype(np.int64)

    products = [op for op in threads.walk() if isinstance(op, te.WarpgroupMmaOp)]
    multiply = np.zeros_like(every)
    if products:
        groups = every // GROUP_THREADS
        marks.append(groups)
        multiply = np.isin(groups, groups[np.max([come(op) for op in products], axis=0) > 0])
    for op in decided:
        if any(isinstance(one, WAITS) for one in op.walk()):
            # Threads that do not come to a condition do not differ by it.
            marks.append(np.where(multiply, 0, come(op)))
    _, roles = np.unique(np.stack(marks, axis=1), axis=0, return_inverse=True)
    roles = roles.reshape(-1)
    firsts = sorted(set(roles.tolist()), key=lambda one: int(np.argmax(roles == one)))
    yield from (every[roles == one] for one in firsts)
