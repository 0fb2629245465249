"""Products of few rows: who can swap operands, how groups share the product, and what is chosen."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mugraph.build as mi
from mugraph.dialects import sched
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.costs.memory import BULK_BYTES_A_CYCLE
from mugraph.passes.costs.warp_layouts import WarpLayout, choose_atom, choose_warp_layout
from mugraph.passes.schedule.lower_threadblock.small_products import (
    WORTH_A_SWAP,
    SmallProduct,
    choose_small_layout,
    swap_obstacle,
    swapped_layout,
    way_cost,
)
from mugraph.passes.schedule.pipeline_loads.stages import Ring, choose_ring_stages
from mugraph.passes.targets import target_named
from mugraph.reading import make_context

TARGET = target_named("sm_90a")


def product(rows: int, columns: int, depth: int, threads: int, tile_bytes: int) -> SmallProduct:
    return SmallProduct(rows, columns, depth, ("f16", "f16"), 2, threads, 32, tile_bytes, 4, 132)


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "element", "threads", "reason"),
    [
        (2, 64, 128, "f16", 128, "2 rows are no multiple of 8"),
        (16, 32, 128, "f16", 128, "32 columns are no multiple of 64"),
        (16, 64, 24, "bf16", 128, "a depth of 24 is no multiple of 16"),
        (16, 64, 128, "f32", 128, "warp groups do not multiply f32"),
        (16, 64, 48, "e4m3", 128, "a depth of 48 is no multiple of 32"),
        (16, 64, 128, "s8", 128, None),
        (16, 64, 128, "f16", 96, "96 threads are no warp group of 128"),
        (16, 64, 128, "f16", 160, None),
    ],
)
def test_what_stands_in_the_way(
    rows: int, columns: int, depth: int, element: str, threads: int, reason: str | None
) -> None:
    obstacle = swap_obstacle(rows, columns, depth, (element, element), threads)
    assert (obstacle and obstacle.reason) == reason


@given(
    st.integers(1, 8),
    st.integers(1, 6),
    st.integers(1, 8),
    st.integers(1, 4),
    st.integers(0, 1 << 16),
)
def test_groups_share_the_columns(
    eights: int, columns: int, steps: int, groups: int, tile_bytes: int
) -> None:
    """All columns are some group's, evenly; every instruction reads 64 of them and all the rows."""
    small = product(8 * eights, 64 * columns, 16 * steps, 128 * groups, tile_bytes)
    layout = swapped_layout(small)
    assert layout.atom.shape_mnk == (8 * eights, 64, 16)
    assert layout.m == 1 and layout.n <= groups and columns % layout.n == 0
    cost = way_cost(small, layout, TARGET)
    assert cost.instructions == columns * steps
    assert cost.read_bytes == columns * steps * (64 + 8 * eights) * 16 * 2
    assert cost.cycles >= 31 * tile_bytes / BULK_BYTES_A_CYCLE


@given(
    st.integers(1, 8),
    st.integers(1, 4),
    st.integers(1, 16),
    st.integers(1, 4),
    st.integers(0, 1 << 16),
)
def test_the_cheaper_way_is_chosen_unless_one_is_asked_for(
    eights: int, columns: int, steps: int, groups: int, tile_bytes: int
) -> None:
    small = product(8 * eights, 64 * columns, 16 * steps, 128 * groups, tile_bytes)
    by_warps = choose_warp_layout(
        small.rows,
        small.columns,
        small.depth,
        choose_atom(("f16", "f16"), small.threads, TARGET, ieee=False),
        small.threads,
        TARGET,
    )
    ways = {False: by_warps, True: swapped_layout(small)}
    for way, layout in ways.items():
        assert choose_small_layout(small, by_warps, TARGET, way) == layout
    chosen = choose_small_layout(small, by_warps, TARGET)
    by_single, by_groups = (way_cost(small, layout, TARGET).cycles for layout in ways.values())
    assert chosen == ways[by_groups < WORTH_A_SWAP * by_single]


def test_what_an_iteration_uses_stays_with_single_warps() -> None:
    used = replace(product(16, 64, 128, 128, 0), sums_once=False)
    atom = choose_atom(("f16", "f16"), 128, TARGET, ieee=False)
    by_warps = choose_warp_layout(16, 64, 128, atom, 128, TARGET)
    assert choose_small_layout(used, by_warps, TARGET) == by_warps
    assert choose_small_layout(used, by_warps, TARGET, swap=True) == swapped_layout(used)


MEASURED = {
    # rows, blocks and threads: µs by single warps, and with swapped operands
    (8, 96, 128): (15.06, 14.82),
    (8, 96, 256): (14.97, 14.76),
    (8, 48, 256): (18.95, 16.57),
    (16, 96, 128): (16.71, 15.47),
    (16, 96, 256): (16.00, 15.34),
    (16, 48, 256): (20.31, 17.38),
    (32, 96, 128): (17.00, 16.17),
    (32, 96, 256): (18.99, 15.89),
    (32, 48, 256): (20.82, 18.48),
}
"""rms_norm(X) · W with W[4096,6144] in 32 iterations on an H200: ``h200_small_m.md``."""


def product_of(case: tuple[int, int, int]) -> tuple[SmallProduct, WarpLayout]:
    """A measured product, and its layout by single warps."""
    rows, blocks, threads = case
    columns = 6144 // blocks
    tile_bytes = 2 * 128 * (rows + columns)
    (stages,) = choose_ring_stages((Ring(tile_bytes),), 1, 32, TARGET)
    types = ("f16", "f16")
    small = SmallProduct(rows, columns, 128, types, 2, threads, 32, tile_bytes, stages, blocks)
    atom = choose_atom(types, threads, TARGET, ieee=False)
    return small, choose_warp_layout(rows, columns, 128, atom, threads, TARGET, iterations=32)


def estimates(case: tuple[int, int, int]) -> tuple[float, float]:
    """Cycles of a measured product's loop by single warps, and with swapped operands."""
    small, by_warps = product_of(case)
    by_single, swapped = (
        way_cost(small, way, TARGET).cycles for way in (by_warps, swapped_layout(small))
    )
    return by_single, swapped


@pytest.mark.parametrize("case", MEASURED)
def test_the_estimate_chooses_what_was_faster(case: tuple[int, int, int]) -> None:
    """And says by how much, give or take a sixth."""
    small, by_warps = product_of(case)
    by_single, swapped = MEASURED[case]
    assert swapped < by_single
    assert choose_small_layout(small, by_warps, TARGET) == swapped_layout(small)
    of_warps, of_groups = estimates(case)
    assert of_warps / of_groups == pytest.approx(by_single / swapped, rel=1 / 6)


def test_estimates_agree_with_measurements() -> None:
    """The numbers of ``passes/costs`` say by how many microseconds one way was the faster one.

    What an estimate of the loop leaves out, launch and ends, is the same for both.
    """
    errors: list[float] = []
    for case, (by_single, swapped) in MEASURED.items():
        of_warps, of_groups = estimates(case)
        errors.append((of_groups - of_warps) / TARGET.clock_ghz / 1000 - (swapped - by_single))
    assert math.sqrt(sum(error**2 for error in errors) / len(errors)) < 0.9


def test_blocks_of_single_warps_run_at_once_as_was_estimated() -> None:
    """Warps along k have all sums: 224 blocks of 256 threads have no registers beside each other.

    They took 70 us on an H200 in two rounds.
    """
    graph = mi.new_kernel_graph("gated")
    rows, columns, depth = 31, 14336, 3584
    x = graph.new_input((rows, depth), dtype=mi.bfloat16)
    gate, up = (graph.new_input((depth, columns), dtype=mi.bfloat16) for _ in range(2))
    graph.mark_output(mi.gelu(x @ gate) * (x @ up))
    module, context = graph.module(), make_context()
    for step in compile_pipeline("sm_90a"):
        step.apply(context, module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    assert kernel.resident_blocks is not None
    assert math.prod(kernel.grid_dim) <= kernel.resident_blocks * TARGET.multiprocessors
