"""Channels and order barriers at the level of addresses: mbarriers as words, and copies that land.

The 8 bytes of an mbarrier in shared memory hold a picture of its state, so that it destroys what
overlaps it, and what overlaps it is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.sched.channel import channel_of
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


@dataclass(eq=False)
class AddressChannel:
    """The mbarriers of a channel."""

    full: Sequence[Mbarrier]
    empty: Sequence[Mbarrier]

    @classmethod
    def of(cls, op: sched.ChannelOp, memory: SharedMemory) -> AddressChannel:
        """The mbarriers at their planned places, set up; raises ``ExecutionError`` without."""
        offset = _planned(op, op.result)
        stages = op.stage_count
        counts = {"full": 1, "empty": op.releasing_warps()}
        full, empty = (
            [
                Mbarrier(
                    f"{name} mbarrier of stage {stage} of {value_label(op.result)}",
                    count,
                    memory=memory,
                    offset=offset + BARRIER_BYTES * (first + stage),
                )
                for stage in range(stages)
            ]
            for first, (name, count) in zip((0, stages), counts.items(), strict=True)
        )
        return cls(full, empty)

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
                self.full[stage].arrive(1, channel_of(op, op.channel).stage_payload())
            case _:
                self.empty[stage].arrive(warps)
        return True

    def full_of(self, iteration: int) -> Mbarrier:
        """The mbarrier that counts the bytes of an iteration's copies."""
        return self.full[iteration % len(self.full)]

    def flying(self) -> list[Mbarrier]:
        """The mbarriers to whose stages copies are on their way."""
        return [mbarrier for mbarrier in self.full if mbarrier.flying]


@dataclass(eq=False)
class AddressOrderBarrier:
    """The mbarriers of an order barrier, one a role."""

    mbarriers: Sequence[Mbarrier]

    @classmethod
    def of(cls, op: sched.OrderBarrierOp, memory: SharedMemory) -> AddressOrderBarrier:
        """The mbarriers at their planned places, set up; raises ``ExecutionError`` without."""
        offset = _planned(op, op.result)
        return cls(
            [
                Mbarrier(
                    f"mbarrier of role {role} of {value_label(op.result)}",
                    op.arriving_warps(),
                    memory=memory,
                    offset=offset + BARRIER_BYTES * role,
                )
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


def _planned(op: KeepsMbarriers, result: SSAValue) -> int:
    if op.byte_offset is None:
        raise ExecutionError(
            f"{value_label(result)} has no offset in shared memory; run --plan-stensor-memory first"
        )
    return op.byte_offset
