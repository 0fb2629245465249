"""Channels as they run: who may go on, and what breaks their protocol."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.sched.channel import channel_of
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    op_label,
    shape_of,
    value_label,
)
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.schedule.analysis.hazards.clocks import Clocks, Mbarrier, join
from mugraph.passes.schedule.analysis.hazards.program import ProgramPoint, Strand

PARITY = "an mbarrier tells phases apart by their parity, so that the wait"

Counted: TypeAlias = tuple[sched.ChannelOp | sched.OrderBarrierOp, type[Operation]]
"""A kind of step of a channel, or of an order barrier."""

Report = Callable[[tuple[object, ...], Callable[[], Finding]], None]
"""Takes what tells a finding from others, and how to make it."""


class Moment(NamedTuple):
    """An operator as a strand comes to it, and the iteration that it means.

    Iterations count those that were skipped, from the first block of the list on.  Of an order
    barrier's step ``meant`` is the block of the list.
    """

    place: ProgramPoint
    strand: Strand
    iteration: int
    meant: int

    def describe(self) -> str:
        """The operator, its place and iteration."""
        return self.place.describe(self.iteration)


class Protocol:
    """Runs the steps of channels on clocks, and reports what is wrong with them."""

    def __init__(self, clocks: Clocks, report: Report) -> None:
        self.clocks = clocks
        self.report = report
        self.counts = Counter[Counted]()
        """How often the steps of each channel, and of each order barrier, were followed."""
        self.repeated = Counter[Counted]()
        """How often they ran in what was skipped."""

    @property
    def ran(self) -> Counter[Counted]:
        """How often they have run, followed or not."""
        return self.counts + self.repeated

    def repeat(self, before: Counter[Counted], times: int) -> None:
        """Counts so many times more what has run since ``before``."""
        for step, count in (self.ran - before).items():
            self.repeated[step] += count * times

    def run(self, op: sched.ChannelStepOp, moment: Moment, meant: int) -> bool:
        """One step; false where it has to wait.

        ``meant`` is the iteration that it means without those that were skipped.
        """
        passes = self._run(op, moment, meant)
        if passes:
            self.counts[channel_of(op, op.channel), type(op)] += 1
        return passes

    def _run(self, op: sched.ChannelStepOp, moment: Moment, meant: int) -> bool:
        ring = self.clocks.rings[channel_of(op, op.channel)]
        stage, phase = meant % ring.stages, meant // ring.stages
        match op:
            case sched.AcquireOp():
                # The first fill of a stage has nothing to wait for.
                return not phase or self._wait(ring.empty[stage], phase - 1, moment)
            case sched.ConsumeOp():
                return self._wait(ring.full[stage], phase, moment)
            case sched.PublishOp():
                mbarrier = ring.full[stage]
                mbarrier.announced += channel_of(op, op.channel).stage_payload()
                self._check_bytes(mbarrier, moment)
                self._arrive(mbarrier, phase, moment, 1)
            case sched.ReleaseOp():
                role = moment.strand.role
                arrivals = 1 if role is None else role.warp_count
                self._arrive(ring.empty[stage], phase, moment, arrivals)
            case _:
                raise NotImplementedError(op_label(op))
        return True

    def order_step(self, op: sched.OrderStepOp, moment: Moment, position: int) -> bool:
        """A step of the role of a block of the list; false where it must wait.

        ``position`` is that of the block without those that were skipped.
        """
        order = op.order_barrier()
        mbarriers = self.clocks.order_barriers[order]
        roles = len(mbarriers)
        if isinstance(op, sched.OrderArriveOp):
            role = moment.strand.role
            warps = 1 if role is None else role.warp_count
            self._arrive(mbarriers[(position + 1) % roles], position // roles, moment, warps)
        elif position and not self._wait(
            mbarriers[position % roles], (position - 1) // roles, moment
        ):
            return False
        self.counts[order, type(op)] += 1
        return True

    def _wait(self, mbarrier: Mbarrier, phase: int, moment: Moment) -> bool:
        strand = moment.strand.index
        clock = self.clocks.of[strand]
        words = _words_of(mbarrier)
        if clock[mbarrier.component] < phase:
            self._misuse(
                moment,
                f"waits for {self._what(mbarrier, moment)} without having waited for "
                f"{words.earlier}: {PARITY} may be over at once",
            )
        if mbarrier.completed > phase + 1:
            self._misuse(
                moment,
                f"waits for {self._what(mbarrier, moment)}, but nothing keeps {words.again} "
                f"first: {PARITY} may never end",
            )
        if mbarrier.completed <= phase:
            return False
        mbarrier.waits[strand] = self.clocks.epochs[strand], phase
        join(clock, mbarrier.clock_of(phase))
        self.clocks.settle(strand)
        return True

    def _arrive(self, mbarrier: Mbarrier, phase: int, moment: Moment, arrivals: int) -> None:
        strand = moment.strand.index
        words = _words_of(mbarrier)
        if mbarrier.completed > phase or mbarrier.arrivals.get(strand):
            self._misuse(
                moment,
                f"comes a second time for {self._tile(mbarrier, moment)}; its arrival "
                f"counts for {words.following}",
            )
        elif self.clocks.of[strand][mbarrier.component] < phase:
            self._misuse(
                moment,
                f"comes for {self._tile(mbarrier, moment)} without having waited until "
                f"{words.until}; its arrival may count for {words.previous}",
            )
        mbarrier.arrive(strand, self.clocks.tell(strand), arrivals)
        self._complete(mbarrier, moment)

    def _complete(self, mbarrier: Mbarrier, moment: Moment) -> None:
        late = mbarrier.complete()
        if late:
            words = _words_of(mbarrier)
            self._misuse(
                moment,
                f"{words.reuses}, for {self._tile(mbarrier, moment)}, while {words.waiter} "
                f"may still be waiting: {PARITY} may never end",
            )

    def copy(self, op: sched.BulkCopyOp, moment: Moment, meant: int) -> tuple[int, int]:
        """A bulk copy is issued; the component of clocks and the epoch with which it has landed."""
        assert op.channel is not None
        ring = self.clocks.rings[channel_of(op, op.channel)]
        mbarrier, phase = ring.full[meant % ring.stages], meant // ring.stages
        known = self.clocks.of[moment.strand.index][mbarrier.component]
        if mbarrier.completed > phase:
            self._misuse(
                moment,
                f"fills {self._tile(mbarrier, moment)}, which has all its bytes already; "
                "those of the copy would count for what comes into the stage next",
            )
        elif known < phase:
            self._misuse(
                moment,
                f"fills {self._tile(mbarrier, moment)} without having waited until what was "
                "in the stage before was full; the bytes may count for that",
            )
        mbarrier.copied += _bytes(op)
        if mbarrier.arrivals:
            self._check_bytes(mbarrier, moment)
        self._complete(mbarrier, moment)
        return mbarrier.component, phase + 1

    def _check_bytes(self, mbarrier: Mbarrier, moment: Moment) -> None:
        if mbarrier.copied > mbarrier.announced:
            self._misuse(
                moment,
                f"brings {mbarrier.copied} bytes to {self._tile(mbarrier, moment)}, for "
                f"which {mbarrier.announced} are announced",
            )

    def deadlock(self, waiting: Sequence[Moment], ended: Sequence[Strand]) -> Finding:
        """What every strand waits for when none can go on."""
        parts = [f"{moment.strand.label} waits in {self._waits_in(moment)}" for moment in waiting]
        parts += [f"{strand.label} has ended" for strand in ended]
        operations = tuple(moment.place.operation for moment in waiting)
        return Finding(HazardKind.DEADLOCK, operations, "; ".join(parts))

    def _waits_in(self, moment: Moment) -> str:
        op = moment.place.operation
        if isinstance(op, sched.OrderStepOp):
            return f"{moment.describe()} for {_tile_before(moment)}"
        assert isinstance(op, sched.ChannelStepOp)
        ring = self.clocks.rings[channel_of(op, op.channel)]
        stage = moment.meant % ring.stages
        mbarrier = (ring.empty if isinstance(op, sched.AcquireOp) else ring.full)[stage]
        what = f"{moment.describe()} for {self._what(mbarrier, moment)}"
        if mbarrier.is_full and mbarrier.arrivals:
            what += f", which has {mbarrier.copied} of {mbarrier.announced} bytes"
        return what

    def _stage(self, mbarrier: Mbarrier) -> str:
        return f"stage {mbarrier.stage} of {value_label(mbarrier.owner.result)}"

    def _tile(self, mbarrier: Mbarrier, moment: Moment) -> str:
        if mbarrier.is_of_order_barrier:
            return f"block {moment.meant} of the list"
        return f"iteration {moment.meant} in {self._stage(mbarrier)}"

    def _what(self, mbarrier: Mbarrier, moment: Moment) -> str:
        """What a wait is for."""
        if mbarrier.is_of_order_barrier:
            return _tile_before(moment)
        if mbarrier.is_full:
            return f"{self._stage(mbarrier)} to be full with iteration {moment.meant}"
        earlier = moment.meant - mbarrier.stages
        return f"{self._stage(mbarrier)} to be released by the readers of iteration {earlier}"

    def _misuse(self, moment: Moment, what: str) -> None:
        kind = HazardKind.PROTOCOL
        self.report(
            (kind, moment.place, what.split(maxsplit=1)[0]),
            lambda: Finding(kind, (moment.place.operation,), f"{moment.describe()} {what}"),
        )


class _Words(NamedTuple):
    """What is said of an mbarrier's phases."""

    earlier: str
    again: str
    until: str
    previous: str
    following: str
    reuses: str
    waiter: str


_STAGE = _Words(
    "what was in the stage before",
    "the stage from being used again",
    "the stage was filled again",
    "what was in the stage before",
    "what comes into the stage next",
    "uses the stage again",
    "a 'sched.acquire' of what was in it before",
)
_FULL = _STAGE._replace(
    until="the stage was released",
    waiter="a 'sched.consume' of what was in it before",
)
_ORDER = _Words(
    "its tile before",
    "the next role from being let go on again",
    "the role before had arrived",
    "the work tile before",
    "the work tile after that",
    "arrives again",
    "a 'sched.order_wait' of the work tile before",
)


def _words_of(mbarrier: Mbarrier) -> _Words:
    if mbarrier.is_of_order_barrier:
        return _ORDER
    return _FULL if mbarrier.is_full else _STAGE


def _tile_before(moment: Moment) -> str:
    return f"block {moment.meant - 1} of the list to arrive"


def _bytes(op: sched.BulkCopyOp) -> int:
    return math.prod(shape_of(op.source.type)) * element_bytes_of(op.destination.type)
