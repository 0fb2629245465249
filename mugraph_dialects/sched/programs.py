"""Launches that are one persistent kernel: its tasks are their blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.sched.kernel import KernelOp, LaunchOp
from mugraph.dialects.tensor_types import op_label

COUNTER_BYTES = 4
"""Of the counter of a launch."""


@dataclass(frozen=True)
class PersistentProgram:
    """A persistent kernel, by its launches in order; raises ``VerifyException`` if incomplete."""

    launches: tuple[LaunchOp, ...]

    def __post_init__(self) -> None:
        """Checks what each launch says of the others."""
        first, *rest = self.launches
        if first.blocks is None or first.counters is None:
            raise VerifyException(
                f"{op_label(first)} has tasks of a persistent kernel, of which no launch in front "
                "of it says 'blocks' and 'counters'"
            )
        for number, launch in enumerate(self.launches):
            if launch in rest and launch.counters is not None:
                raise VerifyException(
                    f"{op_label(launch)}: a persistent kernel has counters, and no 'blocks'"
                )
            place = -1 if launch.first is None else launch.first.value.data
            if not 0 <= place < self.blocks:
                raise VerifyException(
                    f"{op_label(launch)}: first {place} is no block of a persistent kernel of "
                    f"{self.blocks}"
                )
            for awaited, _ in launch.awaited_counts():
                if not 0 <= awaited < number:
                    raise VerifyException(
                        f"{op_label(launch)} is launch {number} of its persistent kernel, and "
                        f"waits for launch {awaited}; expected one in front of it"
                    )

    @property
    def blocks(self) -> int:
        """How many blocks run."""
        blocks = self.launches[0].blocks
        return 0 if blocks is None else blocks.value.data

    @property
    def counters(self) -> range:
        """The bytes of the workspace that its counters take."""
        counters = self.launches[0].counters
        start = 0 if counters is None else counters.value.data
        return range(start, start + COUNTER_BYTES * len(self.launches))

    @property
    def kernels(self) -> list[KernelOp]:
        """The kernels whose blocks are its tasks, each once."""
        return list(dict.fromkeys(launch.resolve() for launch in self.launches))

    @property
    def threads(self) -> int:
        """The threads of a block: as many as the largest task needs."""
        return max(kernel.threads for kernel in self.kernels)

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory of a block: as much as the largest task needs."""
        return max(kernel.smem_bytes or 0 for kernel in self.kernels)


def tasks_of(launch: LaunchOp) -> int:
    """How many tasks a launch has: the blocks of its grid."""
    return math.prod(launch.resolve().grid_dim)


def persistent_programs(ops: Iterable[Operation]) -> list[PersistentProgram]:
    """The persistent kernels of a function, whose operators come in order."""
    programs: list[list[LaunchOp]] = []
    goes_on = False
    for op in ops:
        if isinstance(op, LaunchOp) and op.is_task:
            if op.blocks is not None or not goes_on:
                programs.append([])
            programs[-1].append(op)
            goes_on = True
        elif not isinstance(op, SharesMemory):
            goes_on = False
    return [PersistentProgram(tuple(launches)) for launches in programs]


__all__ = ["COUNTER_BYTES", "PersistentProgram", "persistent_programs", "tasks_of"]
