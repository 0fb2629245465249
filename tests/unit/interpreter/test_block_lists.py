"""Persistent kernels in both interpreters: lists of blocks of the grid, and what goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from interpreter_programs import parse
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from mugraph.dialects import sched
from mugraph.passes.persist_blocks import PersistBlocksPass
from mugraph.passes.transpile import transpile_pipeline
from mugraph.runtime.interpreter import ExecutionError, execute_by_address, run_function
from mugraph.runtime.interpreter.address_level import Landing
from mugraph.runtime.interpreter.block_lists import block_lists
from mugraph.tools.modules import make_context

Array = npt.NDArray[Any]

GEMM = """
func.func @gemm(%a: tensor<128x320xf16>, %b: tensor<320x256xf16>) -> tensor<128x256xf16> {
  %o = kn.customized %a, %b grid [4, 2, 1] block [128, 1, 1] forloop 5 {
  ^bb0(%da: tensor<128x320xf16>, %db: tensor<320x256xf16>):
    %sa = tb.input %da imap [-1, 0, -1] fordim 1 : tensor<128x320xf16> -> !tb.stensor<64x64xf16>
    %sb = tb.input %db imap [1, -1, -1] fordim 0 : tensor<320x256xf16> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sa, %sb : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>) -> \
!tb.stensor<64x64xf16>
    %total = tb.forloop_accum none %m : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %total omap [1, 0, -1] : !tb.stensor<64x64xf16> -> tensor<128x256xf16>
  } : (tensor<128x320xf16>, tensor<320x256xf16>) -> tensor<128x256xf16>
  func.return %o : tensor<128x256xf16>
}
"""
"""Eight blocks of the grid, and rings of three stages, which do not divide the five iterations."""

ORDERS: list[str | int] = ["together", "forward", "reversed", 0]
RUNS = [(order, landing) for order in ORDERS for landing in Landing]


def scheduled(blocks: int | None) -> ModuleOp:
    """Persistent with so many blocks of the launch, or not."""
    module, context = parse(GEMM), make_context()
    for step in transpile_pipeline("sm_90a", pipeline="channels", bytes_in_flight=8192):
        if isinstance(step, PersistBlocksPass):
            if blocks is None:
                continue
            step = PersistBlocksPass(blocks=blocks)
        step.apply(context, module)
    module.verify()
    assert kernel_of(module).persistent_blocks == blocks
    return module


def kernel_of(module: ModuleOp) -> sched.KernelOp:
    return next(op for op in module.walk() if isinstance(op, sched.KernelOp))


@pytest.fixture(scope="module")
def persistent() -> ModuleOp:
    """Three blocks of the launch for eight of the grid: lists of three, three and two."""
    return scheduled(3)


@pytest.fixture(scope="module")
def inputs() -> list[Array]:
    """Sums of their products are exact, in whatever order."""
    random = np.random.default_rng(5)
    extents = (128, 320), (320, 256)
    return [random.integers(-4, 5, extent).astype(np.float16) / 4 for extent in extents]


@pytest.fixture(scope="module")
def right(inputs: list[Array]) -> Array:
    """What the kernel gives whose blocks take one block of the grid each."""
    return execute_by_address(scheduled(None), None, inputs).outputs[0]


def without(module: ModuleOp, chosen: Callable[[Operation], bool]) -> ModuleOp:
    """The module, the first operator that is chosen left out."""
    changed = module.clone()
    Rewriter.erase_op(next(op for op in changed.walk() if chosen(op)))
    return changed


def goes_wrong(module: ModuleOp, inputs: list[Array], right: Array) -> bool:
    """Whether in some order of warps and landing another result comes than should, or none."""
    for order, landing in RUNS:
        try:
            run = execute_by_address(module, None, inputs, order=order, landing=landing)
        except ExecutionError:
            return True
        if not np.array_equal(run.outputs[0], right):
            return True
    return False


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
