"""Plans of few rows by a matrix: in the order in which an H200 measured them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pytest
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import before_planning
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.loads import Load, Loads
from mugraph.passes.costs.measured_rows import measured_rows
from mugraph.passes.costs.work import PhaseWork, Product
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.mugraph.plan.bounds import TiledKernels
from mugraph.passes.mugraph.plan.choose import filled_plan, space_of, time_under, trial_of
from mugraph.passes.mugraph.plan.division import Division
from mugraph.passes.mugraph.plan.shape import KernelModel
from mugraph.passes.mugraph.retile.partition import choose_partition
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function

TARGET = target_named("h200")


def product_of(rows: int, depth: int, columns: int) -> CustomizedOp:
    """A kernel that multiplies rows; what follows is no product of a library."""
    graph = mi.new_kernel_graph("product")
    x, w = graph.new_input((rows, depth)), graph.new_input((depth, columns))
    graph.mark_output(mi.silu(x @ w))
    module = graph.module()
    PassPipeline(before_planning("sm_90a")).apply(make_context(), module)
    (kernel,) = custom_kernels(module)
    return kernel


def behind_a_gate(rows: int, depth: int, columns: int, *, constant: bool) -> CustomizedOp:
    """The kernel that multiplies gated rows, behind the one that gates them."""
    graph = mi.new_kernel_graph("gated")
    x, gate = graph.new_input((rows, depth)), graph.new_input((rows, depth))
    w = graph.new_input((depth, columns), constant=constant)
    gated = x * mi.sigmoid(gate)
    graph.mark_output(gated)
    graph.mark_output(gated @ w)
    module = graph.module()
    fuse_program(only_function(module), TARGET)
    return custom_kernels(module)[-1]


def whole(columns: int, loop: int, rows: int = 1) -> Plan:
    return Plan(grid=(columns, rows, 1), along=(-1, 0, -1), forloop=loop, split_k=1)


def parts(columns: int, loop: int, split: int, rows: int = 1) -> Plan:
    return Plan(grid=(columns, rows, 1), along=(-1, 0, -1), forloop=loop, split_k=split)


@pytest.mark.parametrize(
    ("sizes", "faster", "slower"),
    [
        # 7.2 and 8.7 us; with constant weights 6.4 and 10.5.
        ((64, 2048, 2048), whole(64, 16), parts(32, 32, 4)),
        # 13.4 and 15.1 us.
        ((64, 4096, 4096), whole(128, 32), parts(64, 32, 2)),
        # 8.1 and 10.2 us: few long loops still are divided.
        ((64, 4096, 1024), parts(32, 32, 4), whole(64, 32)),
        # 8.0 and 9.7 us.
        ((128, 2048, 2048), whole(64, 16, rows=2), parts(32, 16, 2, rows=2)),
    ],
)
def test_parts_are_ordered_as_they_were_measured(
    sizes: tuple[int, int, int], faster: Plan, slower: Plan
) -> None:
    kernel = product_of(*sizes)
    first, second = (time_under(kernel, plan, TARGET) for plan in (faster, slower))
    assert first is not None and second is not None and first < second


@pytest.mark.parametrize("constant", [False, True])
def test_loops_stay_whole_also_where_weights_are_constant(constant: bool) -> None:
    plan = filled_plan(behind_a_gate(64, 2048, 2048, constant=constant), Plan(), TARGET)
    assert plan.split_k is None and plan.grid == (64, 1, 1)
    assert plan.pdl == ("early" if constant else "end")


def test_a_kernel_that_only_adds_up_does_not_begin_early() -> None:
    """With constant weights 64 x 2048 x 2048 in four parts took 10.5 us so, and 7.9 at the end."""
    kernel = behind_a_gate(64, 2048, 2048, constant=True)
    assert filled_plan(kernel, parts(32, 32, 4), TARGET).pdl == "end"


@pytest.mark.parametrize(
    ("rows", "measured"), [(64, 64), (60, 64), (48, 0), (128, 128), (115, 128), (192, 0), (4096, 0)]
)
def test_other_rows_and_batches_keep_their_estimate(rows: int, measured: int) -> None:
    """64 matrices of 64 rows are 4096; 60 rows fill a warp group's instructions as 64 do."""
    tile = 64 * 32 * 2
    loads = (Load(tile, rows * 128 * 2, looped=True), Load(tile, 4096 * 128 * 2, looped=True))
    product = Product(16, 1, group_rows=64, sizes=(64, 64, 32))
    nothing = PhaseWork((), 0)
    shape = KernelShape(64, 128, 4, Loads(loads), PhaseWork((product,), 0), nothing, 8192, 0)
    assert measured_rows(shape) == measured


def bounds_and_times(
    kernel: CustomizedOp, plans: Sequence[Plan], splits: Sequence[int]
) -> Iterator[tuple[float, float, int]]:
    """Bound, estimate and measured rows of a kernel under the plans that fit, divided so often."""
    with trial_of(kernel) as trial:
        space = space_of(trial, Plan())
        partitions = [choose_partition(space, plan) for plan in plans]
        model = KernelModel.of(space, partitions[0].looped())
        bounds = TiledKernels(model, partitions, 128, TARGET).least_times(splits)
        for split, times in zip(splits, bounds, strict=True):
            for partition, least in zip(partitions, times, strict=True):
                division = Division(model.under(partition), split)
                shape = division.shape(128)
                time = division.time(shape, TARGET)
                if time is not None:
                    yield least, time, measured_rows(shape)


@pytest.mark.parametrize("rows", [64, 128, 192])
def test_the_bound_is_below_the_estimate(rows: int) -> None:
    plans = [whole(columns, loop) for columns in (16, 32, 64, 128) for loop in (8, 16, 32)]
    found = [*bounds_and_times(product_of(rows, 2048, 2048), plans, (1, 2, 4))]
    assert len(found) > 20
    assert all(least <= time < math.inf for least, time, _ in found)


def test_few_columns_are_no_few_rows() -> None:
    """As those of a router: tiles of 64 x 64 are as large of its rows as of its columns."""
    plans = [whole(1, loop, rows) for loop in (8, 16, 32) for rows in (8, 16, 32)]
    found = [*bounds_and_times(product_of(1024, 2048, 64), plans, (1, 2, 4))]
    assert len(found) > 20
    assert all(least <= time and not rows for least, time, rows in found)
