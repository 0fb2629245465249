"""Who knows of whom: vector clocks of strands, and the mbarriers through which they are joined.

A *strand* is what the block, or a role, runs in order.  Its *epochs* end where it tells others how
far it is: at a barrier, a release, a publish.  A clock has a component for each strand, the last
epoch of which every access by any of its threads has happened before, and one for each mbarrier,
how many of its phases are known to be complete.  An access of one thread is ordered before what a
strand does next exactly if the strand's clock has reached its component, or the two are of one
thread.

What a strand tells through an mbarrier may overtake its own loads: those that are issued, and
whose values nothing has used yet.  Loads and stores of others come behind them all the same, but
bulk copies take another path to memory and write under them.  A strand's next wait, barrier or
fence *settles* its loads; a clock also has a component for each strand that counts those.

An mbarrier knows its phases by their parity only.  A wait for phase n is right if phase n - 1 is
known to be complete (else parity lets it through at once) and phase n + 1 cannot complete before
the wait returns (else it may wait forever).  Both are asked of clocks, hence of every execution.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from mugraph.dialects import sched

Clock: TypeAlias = list[int]
"""A number a component; ``-1`` for a strand of which nothing is known."""

UNKNOWN = -1


def join(clock: Clock, other: Clock) -> None:
    """Adds to a clock what another one knows."""
    for component, reached in enumerate(other):
        if clock[component] < reached:
            clock[component] = reached


@dataclass(eq=False)
class Mbarrier:
    """The barrier of one stage, ``full`` or empty; a phase completes with ``count`` arrivals.

    A full barrier also waits for the bytes that the arrival announced.  ``completed`` are phases;
    ``history`` holds the clocks of the last ones, oldest first.  Or that of one role of an order
    barrier, whose index is its ``stage``.
    """

    owner: sched.ChannelOp | sched.OrderBarrierOp
    stage: int
    is_full: bool
    component: int
    count: int
    completed: int = 0
    arrivals: dict[int, int] = field(default_factory=dict[int, int])
    """Arrivals of the current phase, by strand."""
    known: Clock = field(default_factory=Clock)
    """What those who have arrived know."""
    announced: int = 0
    copied: int = 0
    waits: dict[int, tuple[int, int]] = field(default_factory=dict[int, "tuple[int, int]"])
    """The newest wait of each strand: its epoch, and the phase waited for."""
    history: list[Clock] = field(default_factory=list[Clock])

    @property
    def is_of_order_barrier(self) -> bool:
        """Whether it is that of an order barrier, and of no stage."""
        return isinstance(self.owner, sched.OrderBarrierOp)

    @property
    def stages(self) -> int:
        """How many stages, or ping-pong roles, there are."""
        return (
            self.owner.stage_count
            if isinstance(self.owner, sched.ChannelOp)
            else self.owner.barrier_count()
        )

    def arrive(self, strand: int, clock: Clock, count: int) -> None:
        """Arrivals of a strand, which knows ``clock``."""
        self.arrivals[strand] = self.arrivals.get(strand, 0) + count
        if self.known:
            join(self.known, clock)
        else:
            self.known = list(clock)

    def complete(self) -> list[int] | None:
        """Ends the phase if all has come that it waits for.

        Returns the strands whose waits for the phase before may not have returned by now; ``None``
        where the phase is not complete.
        """
        if sum(self.arrivals.values()) < self.count or self.copied < self.announced:
            return None
        late = [
            strand
            for strand, (epoch, phase) in self.waits.items()
            if phase == self.completed - 1 and self.known[strand] < epoch
        ]
        self.completed += 1
        self.known[self.component] = self.completed
        self.history = [*self.history[-1:], self.known]
        self.arrivals, self.known = {}, []
        self.announced = self.copied = 0
        return late

    def clock_of(self, phase: int) -> Clock:
        """What is known once a phase has completed; of older ones than the last two, too much.

        Waits for those are reported.
        """
        return self.history[max(phase - self.completed, -len(self.history))]

    def fresh_waits(self) -> Iterator[tuple[int, int, int]]:
        """The waits that completing a phase may still look at: strand, epoch and phase."""
        for strand, (epoch, phase) in sorted(self.waits.items()):
            if phase >= self.completed - 1:
                yield strand, epoch, phase

    def state(self, marks: Marks) -> object:
        """All but its clocks, in a form that compares equal for equal states."""
        return (
            tuple(sorted(self.arrivals.items())),
            bool(self.known),
            self.announced,
            self.copied,
            len(self.history),
            tuple(
                (strand, marks.rank(strand, epoch), phase - self.completed)
                for strand, epoch, phase in self.fresh_waits()
            ),
        )


@dataclass(eq=False)
class Marks:
    """Numbers as what they can be compared with, so that equal states compare equal.

    Of a component of clocks, a number counts only by how many of the epochs that something in the
    state has there it has reached: whatever comes has later ones.  Of loads also by whether they
    are still to be settled.  Of an mbarrier also by how far it is behind the phases completed, up
    to ``STALE``: what is further behind is an error wherever it is used.
    """

    epochs: dict[int, list[int]]
    """By component, in order, each once."""
    settled: Clock
    """How often the loads of each strand have been settled; these components follow the strands'"""
    completed: Clock
    """The complete phases of each mbarrier, whose components follow those."""

    def rank(self, component: int, reached: int) -> tuple[int, int]:
        """What a number of a component can be told by."""
        rank = bisect_right(self.epochs.get(component, ()), reached)
        strands = len(self.settled)
        if component < strands:
            return rank, 0
        if component < 2 * strands:
            return rank, max(reached - self.settled[component - strands], 0)
        return rank, max(reached - self.completed[component - 2 * strands], STALE)

    def of_clocks(self, clocks: Sequence[Clock]) -> bytes:
        """The same for every component of clocks."""
        numbers = np.array(clocks, dtype=np.int64)
        ranks = np.zeros_like(numbers)
        for component, epochs in self.epochs.items():
            ranks[:, component] = np.searchsorted(epochs, numbers[:, component], "right")
        behind = np.maximum(numbers[:, 2 * len(self.settled) :] - self.completed, STALE)
        return ranks.tobytes() + behind.tobytes()


STALE = -3
"""A strand may use an mbarrier while it knows of all phases but the last two, or one."""


@dataclass(eq=False)
class Ring:
    """The mbarriers of one channel."""

    full: list[Mbarrier]
    empty: list[Mbarrier]

    @property
    def stages(self) -> int:
        """How many stages there are."""
        return len(self.full)


class Clocks:
    """The clocks of all strands of a kernel, and its channels."""

    def __init__(
        self,
        strands: int,
        channels: Sequence[sched.ChannelOp],
        order_barriers: Sequence[sched.OrderBarrierOp] = (),
    ) -> None:
        self.epochs: list[int] = [0] * strands
        self.settled: list[int] = [0] * strands
        self.rings: dict[sched.ChannelOp, Ring] = {}
        component = 2 * strands
        for channel in channels:
            stages = channel.stage_count
            full, empty = (
                [Mbarrier(channel, stage, is_full, first + stage, count) for stage in range(stages)]
                for is_full, first, count in (
                    (True, component, 1),
                    (False, component + stages, channel.releasing_warps()),
                )
            )
            self.rings[channel] = Ring(full, empty)
            component += 2 * stages
        self.order_barriers: dict[sched.OrderBarrierOp, list[Mbarrier]] = {}
        for order in order_barriers:
            count = order.barrier_count()
            self.order_barriers[order] = [
                Mbarrier(order, role, False, component + role, order.arriving_warps())
                for role in range(count)
            ]
            component += count
        self.grid = component
        """The component that is 1 where the kernels before this one are known to be complete."""
        blank = [UNKNOWN] * strands + [0] * (component + 1 - strands)
        self.of: list[Clock] = [list(blank) for _ in range(strands)]

    def mbarriers(self) -> Iterator[Mbarrier]:
        """All of them, in the order of their components."""
        for ring in self.rings.values():
            yield from ring.full
            yield from ring.empty
        for mbarriers in self.order_barriers.values():
            yield from mbarriers

    def settling(self, strand: int) -> int:
        """The component that counts how often a strand's loads have been settled."""
        return len(self.epochs) + strand

    def settle(self, strand: int) -> None:
        """The loads of a strand have brought their values."""
        self.settled[strand] += 1

    def barrier(self, strand: int) -> None:
        """All threads of a strand have arrived, and know of each other."""
        self.settle(strand)
        self.of[strand] = self.tell(strand)

    def tell(self, strand: int) -> Clock:
        """What a strand tells when all its threads arrive somewhere."""
        clock = list(self.of[strand])
        clock[strand] = self.epochs[strand]
        clock[self.settling(strand)] = self.settled[strand]
        self.epochs[strand] += 1
        return clock

    def begin(self, strands: list[int], before: list[int]) -> None:
        """Strands begin after others have ended, in one of which each of their threads ran."""
        if before:
            known = self.known_to_all(before)
            for strand in strands:
                self.of[strand] = list(known)

    def known_to_all(self, strands: list[int]) -> Clock:
        """What every one of some strands knows."""
        return [min(reached) for reached in zip(*(self.of[each] for each in strands), strict=True)]

    def marks(self, epochs: Iterable[tuple[int, int]]) -> Marks:
        """What numbers can be told by, where events have these ``epochs`` of components."""
        found: dict[int, set[int]] = {}
        waits = (
            (strand, epoch) for each in self.mbarriers() for strand, epoch, _ in each.fresh_waits()
        )
        for component, epoch in (*epochs, *waits):
            found.setdefault(component, set()).add(epoch)
        # The last component is the grid's.
        completed = [*(mbarrier.completed for mbarrier in self.mbarriers()), 0]
        ordered = {component: sorted(each) for component, each in found.items()}
        return Marks(ordered, self.settled, completed)

    def state(self, live: list[int], marks: Marks) -> object:
        """All that matters to the strands that still run."""
        clocks = [self.of[strand] for strand in live]
        for mbarrier in self.mbarriers():
            clocks += [mbarrier.known] if mbarrier.known else []
            clocks += mbarrier.history
        return (
            marks.of_clocks(clocks),
            tuple(mbarrier.state(marks) for mbarrier in self.mbarriers()),
        )
