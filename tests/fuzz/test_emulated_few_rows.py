"""Products of few rows by warp groups with swapped operands: every level, and CUDA on the CPU."""

from __future__ import annotations

import pytest
from schedules import passes_as_written

from fuzz.emulated import MUGRAPHS
from fuzz.properties import (
    Compiled,
    make_case,
    parse,
    require_parsed_back,
    require_same_function,
)
from mugraph.codegen.cuda import print_module
from mugraph.dialects import sched
from mugraph.passes.schedule.analysis.hazards import find_hazards
from mugraph.reading import make_context

SHAPES = (
    # rows, columns of a block, depth of an iteration, threads, element type
    (8, 128, 64, 256, "f16"),  # two groups, 64 columns each
    (24, 64, 32, 256, "f16"),  # one group of two; rows of 64 bytes
    (40, 128, 64, 128, "bf16"),  # one group, 64 columns after 64
    (72, 64, 64, 128, "f16"),  # more rows than an instruction has without a swap
)


def graph(rows: int, columns: int, depth: int, threads: int, element: str) -> str:
    """rms_norm(X) · W by two blocks, in three iterations."""
    x, w = f"{rows}x{3 * depth}x{element}", f"{3 * depth}x{2 * columns}x{element}"
    o = f"{rows}x{2 * columns}x{element}"
    sx, sw = f"{rows}x{depth}x{element}", f"{depth}x{columns}x{element}"
    so, sn = f"{rows}x{columns}x{element}", f"{rows}x1x{element}"
    return f"""
func.func @fuzzed(%positive: tensor<{x}>, %signed: tensor<{w}>) -> tensor<{o}> {{
  %o = kn.customized %positive, %signed grid [2, 1, 1] block [{threads}, 1, 1] forloop 3 {{
  ^bb0(%dx: tensor<{x}>, %dw: tensor<{w}>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<{x}> -> !tb.stensor<{sx}>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<{w}> -> !tb.stensor<{sw}>
    %m = tb.matmul %sx, %sw : (!tb.stensor<{sx}>, !tb.stensor<{sw}>) -> !tb.stensor<{so}>
    %am = tb.forloop_accum none %m : !tb.stensor<{so}> -> !tb.stensor<{so}>
    %ar = tb.forloop_accum rms %sx : !tb.stensor<{sx}> -> !tb.stensor<{sn}>
    %d = tb.div %am, %ar : (!tb.stensor<{so}>, !tb.stensor<{sn}>) -> !tb.stensor<{so}>
    tb.output %d omap [1, -1, -1] : !tb.stensor<{so}> -> tensor<{o}>
  }} : (tensor<{x}>, tensor<{w}>) -> tensor<{o}>
  func.return %o : tensor<{o}>
}}
"""


@pytest.fixture(scope="module")
def compiled() -> list[Compiled]:
    """Each shape after every pass, checked where products change or memory is laid out."""
    found: list[Compiled] = []
    for shape in SHAPES:
        module = parse(graph(*shape))
        case = make_case(module)
        context = make_context()
        for step in passes_as_written("sm_90a", loads="tma", swap_ab=True):
            step.apply(context, module)
            if step.name in ("lower-threadblock", "pipeline-products", "set-register-budgets"):
                stage = f"--{step.name}"
                module.verify()
                parsed = require_parsed_back(stage, module, str(module))
                require_same_function(stage, parsed, case)
        found.append(Compiled(case, module, print_module(module)))
    return found


def test_the_interpreters_agree_at_every_level(compiled: list[Compiled]) -> None:
    for one, (rows, *_) in zip(compiled, SHAPES, strict=True):
        assert f"SM90_{rows}x64x16" in str(one.module)
        assert "sched.warpgroup_mma async" in str(one.module)


@pytest.mark.usefixtures("needs_emulator")
def test_the_cuda_is_right(compiled: list[Compiled]) -> None:
    MUGRAPHS.add(*compiled)


def test_a_stage_released_before_the_wait_is_found(compiled: list[Compiled]) -> None:
    kernel = next(op for op in compiled[0].module.walk() if isinstance(op, sched.KernelOp)).clone()
    assert find_hazards(kernel) == []
    wait = next(op for op in kernel.walk() if isinstance(op, sched.WarpgroupWaitOp))
    wait.detach()
    assert "sched.warpgroup_mma" in str(find_hazards(kernel)[0])
