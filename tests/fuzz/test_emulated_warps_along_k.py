"""Products whose warps stand along k: at every stage, and executed on the CPU."""

from __future__ import annotations

import pytest

from fuzz.emulated import MUGRAPHS
from fuzz.products import product
from fuzz.properties import Compiled, compile_checked
from mugraph.dialects import sched

TWO_PRODUCTS = """
func.func @fuzzed(%signed: tensor<8x256xf16>, %signed_1: tensor<256x64xf16>, \
%signed_2: tensor<256x64xf16>) -> tensor<8x64xf16> {
  %y = kn.customized %signed, %signed_1, %signed_2 grid [2, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<8x256xf16>, %dv: tensor<256x64xf16>, %dw: tensor<256x64xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<8x256xf16> -> !tb.stensor<8x64xf16>
    %sv = tb.input %dv imap [1, -1, -1] fordim 0 : tensor<256x64xf16> -> !tb.stensor<64x32xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<256x64xf16> -> !tb.stensor<64x32xf16>
    %m = tb.matmul %sx, %sv : (!tb.stensor<8x64xf16>, !tb.stensor<64x32xf16>) -> \
!tb.stensor<8x32xf16>
    %n = tb.matmul %sx, %sw : (!tb.stensor<8x64xf16>, !tb.stensor<64x32xf16>) -> \
!tb.stensor<8x32xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<8x32xf16> -> !tb.stensor<8x32xf16>
    %an = tb.forloop_accum none %n : !tb.stensor<8x32xf16> -> !tb.stensor<8x32xf16>
    %s = tb.silu %am : !tb.stensor<8x32xf16> -> !tb.stensor<8x32xf16>
    %d = tb.add %s, %an : (!tb.stensor<8x32xf16>, !tb.stensor<8x32xf16>) -> !tb.stensor<8x32xf16>
    tb.output %d omap [1, -1, -1] : !tb.stensor<8x32xf16> -> tensor<8x64xf16>
  } : (tensor<8x256xf16>, tensor<256x64xf16>, tensor<256x64xf16>) -> tensor<8x64xf16>
  func.return %y : tensor<8x64xf16>
}
"""

DEEP_AND_NOT_ACCUMULATED = """
func.func @fuzzed(%signed: tensor<1x32x1024xf16>, %signed_1: tensor<1x1024x32xf16>) \
-> tensor<1x32x32xf16> {
  %y = kn.customized %signed, %signed_1 grid [2, 1, 1] block [256, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<1x32x1024xf16>, %dw: tensor<1x1024x32xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<1x32x1024xf16> -> \
!tb.stensor<1x16x1024xf16>
    %sw = tb.input %dw imap [2, -1, -1] : tensor<1x1024x32xf16> -> !tb.stensor<1x1024x16xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<1x16x1024xf16>, !tb.stensor<1x1024x16xf16>) -> \
!tb.stensor<1x16x16xf16>
    %e = tb.relu %m : !tb.stensor<1x16x16xf16> -> !tb.stensor<1x16x16xf16>
    tb.output %e omap [2, -1, -1] fordim 1 : !tb.stensor<1x16x16xf16> -> tensor<1x32x32xf16>
  } : (tensor<1x32x1024xf16>, tensor<1x1024x32xf16>) -> tensor<1x32x32xf16>
  func.return %y : tensor<1x32x32xf16>
}
"""

GRAPHS = {
    "f16, one step a warp": product(16, 128, 64, loop=7, threads=256),
    "f16, two steps a warp": product(16, 128, 64, loop=16),
    "f16, warps with fewer steps and a partial one": product(16, 104, 64, loop=7, threads=256),
    "f16, rows and columns that fill no tile": product(5, 96, 20, loop=7, threads=256),
    "bf16": product(24, 64, 64, loop=16, threads=256, element="bf16"),
    "f32": product(16, 64, 64, loop=7, threads=256, element="f32"),
    "i8": product(16, 256, 64, loop=7, threads=256, element="i8"),
    "two products that share a loop": TWO_PRODUCTS,
    "deep and not accumulated": DEEP_AND_NOT_ACCUMULATED,
}


@pytest.fixture(scope="module")
def compiled() -> list[Compiled]:
    return [compile_checked(text, swap_ab=False) for text in GRAPHS.values()]


def warps_along_k(one: Compiled) -> int:
    """The most warps along k of a product."""
    return max(op.parts for op in one.module.walk() if isinstance(op, sched.MmaOp))


def test_warps_stand_along_k(compiled: list[Compiled]) -> None:
    """Otherwise the other test would show nothing."""
    counts = [warps_along_k(one) for one in compiled]
    assert min(counts) > 1, dict(zip(GRAPHS, counts, strict=True))


@pytest.mark.usefixtures("needs_emulator")
def test_they_compute_what_the_interpreter_does(compiled: list[Compiled]) -> None:
    MUGRAPHS.add(*compiled)
