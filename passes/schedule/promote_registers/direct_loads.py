"""Numbers of rows and columns that go from device memory straight to registers.

What threads copy to shared memory only to load from there what they hold of a product, as scales
and a bias, they load where it is.
"""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.copies import ASYNC_BYTES
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import element_bytes_of


def load_directly(kernel: sched.KernelOp) -> bool:
    """Lets fragments be loaded from tiles in device memory; whether there were any."""
    found = [op for op in kernel.body.walk() if isinstance(op, sched.LoadOp)]
    return sum(_load_directly(op, kernel) for op in found) > 0


def _load_directly(op: sched.LoadOp, kernel: sched.KernelOp) -> bool:
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
    if not isinstance(tile.type, sched.GlobalType) or copy.is_async:
        return False
    if copy.checked_dims and op.parts > 1:
        return False
    if copy.parent_op() is not op.parent_op():
        return False
    in_loop = isinstance(op.parent_op(), sched.ForloopOp)
    size = copy.partition.data.vector * element_bytes_of(tile.type)
    if in_loop and size in ASYNC_BYTES and not sched.roles_of(kernel):
        return False  # cp.async has it there by the time that it is needed
    op.operands[0] = tile
    if in_loop:
        _move_to_start(op)
    Rewriter.erase_op(copy)
    Rewriter.erase_op(buffer)
    return True


def _move_to_start(op: sched.LoadOp) -> None:
    """Lets an iteration begin with a load, which takes long, and with the registers for it."""
    made = op.destination.owner
    block = op.parent
    if block is not None and isinstance(made, sched.EmptyOp) and made.parent is block:
        for each in (op, made):
            each.detach()
            Rewriter.insert_op(each, InsertPoint.at_start(block))
