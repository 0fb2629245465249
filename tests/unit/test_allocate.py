"""Packing: whatever lives at the same time is apart, for every heuristic."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mugraph.passes.memory.lifetimes import Lifetime
from mugraph.passes.memory.packing.allocate import Fit, Plan, Request, allocate, best_plan


@st.composite
def requests(draw: st.DrawFn) -> list[Request]:
    """Buffers of any size and lifetime."""
    result: list[Request] = []
    for _ in range(draw(st.integers(0, 12))):
        first = draw(st.integers(0, 9))
        last = draw(st.integers(first, 9))
        result.append(Request(draw(st.integers(1, 1000)), Lifetime(first, last)))
    return result


def check(plan: Plan, wanted: list[Request], alignment: int) -> None:
    """No two buffers that live at the same time share a byte; offsets aligned, peak right."""
    spans = [
        (offset, offset + request.size)
        for offset, request in zip(plan.offsets, wanted, strict=True)
    ]
    for (one, first), (other, second) in itertools.combinations(zip(wanted, spans, strict=True), 2):
        if one.lifetime.overlaps(other.lifetime):
            assert first[1] <= second[0] or second[1] <= first[0]
    assert all(offset % alignment == 0 and offset >= 0 for offset in plan.offsets)
    end = max((end for _, end in spans), default=0)
    assert end <= plan.peak < end + alignment


@given(requests(), st.sampled_from(list(Fit)), st.sampled_from([1, 16, 128]))
def test_buffers_that_live_together_are_apart(
    wanted: list[Request], fit: Fit, alignment: int
) -> None:
    check(allocate(wanted, fit, alignment), wanted, alignment)


@given(requests())
def test_the_best_of_all_is_no_worse_than_any_and_no_better_than_possible(
    wanted: list[Request],
) -> None:
    plan = best_plan(wanted, 1)
    check(plan, wanted, 1)
    assert plan.peak == min(allocate(wanted, fit, 1).peak for fit in Fit)
    at_once = [
        sum(r.size for r in wanted if r.lifetime.first <= region <= r.lifetime.last)
        for region in range(10)
    ]
    assert max(at_once) <= plan.peak <= sum(request.size for request in wanted)


# Of each pair the first is freed before the last buffer, of 8 bytes, is placed; the second stays.
# Large ones first: gaps of 40 at 0, 20 at 79 and 10 at 118.
FALLING = [
    *(Request(40, Lifetime(0, 2)), Request(39, Lifetime(0, 3))),
    *(Request(20, Lifetime(0, 2)), Request(19, Lifetime(0, 3))),
    *(Request(10, Lifetime(0, 2)), Request(9, Lifetime(0, 3))),
    Request(8, Lifetime(3, 3)),
]
# Small ones first: gaps of 10 at 0, 20 at 19 and 40 at 58.
RISING = [
    *(Request(10, Lifetime(0, 2)), Request(9, Lifetime(0, 3))),
    *(Request(20, Lifetime(1, 2)), Request(19, Lifetime(1, 3))),
    *(Request(40, Lifetime(2, 2)), Request(39, Lifetime(2, 3))),
    Request(8, Lifetime(3, 3)),
]


@pytest.mark.parametrize(
    ("fit", "falling", "rising"),
    [(Fit.FIRST, 0, 0), (Fit.BEST, 118, 0), (Fit.LAST, 118, 58), (Fit.WORST, 0, 58)],
)
def test_heuristics_take_the_gaps_they_are_named_after(fit: Fit, falling: int, rising: int) -> None:
    assert allocate(FALLING, fit, 1).offsets[-1] == falling
    assert allocate(RISING, fit, 1).offsets[-1] == rising
    assert allocate(FALLING, fit, 1).peak == allocate(RISING, fit, 1).peak == 137


def test_nothing_needs_nothing() -> None:
    assert best_plan([], 128) == Plan((), 0)
