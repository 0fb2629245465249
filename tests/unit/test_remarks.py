"""Remarks are true: what they say to do mends what they name, and what is at its best has none."""

from __future__ import annotations

import re

import pytest
from schedules import passes_as_written

import mugraph
from benchmarks.h200.pipelines import PLANNED, flat_passes
from benchmarks.h200.workloads import WORKLOADS
from mugraph.passes.schedule.remarks import Kind, Remark, remarks_of
from mugraph.passes.sequence import verifying
from mugraph.passes.targets import DEFAULT_TARGET, target_named
from mugraph.reading import make_context, parse_text, read_module

TARGET = target_named(DEFAULT_TARGET)


def product(rows: int, depth: int, iterations: int, blocks: int = 132) -> str:
    """X of so many rows by a W of 128 columns; blocks cut the rows, the loop the depth."""
    x, w, y = f"{rows}x{depth}xf16", f"{depth}x128xf16", f"{rows}x128xf16"
    tile = -(-rows // blocks)
    step = -(-depth // iterations)
    sx, sw, sy = (
        f"!tb.stensor<{shape}xf16>" for shape in (f"{tile}x{step}", f"{step}x128", f"{tile}x128")
    )
    return f"""
func.func @k(%x: tensor<{x}>, %w: tensor<{w}>) -> tensor<{y}> {{
  %o = kn.customized %x, %w grid [{blocks}, 1, 1] block [128, 1, 1] forloop {iterations} {{
  ^bb0(%dx: tensor<{x}>, %dw: tensor<{w}>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<{x}> -> {sx}
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<{w}> -> {sw}
    %m = tb.matmul %sx, %sw : ({sx}, {sw}) -> {sy}
    %a = tb.forloop_accum none %m : {sy} -> {sy}
    tb.output %a omap [0, -1, -1] : {sy} -> tensor<{y}>
  }} : (tensor<{x}>, tensor<{w}>) -> tensor<{y}>
  func.return %o : tensor<{y}>
}}
"""


def remarks(text: str) -> list[Remark]:
    """The remarks on what ``--transpile`` makes of a text."""
    context = make_context()
    module = parse_text(context, text, "<text>")
    verifying(passes_as_written()).apply(context, module)
    return remarks_of(module, TARGET)


@pytest.mark.parametrize(
    ("rows", "depth", "iterations"),
    [(8448, 125, 1), (8448, 125, 5), (8448, 1020, 4), (8401, 500, 3)],
)
def test_padding_as_told_brings_bulk_copies_back(rows: int, depth: int, iterations: int) -> None:
    extents = [rows, depth]
    told: list[int] = []
    while lost := [
        remark
        for remark in remarks(product(*extents, iterations=iterations))
        if remark.kind is Kind.TMA and remark.operand == "%x"
    ]:
        found = re.fullmatch(r"pad its dimension (\d) to (\d+)", lost[0].why.mend)
        assert found is not None
        dim, extent = map(int, found.groups())
        assert lost[0].why.dimension == dim
        assert extent > extents[dim]
        extents[dim] = extent
        told.append(dim)
    assert len(told) == len(set(told)) > 0


@pytest.mark.parametrize("name", ["gemm4096_f16", "gemm8192_bf16", "gemm_silu_mul", "prefill"])
def test_a_kernel_at_its_best_has_none(name: str) -> None:
    workload, context = WORKLOADS[name], make_context()
    module = read_module(str(workload.path), context)
    for step in flat_passes(PLANNED, DEFAULT_TARGET):
        step.apply(context, module)
    assert remarks_of(module, TARGET) == []


def test_compile_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    mugraph.compile(product(8448, 125, 5), arch="cpu", remarks=True)
    assert "remark: kernel @k_custom0: %x, and with it %w, is loaded by cp.async" in (
        capsys.readouterr().err
    )
    mugraph.compile(product(8448, 125, 5), arch="cpu")
    assert capsys.readouterr().err == ""
