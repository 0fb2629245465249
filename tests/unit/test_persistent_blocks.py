"""Persistent blocks: what the checker says where a step is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from emulated_programs import check_emulated_later
from schedules import passes_as_written
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from mugraph.dialects import sched
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.schedule.analysis.hazards import find_hazards
from mugraph.reading import make_context, parse_text, read_module
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import run_function

GRAPH = Path(__file__).resolve().parents[1] / "filecheck/passes/Inputs/warpgroup-gemm.mlir"


@pytest.fixture(scope="module", params=[4, 3])
def module(request: pytest.FixtureRequest) -> ModuleOp:
    """With four stages, which divide the eight iterations, and with three."""
    context = make_context()
    module = read_module(str(GRAPH), context)
    steps = passes_as_written(
        "sm_90a", loads="tma", check_hazards=False, stages=(request.param,), blocks=3
    )
    for step in steps:
        step.apply(context, module)
    return module


def kinds_without(module: ModuleOp, chosen: Callable[[Operation], bool]) -> set[HazardKind]:
    """The hazards of the kernel once the first operator that is chosen is left out."""
    changed = module.clone()
    kernel = next(op for op in changed.walk() if isinstance(op, sched.KernelOp))
    assert kernel.persistent_blocks == 3
    removed = next((op for op in kernel.walk() if chosen(op)), None)
    if removed is not None:
        Rewriter.erase_op(removed)
    return {finding.kind for finding in find_hazards(kernel)}


def test_blocks_go_on_without_hazards(module: ModuleOp) -> None:
    assert kinds_without(module, lambda _: False) == set()


def test_a_stage_that_is_never_released_stops_the_next_block(module: ModuleOp) -> None:
    kinds = kinds_without(
        module, lambda op: isinstance(op, sched.ReleaseOp) and op.fixed_iteration is not None
    )
    assert HazardKind.DEADLOCK in kinds or HazardKind.PROTOCOL in kinds


def test_a_fill_must_wait_for_the_block_before(module: ModuleOp) -> None:
    kinds = kinds_without(
        module, lambda op: isinstance(op, sched.AcquireOp) and op.fixed_iteration == 0
    )
    assert kinds & {HazardKind.PROTOCOL, HazardKind.IN_FLIGHT, HazardKind.WRITE_AFTER_READ}


def test_a_result_is_written_once_the_one_before_has_been_read(module: ModuleOp) -> None:
    kinds = kinds_without(module, lambda op: isinstance(op, sched.BulkWaitOp))
    assert HazardKind.IN_FLIGHT in kinds


RESIDUAL = """
func.func @f(%a: tensor<256x128xf16>, %b: tensor<128x288xf16>, %r: tensor<256x288xf16>)
    -> tensor<256x288xf16> {
  %o = kn.customized %a, %b, %r grid [2, 2, 1] block [256, 1, 1] forloop 2 {
  ^bb0(%da: tensor<256x128xf16>, %db: tensor<128x288xf16>, %dr: tensor<256x288xf16>):
    %sa = tb.input %da imap [-1, 0, -1] fordim 1 : tensor<256x128xf16> -> !tb.stensor<128x64xf16>
    %sb = tb.input %db imap [1, -1, -1] fordim 0 : tensor<128x288xf16> -> !tb.stensor<64x144xf16>
    %sr = tb.input %dr imap [1, 0, -1] : tensor<256x288xf16> -> !tb.stensor<128x144xf16>
    %m = tb.matmul %sa, %sb
      : (!tb.stensor<128x64xf16>, !tb.stensor<64x144xf16>) -> !tb.stensor<128x144xf16>
    %t = tb.forloop_accum none %m : !tb.stensor<128x144xf16> -> !tb.stensor<128x144xf16>
    %s = tb.add %t, %sr
      : (!tb.stensor<128x144xf16>, !tb.stensor<128x144xf16>) -> !tb.stensor<128x144xf16>
    tb.output %s omap [1, 0, -1] : !tb.stensor<128x144xf16> -> tensor<256x288xf16>
  } : (tensor<256x128xf16>, tensor<128x288xf16>, tensor<256x288xf16>) -> tensor<256x288xf16>
  func.return %o : tensor<256x288xf16>
}
"""


def scheduled(text: str, blocks: int) -> tuple[ModuleOp, sched.KernelOp]:
    context = make_context()
    module = parse_text(context, text, "residual")
    steps = passes_as_written("sm_90a", loads="tma", stages=(2,), blocks=blocks, stores="tma")
    for step in steps:
        step.apply(context, module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    return module, kernel


def error_of(module: ModuleOp, rows: int) -> float:
    """The largest error, in parts of the largest result."""
    draw = np.random.default_rng(0).standard_normal
    a, b, r = (draw(shape).astype(np.float16) for shape in ((rows, 128), (128, 288), (rows, 288)))
    (result,) = run_function(module, None, [a, b, r], level="address")
    expected = a.astype(np.float64) @ b.astype(np.float64) + r
    return float(np.abs(result - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("rows", [256, 210])
def test_what_the_epilogue_alone_reads_threads_load_there(rows: int) -> None:
    """Nothing but the ring and the results lies in shared memory, whatever rows and columns."""
    module, kernel = scheduled(RESIDUAL.replace("256x", f"{rows}x"), 3)
    assert kernel.persistent_blocks == 3
    assert sum(isinstance(op, sched.ChannelOp) for op in kernel.walk()) == 1
    assert not list(find_hazards(kernel))
    assert error_of(module, rows) <= 2e-3


NUMBERS = """
func.func @f(%a: tensor<210x128xf16>, %b: tensor<128x272xf16>, %c: tensor<1x272xf16>,
             %r: tensor<210x1xf16>) -> tensor<210x272xf16> {
  %o = kn.customized %a, %b, %c, %r grid [2, 2, 1] block [256, 1, 1] forloop 2
      plan <tiles = written> {
  ^bb0(%da: tensor<210x128xf16>, %db: tensor<128x272xf16>, %dc: tensor<1x272xf16>,
       %dr: tensor<210x1xf16>):
    %sa = tb.input %da imap [-1, 0, -1] fordim 1 : tensor<210x128xf16> -> !tb.stensor<128x64xf16>
    %sb = tb.input %db imap [1, -1, -1] fordim 0 : tensor<128x272xf16> -> !tb.stensor<64x144xf16>
    %sc = tb.input %dc imap [1, -1, -1] : tensor<1x272xf16> -> !tb.stensor<1x144xf16>
    %sr = tb.input %dr imap [-1, 0, -1] : tensor<210x1xf16> -> !tb.stensor<128x1xf16>
    %m = tb.matmul %sa, %sb
      : (!tb.stensor<128x64xf16>, !tb.stensor<64x144xf16>) -> !tb.stensor<128x144xf16>
    %t = tb.forloop_accum none %m : !tb.stensor<128x144xf16> -> !tb.stensor<128x144xf16>
    %u = tb.add %t, %sc
      : (!tb.stensor<128x144xf16>, !tb.stensor<1x144xf16>) -> !tb.stensor<128x144xf16>
    %s = tb.mul %u, %sr
      : (!tb.stensor<128x144xf16>, !tb.stensor<128x1xf16>) -> !tb.stensor<128x144xf16>
    tb.output %s omap [1, 0, -1] : !tb.stensor<128x144xf16> -> tensor<210x272xf16>
  } : (tensor<210x128xf16>, tensor<128x272xf16>, tensor<1x272xf16>, tensor<210x1xf16>)
      -> tensor<210x272xf16>
  func.return %o : tensor<210x272xf16>
}
"""


def test_numbers_of_ragged_rows_and_columns_go_straight_to_registers() -> None:
    """A bias and scales of rows need no shared memory beside the rings, however tiles end."""
    module, kernel = scheduled(NUMBERS, 3)
    assert kernel.persistent_blocks == 3
    loads = [op for op in kernel.walk() if isinstance(op, sched.LoadOp)]
    assert len(loads) == 2 and all(len(op.ragged()) == 1 for op in loads)
    assert not list(find_hazards(kernel))
    draw = np.random.default_rng(0).integers
    shapes = (210, 128), (128, 272), (1, 272), (210, 1)
    inputs = [draw(-2, 3, shape).astype(np.float16) for shape in shapes]
    a, b, c, r = (each.astype(np.float64) for each in inputs)
    (result,) = run_function(module, None, inputs, level="address")
    np.testing.assert_array_equal(result, (a @ b + c) * r)

    def check(kernels: CudaModule) -> None:
        (result,) = kernels.run(inputs)
        np.testing.assert_array_equal(result, (a @ b + c) * r)

    made = generate_cuda(module, make_context(), "sm_90a")
    assert made.source.count("tb::existing<") >= 2
    check_emulated_later(made, check)


def test_a_result_takes_the_place_of_the_residual_that_its_threads_have_loaded() -> None:
    module, kernel = scheduled(RESIDUAL, 4)
    assert kernel.persistent_blocks is None
    channels = [op for op in kernel.walk() if isinstance(op, sched.ChannelOp)]
    once = next(op.buffers[0].owner for op in channels if op.stage_count == 1)
    (result,) = (op.destination.owner for op in kernel.walk() if isinstance(op, sched.StoreOp))
    assert isinstance(once, sched.AllocOp) and isinstance(result, sched.AllocOp)
    assert once is not result and once.byte_offset == result.byte_offset
    assert not list(find_hazards(kernel))
    assert error_of(module, 256) <= 2e-3


def test_rings_get_the_stages_that_halves_of_computed_results_leave_room_for() -> None:
    """Three of them are all that fit beside a residual."""
    context = make_context()
    module = read_module(str(GRAPH.with_name("wide-residual.mlir")), context)
    for step in passes_as_written("sm_90a", loads="tma", blocks=4):
        step.apply(context, module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    assert kernel.persistent_blocks == 4
    buffers = {op.stage_count: op for op in kernel.walk() if isinstance(op, sched.AllocOp)}
    assert set(buffers) == {1, 4}
    assert shape_of(buffers[1].result.type) == (128, 128)
    assert not list(find_hazards(kernel))
    draw = np.random.default_rng(0).integers
    a, b, r = (
        draw(-2, 3, shape).astype(np.float16) for shape in ((320, 384), (384, 512), (320, 512))
    )
    (result,) = run_function(module, None, [a, b, r], level="address")
    np.testing.assert_array_equal(result, a.astype(np.float64) @ b.astype(np.float64) + r)
