"""What is complete in device memory when a kernel starts that overlaps with the one before it."""

from __future__ import annotations

from xdsl.ir import Operation

from mugraph.dialects.sched.grid import GridLaunchOp, GridWaitOp
from mugraph.dialects.sched.kernel import KernelOp
from mugraph.dialects.sched.structure import PhaseOp


def launches_behind_wait(kernel: KernelOp) -> bool:
    """Whether the kernels before it are complete when a block of the next kernel may start.

    In each block some thread waits for them before it, or the end of the block, lets that kernel
    start.  A kernel of which a call may launch no block does not count.
    """
    launches = [op for op in kernel.body.walk() if isinstance(op, GridLaunchOp)]
    runs = kernel.waits_for_grids() and not kernel.cuts and not kernel.held_lengths
    return runs and all(map(follows_wait, launches))


def follows_wait(op: Operation) -> bool:
    """Whether the threads that run an operator of a kernel have waited for the kernels before.

    A wait stands in front of it, by itself or in a prologue, where the same threads run.
    """
    before, parent = op.prev_op, op.parent_op()
    while before is not None:
        steps = before.body.block.ops if isinstance(before, PhaseOp) else (before,)
        if any(isinstance(step, GridWaitOp) for step in steps):
            return True
        before = before.prev_op
    return parent is not None and not isinstance(parent, KernelOp) and follows_wait(parent)
