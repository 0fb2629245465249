"""Small buffers that pass results between threads in each iteration get two stages.

An iteration then writes while some threads still read what the one before it left, so that no
barrier stands between the two.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i64

from mugraph.dialects import sched
from mugraph.dialects.sched.structure import runs_once
from mugraph.passes.schedule.promote_registers.uses import Use, uses_of

MOST_BYTES = 4096
"""What the second stages of a kernel take at most."""


def double_buffer(kernel: sched.KernelOp) -> None:
    """Gives a second stage to buffers that only a loop's iterations use, each for itself.

    The smallest first.
    """
    if runs_once(kernel):
        return
    uses = uses_of(kernel)
    buffers = sorted(
        (
            value.owner
            for value, users in uses.items()
            if isinstance(value.owner, sched.AllocOp) and _is_passed_on(value.owner, users)
        ),
        key=lambda buffer: buffer.stage_bytes(),
    )
    left = MOST_BYTES
    for buffer in buffers:
        left -= buffer.stage_bytes()
        if left < 0:
            break
        buffer.stages = IntegerAttr(2, i64)


def _is_passed_on(buffer: sched.AllocOp, uses: Sequence[Use]) -> bool:
    """Whether every iteration writes a buffer whole before it reads it, and nothing else does."""
    if buffer.stage_count > 1 or not uses or not isinstance(buffer.result.type, sched.SharedType):
        return False
    looped = all(sched.enclosing_loop(use.operation) is not None for use in uses)
    first, *others = uses
    steps = sched.MapOp | sched.ReduceOp | sched.StoreOp
    return (
        looped
        and first.writes
        and not first.reads
        and isinstance(first.operation, steps)
        and not any(use.writes for use in others)
    )
