"""Blocks of any shape and any number of threads, executed on the CPU.

Copies of padded and column-major tensors, reductions, accumulators, norms and, from a warp on,
matrix products, in blocks that are less than a warp, whole warps, and warps and a rest.
"""

from __future__ import annotations

import math

import pytest
from thorough import THOROUGH

from fuzz.emulated import MUGRAPHS
from fuzz.properties import compile_checked, parse

FEW = ((2, 3, 4), (32, 2, 1), (7, 11, 3))
MORE = ((1, 1, 31), (100, 1, 1), (7, 11, 13), (3, 1, 1), (8, 8, 4), (1000, 1, 1), (16, 16, 4))
BLOCKS = (*FEW, *MORE) if THOROUGH else FEW
A = "tensor<2x40x36xf16, #cute.layout<(2,40,36):(1443,36,1)>>"
B = "tensor<1x36x24xf16, #cute.layout<(1,36,24):(1,1,37)>>"
X = "tensor<2x40x24xf16, #cute.layout<(2,40,24):(1,2,83)>>"
E, Z = "tensor<2x40x1xf16>", "tensor<2x40x36xf16>"


def tile(*shape: int) -> str:
    return f"!tb.stensor<{'x'.join(map(str, shape))}xf16>"


def mugraph(block: tuple[int, int, int]) -> str:
    """A product, or sums where the block has no whole warp, beside sums and a norm."""
    s, t, m, column = tile(1, 40, 18), tile(1, 18, 24), tile(1, 40, 24), tile(1, 40, 1)
    u, row = tile(1, 40, 36), tile(1, 1, 24)
    if math.prod(block) >= 32:
        first = f"%m = tb.matmul %s, %t : ({s}, {t}) -> {m}"
        left = m
    else:
        first = f"%m = tb.reduction %s dim 2 : {s} -> {column}"
        left = column
    return f"""
func.func @fuzzed(%positive_a: {A}, %positive_b: {B}) -> ({X}, {E}, {Z}) {{
  %o, %p, %q = kn.customized %positive_a, %positive_b
      grid [2, 1, 1] block {list(block)} forloop 2 {{
  ^bb0(%a: {A}, %b: {B}):
    %s = tb.input %a imap [0, -1, -1] fordim 2 : {A} -> {s}
    %t = tb.input %b imap [-1, -1, -1] fordim 1 : {B} -> {t}
    %u = tb.input %a imap [0, -1, -1] : {A} -> {u}
    %r = tb.reduction %t dim 1 : {t} -> {row}
    %e = tb.forloop_accum sum %s : {s} -> {column}
    {first}
    %k = tb.mul %m, %r : ({left}, {row}) -> {m}
    %x = tb.forloop_accum none %k : {m} -> {m}
    %n = tb.rms_norm %u : {u} -> {u}
    %z = tb.forloop_accum none %n : {u} -> {u}
    tb.output %x omap [0, -1, -1] : {m} -> {X}
    tb.output %e omap [0, -1, -1] : {column} -> {E}
    tb.output %z omap [0, -1, -1] : {u} -> {Z}
  }} : ({A}, {B}) -> ({X}, {E}, {Z})
  func.return %o, %p, %q : {X}, {E}, {Z}
}}"""


@pytest.mark.usefixtures("needs_emulator")
def test_blocks_of_any_shape() -> None:
    compiled = [compile_checked(str(parse(mugraph(block)))) for block in BLOCKS]
    MUGRAPHS.add(*compiled)
