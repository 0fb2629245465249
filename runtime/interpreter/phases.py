"""Mbarriers: what the hardware has of one, and the copies that it counts the bytes of."""

from __future__ import annotations

from dataclasses import dataclass, field

from mugraph.runtime.interpreter.memory import Ending


@dataclass(eq=False)
class PhaseBarrier:
    """An mbarrier of every block that runs: arrivals and bytes still to come, and its phase.

    All blocks do the same in the same order, so that they have one state.
    """

    label: str
    count: int
    """The arrivals of each phase."""
    pending: int = field(init=False)
    """Arrivals that the phase still waits for."""
    bytes: int = field(init=False, default=0)
    """Bytes that the phase still waits for; negative where more came than were announced."""
    completed: int = field(init=False, default=0)
    flying: list[tuple[Ending, int]] = field(init=False, default_factory=list["tuple[Ending, int]"])
    """Copies on their way: what brings each to its end, and its bytes."""

    def __post_init__(self) -> None:
        self.pending = self.count

    def check(self) -> None:
        """Looks whether the mbarrier is as it was left."""

    def store(self) -> None:
        """Leaves the mbarrier as it is now."""

    def arrive(self, count: int, announced: int = 0) -> None:
        """Arrivals, each of which the phase needs; more of them count for the next one."""
        self.check()
        self.bytes += announced
        for _ in range(count):
            self.pending -= 1
            self._complete()
        self.store()

    def land(self) -> None:
        """All copies on their way land."""
        flying, self.flying = self.flying, []
        for end, size in flying:
            end()
            self.receive(size)

    def receive(self, size: int) -> None:
        """Bytes have come."""
        self.check()
        self.bytes -= size
        self._complete()
        self.store()

    def _complete(self) -> None:
        if self.pending <= 0 and self.bytes == 0:
            self.completed += 1
            self.pending += self.count

    def passes(self, phase: int) -> bool:
        """What a wait for the parity of a phase finds: that the phase is not the present one."""
        self.check()
        return self.completed % 2 != phase % 2
