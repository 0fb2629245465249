"""The mbarriers of a block while its kernel is followed: who arrives, who waits, what is wrong."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.te.points import Rows
from mugraph.dialects.tensor_types import source_name
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.texpr.analysis.hazards.clocks import Clocks, PhaseClock
from mugraph.passes.texpr.analysis.hazards.shadow import Report, Shadow
from mugraph.passes.texpr.analysis.hazards.touches import named


class Mbarriers:
    """The mbarriers of a kernel; ``first`` are the components of clocks that they have."""

    def __init__(
        self, first: dict[SSAValue, int], clocks: Clocks, memory: Shadow, report: Report
    ) -> None:
        self.first = first
        self.clocks = clocks
        self.memory = memory
        self.report = report
        self._known: dict[int, PhaseClock] = {}

    def set_up(self, op: te.MbarrierInitOp, threads: Rows, numbers: Rows) -> None:
        """Threads set up the mbarriers of these numbers."""
        for thread, number in zip(threads.tolist(), numbers.tolist(), strict=True):
            component = self.first[op.barriers] + number
            if component in self._known:
                before = self._known[component]
                self.report(
                    HazardKind.PROTOCOL,
                    (op, before.set_up),
                    f"{named(op)} sets {before.name} up, which is set up already",
                )
            self._known[component] = PhaseClock(
                f"{source_name(op.barriers)}[{number}]",
                component,
                op.expected,
                op,
                thread,
                int(self.clocks.epochs[thread]),
                self.clocks.threads,
            )

    def fence(self, threads: Rows) -> None:
        """Bulk copies see what these threads have set up."""
        for barrier in self._known.values():
            barrier.is_fenced = barrier.is_fenced or barrier.setter in threads

    def used(
        self, op: Operation, barriers: SSAValue, number: int, threads: Rows
    ) -> PhaseClock | None:
        """An mbarrier that threads use; ``None`` where it is not set up."""
        name = f"{source_name(barriers)}[{number}]"
        barrier = self._known.get(self.first[barriers] + number)
        if barrier is None:
            self.report(
                HazardKind.PROTOCOL, (op,), f"{named(op)} uses {name}, which nobody has set up"
            )
            return None
        known = self.clocks.known[threads, barrier.setter] >= barrier.epoch
        strangers = threads[~known & (threads != barrier.setter)]
        if len(strangers):
            self.report(
                HazardKind.PROTOCOL,
                (op, barrier.set_up),
                f"{named(op)} uses {name} in thread {strangers[0]}, and no barrier stands between "
                f"it and {named(barrier.set_up)}, which sets it up in thread {barrier.setter}",
            )
        return barrier

    def arrive(self, op: te.MbarrierArriveOp, threads: Rows, numbers: Rows) -> None:
        """Threads arrive at the mbarriers of these numbers."""
        for number in np.unique(numbers).tolist():
            some = threads[numbers == number]
            barrier = self.used(op, op.barriers, number, some)
            while barrier is not None and len(some):
                if not barrier.pending:
                    self.report(
                        HazardKind.PROTOCOL,
                        (op,),
                        f"{named(op)} arrives at {barrier.name} in thread {some[0]}, whose phase "
                        f"has all of its {barrier.count} arrivals, but not its bytes",
                    )
                    break
                now, some = some[: barrier.pending], some[barrier.pending :]
                told = self.clocks.tell(now)
                barrier.told = told if barrier.told is None else np.maximum(barrier.told, told)
                barrier.pending -= len(now)
                barrier.announced += op.bytes * len(now)
                self.complete(op, barrier)

    def passes(self, op: te.MbarrierWaitOp, threads: Rows, numbers: Rows, parities: Rows) -> bool:
        """Whether threads that wait for phases of these parities go on."""
        for number, parity in sorted(set(zip(numbers.tolist(), parities.tolist(), strict=True))):
            some = threads[(numbers == number) & (parities == parity)]
            barrier = self.used(op, op.barriers, number, some)
            if barrier is not None and not self._passes_one(op, barrier, parity, some):
                return False
        return True

    def _passes_one(
        self, op: te.MbarrierWaitOp, barrier: PhaseClock, parity: int, threads: Rows
    ) -> bool:
        targets = barrier.targets(parity, self.clocks.known[threads, barrier.component])
        for phase in np.unique(targets).tolist():
            some = threads[targets == phase]
            if barrier.completed <= phase:
                return False
            if barrier.completed > phase + 1:
                which = "the phase before the first" if phase < 0 else f"phase {phase}"
                self.report(
                    HazardKind.PROTOCOL,
                    (op,),
                    f"{named(op)} waits for {which} of {barrier.name} in thread {some[0]}; "
                    "the next one, of the other parity, may have ended too: it may wait for ever",
                )
            self.memory.settle(some)
            barrier.waited[some] = phase
            barrier.waited_at[some] = self.clocks.epochs[some]
            barrier.wait = op
            clock = barrier.clock_of(phase)
            if clock is not None and barrier.completed <= phase + 1:
                self.clocks.learn(some, clock)
        return True

    def complete(self, op: Operation, barrier: PhaseClock) -> None:
        """Ends the phase of an mbarrier, if all has come that it waits for."""
        for thread in barrier.complete()[:1]:
            assert barrier.wait is not None
            self.report(
                HazardKind.PROTOCOL,
                (op, barrier.wait),
                f"{named(op)} may end a phase of {barrier.name} before thread {thread} has seen "
                f"that the one before has ended: {named(barrier.wait)} may then wait for ever",
            )
