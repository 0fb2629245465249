"""Packing buffers with lifetimes into shared memory: the choice, with no IR in it.

The dynamic storage allocation problem of seed 000 "Memory Planning", by four online heuristics;
the plan with the lowest peak is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from mugraph.passes.analysis.lifetimes import Lifetime


@dataclass(frozen=True)
class Request:
    """A buffer of ``size`` bytes, alive in the regions of ``lifetime``."""

    size: int
    lifetime: Lifetime


@dataclass(frozen=True)
class Plan:
    """An offset in bytes a request, and the bytes needed in all."""

    offsets: tuple[int, ...]
    peak: int


@dataclass(frozen=True)
class _Gap:
    """Free bytes from ``start`` on; the last gap has no end."""

    start: int
    size: int | None

    def holds(self, size: int) -> bool:
        return self.size is None or self.size >= size


class Fit(Enum):
    """Which of the gaps that are large enough an online allocator takes."""

    FIRST = "first"
    BEST = "best"
    LAST = "last"
    WORST = "worst"


def _first(gaps: Sequence[_Gap]) -> _Gap:
    return gaps[0]


def _last(gaps: Sequence[_Gap]) -> _Gap:
    bounded = [gap for gap in gaps if gap.size is not None]
    return bounded[-1] if bounded else gaps[-1]


def _bounded_size(gap: _Gap) -> int:
    return gap.size or 0


def _best(gaps: Sequence[_Gap]) -> _Gap:
    bounded = [gap for gap in gaps if gap.size is not None]
    return min(bounded, key=_bounded_size) if bounded else gaps[-1]


def _worst(gaps: Sequence[_Gap]) -> _Gap:
    bounded = [gap for gap in gaps if gap.size is not None]
    return max(bounded, key=_bounded_size) if bounded else gaps[-1]


_SELECTORS: dict[Fit, Callable[[Sequence[_Gap]], _Gap]] = {
    Fit.FIRST: _first,
    Fit.BEST: _best,
    Fit.LAST: _last,
    Fit.WORST: _worst,
}


def _gaps(occupied: Sequence[tuple[int, int]]) -> list[_Gap]:
    """The free ranges between occupied ``(start, end)`` ranges, the unbounded one last."""
    gaps: list[_Gap] = []
    position = 0
    for start, end in sorted(occupied):
        if start > position:
            gaps.append(_Gap(position, start - position))
        position = max(position, end)
    gaps.append(_Gap(position, None))
    return gaps


def allocate(requests: Sequence[Request], fit: Fit, alignment: int) -> Plan:
    """Places requests in order of their first region (larger ones first) by one heuristic.

    Offsets are multiples of ``alignment`` bytes.
    """
    offsets = [0] * len(requests)
    placed: list[int] = []
    peak = 0
    order = sorted(
        range(len(requests)), key=lambda i: (requests[i].lifetime.first, -requests[i].size, i)
    )
    for index in order:
        request = requests[index]
        size = _aligned(request.size, alignment)
        occupied = [
            (offsets[other], offsets[other] + _aligned(requests[other].size, alignment))
            for other in placed
            if requests[other].lifetime.overlaps(request.lifetime)
        ]
        candidates = [gap for gap in _gaps(occupied) if gap.holds(size)]
        offsets[index] = _SELECTORS[fit](candidates).start
        placed.append(index)
        peak = max(peak, offsets[index] + size)
    return Plan(tuple(offsets), peak)


def _aligned(size: int, alignment: int) -> int:
    return (size + alignment - 1) // alignment * alignment


def best_plan(requests: Sequence[Request], alignment: int) -> Plan:
    """The plan of lowest peak among first, best, last and worst fit; ties go to the earlier."""
    plans = [allocate(requests, fit, alignment) for fit in Fit]
    return min(plans, key=lambda plan: plan.peak)
