"""Plans for few rows of f8 by weights: in the order in which an H200 measured them."""

from __future__ import annotations

import math

import pytest
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import before_planning
from mugraph.passes.costs.few_rows import is_of_few_rows
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.loads import Load, Loads
from mugraph.passes.costs.work import INSTRUCTION, PhaseWork, Product
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.mugraph.plan.bounds import TiledKernels
from mugraph.passes.mugraph.plan.choose import filled_plan, space_of, time_under, trial_of
from mugraph.passes.mugraph.plan.division import Division
from mugraph.passes.mugraph.plan.shape import KernelModel
from mugraph.passes.mugraph.retile.partition import partition_of
from mugraph.passes.targets import target_named
from mugraph.reading import make_context

TARGET = target_named("h200")


def kernel_of(rows: int, columns: int, depth: int) -> CustomizedOp:
    """Rows (m, k) of e4m3 by the transpose of weights (n, k), into bf16."""
    graph = mi.new_kernel_graph("linear")
    x = graph.new_input((rows, depth), dtype=mi.float8_e4m3fn)
    w = graph.new_input((columns, depth), dtype=mi.float8_e4m3fn)
    sums = graph.matmul(x, mi.transpose(w), dtype=mi.float32)
    graph.mark_output(mi.cast(sums, mi.bfloat16))
    module = graph.module()
    PassPipeline(before_planning("sm_90a")).apply(make_context(), module)
    (kernel,) = custom_kernels(module)
    return kernel


def times(kernel: CustomizedOp, *plans: Plan) -> list[float]:
    """Estimates under plans."""
    found = [time_under(kernel, plan, TARGET) for plan in plans]
    return [math.inf if time is None else time for time in found]


@pytest.mark.parametrize(
    ("rows", "faster", "slower"),
    [
        # 17.9 and 20.3 us.
        (64, Plan(grid=(128,), forloop=28), Plan(grid=(64,), forloop=56, split_k=2)),
        # 22.2 and 25.7 us.
        (
            128,
            Plan(grid=(64,), forloop=56, block=(256,), split_k=2),
            Plan(grid=(32,), forloop=112, block=(256,), split_k=4),
        ),
    ],
)
def test_more_parts_of_a_long_loop_take_longer(rows: int, faster: Plan, slower: Plan) -> None:
    first, second = times(kernel_of(rows, 4096, 14336), faster, slower)
    assert first < second


def test_what_two_blocks_load_counts_twice() -> None:
    """10.6 and 11.9 us."""
    once, twice = times(
        kernel_of(128, 6144, 4096),
        Plan(grid=(128,), forloop=16, block=(256,)),
        Plan(grid=(64, 2, 1), forloop=32),
    )
    assert once < twice


@pytest.mark.parametrize(("rows", "timed"), [(64, True), (96, False), (128, True)])
@pytest.mark.parametrize("split", [1, 2, 4])
def test_only_rows_that_were_timed_have_an_estimate_of_their_own(
    rows: int, timed: bool, split: int
) -> None:
    """Two blocks of 64 rows for 96 of them are no 128 rows."""
    depth, along, columns, iterations = 4096, 256, 96, 16
    loads = (
        Load(64 * along, rows * depth, looped=True),
        Load(columns * along, 6144 * depth, looped=True),
    )
    count = 64 * columns * along // math.prod(INSTRUCTION.shape_mnk)
    sizes = (64, columns, along)
    product = Product(count, along // 16, 64, "e4m3", promoted=True, sizes=sizes)
    loop, none = PhaseWork((product,), 0), PhaseWork((), 0)
    blocks = 64 * math.ceil(rows / 64)
    shape = KernelShape(blocks, 128, iterations, Loads(loads), loop, none, 2 * 64 * columns, 0)
    assert is_of_few_rows(shape.divided(split), TARGET) == timed


def test_a_loop_is_not_divided_where_blocks_are_enough() -> None:
    plan = filled_plan(kernel_of(64, 4096, 14336), Plan(), TARGET)
    assert plan.split_k in (None, 1)


@pytest.mark.parametrize("rows", [64, 128])
def test_bounds_are_below_every_estimate(rows: int) -> None:
    kernel = kernel_of(rows, 4096, 14336)
    with trial_of(kernel) as trial:
        space = space_of(trial, Plan())
        old = partition_of(space)
        model = KernelModel.of(space, old.looped())
        partitions = [
            old._replace(grid=(x, *old.grid[1:])).with_loop(loop)
            for x in (32, 64, 128, 256)
            for loop in (14, 28, 56, 112)
        ]
        kernels, splits = TiledKernels(model, partitions, 128, TARGET), (1, 2)
        for split, least in zip(splits, kernels.least_times(splits), strict=True):
            for partition, bound in zip(partitions, least, strict=True):
                division = Division(model.under(partition), split)
                for threads in (128, 256):
                    time = division.time(division.shape(threads), TARGET)
                    assert time is None or bound <= time
