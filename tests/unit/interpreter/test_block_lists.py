"""Persistent kernels in both interpreters: lists of blocks of the grid, and what goes on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from persistent_programs import (
    ROWS,
    RUNS,
    Array,
    gemm_inputs,
    goes_wrong,
    kernel_of,
    runs,
    scheduled,
    without,
)
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import sched
from mugraph.passes.schedule.analysis.hazards import find_hazards
from mugraph.runtime.interpreter import ExecutionError, execute_by_address, run_function
from mugraph.runtime.interpreter.block_lists import block_lists, blocks_at


@pytest.fixture(scope="module")
def persistent() -> ModuleOp:
    """Three blocks of the launch for eight of the grid: lists of three, three and two."""
    return scheduled(3)


@pytest.fixture(scope="module")
def inputs() -> list[Array]:
    return gemm_inputs()


@pytest.fixture(scope="module")
def right(inputs: list[Array]) -> Array:
    """What the kernel gives whose blocks take one block of the grid each."""
    return execute_by_address(scheduled(None), None, inputs).outputs[0]


@pytest.mark.parametrize("raster", [1, 2])
def test_lists_are_those_of_the_header_library(persistent: ModuleOp, raster: int) -> None:
    kernel = kernel_of(persistent.clone())
    kernel.raster = IntegerAttr(raster, i64)
    lists = block_lists(kernel)
    assert [each.shape for each in lists] == [(3, 2, 3), (2, 1, 3)]
    of_first = [tuple(block) for block in lists[0][:, 0].tolist()]
    # Places 0, 3 and 6: along x, or down the columns of two rows.
    assert of_first == (
        [(0, 0, 0), (3, 0, 0), (2, 1, 0)] if raster == 1 else [(0, 0, 0), (1, 1, 0), (3, 0, 0)]
    )
    every = {tuple(block) for each in lists for block in each.reshape(-1, 3).tolist()}
    assert every == {(x, y, 0) for x in range(4) for y in range(2)}


@pytest.mark.parametrize("sample", [1, 2, 5, 100])
def test_samples_are_whole_lists(persistent: ModuleOp, sample: int) -> None:
    lists = block_lists(kernel_of(persistent), sample)
    assert sum(len(each) * each.shape[1] for each in lists) >= min(sample, 8)
    assert all(len(each) in (2, 3) for each in lists)


@pytest.mark.parametrize("blocks", [1, 3, 5])
def test_lists_give_what_blocks_of_their_own_give(
    blocks: int, inputs: list[Array], right: Array
) -> None:
    module = scheduled(blocks)
    (logical,) = run_function(module, None, inputs)
    np.testing.assert_array_equal(logical, right)
    for order, landing in RUNS[:: 1 if blocks == 3 else 5]:
        run = execute_by_address(module, None, inputs, order=order, landing=landing)
        np.testing.assert_array_equal(run.outputs[0], right)
        assert len(run.blocks["gemm_custom0"]) == 8


def is_acquire_of_a_fill(op: Operation) -> bool:
    return isinstance(op, sched.AcquireOp) and op.fixed_iteration == 0


def is_last_release(op: Operation) -> bool:
    return isinstance(op, sched.ReleaseOp) and op.fixed_iteration is not None


def is_wait_for_stores(op: Operation) -> bool:
    return isinstance(op, sched.BulkWaitOp)


@pytest.mark.parametrize(
    "step", [is_acquire_of_a_fill, is_last_release, is_wait_for_stores], ids=lambda f: f.__name__
)
def test_what_one_block_leaves_to_the_next_matters(
    persistent: ModuleOp,
    inputs: list[Array],
    right: Array,
    step: Callable[[Operation], bool],
) -> None:
    wrong = without(persistent, step)
    assert goes_wrong(wrong, inputs, right)
    # Blocks of the grid alone do not need the step: the ring is as it was set up.
    alone = wrong.clone()
    kernel_of(alone).persistent = None
    assert step is is_wait_for_stores or not goes_wrong(alone, inputs, right)


@pytest.mark.parametrize("level", ["logical", "address"])
def test_who_waits_in_which_block_of_the_list(
    persistent: ModuleOp, inputs: list[Array], level: str
) -> None:
    with pytest.raises(ExecutionError, match="cannot go on") as error:
        run_function(without(persistent, is_last_release), None, inputs, level=level)
    assert "of block 1 of its list for stage" in str(error.value)
    assert "to be released by the readers of iteration 4" in str(error.value)


@pytest.mark.parametrize("before", ["the role", "the phases"])
def test_an_accumulator_cleared_once_keeps_the_sums_of_the_block_before(
    persistent: ModuleOp, inputs: list[Array], right: Array, before: str
) -> None:
    module = persistent.clone()
    fill = next(op for op in module.walk() if isinstance(op, sched.FillOp))
    prologue, role = fill.parent_op(), sched.enclosing_role(fill)
    assert prologue is not None and role is not None
    fill.detach()
    Rewriter.insert_op(fill, InsertPoint.before(prologue))
    if before == "the role":
        fragment = fill.destination.owner
        assert isinstance(fragment, sched.EmptyOp)
        for op in (fragment, fill):
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(role))
    module.verify()
    (finding,) = find_hazards(kernel_of(module))
    assert "%total, to which nothing has been written for block 1 of its list" in str(finding)
    for result in (*runs(module, inputs), run_function(module, None, inputs)[0]):
        assert not isinstance(result, str) and not np.array_equal(result, right)


def test_a_fragment_that_is_only_read_may_be_filled_once(persistent: ModuleOp) -> None:
    module = persistent.clone()
    store = next(op for op in module.walk() if isinstance(op, sched.StoreOp))
    role = sched.enclosing_role(store)
    assert role is not None and role.body.block.first_op is not None
    zeros = sched.EmptyOp(store.source.type)
    once = sched.FillOp(zeros.result, 0.0)
    Rewriter.insert_op([zeros, once], InsertPoint.before(role.body.block.first_op))
    again = store.clone()
    again.operands[0] = once.tiles[0]
    Rewriter.insert_op(again, InsertPoint.before(store))
    module.verify()
    assert find_hazards(kernel_of(module)) == []


GRIDS = list(itertools.product([1, 2, 3, 4, 6], [1, 2, 4, 6], [1, 2]))


@pytest.mark.parametrize("blocks", [2, 3, 4])
def test_axes_along_which_blocks_in_a_row_differ(persistent: ModuleOp, blocks: int) -> None:
    kernel = kernel_of(persistent.clone())
    for grid, raster in itertools.product(GRIDS, [1, 2, 3]):
        count = math.prod(grid)
        if count % blocks or grid[1] % raster:
            continue
        kernel.grid = DenseArrayBase.from_list(i64, list(grid))
        kernel.raster = IntegerAttr(raster, i64)
        rows = blocks_at(kernel, np.arange(count).reshape(-1, blocks))
        differ = (rows != rows[:, :1]).any(axis=(0, 1))
        assert kernel.axes_in_runs(blocks) == np.flatnonzero(differ).tolist(), (grid, raster)


@pytest.mark.parametrize("level", ["logical", "address"])
@pytest.mark.parametrize(
    ("cluster", "persistent_blocks", "message"),
    [
        ([1, 2, 1], None, "brings one tile to all blocks of a cluster, and these need several"),
        ([2, 1, 1], 3, r"launches \[3, 1, 1\] blocks, which are no whole clusters of \[2, 1, 1\]"),
    ],
)
def test_clusters_that_cannot_be(
    cluster: list[int], persistent_blocks: int | None, message: str, level: str
) -> None:
    extents = (128, 256), (256, 256)
    inputs = [np.ones(extent, np.float16) for extent in extents]
    module = scheduled(None, text=ROWS, cluster=2, stages=2)
    kernel = kernel_of(module)
    assert kernel.cluster_dim == (2, 1, 1)
    assert (run_function(module, None, inputs, level=level)[0] == 256).all()
    kernel.cluster = DenseArrayBase.from_list(i64, cluster)
    if persistent_blocks is not None:
        kernel.persistent = IntegerAttr(persistent_blocks, i64)
    with pytest.raises(VerifyException):
        module.verify()
    with pytest.raises(ExecutionError, match=message):
        run_function(module, None, inputs, level=level)
