"""Where the threads that compute wait for what channels bring."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block

from mugraph.dialects import sched
from mugraph.dialects.sched.structure import computing_block


def place_channel_steps(kernel: sched.KernelOp) -> None:
    """Lets the threads that compute wait for a stage right before they first read it.

    For what comes once before the loop, where the loop reads it.  Steps that stand there already
    are moved.
    """
    channels = [op for op in kernel.body.block.ops if isinstance(op, sched.ChannelOp)]
    for channel in channels:
        for step in channel.steps():
            if isinstance(step, sched.ConsumeOp):
                step.detach()
                step.erase()
    for channel in channels:
        _place_steps(channel, computing_block(kernel))


def _place_steps(channel: sched.ChannelOp, block: Block) -> None:
    moves = any(
        isinstance(use.operation, sched.BulkCopyOp) and use.operation.moves
        for use in channel.result.uses
    )
    for phase in _phases(block):
        ops = phase.body.block.ops
        first = next((op for op in ops if any(v in channel.buffers for v in op.operands)), None)
        if first is None:
            continue
        if moves:
            phase.body.block.insert_op_before(sched.ConsumeOp(channel.result), first)
            continue
        consume = sched.ConsumeOp(channel.result, iteration=0)
        if isinstance(phase, sched.ForloopOp):
            prologue = next(op for op in block.ops if isinstance(op, sched.PrologueOp))
            prologue.body.block.add_op(consume)
        else:
            phase.body.block.insert_op_before(consume, first)
        return


def _phases(block: Block) -> Iterator[sched.PhaseOp | sched.ForloopOp]:
    for op in block.ops:
        if isinstance(op, sched.PhaseOp | sched.ForloopOp):
            yield op
