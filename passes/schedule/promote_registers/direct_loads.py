"""Numbers of rows and columns that go from device memory straight to registers.

What threads copy to shared memory only to load from there what they hold of a product, as scales
and a bias, they load where it is.
"""

from __future__ import annotations

from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter


def load_directly(kernel: sched.KernelOp) -> bool:
    """Lets fragments be loaded from tiles in device memory; whether there were any."""
    found = [op for op in kernel.body.walk() if isinstance(op, sched.LoadOp)]
    return sum(_load_directly(op) for op in found) > 0


def _load_directly(op: sched.LoadOp) -> bool:
    """Rewrites one load whose buffer nobody else reads; whether it was."""
    buffer = op.source.owner
    if op.loads_operand or not isinstance(buffer, sched.AllocOp):
        return False
    others: list[Operation] = [
        use.operation for use in buffer.result.uses if use.operation is not op
    ]
    if len(others) != 1 or not isinstance(copy := others[0], sched.CopyOp):
        return False
    tile = copy.source
    if not isinstance(tile.type, sched.GlobalType) or copy.checked_dims or copy.is_async:
        return False
    if copy.parent_op() is not op.parent_op():
        return False
    op.operands[0] = tile
    Rewriter.erase_op(copy)
    Rewriter.erase_op(buffer)
    return True


__all__ = ["load_directly"]
