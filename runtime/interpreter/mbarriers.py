"""Channels and order barriers, and the words in memory that mbarriers are.

At the level of addresses the 8 bytes of an mbarrier in shared memory hold a picture of its state,
so that it destroys what overlaps it, and what overlaps it is found.  Where buffers are logical
values an mbarrier has a state alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.sched.mbarriers import BARRIER_BYTES, KeepsMbarriers
from mugraph.dialects.tensor_types import value_label
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.memory import SharedMemory
from mugraph.runtime.interpreter.phases import PhaseBarrier

_MARK = 0x5EED << 48
_WORD = np.dtype(np.uint64)


@dataclass(eq=False)
class Mbarrier(PhaseBarrier):
    """One mbarrier of every block that runs, at byte ``offset`` of shared memory."""

    memory: SharedMemory = field(kw_only=True)
    offset: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.store()

    @property
    def _words(self) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
        return self.memory.bytes.view(_WORD)[:, self.offset // BARRIER_BYTES]

    def _picture(self) -> int:
        state = (self.completed & 0xFFFF) << 32 | (self.pending & 0xFF) << 24
        return _MARK | state | (self.bytes & 0xFFFFFF)

    def store(self) -> None:
        """Writes the picture of the state to shared memory."""
        self._words[...] = self._picture()

    def check(self) -> None:
        """Raises ``ExecutionError`` where something else has been written to the word."""
        if (self._words != self._picture()).any():
            raise ExecutionError(
                f"the {self.label}, at byte {self.offset} of shared memory, was overwritten"
            )


SetUp = Callable[[str, int, int], PhaseBarrier]
"""Sets up an mbarrier: how messages name it, the arrivals of each phase, and which of an operator's
it is."""


def by_values(label: str, count: int, number: int) -> PhaseBarrier:
    """An mbarrier that lies nowhere."""
    return PhaseBarrier(label, count)


def in_memory(op: KeepsMbarriers, result: SSAValue, memory: SharedMemory) -> SetUp:
    """Mbarriers at the planned places of an operator's; raises ``ExecutionError`` without."""
    first = op.byte_offset
    if first is None:
        raise ExecutionError(
            f"{value_label(result)} has no offset in shared memory; run --plan-stensor-memory first"
        )

    def set_up(label: str, count: int, number: int) -> PhaseBarrier:
        return Mbarrier(label, count, memory=memory, offset=first + BARRIER_BYTES * number)

    return set_up


@dataclass(eq=False)
class Channel:
    """The mbarriers of a channel; ``payload`` are the bytes that each stage waits for."""

    full: Sequence[PhaseBarrier]
    empty: Sequence[PhaseBarrier]
    payload: int

    @classmethod
    def of(cls, op: sched.ChannelOp, set_up: SetUp, payload: int = 0) -> Channel:
        """The mbarriers, set up."""
        stages = op.stage_count
        counts = {"full": 1, "empty": op.releasing_warps()}
        full, empty = (
            [
                set_up(
                    f"{name} mbarrier of stage {stage} of {value_label(op.result)}",
                    count,
                    first + stage,
                )
                for stage in range(stages)
            ]
            for first, (name, count) in zip((0, stages), counts.items(), strict=True)
        )
        return cls(full, empty, payload)

    def run(self, op: sched.ChannelStepOp, iteration: int, warps: int) -> bool:
        """A step for an iteration, by so many warps; false where it must wait."""
        stages = len(self.full)
        stage, phase = iteration % stages, iteration // stages
        match op:
            case sched.AcquireOp():
                return not phase or self.empty[stage].passes(phase - 1)
            case sched.ConsumeOp():
                return self.full[stage].passes(phase)
            case sched.PublishOp():
                self.full[stage].arrive(1, self.payload)
            case _:
                self.empty[stage].arrive(warps)
        return True

    def full_of(self, iteration: int) -> PhaseBarrier:
        """The mbarrier that counts the bytes of an iteration's copies."""
        return self.full[iteration % len(self.full)]


@dataclass(eq=False)
class OrderBarrier:
    """The mbarriers of an order barrier, one a role."""

    mbarriers: Sequence[PhaseBarrier]

    @classmethod
    def of(cls, op: sched.OrderBarrierOp, set_up: SetUp) -> OrderBarrier:
        """The mbarriers, set up."""
        label, count = value_label(op.result), op.arriving_warps()
        return cls(
            [
                set_up(f"mbarrier of role {role} of {label}", count, role)
                for role in range(op.barrier_count())
            ]
        )

    def run(self, op: sched.OrderStepOp, position: int, warps: int) -> bool:
        """A step of the role of a block, by so many warps; false where it must wait."""
        roles = len(self.mbarriers)
        if isinstance(op, sched.OrderArriveOp):
            self.mbarriers[(position + 1) % roles].arrive(warps)
            return True
        return not position or self.mbarriers[position % roles].passes((position - 1) // roles)
