"""Packing buffers with lifetimes into memory by simple rules: no IR here.

The dynamic storage allocation problem of seed 000 "Memory Planning": four online heuristics, each
of which places buffers in the order in which they become alive, and a greedy placement in any
given order, which :mod:`~mugraph.passes.memory.packing.pack` improves on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from mugraph.passes.memory.lifetimes import Lifetime


@dataclass(frozen=True)
class Request:
    """A buffer of ``size`` bytes, alive in the regions of ``lifetime``.

    ``alignment`` in bytes is what its offset must be a multiple of, beside the alignment that all
    buffers of a plan have.
    """

    size: int
    lifetime: Lifetime
    alignment: int = 1


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

    def aligned_start(self, alignment: int) -> int:
        return aligned(self.start, alignment)

    def holds(self, size: int, alignment: int) -> bool:
        if self.size is None:
            return True
        return self.aligned_start(alignment) - self.start + size <= self.size


class Fit(Enum):
    """Which of the gaps that are large enough an online allocator takes."""

    FIRST = "first"
    BEST = "best"
    LAST = "last"
    WORST = "worst"


SEED_FITS = (Fit.FIRST, Fit.BEST, Fit.WORST)
"""The three heuristics of seed 002, section 6.4; seed 000 names last fit instead of worst fit."""


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


def order_of_birth(requests: Sequence[Request]) -> list[int]:
    """The order of their first regions, larger ones first."""
    return sorted(
        range(len(requests)), key=lambda i: (requests[i].lifetime.first, -requests[i].size, i)
    )


def place_in_order(
    requests: Sequence[Request], order: Sequence[int], fit: Fit, alignment: int
) -> Plan:
    """Places requests one by one in the gap that ``fit`` takes among what is placed already."""
    offsets = [0] * len(requests)
    placed: list[tuple[int, int, int, int]] = []
    peak = 0
    for index in order:
        request = requests[index]
        size = aligned(request.size, alignment)
        step = max(alignment, request.alignment)
        first, last = request.lifetime.first, request.lifetime.last
        occupied = [
            (start, end) for born, dies, start, end in placed if born <= last and first <= dies
        ]
        candidates = [gap for gap in _gaps(occupied) if gap.holds(size, step)]
        offset = _SELECTORS[fit](candidates).aligned_start(step)
        offsets[index] = offset
        placed.append((first, last, offset, offset + size))
        peak = max(peak, offset + size)
    return Plan(tuple(offsets), peak)


def allocate(requests: Sequence[Request], fit: Fit, alignment: int) -> Plan:
    """Places requests in order of their first region (larger ones first) by one heuristic.

    Offsets are multiples of ``alignment`` bytes and of each request's own alignment.
    """
    return place_in_order(requests, order_of_birth(requests), fit, alignment)


def aligned(size: int, alignment: int) -> int:
    """``size`` rounded up to a multiple of ``alignment``."""
    return (size + alignment - 1) // alignment * alignment


def best_plan(requests: Sequence[Request], alignment: int) -> Plan:
    """The plan of lowest peak among first, best, last and worst fit; ties go to the earlier."""
    plans = [allocate(requests, fit, alignment) for fit in Fit]
    return min(plans, key=lambda plan: plan.peak)


def best_of_seed_fits(requests: Sequence[Request], alignment: int) -> Plan:
    """The plan of lowest peak among the three heuristics that Mirage runs."""
    plans = [allocate(requests, fit, alignment) for fit in SEED_FITS]
    return min(plans, key=lambda plan: plan.peak)
