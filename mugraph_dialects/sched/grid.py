"""Kernels that overlap with the one before and the one behind: programmatic dependent launch."""

from __future__ import annotations

from xdsl.irdl import IRDLOperation

from mugraph.dialects.definition import irdl_op_definition


@irdl_op_definition
class GridWaitOp(IRDLOperation):
    """Waits until all kernels before this one in its stream are complete and their writes seen.

    Every thread that touches device memory waits, but for loads of tensors that are constant
    (``constant`` of the kernel), which may stand before.  In each block some thread waits, or the
    kernel could be complete, for the one behind it, before those it should have waited for.
    A kernel with a wait is launched while the kernel before it may still run.
    """

    name = "sched.grid_wait"
    assembly_format = "attr-dict"


@irdl_op_definition
class GridLaunchOp(IRDLOperation):
    """From here on the blocks of the next kernel in the stream may start, once all blocks are here.

    Only a kernel that waits for this one (``sched.grid_wait``) starts before this one ends, so it
    may stand anywhere.  What the next kernel loads before its wait overlaps with what follows.
    """

    name = "sched.grid_launch"
    assembly_format = "attr-dict"
