"""Warp arrangements against brute force, and how many stages a pipeline gets."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mugraph.passes.schedule_threadblock.choose import (
    MMA_K,
    MMA_M,
    MMA_N,
    WarpLayout,
    choose_stages,
    choose_warp_layout,
    warp_layouts,
)
from mugraph.passes.targets import TARGETS


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
def test_no_arrangement_of_warps_is_cheaper(
    rows: int, columns: int, depth: int, warps: int
) -> None:
    chosen = choose_warp_layout(rows, columns, depth, warps)
    assert chosen.m * chosen.n <= warps
    best = min(
        cost(m, n, rows, columns, depth)
        for m in range(1, warps + 1)
        for n in range(1, warps + 1)
        if m * n <= warps
    )
    assert cost(chosen.m, chosen.n, rows, columns, depth) == best


def test_the_figure() -> None:
    # 64 x 32 x 16 with four warps: 4 instructions a warp however they stand; 2 x 2 loads least.
    costs = {(m, n): cost(m, n, 64, 32, 16) for m, n in ((4, 1), (2, 2), (1, 4))}
    assert {calls for calls, _ in costs.values()} == {4}
    assert choose_warp_layout(64, 32, 16, 4) == WarpLayout(2, 2)


def test_every_rectangle_is_tried_once() -> None:
    layouts = [(layout.m, layout.n) for layout in warp_layouts(6)]
    expected = {(m, n) for m in range(1, 7) for n in range(1, 7) if m * n <= 6}
    assert len(layouts) == len(expected) and set(layouts) == expected


@pytest.mark.parametrize(
    ("layout", "shape", "registers"),
    [
        (WarpLayout(1, 1), (16, 8), 4),
        (WarpLayout(1, 1), (64, 96), 192),
        (WarpLayout(1, 1), (64, 97), 208),
        (WarpLayout(2, 2), (64, 96), 48),
        (WarpLayout(4, 1), (1, 8), 4),
    ],
)
def test_accumulator_registers(layout: WarpLayout, shape: tuple[int, int], registers: int) -> None:
    assert layout.accumulators_per_thread(*shape) == registers


TARGET = TARGETS["sm_90a"]


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
