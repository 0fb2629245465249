"""Who knows of whom: a vector clock for each thread of a block, and its mbarriers.

A thread's *epochs* end where it tells others how far it is: where it arrives at a barrier.  What it
did in an epoch has happened before what another thread does exactly if that thread's clock has
reached the epoch.  A clock also has a component for each mbarrier: how many of its phases are known
to have ended; and one for the copies of each thread: how many of their groups are known to have
landed.  What a copy writes has happened once its phase or its group has.

An mbarrier knows its phases by their parity alone.  A wait is for the first phase of its parity
that the thread does not know to have ended, or for the last one that it does know of.  It is right
if the phase after that one cannot end before the wait returns: else it may wait for ever.  All of
this is asked of clocks, hence of every order of the threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation

from mugraph.dialects.programming_model import WARP

IntArray = npt.NDArray[np.int64]
_KEPT = 3
"""The phases whose clocks are kept: waits for older ones are reported."""


class Clocks:
    """The clocks of some threads, ``[threads, threads + others]``; others are no threads."""

    def __init__(self, threads: int, others: int) -> None:
        self.threads = threads
        self.known = np.full((threads, threads + others), -1, np.int32)
        self.known[:, threads:] = 0
        self.epochs = np.zeros(threads, np.int32)

    def tell(self, threads: IntArray) -> npt.NDArray[np.int32]:
        """What some threads know together as each of them arrives somewhere; their epochs end."""
        told = self.known[threads].max(axis=0)
        told[threads] = self.epochs[threads]
        self.epochs[threads] += 1
        return told

    def learn(self, threads: IntArray, told: npt.NDArray[np.int32]) -> None:
        """Threads get to know what others told."""
        self.known[threads] = np.maximum(self.known[threads], told)

    def meet(self, threads: IntArray) -> None:
        """Threads wait for each other."""
        self.learn(threads, self.tell(threads))

    def meet_in_warps(self, threads: IntArray) -> None:
        """Threads of each warp wait for each other."""
        for warp in np.unique(threads // WARP):
            self.meet(threads[threads // WARP == warp])

    def ordered(
        self, threads: IntArray, agents: IntArray, epochs: IntArray
    ) -> npt.NDArray[np.bool_]:
        """Whether what agents did in their epochs has happened before what threads do, by row."""
        return (threads == agents) | (self.known[threads, agents] >= epochs)


@dataclass(eq=False)
class PhaseClock:
    """An mbarrier: arrivals and bytes of its phase, and what those who arrived know."""

    name: str
    component: int
    count: int
    set_up: Operation
    setter: int
    epoch: int
    """Who has set it up, and when."""
    threads: int
    is_fenced: bool = False
    """Whether bulk copies see it."""
    completed: int = 0
    pending: int = field(init=False)
    announced: int = 0
    copied: int = 0
    told: npt.NDArray[np.int32] | None = None
    history: list[npt.NDArray[np.int32]] = field(default_factory=list["npt.NDArray[np.int32]"])
    waited: IntArray = field(init=False)
    """The phase that each thread has waited for last; -2 for none."""
    waited_at: IntArray = field(init=False)
    """The epoch of that wait."""
    wait: Operation | None = None

    def __post_init__(self) -> None:
        self.pending = self.count
        self.waited = np.full(self.threads, -2, np.int64)
        self.waited_at = np.zeros(self.threads, np.int64)

    def targets(self, parity: int, known: npt.NDArray[np.int32]) -> IntArray:
        """The phases that waits for a parity mean, of threads that know of so many."""
        return np.where(known % 2 == parity, known, known - 1).astype(np.int64)

    def clock_of(self, phase: int) -> npt.NDArray[np.int32] | None:
        """What is known once a phase has ended; ``None`` of one that is long over."""
        place = len(self.history) - (self.completed - phase)
        return self.history[place] if 0 <= place < len(self.history) else None

    def complete(self) -> list[int]:
        """Ends the phase, if all has come that it waits for.

        Gives the threads whose waits for the phase before may not have returned by now.
        """
        if self.pending or self.copied != self.announced or self.told is None:
            return []
        before = self.waited == self.completed - 1
        late = np.flatnonzero(before & (self.told[: self.threads] < self.waited_at))
        self.completed += 1
        self.told[self.component] = self.completed
        self.history = [*self.history, self.told][-_KEPT:]
        self.told, self.pending = None, self.count
        self.announced = self.copied = 0
        return late.tolist()
