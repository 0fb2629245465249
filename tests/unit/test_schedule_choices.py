"""Warp arrangements against brute force, and how many stages a pipeline gets."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mugraph.dialects.cute.atoms import mma_atom
from mugraph.passes.costs.memory import CACHED_FLIGHT, MOSTLY_NEW, bytes_in_flight
from mugraph.passes.costs.warp_layouts import (
    WORTH_A_SUM,
    WarpLayout,
    choose_atom,
    choose_warp_layout,
    layouts_along_k,
    product_cost,
    warp_layouts,
)
from mugraph.passes.schedule.pipeline_loads.stages import (
    Ring,
    asked_stages,
    choose_ring_stages,
    choose_stages,
    fewer_stages,
)
from mugraph.passes.targets import target_named

TARGET = target_named("sm_90a")
ATOM = mma_atom("SM80_16x8x16_F32F16F16F32_TN")
MMA_M, MMA_N, MMA_K = ATOM.shape_mnk


def cost(m: int, n: int, rows: int, columns: int, depth: int) -> tuple[int, int]:
    """Instructions of the busiest warp, and elements that all warps load, counted one by one."""
    tiles_m, tiles_n = math.ceil(rows / MMA_M), math.ceil(columns / MMA_N)
    steps = math.ceil(depth / MMA_K)
    per_warp = [
        (len(range(i, tiles_m, m)), len(range(j, tiles_n, n))) for i in range(m) for j in range(n)
    ]
    calls = max(a * b for a, b in per_warp) * steps
    # Every warp has as many registers, and loads as much, as the busiest one.
    most_m, most_n = max(a for a, _ in per_warp), max(b for _, b in per_warp)
    return calls, m * n * (most_m * MMA_M + most_n * MMA_N) * MMA_K * steps


@given(
    st.integers(1, 130), st.integers(1, 200), st.integers(1, 100), st.sampled_from([1, 2, 4, 5, 8])
)
def test_no_arrangement_of_warps_along_m_and_n_is_cheaper(
    rows: int, columns: int, depth: int, warps: int
) -> None:
    chosen = choose_warp_layout(rows, columns, depth, ATOM, 32 * warps, TARGET, along_k=False)
    assert chosen.k == 1 and chosen.m * chosen.n <= warps
    best = min(
        cost(m, n, rows, columns, depth)
        for m in range(1, warps + 1)
        for n in range(1, warps + 1)
        if m * n <= warps
    )
    assert cost(chosen.m, chosen.n, rows, columns, depth) == best


@given(
    st.integers(1, 130),
    st.integers(1, 200),
    st.integers(16, 160),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 32]),
)
def test_no_arrangement_saves_a_good_part_of_the_cycles(
    rows: int, columns: int, depth: int, warps: int, iterations: int
) -> None:
    """Neither a flat one nor one along k: all are compared with the one that is chosen."""
    threads = 32 * warps
    chosen = choose_warp_layout(rows, columns, depth, ATOM, threads, TARGET, iterations=iterations)
    every = (
        *warp_layouts(ATOM, threads),
        *layouts_along_k(ATOM, rows, columns, depth, threads),
    )

    def cycles(layout: WarpLayout) -> float:
        return product_cost(layout, rows, columns, depth, 2, TARGET, 1 / iterations).cycles

    assert WORTH_A_SUM * cycles(chosen) <= min(map(cycles, every))


def test_warps_stand_along_k_where_few_sums_wait_for_many_products() -> None:
    """The norm and linear layer of eight rows: eight steps in a chain, or one a warp."""
    layouts = {
        warps: choose_warp_layout(16, 64, 128, ATOM, 32 * warps, TARGET, iterations=32)
        for warps in (4, 8)
    }
    assert layouts == {4: WarpLayout(ATOM, 1, 1, 4), 8: WarpLayout(ATOM, 1, 1, 8)}
    # The operand of 16 rows is read once more for each warp along n.
    split = product_cost(layouts[8], 16, 64, 128, 2, TARGET, 1 / 32)
    flat = product_cost(WarpLayout(ATOM, 1, 8), 16, 64, 128, 2, TARGET)
    assert split.sequence == flat.sequence and split.volume * 2 < flat.volume


@pytest.mark.parametrize(
    ("shape", "iterations"),
    [((16, 64, 128), 1), ((16, 64, 16), 32), ((128, 128, 32), 64), ((64, 64, 64), 1)],
    ids=["added up each time", "one step", "much work for every warp", "scores"],
)
def test_warps_do_not_stand_along_k_where_the_sum_costs_more(
    shape: tuple[int, int, int], iterations: int
) -> None:
    for warps in (4, 8):
        assert choose_warp_layout(*shape, ATOM, 32 * warps, TARGET, iterations=iterations).k == 1


@given(
    st.integers(1, 130), st.integers(1, 200), st.integers(1, 600), st.sampled_from([1, 2, 4, 5, 8])
)
def test_every_warp_along_k_has_a_step(rows: int, columns: int, depth: int, warps: int) -> None:
    chosen = choose_warp_layout(rows, columns, depth, ATOM, 32 * warps, TARGET, iterations=100)
    assert chosen.m * chosen.n * chosen.k <= warps
    assert chosen.k <= math.ceil(depth / MMA_K)


def test_the_figure() -> None:
    # 64 x 32 x 16 with four warps: 4 instructions a warp however they stand; 2 x 2 loads least.
    costs = {(m, n): cost(m, n, 64, 32, 16) for m, n in ((4, 1), (2, 2), (1, 4))}
    assert {calls for calls, _ in costs.values()} == {4}
    assert choose_warp_layout(64, 32, 16, ATOM, 128, TARGET) == WarpLayout(ATOM, 2, 2)


def test_every_rectangle_is_tried_once() -> None:
    layouts = [(layout.m, layout.n) for layout in warp_layouts(ATOM, 6 * 32)]
    expected = {(m, n) for m in range(1, 7) for n in range(1, 7) if m * n <= 6}
    assert len(layouts) == len(expected) and set(layouts) == expected


@pytest.mark.parametrize(
    ("warps", "shape", "registers"),
    [
        ((1, 1), (16, 8), 4),
        ((1, 1), (64, 96), 192),
        ((1, 1), (64, 97), 208),
        ((2, 2), (64, 96), 48),
        ((4, 1), (1, 8), 4),
    ],
)
def test_accumulator_registers(
    warps: tuple[int, int], shape: tuple[int, int], registers: int
) -> None:
    layout = WarpLayout(ATOM, *warps)
    assert layout.tiled_mma.thread_values(shape).values == registers


@pytest.mark.parametrize(
    ("element", "threads", "ieee", "atom"),
    [
        ("f16", 128, False, "SM80_16x8x16_F32F16F16F32_TN"),
        ("bf16", 32, False, "SM80_16x8x16_F32BF16BF16F32_TN"),
        ("f32", 33, False, "SM80_16x8x8_F32TF32TF32F32_TN"),
        ("f32", 128, True, "UniversalFMA_F32"),
        ("e4m3", 64, False, "SM89_16x8x32_F32E4M3E4M3F32_TN"),
        ("s8", 256, False, "SM80_16x8x32_S32S8S8S32_TN"),
        ("s8", 31, False, "UniversalFMA_S32"),
        ("e5m2", 1, False, "UniversalFMA_F32"),
    ],
)
def test_the_instruction_of_each_type(element: str, threads: int, ieee: bool, atom: str) -> None:
    assert choose_atom((element, element), threads, TARGET, ieee=ieee).name == atom


def test_f8_is_multiplied_as_f16_where_a_target_has_nothing_else() -> None:
    atom = choose_atom(("e4m3", "e5m2"), 128, target_named("sm_80"), ieee=False)
    assert atom.name == "SM80_16x8x16_F32F16F16F32_TN"


def test_threads_share_what_no_warp_multiplies() -> None:
    atom = choose_atom(("f16", "f16"), 20, TARGET, ieee=False)
    layout = choose_warp_layout(4, 4, 9, atom, 20, TARGET)
    assert (layout.m * layout.n, layout.tiles(4, 4)) == (16, (1, 1))


def test_no_stages_where_nothing_is_loaded_in_a_loop() -> None:
    assert choose_stages(0, 132, 64, 1000, TARGET) == 1
    assert choose_stages(4096, 132, 1, 1000, TARGET) == 1


def test_never_more_stages_than_iterations_nor_than_eight() -> None:
    assert choose_stages(16, 1, 3, 1000, TARGET) == 3
    assert choose_stages(16, 1, 1000, 1000, TARGET) == 8


def test_two_stages_where_one_tile_covers_the_latency() -> None:
    enough = math.ceil(TARGET.bytes_in_flight_per_multiprocessor())
    assert choose_stages(enough, 132, 64, enough, TARGET) == 2
    assert choose_stages(enough - 1, 132, 64, enough, TARGET) == 3


def test_blocks_that_share_a_multiprocessor_share_the_latency() -> None:
    third = math.ceil(TARGET.bytes_in_flight_per_multiprocessor() / 3)
    assert choose_stages(third, 132, 64, 10_000, TARGET) == 4
    assert choose_stages(third, 3 * 132, 64, 10_000, TARGET) == 2
    # Blocks that do not fit beside each other do not help each other.
    assert choose_stages(third, 3 * 132, 64, 200_000, TARGET) == 4


WANTED = TARGET.bulk_bytes_in_flight or 0
QUARTER, EIGHTH = WANTED // 4, WANTED // 8


def test_rings_run_ahead_alike_until_their_bytes_are_enough() -> None:
    assert choose_ring_stages([Ring(QUARTER)], 1, 64, TARGET) == (5,)
    assert choose_ring_stages([Ring(QUARTER), Ring(QUARTER)], 1, 64, TARGET) == (3, 3)
    assert choose_ring_stages([Ring(QUARTER), Ring(16)], 1, 64, TARGET) == (5, 5)
    # Blocks that share a multiprocessor share what is on its way to it.
    assert choose_ring_stages([Ring(QUARTER), Ring(QUARTER)], 2, 64, TARGET) == (2, 2)


def test_more_of_what_comes_from_the_cache_is_on_its_way_to_a_block_that_is_alone() -> None:
    flight = bytes_in_flight(MOSTLY_NEW, TARGET.multiprocessors, 1, TARGET)
    assert flight == CACHED_FLIGHT * WANTED
    assert choose_ring_stages([Ring(QUARTER)], 1, 64, TARGET, flight) == (4 * CACHED_FLIGHT + 1,)
    # Not of what device memory brings, beside other blocks, or beside results.
    assert bytes_in_flight(MOSTLY_NEW + 0.1, 1, 1, TARGET) == WANTED
    assert bytes_in_flight(0.1, TARGET.multiprocessors, 2, TARGET) == WANTED
    assert bytes_in_flight(0.1, TARGET.multiprocessors + 1, 1, TARGET) == WANTED


def test_what_products_keep_comes_on_top() -> None:
    assert choose_ring_stages([Ring(QUARTER), Ring(QUARTER, 1)], 1, 64, TARGET) == (3, 4)
    assert choose_ring_stages([Ring(QUARTER), Ring(QUARTER, 1)], 1, 3, TARGET) == (3, 3)


def test_one_stage_of_each_ring_where_nothing_runs_ahead() -> None:
    assert choose_ring_stages([Ring(QUARTER), Ring(16)], 1, 1, TARGET) == (1, 1)
    assert choose_ring_stages([Ring(QUARTER)], 1, 64, target_named("sm_80")) == (1,)


def test_stages_are_given_up_where_they_are_least_needed() -> None:
    rings = [Ring(EIGHTH), Ring(QUARTER), Ring(QUARTER)]
    # The last of the largest of those that run furthest ahead.
    assert fewer_stages(rings, (3, 3, 3), 1) == (3, 3, 2)
    assert fewer_stages(rings, (3, 3, 2), 1) == (3, 2, 2)
    # Where no other runs as far ahead, small tiles, of which two make up for a large one.
    assert fewer_stages(rings, (3, 2, 2), EIGHTH + 1) == (2, 2, 1)
    # What a product keeps does not run ahead.
    assert fewer_stages([Ring(QUARTER), Ring(QUARTER, 1)], (3, 3), 1) == (2, 3)
    assert fewer_stages(rings, (2, 2, 2), 1, least=2) is None
    assert fewer_stages(rings, (2, 3, 2), 0) == (2, 3, 2)


@given(
    st.lists(st.tuples(st.integers(1, 64), st.integers(0, 1), st.integers(1, 6)), min_size=1),
    st.integers(0, 400),
)
def test_stages_are_given_up_until_their_bytes_suffice(
    drawn: list[tuple[int, int, int]], excess: int
) -> None:
    rings = [Ring(size, kept) for size, kept, _ in drawn]
    stages = tuple(count for _, _, count in drawn)
    left = fewer_stages(rings, stages, excess)
    spare = sum(ring.stage_bytes * (count - 1) for ring, count in zip(rings, stages, strict=True))
    assert (left is None) == (excess > spare)
    if left is not None:
        given_up = [before - after for before, after in zip(stages, left, strict=True)]
        freed = [ring.stage_bytes * count for ring, count in zip(rings, given_up, strict=True)]
        assert min(left) >= 1
        assert min(given_up) >= 0
        assert sum(freed) >= excess
        # The last one given up was needed.
        last = [ring.stage_bytes for ring, count in zip(rings, given_up, strict=True) if count]
        assert not last or sum(freed) - max(last) < excess


def test_a_user_may_ask_for_stages() -> None:
    assert asked_stages((3,), 3, 64) == (3, 3, 3)
    assert asked_stages((2, 3), 3, 64) == (2, 3, 3)
    assert asked_stages((2, 3, 4), 1, 64) == (2,)
    assert asked_stages((8,), 2, 5) == (5, 5)
