"""The operators of a block's program that are followed one by one."""

from __future__ import annotations

from mugraph.dialects import te

BY_PHASES = (te.BulkCopyOp, te.WarpgroupMmaOp, te.MbarrierOp)
"""What each iteration of a loop does in a phase of its own."""
FOLLOWED = (
    *BY_PHASES,
    te.MbarrierFenceOp,
    te.NamedBarrierOp,
    te.BarrierOp,
    te.AllReduceOp,
    te.CommitOp,
    te.WaitOp,
    te.ProxyFenceOp,
    te.BulkCommitOp,
    te.BulkWaitOp,
    te.WarpgroupFenceOp,
    te.WarpgroupCommitOp,
    te.WarpgroupWaitOp,
)
"""What is followed one by one; loops and conditions without it touch all at once."""
