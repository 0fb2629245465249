"""Persistent kernels in both interpreters: lists of blocks of the grid, and what goes on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from persistent_programs import (
    RUNS,
    Array,
    gemm_inputs,
    goes_wrong,
    kernel_of,
    scheduled,
    without,
)
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.runtime.interpreter import ExecutionError, execute_by_address, run_function
from mugraph.runtime.interpreter.block_lists import block_lists


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
