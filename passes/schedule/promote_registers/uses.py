"""Analysis: who reads and writes each buffer and fragment of a kernel, in the order of the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.interfaces import HasBufferEffects


@dataclass(frozen=True)
class Use:
    """An operator that reads or writes a value."""

    operation: Operation
    reads: bool
    writes: bool


Uses = Mapping[SSAValue, Sequence[Use]]


def uses_of(kernel: sched.KernelOp) -> Uses:
    """Every use of every buffer and fragment; also of those that nobody says how they are used."""
    uses: dict[SSAValue, list[Use]] = {}
    for op in kernel.body.walk():
        if isinstance(op, sched.AllocOp | sched.EmptyOp):
            uses.setdefault(op.results[0], [])
            continue
        effects = isinstance(op, HasBufferEffects)
        read = op.buffers_read() if effects else op.operands
        written = op.buffers_written() if effects else ()
        for value in dict.fromkeys((*op.operands, *read, *written)):
            if isinstance(value.owner, sched.AllocOp | sched.EmptyOp):
                use = Use(op, value in read, value in written)
                uses.setdefault(value, []).append(use)
    return uses
