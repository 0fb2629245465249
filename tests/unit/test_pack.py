"""Certified packing: bounds hold, and what is called optimal is."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mugraph.passes.memory.lifetimes import Lifetime
from mugraph.passes.memory.packing.allocate import Packing, Request, aligned, order_of_birth
from mugraph.passes.memory.packing.bounds import instance_of
from mugraph.passes.memory.packing.greedy import GreedyPacking
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


def assert_apart(plan: Packing, wanted: list[Request], shared: frozenset[tuple[int, int]]) -> None:
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
    sizes, unit = packing.instance.sizes, packing.instance.unit
    placed = map(packing.place, itertools.permutations(range(len(wanted))))
    ends = (map(sum, zip(offsets, sizes, strict=True)) for offsets in placed)
    return unit * min(max(each, default=0) for each in ends)


def first_fit(wanted: list[Request]) -> int:
    """The peak where each buffer, in the order of birth, gets the first gap that has room."""
    placed: list[tuple[Request, int]] = []
    for index in order_of_birth(wanted):
        request, offset = wanted[index], 0
        taken = [
            (start, start + other.size)
            for other, start in placed
            if other.lifetime.overlaps(request.lifetime)
        ]
        for start, end in sorted(taken):
            if start - offset >= request.size:
                break
            offset = max(offset, aligned(end, request.alignment))
        placed.append((request, offset))
    return max((start + request.size for request, start in placed), default=0)


@given(requests())
def test_plans_are_valid_and_bounds_hold(wanted: list[Request]) -> None:
    found = pack(wanted, 1)
    assert_apart(found.plan, wanted, frozenset())
    assert found.bound <= found.plan.peak <= first_fit(wanted)


@given(requests(), st.sampled_from([1, 16, 128]))
def test_offsets_are_multiples_of_the_alignment(wanted: list[Request], alignment: int) -> None:
    plan = pack(wanted, alignment).plan
    assert_apart(plan, wanted, frozenset())
    assert all(offset % alignment == 0 for offset in plan.offsets)
    ends = [o + request.size for o, request in zip(plan.offsets, wanted, strict=True)]
    assert max(ends, default=0) <= plan.peak < max(ends, default=0) + alignment


def test_nothing_needs_nothing() -> None:
    assert pack([], 128).plan == Packing((), 0)


@settings(max_examples=60)
@given(requests(most=5, times=4))
def test_what_is_called_optimal_is(wanted: list[Request]) -> None:
    found = pack(wanted, 1)
    assert found.bound <= optimum(wanted) <= found.plan.peak


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
