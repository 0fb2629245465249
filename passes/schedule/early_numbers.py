"""Numbers of rows and columns that an epilogue alone needs, such as a bias, loaded before the loop.

Threads load them from device memory to registers.  In the epilogue they would wait for that, once
for each work tile; before the loop they come beside its first tiles.
"""

from __future__ import annotations

from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.structure import computing_block, loop_and_epilogue
from mugraph.dialects.sched.tile_values import end_of


def find_late_numbers(kernel: sched.KernelOp) -> list[sched.LoadOp]:
    """The loads of such numbers in an epilogue, where warp groups multiply what memory holds.

    Their products need no registers but those of their sums, beside which the epilogue has room for
    the numbers.
    """
    phases = loop_and_epilogue(computing_block(kernel))
    if phases is None:
        return []
    loop, epilogue = phases
    products = sched.warpgroup_products(loop)
    if not products or any(op.lhs_in_registers for op in products):
        return []
    return [
        op
        for op in epilogue.body.block.ops
        if isinstance(op, sched.LoadOp)
        and isinstance(op.source.type, sched.GlobalType)
        and not op.loads_matrix
    ]


def load_before_loop(kernel: sched.KernelOp) -> None:
    """Rewrite: late numbers are loaded at the end of the prologue.

    Operators name tiles by their registers.
    """
    block = computing_block(kernel)
    before = next((op for op in block.ops if isinstance(op, sched.PrologueOp)), None)
    if before is None:
        return
    for load in find_late_numbers(kernel):
        made = load.destination.owner
        if isinstance(made, sched.EmptyOp):
            made.detach()
            Rewriter.insert_op(made, InsertPoint.before(before))
            load.detach()
            Rewriter.insert_op(load, end_of(before.body.block))
