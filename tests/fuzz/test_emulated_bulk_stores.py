"""Results that leave by bulk copies, on the CPU: these read their buffers late, or at once."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.emulated import build, check_emulated, emulating_compiler
from fuzz.properties import Compiled, PropertyError, make_case, parse
from mugraph.codegen.cuda import print_module
from mugraph.passes.persist_blocks import PersistBlocksPass
from mugraph.passes.transpile import TranspilePass, transpile_pipeline
from mugraph.runtime.toolchain import ToolchainError
from mugraph.tools.modules import make_context

GRAPH = """
func.func @fuzzed(%positive: tensor<32x128xf16>, %signed: tensor<128x256xf16>) \
-> tensor<32x256xf16> {
  %o = kn.customized %positive, %signed grid [2, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<32x128xf16>, %dw: tensor<128x256xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<32x128xf16> -> !tb.stensor<32x32xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<128x256xf16> -> !tb.stensor<32x128xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<32x32xf16>, !tb.stensor<32x128xf16>) -> \
!tb.stensor<32x128xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<32x128xf16> -> !tb.stensor<32x128xf16>
    tb.output %am omap [1, -1, -1] : !tb.stensor<32x128xf16> -> tensor<32x256xf16>
  } : (tensor<32x128xf16>, tensor<128x256xf16>) -> tensor<32x256xf16>
  func.return %o : tensor<32x256xf16>
}
"""


@pytest.fixture(scope="module")
def stored() -> Compiled:
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine: no generated kernel was executed")
    try:
        emulating_compiler()
    except ToolchainError as error:
        pytest.skip(f"no generated kernel was executed: {error}")
    module = parse(GRAPH)
    case = make_case(module)
    transpile = TranspilePass(arch="sm_90a", pipeline="channels", stores="all")
    transpile.apply(make_context(), module)
    return Compiled(case, module, print_module(module))


def test_bulk_copies_bring_results_to_device_memory(stored: Compiled, tmp_path: Path) -> None:
    # The tile is wider than a swizzled row.
    assert stored.cuda.count("mugraph::bulk_store(") == 2
    check_emulated(build([stored], tmp_path), 0, stored, tmp_path / "run")


def test_a_copy_that_nobody_waits_for_is_an_error(stored: Compiled, tmp_path: Path) -> None:
    hasty = replace(stored, cuda=stored.cuda.replace("mugraph::wait_bulk_stores();", ";"))
    with pytest.raises(PropertyError, match="a bulk copy to device memory may still read"):
        check_emulated(build([hasty], tmp_path), 0, hasty, tmp_path / "run")


ROW = Path(__file__).parents[1] / "filecheck/passes/Inputs/warpgroup-row.mlir"
LONG = """
func.func @fuzzed(%signed: tensor<64x320xf16>, %signed_1: tensor<320x256xf16>) \
-> tensor<64x256xf16> {
  %o = kn.customized %signed, %signed_1 grid [4, 1, 1] block [128, 1, 1] forloop 5 {
  ^bb0(%dx: tensor<64x320xf16>, %dw: tensor<320x256xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<64x320xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<320x256xf16> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>) -> \
!tb.stensor<64x64xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %am omap [1, -1, -1] : !tb.stensor<64x64xf16> -> tensor<64x256xf16>
  } : (tensor<64x320xf16>, tensor<320x256xf16>) -> tensor<64x256xf16>
  func.return %o : tensor<64x256xf16>
}
"""


def test_blocks_take_several_blocks_of_the_grid(stored: Compiled, tmp_path: Path) -> None:
    module = parse(LONG)
    case = make_case(module)
    context = make_context()
    # Three stages do not divide the iterations: each block of the grid starts at another one.
    steps = transpile_pipeline("sm_90a", pipeline="channels", bytes_in_flight=8192)
    for step in steps:
        step = PersistBlocksPass(blocks=1) if isinstance(step, PersistBlocksPass) else step
        step.apply(context, module)
    one = Compiled(case, module, print_module(module))
    assert "place += 1, before += 5" in one.cuda
    check_emulated(build([one], tmp_path), 0, one, tmp_path / "run")


def test_blocks_of_a_cluster_bring_tiles_for_each_other(stored: Compiled, tmp_path: Path) -> None:
    # Two boxes a tile of x, which all blocks of the grid have in common.
    module = parse(ROW.read_text(encoding="utf-8"))
    case = make_case(module)
    TranspilePass(arch="sm_90a", pipeline="channels", cluster=2).apply(make_context(), module)
    one = Compiled(case, module, print_module(module))
    assert "mugraph::bulk_multicast<2>(" in one.cuda
    check_emulated(build([one], tmp_path, cluster=2), 0, one, tmp_path / "run")
