"""Where the threads that compute wait for what channels bring."""

from __future__ import annotations

from collections.abc import Sequence

from mugraph.dialects import sched
from mugraph.dialects.sched.structure import computing_block


def place_channel_steps(kernel: sched.KernelOp) -> None:
    """Lets the threads that compute wait for each stage right before they first read it.

    For what comes once before the loop, where the loop reads it.
    """
    phases = [
        op for op in computing_block(kernel).ops if isinstance(op, sched.PhaseOp | sched.ForloopOp)
    ]
    for op in kernel.body.block.ops:
        if isinstance(op, sched.ChannelOp):
            _place_steps(op, phases)


def _place_steps(
    channel: sched.ChannelOp, phases: Sequence[sched.PhaseOp | sched.ForloopOp]
) -> None:
    moves = any(
        isinstance(use.operation, sched.BulkCopyOp) and use.operation.moves
        for use in channel.result.uses
    )
    for phase in phases:
        ops = phase.body.block.ops
        first = next((op for op in ops if any(v in channel.buffers for v in op.operands)), None)
        if first is None:
            continue
        if moves:
            phase.body.block.insert_op_before(sched.ConsumeOp(channel.result), first)
            continue
        consume = sched.ConsumeOp(channel.result, iteration=0)
        if isinstance(phase, sched.ForloopOp):
            prologue = next(op for op in phases if isinstance(op, sched.PrologueOp))
            prologue.body.block.add_op(consume)
        else:
            phase.body.block.insert_op_before(consume, first)
        return
