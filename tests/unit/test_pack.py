"""Certified packing: bounds hold, what is called optimal is, and limits are limits on steps."""

import itertools
import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mugraph.passes.memory.lifetimes import Lifetime
from mugraph.passes.memory.packing.allocate import Plan, Request, aligned, order_of_birth
from mugraph.passes.memory.packing.bounds import (
    instance_of,
    max_load,
    next_height,
    stack_heights,
)
from mugraph.passes.memory.packing.exact import Answer, search
from mugraph.passes.memory.packing.improve import GreedyPacking, Steps
from mugraph.passes.memory.packing.pack import components, pack, pack_in_place


@st.composite
def requests(draw: st.DrawFn, most: int = 12, times: int = 9) -> list[Request]:
    """Buffers of any size, lifetime and alignment."""
    result: list[Request] = []
    for _ in range(draw(st.integers(0, most))):
        first = draw(st.integers(0, times))
        last = draw(st.integers(first, times))
        alignment = draw(st.sampled_from([1, 1, 1, 4]))
        result.append(Request(draw(st.integers(1, 12)), Lifetime(first, last), alignment))
    return result


def assert_apart(plan: Plan, wanted: list[Request], shared: frozenset[tuple[int, int]]) -> None:
    """Buffers that meet do not overlap, unless they are an allowed pair with one offset."""
    for one, other in itertools.combinations(range(len(wanted)), 2):
        if not wanted[one].lifetime.overlaps(wanted[other].lifetime):
            continue
        start, end = plan.offsets[one], plan.offsets[one] + wanted[one].size
        if (one, other) in shared and plan.offsets[other] == start:
            continue
        assert end <= plan.offsets[other] or plan.offsets[other] + wanted[other].size <= start
    for offset, request in zip(plan.offsets, wanted, strict=True):
        assert offset % request.alignment == 0
        assert 0 <= offset <= plan.peak - request.size


def optimum(wanted: list[Request]) -> int:
    """The lowest peak: of all orders, as some order places each buffer of a best plan lowest."""
    packing = GreedyPacking(instance_of(wanted, 1))
    return packing.instance.unit * min(
        packing.peak(packing.place(order)) for order in itertools.permutations(range(len(wanted)))
    )


Gap = tuple[int, float]
"""Where free bytes begin and end; the last gap has no end."""

FITS: dict[str, Callable[[list[Gap]], Gap]] = {
    "first": lambda gaps: gaps[0],
    "best": lambda gaps: min(gaps, key=lambda gap: gap[1] - gap[0]),
    "last": lambda gaps: gaps[max(len(gaps) - 2, 0)],
    "worst": lambda gaps: max(gaps[:-1] or gaps, key=lambda gap: gap[1] - gap[0]),
}
"""The heuristics of the seeds: which of the gaps that are large enough a buffer gets."""


def online(wanted: list[Request], fit: str) -> int:
    """The peak of a heuristic that places buffers in the order in which they become alive."""
    placed: list[tuple[Request, int]] = []
    for index in order_of_birth(wanted):
        request, gaps, reached = wanted[index], list[Gap](), 0
        taken = [
            (start, start + other.size)
            for other, start in placed
            if other.lifetime.overlaps(request.lifetime)
        ]
        for start, end in [*sorted(taken), (math.inf, math.inf)]:
            if start - aligned(reached, request.alignment) >= request.size:
                gaps.append((reached, start))
            reached = max(reached, int(end)) if end < math.inf else reached
        placed.append((request, aligned(FITS[fit](gaps)[0], request.alignment)))
    return max((start + request.size for request, start in placed), default=0)


@given(requests())
def test_plans_are_valid_and_bounds_hold(wanted: list[Request]) -> None:
    found = pack(wanted, 1)
    assert_apart(found.plan, wanted, frozenset())
    assert found.bound <= found.plan.peak <= min(online(wanted, fit) for fit in FITS)


@given(requests(), st.sampled_from([1, 16, 128]))
def test_offsets_are_multiples_of_the_alignment(wanted: list[Request], alignment: int) -> None:
    plan = pack(wanted, alignment).plan
    assert_apart(plan, wanted, frozenset())
    assert all(offset % alignment == 0 for offset in plan.offsets)
    ends = [o + request.size for o, request in zip(plan.offsets, wanted, strict=True)]
    assert max(ends, default=0) <= plan.peak < max(ends, default=0) + alignment


def test_nothing_needs_nothing() -> None:
    assert pack([], 128).plan == Plan((), 0)


@settings(max_examples=60)
@given(requests(most=5, times=4))
def test_small_instances_are_solved(wanted: list[Request]) -> None:
    found = pack(wanted, 1)
    assert found.is_optimal
    assert found.plan.peak == optimum(wanted)


@settings(max_examples=60)
@given(requests(most=5, times=4))
def test_the_search_finds_a_plan_exactly_from_the_optimum_on(wanted: list[Request]) -> None:
    instance = instance_of(wanted, 1)
    best = optimum(wanted) // instance.unit
    order = range(len(wanted))
    assert search(instance, best, order, Steps(10**6)).answer is Answer.FOUND
    if wanted:
        assert search(instance, best - 1, order, Steps(10**6)).answer is Answer.IMPOSSIBLE
    assert max_load(instance) <= best


# All four heuristics place the last buffer at 5 and need 8; the load is 6.
TIGHT = [
    Request(3, Lifetime(1, 3)),
    Request(1, Lifetime(3, 4)),
    Request(1, Lifetime(4, 4)),
    Request(4, Lifetime(4, 4)),
]


def test_what_no_heuristic_finds_is_found() -> None:
    assert {online(TIGHT, fit) for fit in FITS} == {8}
    found = pack(TIGHT, 1)
    assert (found.plan.peak, found.bound, found.is_optimal) == (6, 6, True)


def test_the_bound_rises_only_to_heights_of_stacks() -> None:
    """Sizes of 2, 2 and 3 stack to 2, 3, 4, 5 and 7, never to 6."""
    wanted = [Request(size, Lifetime(0, 0)) for size in (2, 2, 3)]
    heights = stack_heights(instance_of(wanted, 1))
    assert [next_height(heights, least) for least in range(1, 8)] == [2, 2, 3, 4, 5, 7, 7]
    assert next_height(None, 6) == 6


def test_at_the_limit_of_steps_the_bound_reached_is_reported() -> None:
    generator = iter(range(7, 10**6, 13))
    wanted = [
        Request(1 + next(generator) % 23, Lifetime(i % 11, i % 11 + next(generator) % 6))
        for i in range(60)
    ]
    found = pack(wanted, 1, step_limit=0)
    assert_apart(found.plan, wanted, frozenset())
    assert found.bound == max(
        max_load(instance_of([wanted[i] for i in group], 1)) for group in components(wanted)
    )
    assert pack(wanted, 1, step_limit=0) == found


def test_groups_that_never_meet_are_packed_apart() -> None:
    wanted = [Request(3, Lifetime(0, 1)), Request(5, Lifetime(2, 3)), Request(2, Lifetime(3, 4))]
    assert components(wanted) == [[0], [1, 2]]
    assert pack(wanted, 1).plan.peak == 7


@settings(max_examples=60)
@given(requests(most=6, times=4), st.integers(0, 3))
def test_results_in_place_save_bytes_and_the_bound_stays_one(
    wanted: list[Request], boundary: int
) -> None:
    """A chain of buffers of one size, each born in the region in which the one before it dies."""
    chain = [Request(4, Lifetime(at, at + 1)) for at in range(boundary, boundary + 3)]
    every = [*chain, *wanted]
    pairs = [(0, 1), (1, 2)]
    found = pack_in_place(every, pairs, 1)
    assert_apart(found.plan, every, frozenset(pairs))
    assert found.bound <= found.plan.peak <= pack(every, 1).plan.peak
    # Every choice of pairs, each solved: none is better than the bound says.
    joined = [Request(4, Lifetime(boundary, boundary + 3)), *wanted]
    assert found.plan.peak <= pack(joined, 1).plan.peak
    assert found.bound <= pack(joined, 1).plan.peak


@pytest.mark.parametrize("alignment", [16, 128])
def test_alignment_of_one_buffer(alignment: int) -> None:
    """A buffer aligned to 1024 bytes, as a bulk copy's swizzle wants, beside one of 128."""
    wanted = [Request(200, Lifetime(0, 1)), Request(1024, Lifetime(0, 1), 1024)]
    found = pack(wanted, alignment)
    assert found.plan.offsets[1] % 1024 == 0
    assert found.plan.peak == 1024 + -(-200 // alignment) * alignment
    assert found.is_optimal
