"""What the estimate of a kernel's time says of shapes whose order is plain."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.h200.building import mugraph_of
from benchmarks.h200.workloads import WORKLOADS
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.kernels import estimate, stages_of
from mugraph.passes.costs.loads import Load, Loads
from mugraph.passes.costs.work import PhaseWork, Product
from mugraph.passes.mugraph.plan import PlanPass, tiles
from mugraph.passes.mugraph.plan.bounds import Numbers, TiledKernels
from mugraph.passes.mugraph.plan.choose import space_of
from mugraph.passes.mugraph.plan.combination import combination_time
from mugraph.passes.mugraph.plan.shape import KernelModel, shape_under
from mugraph.passes.mugraph.plan.tiles import TakesLongerError, choose_least_time
from mugraph.passes.mugraph.retile import RetilePass
from mugraph.passes.mugraph.retile.dimensions import find_dimensions
from mugraph.passes.mugraph.retile.partition import choose_partition, partition_of
from mugraph.passes.targets import target_named
from mugraph.reading import make_context, parse_text

TARGET = target_named("sm_90a")
COLUMNS, ROWS = 6144, 4096


def weights(blocks: int, iterations: int, threads: int = 256) -> KernelShape:
    """A product of 16 rows with a matrix of which each block has some columns."""
    columns, depth = COLUMNS // blocks, ROWS // iterations
    tiles = (
        Load(16 * depth * 2, 16 * ROWS * 2, looped=True),
        Load(columns * depth * 2, COLUMNS * ROWS * 2, looped=True),
    )
    loop = PhaseWork((Product(-(-columns // 8) * depth // 16, depth // 16),), 16 * depth)
    after = PhaseWork((), 16 * columns)
    return KernelShape(
        blocks, threads, iterations, Loads(tiles), loop, after, 32 * columns, 64 * columns
    )


def time_of(shape: KernelShape) -> float:
    """The estimate, of a shape that fits."""
    time = estimate(shape, TARGET)
    assert time is not None
    return time


def test_idle_multiprocessors_cost_time() -> None:
    assert time_of(weights(96, 32)) < time_of(weights(48, 32)) < time_of(weights(24, 32))


def test_more_blocks_load_more() -> None:
    """Each of them loads all rows."""
    assert time_of(weights(384, 32)) > time_of(weights(96, 32))


def test_lines_of_the_cache_are_loaded_whole() -> None:
    """Where an iteration loads a part of each, memory takes longer."""
    shape = weights(192, 32)
    parts = shape._replace(loads=Loads(load._replace(row_bytes=64) for load in shape.loads))
    whole = shape._replace(loads=Loads(load._replace(row_bytes=128) for load in shape.loads))
    assert time_of(whole) < time_of(parts)


def test_threads_copy_what_they_multiply_if_memory_takes_longer() -> None:
    """Few blocks copy longer, and bulk copies are faster then."""
    assert not weights(96, 32).prefers_bulk(TARGET)
    assert weights(24, 32).prefers_bulk(TARGET)


def test_no_time_is_below_what_memory_takes() -> None:
    floor = COLUMNS * ROWS * 2 / TARGET.memory_bytes_per_ns
    times = [estimate(weights(blocks, 64), TARGET) for blocks in (24, 48, 96, 192, 384)]
    assert all(time is not None and time > floor for time in times)


@pytest.mark.parametrize("name", ["gqa_bs8", "rmsnorm_bs8", "gated_mlp", "ntrans_bs8", "lora"])
def test_the_bound_by_which_partitions_are_left_out_is_below_every_estimate(name: str) -> None:
    graph = next(op for op in mugraph_of(WORKLOADS[name]).walk() if isinstance(op, CustomizedOp))
    space = find_dimensions(graph)
    old = partition_of(space)
    model = KernelModel.of(space, old.looped())
    partitions = [
        old._replace(grid=(x, *old.grid[1:])).with_loop(loop)
        for x in (old.grid[0], 1, 2, 8, 32)
        for loop in (old.forloop, 2, 4, 16, 64)
    ]
    kernels = TiledKernels(model, partitions, 64, TARGET)
    estimated = left_out = 0
    splits = (1, 2, 8)
    for split, times in zip(splits, kernels.least_times(splits), strict=True):
        for partition, least in zip(partitions, times, strict=True):
            division = tiles.Division(model.under(partition), split)
            left_out += math.isinf(least)
            for threads in (64, 128, 512):
                time = division.time(division.shape(threads), TARGET)
                if partition.forloop % split == 0 and time is not None:
                    estimated += 1
                    assert least <= time
    assert estimated > 10 and left_out > 0


def test_what_a_kernel_is_under_a_partition_is_found_once() -> None:
    graph = next(
        op for op in mugraph_of(WORKLOADS["gqa_bs8"]).walk() if isinstance(op, CustomizedOp)
    )
    space = find_dimensions(graph)
    partition = partition_of(space)
    model = KernelModel.of(space, partition.looped())
    assert model.under(partition) is KernelModel.of(space, partition.looped()).under(partition)
    other = partition.with_loop(2 * partition.forloop)
    assert model.under(other).shape != model.under(partition).shape


def plan_of_product(rows: int, depth: int, columns: int, options: str = "") -> Plan:
    """What is planned for a product in tiles of a block a row of the result."""
    text = f"""
func.func @product(%x: tensor<{rows}x{depth}xf16>, %w: tensor<{depth}x{columns}xf16>)
    -> tensor<{rows}x{columns}xf16> {{
  %y = kn.customized %x, %w grid [{columns // 64}, {rows}, 1] block [128, 1, 1]
      forloop {depth // 64} {options} {{
  ^bb0(%0: tensor<{rows}x{depth}xf16>, %1: tensor<{depth}x{columns}xf16>):
    %2 = tb.input %0 imap [-1, 0, -1] fordim 1
      : tensor<{rows}x{depth}xf16> -> !tb.stensor<1x64xf16>
    %3 = tb.input %1 imap [1, -1, -1] fordim 0
      : tensor<{depth}x{columns}xf16> -> !tb.stensor<64x64xf16>
    %4 = tb.matmul %2, %3 : (!tb.stensor<1x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<1x64xf16>
    %5 = tb.forloop_accum none %4 : !tb.stensor<1x64xf16> -> !tb.stensor<1x64xf16>
    tb.output %5 omap [1, 0, -1] : !tb.stensor<1x64xf16> -> tensor<{rows}x{columns}xf16>
  }} : (tensor<{rows}x{depth}xf16>, tensor<{depth}x{columns}xf16>) -> tensor<{rows}x{columns}xf16>
  func.return %y : tensor<{rows}x{columns}xf16>
}}
"""
    context = make_context()
    module = parse_text(context, text, "product.mlir")
    PlanPass(arch="h200").apply(context, module)
    RetilePass().apply(context, module.clone())
    return next(op for op in module.walk() if isinstance(op, CustomizedOp)).decided


@pytest.mark.parametrize(("rows", "tiles"), [(18, (24, 64)), (26, (32, 64)), (60, (64,))])
def test_rows_that_fill_no_instruction_are_padded(rows: int, tiles: tuple[int, ...]) -> None:
    plan = plan_of_product(rows, 4096, 14336)
    assert plan.tile is not None and plan.tile[0] in tiles


@pytest.mark.parametrize("rows", [24, 32, 64])
def test_rows_that_fill_instructions_are_not(rows: int) -> None:
    assert plan_of_product(rows, 4096, 14336).tile is None


@pytest.mark.parametrize("rows", [841, 1579])
def test_tiles_that_end_past_the_rows_are_no_single_rows(rows: int) -> None:
    plan = plan_of_product(rows, 28672, 8192)
    assert plan.cuts()
    assert plan.tile is not None and plan.tile[0] >= 64


@pytest.mark.parametrize("name", ["gqa_bs8", "rmsnorm_bs8", "gated_mlp"])
def test_what_is_left_out_by_its_bound_is_not_chosen(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = next(op for op in mugraph_of(WORKLOADS[name]).walk() if isinstance(op, CustomizedOp))
    space = find_dimensions(graph)
    chosen = choose_least_time(space, TARGET, Plan())

    def no_bound(kernels: TiledKernels, splits: Sequence[int]) -> Numbers:
        return np.zeros((len(splits), len(kernels.partitions)))

    monkeypatch.setattr(TiledKernels, "least_times", no_bound)
    assert choose_least_time(space, TARGET, Plan()) == chosen is not None


def test_a_partition_is_not_searched_where_bounds_show_that_it_takes_too_long() -> None:
    graph = next(op for op in mugraph_of(WORKLOADS["lora"]).walk() if isinstance(op, CustomizedOp))
    space = find_dimensions(graph)
    chosen = choose_least_time(space, TARGET, Plan())
    assert chosen is not None
    assert choose_least_time(space, TARGET, Plan(), 1.01 * chosen.time) == chosen
    with pytest.raises(TakesLongerError):
        choose_least_time(space, TARGET, Plan(), 0.1 * chosen.time)


def test_many_warps_wait_for_each_other() -> None:
    assert time_of(weights(96, 64, 1024)) > time_of(weights(96, 64, 256))


def test_tiles_must_fit_twice() -> None:
    whole = weights(12, 2)
    assert stages_of(whole, TARGET) is None and estimate(whole, TARGET) is None


def test_what_is_kept_leaves_less_for_stages() -> None:
    shape = weights(96, 32)
    fuller = shape._replace(kept_bytes=TARGET.shared_memory_per_block - 3 * shape.loop_bytes)
    few, many = stages_of(fuller, TARGET), stages_of(shape, TARGET)
    assert few is not None and many is not None and few < many


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("gqa_bs8", ((16, 4, 4), 8, 128)),
        ("gqa_bs1", ((2, 4, 16), 2, 128)),
        ("qknorm_gqa_bs8", ((16, 2, 4), 8, 256)),
        ("mqa_bs1", ((16, 16, 1), 2, 128)),
        ("gemm4096_f16", ((16, 32, 1), 64, 256)),
        ("prefill", ((32, 32, 1), 32, 256)),
    ],
)
def test_the_fastest_that_was_measured_is_chosen(
    name: str, chosen: tuple[tuple[int, ...], int, int]
) -> None:
    """Grid, iterations and threads of the main kernel: of some ten that were timed on an H200."""
    module = mugraph_of(WORKLOADS[name])
    for step in (PlanPass(outline=False, notes=False), RetilePass()):
        step.apply(make_context(), module)
    graph = next(op for op in module.walk() if isinstance(op, CustomizedOp))
    assert (tuple(graph.grid_dim), graph.forloop_range, graph.threads) == chosen


def test_sums_that_no_block_can_keep() -> None:
    shape = weights(96, 32)._replace(loop=PhaseWork((), 0, sums=129 * 256))
    assert estimate(shape, TARGET) is None
    assert estimate(shape._replace(threads=512), TARGET) is None  # fewer registers each
    assert estimate(shape._replace(loop=PhaseWork((), 0, sums=128 * 256)), TARGET) is not None
    half = PhaseWork((), 0, sums=64 * 256)  # kept while a product after the loop has its own
    assert estimate(shape._replace(loop=half, after=half), TARGET) is not None
    beside = shape._replace(loop=half, after=PhaseWork((), 0, sums=128 * 256))
    assert estimate(beside, TARGET) is None


PRODUCT = """
func.func @product(%x: tensor<64x2048xf16>, %w: tensor<2048x2048xf16>) -> tensor<64x2048xf16> {
  %y = kn.customized %x, %w grid [32, 1, 1] block [128, 1, 1] forloop FORLOOP {
  ^bb0(%a: tensor<64x2048xf16>, %b: tensor<2048x2048xf16>):
    %p = tb.input %a imap [-1, -1, -1] BY_COLUMNS : tensor<64x2048xf16> -> !tb.stensor<64xDEPTHxf16>
    %q = tb.input %b imap [1, -1, -1] BY_ROWS : tensor<2048x2048xf16> -> !tb.stensor<DEPTHx64xf16>
    %h = tb.sigmoid %p : !tb.stensor<64xDEPTHxf16> -> !tb.stensor<64xDEPTHxf16>
    %r = tb.matmul %h, %q : (!tb.stensor<64xDEPTHxf16>, !tb.stensor<DEPTHx64xf16>) -> !tb.stensor<64x64xf16>
    SUM
    tb.output %s omap [1, -1, -1] : !tb.stensor<64x64xf16> -> tensor<64x2048xf16>
  } : (tensor<64x2048xf16>, tensor<2048x2048xf16>) -> tensor<64x2048xf16>
  func.return %y : tensor<64x2048xf16>
}
"""  # noqa: E501


def product_in(iterations: int) -> CustomizedOp:
    """A product of a computed factor, with a loop or without one."""
    loops = iterations > 1
    type_ = "!tb.stensor<64x64xf16>"
    text = PRODUCT.replace("FORLOOP", str(iterations)).replace("DEPTH", str(2048 // iterations))
    text = text.replace("BY_COLUMNS", "fordim 1" if loops else "")
    text = text.replace("BY_ROWS", "fordim 0" if loops else "")
    text = text.replace(
        "SUM", f"%s = tb.forloop_accum none %r : {type_} -> {type_}" if loops else ""
    )
    text = text if loops else text.replace("output %s", "output %r")
    module = parse_text(make_context(), text, "product.mlir")
    return next(op for op in module.walk() if isinstance(op, CustomizedOp))


@pytest.mark.parametrize("plan", [Plan(forloop=64), Plan(forloop=32, split_k=4)])
def test_a_loop_that_is_added_takes_what_a_written_one_takes(plan: Plan) -> None:
    times: list[float | None] = []
    for graph in (product_in(1), product_in(8)):
        space = space_of(graph, Plan())
        partition = choose_partition(space, plan)
        whole = KernelModel.of(space, partition.looped()).under(partition)
        shape = whole.shape.divided(plan.split_k or 1)
        assert shape.loop.products and whole.sums == 64 * 64
        times.append(estimate(shape, TARGET))
    assert times[0] == times[1] is not None


def test_rows_that_threads_do_not_share_evenly_take_long() -> None:
    def time(rows: int, length: int) -> float:
        shape = weights(96, 32)
        return time_of(shape._replace(loop=shape.loop._replace(rows=((rows, length),))))

    assert time(1, 8192) == time(2, 4096) == time(64, 256) < time(2, 4104)
    assert time(1, 8192) < time(1, 32768), "more than a thread keeps"


@pytest.mark.parametrize("iterations", [1, 8])
def test_what_every_iteration_stores_counts_as_often(iterations: int) -> None:
    text = f"""
func.func @doubled(%x: tensor<64x512xf16>) -> tensor<64x512xf16> {{
  %y = kn.customized %x grid [4, 1, 1] block [128, 1, 1] forloop {iterations} {{
  ^bb0(%0: tensor<64x512xf16>):
    %1 = tb.input %0 imap [0, -1, -1] fordim 1
      : tensor<64x512xf16> -> !tb.stensor<16x{512 // iterations}xf16>
    %2 = tb.add %1, %1 : (!tb.stensor<16x{512 // iterations}xf16>,
      !tb.stensor<16x{512 // iterations}xf16>) -> !tb.stensor<16x{512 // iterations}xf16>
    tb.output %2 omap [0, -1, -1] fordim 1
      : !tb.stensor<16x{512 // iterations}xf16> -> tensor<64x512xf16>
  }} : (tensor<64x512xf16>) -> tensor<64x512xf16>
  func.return %y : tensor<64x512xf16>
}}
"""
    module = parse_text(make_context(), text, "doubled.mlir")
    graph = next(op for op in module.walk() if isinstance(op, CustomizedOp))
    space = find_dimensions(graph)
    assert shape_under(space, partition_of(space)).stored_bytes == 16 * 512 * 2


def test_what_is_not_parallel_is_combined_by_one_block() -> None:
    """As sums of which rows and columns are reduced: 64 blocks cannot share 128 x 128 of them."""
    alone, shared = (combination_time(1, 128 * 128, 8, 256, blocks, TARGET) for blocks in (1, 64))
    assert shared is not None
    assert alone is None or alone > 2 * shared


def test_products_of_a_state_wait_for_what_threads_exchange_alone() -> None:
    """By four warps a loop of 16 columns took 62.2 us on an H200, and 68 by two."""
    products = (Product(64, 8, columns=16), Product(64, 2, columns=16))
    loop = PhaseWork(products, 5000, chained=1, passed_on=(32, 16), exchanges=2, joins_state=True)
    apart = loop._replace(joins_state=False)
    assert loop.cycles(128, TARGET) < loop.cycles(64, TARGET) < apart.cycles(64, TARGET)
    assert apart.cycles(64, TARGET) < apart.cycles(128, TARGET)
