"""Successive halving: many plans are measured a little, the faster half of them more, and so on.

The plan that ``--plan`` takes is measured in every round beside the others, and the one that is
left must be faster than it in a last comparison, sample beside sample: else it stays.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias

from mugraph.tune.records import ESTIMATE, Records
from mugraph.tune.workbench import AnyPlan, Built, MeasureError, Workbench, text_of

FIRST_SAMPLES = 5
"""Of each plan in the first round; twice as many in each later one."""
FEW = 4
"""Plans that need not be halved any more."""
VARIED = 2
"""Of how many of the fastest plans variants are tried."""
DUELS, DUEL_SAMPLES = 7, 5
"""How often the last two are measured one after the other, and samples each time."""
SAID_EVERY = 8
"""Plans that are built, after which a line says so."""
WORTHWHILE = 0.99
"""A plan that takes more of the time than this does not replace the one that ``--plan`` takes."""

BUILDS, VARIANTS, ROUNDS = 0.5, 0.7, 0.85
"""Parts of a search's seconds after which no candidate is built, no variant, and none is measured
but in the last comparison."""

Variants: TypeAlias = Callable[[AnyPlan], Sequence[AnyPlan]]
"""Plans that differ from one in a part."""


@dataclass(frozen=True)
class Outcome(Generic[AnyPlan]):
    """What a search found."""

    plan: AnyPlan
    """The fastest plan; one with no parts where that is what ``--plan`` takes."""
    microseconds: float
    before: float
    """Of what ``--plan`` takes; microseconds."""
    built: int
    refused: int
    complete: bool
    """Whether all plans were tried before the time was up."""


@dataclass
class Search(Generic[AnyPlan]):
    """A search among the plans of one kernel."""

    bench: Workbench[AnyPlan]
    records: Records
    say: Callable[[str], None]
    seconds: float = math.inf
    """How long it may take: parts of it are for the builds and the rounds (:data:`BUILDS`)."""
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, Built[AnyPlan]] = field(default_factory=dict[str, "Built[AnyPlan]"])
    """By code."""
    _estimate: Built[AnyPlan] | None = None
    """What it is without any search; it is built anew, also where the records know it."""
    _tried: set[str] = field(default_factory=set[str])
    _built: int = 0
    _refused: int = 0
    _complete: bool = True
    _end: float = math.inf

    def run(self, candidates: Sequence[AnyPlan], variants: Variants[AnyPlan]) -> Outcome[AnyPlan]:
        """The fastest of some plans and of variants of the best of them.

        A kernel is checked when it is measured a second time.  Where the fastest is wrong the next
        one is compared.  Raises :class:`MeasureError` where the kernel that ``--plan`` makes cannot
        be measured.
        """
        start = self.clock()
        self._end = start + ROUNDS * self.seconds
        default = type(candidates[0])()
        found = self._ready([default, *candidates], start + BUILDS * self.seconds)
        estimate = self._estimate
        assert estimate is not None
        fastest = self._halved([estimate, *_others(found, estimate)], estimate)
        varied = [plan for built in fastest[:VARIED] for plan in variants(built.plan)]
        further = self._ready(varied, start + VARIANTS * self.seconds)
        if further:
            fastest = self._halved([*fastest, *_others(further, estimate)], estimate)
        while (best := fastest.pop(0)) is not estimate:
            try:
                return self._compared(best, estimate)
            except MeasureError as error:
                self.records.add(Built(best.plan, best.code, str(error)))
        return self._compared(estimate, estimate)

    def _ready(self, plans: Sequence[AnyPlan], end: float) -> list[Built[AnyPlan]]:
        """The kernels of plans that can be built, each code once; the estimate's in any case.

        What the records know is not built; the bench does so if it is to be measured again.
        Raises :class:`MeasureError` where the estimate's cannot be built.
        """
        fresh: list[Built[AnyPlan]] = []
        wanted: list[AnyPlan] = []
        for plan in plans:
            if (text := text_of(plan)) in self._tried:
                continue
            self._tried.add(text)
            known = self.records.known(text) if text else None
            if known is None:
                wanted.append(plan)
            else:
                self._count(Built(plan, known.code, known.problem), fresh)
        if self.clock() > end and self._estimate is not None:
            self._complete = self._complete and not wanted
            return fresh
        for done, built in enumerate(self.bench.build(wanted), 1):
            self.records.add(built, role=_role(built))
            if not built.is_default:
                self._count(built, fresh)
            elif built.problem:
                raise MeasureError(built.problem)
            else:
                self._estimate = self._known[built.code] = built
            if done % SAID_EVERY == 0 or done == len(wanted):
                self.say(f"{done} of {len(wanted)} plans are tried, {self._refused} cannot be")
            if self.clock() > end and self._estimate is not None and done < len(wanted):
                self._complete = False
                break
        return fresh

    def _count(self, built: Built[AnyPlan], fresh: list[Built[AnyPlan]]) -> None:
        if built.problem:
            self._refused += 1
        elif built.code not in self._known:
            self._known[built.code] = built
            fresh.append(built)
            self._built += 1

    def _halved(
        self, kernels: Sequence[Built[AnyPlan]], estimate: Built[AnyPlan]
    ) -> list[Built[AnyPlan]]:
        """The fastest of some kernels, the fastest first, and the estimate's among them.

        Raises :class:`MeasureError` where that cannot be measured.
        """
        samples, left = FIRST_SAMPLES, list(kernels)
        while True:
            medians = {built.code: self._median(built, samples) for built in left}
            left = [built for built in left if medians[built.code] < math.inf]
            left.sort(key=lambda built: medians[built.code])
            self.say(
                f"{len(left)} plans after {samples} samples each, {medians[left[0].code]:.2f} µs "
                f"at best, {medians[estimate.code]:.2f} µs by the estimate"
            )
            if len(left) <= FEW:
                return left
            kept = left[: max(FEW, len(left) // 2)]
            left = kept if estimate in kept else [*kept[:-1], estimate]
            samples *= 2

    def _median(self, built: Built[AnyPlan], samples: int) -> float:
        """The median of at least so many samples; infinite for what cannot be measured."""
        known = self.records.times_of(built.code)
        if len(known) < samples and self.clock() > self._end and not built.is_default:
            self._complete = False
            return statistics.median(known) if known else math.inf
        if len(known) < samples:
            try:
                times = self.bench.times(built, samples - len(known))
            except MeasureError as error:
                if built.is_default:
                    raise
                self.records.add(Built(built.plan, built.code, str(error)))
                return math.inf
            self.records.add(built, times, _role(built))
            known = self.records.times_of(built.code)
        return statistics.median(known)

    def _compared(self, best: Built[AnyPlan], estimate: Built[AnyPlan]) -> Outcome[AnyPlan]:
        """The better of the two, measured now, one after the other and again."""
        times: dict[str, list[float]] = {best.code: [], estimate.code: []}
        for turn in range(DUELS):
            for built in (best, estimate) if turn % 2 else (estimate, best):
                times[built.code] += self.bench.times(built, DUEL_SAMPLES)
        for built in {best.code: best, estimate.code: estimate}.values():
            self.records.add(built, times[built.code], _role(built))
        before, now = (statistics.median(times[each.code]) for each in (estimate, best))
        counts = self._built, self._refused, self._complete
        if best is estimate or now > WORTHWHILE * before:
            return Outcome(estimate.plan, before, before, *counts)
        return Outcome(best.plan, now, before, *counts)


def _others(found: Sequence[Built[AnyPlan]], estimate: Built[AnyPlan]) -> list[Built[AnyPlan]]:
    return [built for built in found if built.code != estimate.code]


def _role(built: Built[AnyPlan]) -> str:
    return ESTIMATE if built.is_default else ""
