"""The steps of the threads that compute at the channels which bring their tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.sched.structure import computing_block


def _reads(op: Operation, buffers: Sequence[SSAValue]) -> bool:
    return any(operand in buffers for operand in op.operands)


def place_channel_steps(kernel: sched.KernelOp) -> None:
    """Puts the consumers' steps of every channel where they belong in the text.

    They wait for a stage right before the first operator that reads it, and then release the one
    before: what their loads brought from there has been used by now.  Where only products of warp
    groups read a stage it is released behind them.  What comes once is waited for before the loop
    where the loop reads it.  Steps that stand there already are moved.
    """
    channels = [op for op in kernel.body.block.ops if isinstance(op, sched.ChannelOp)]
    for channel in channels:
        for step in channel.steps():
            if isinstance(step, sched.ConsumeOp | sched.ReleaseOp):
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
        readers = [op for op in phase.body.block.ops if _reads(op, channel.buffers)]
        if not readers:
            continue
        first, last = readers[0], readers[-1]
        if moves:
            steps: list[Operation] = [sched.ConsumeOp(channel.result)]
            if isinstance(phase, sched.ForloopOp):
                behind = _release(channel, readers)
                if behind is None:
                    steps.append(sched.ReleaseOp(channel.result, -1))
                else:
                    phase.body.block.insert_ops_after(behind, last)
            phase.body.block.insert_ops_before(steps, first)
            continue
        consume = sched.ConsumeOp(channel.result, iteration=0)
        if isinstance(phase, sched.ForloopOp):
            prologue = next(op for op in block.ops if isinstance(op, sched.PrologueOp))
            prologue.body.block.add_op(consume)
        else:
            phase.body.block.insert_op_before(consume, first)
        return


def _release(channel: sched.ChannelOp, readers: Sequence[Operation]) -> list[Operation] | None:
    """What releases a stage behind its last reader; ``None`` where the next iteration does.

    Products of warp groups have read their operands when they are finished.  A load that is only
    issued may still read when the next bulk copy writes, as the two take different ways to memory,
    so a ring of one stage has a fence before the release.
    """
    if all(isinstance(op, sched.WarpgroupMmaOp) for op in readers):
        return [sched.ReleaseOp(channel.result)]
    if channel.stage_count == 1:
        return [sched.ProxyFenceOp(), sched.ReleaseOp(channel.result)]
    return None


def _phases(block: Block) -> Iterator[sched.PhaseOp | sched.ForloopOp]:
    for op in block.ops:
        if isinstance(op, sched.PhaseOp | sched.ForloopOp):
            yield op
