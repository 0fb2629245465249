"""Products of rows or tensors that start anywhere: every level, and CUDA on the CPU."""

from __future__ import annotations

import pytest

from fuzz.emulated import MUGRAPHS
from fuzz.products import product as as_written
from fuzz.properties import (
    Compiled,
    compile_planned,
    parse,
)

STAGES = ("lower-threadblock", "pipeline-loads", "set-register-budgets")


def product(rows: int, depth: int, columns: int, element: str, *, copied: bool = False) -> str:
    """relu(X · W), perhaps of copies of both, whose rows are padded."""
    x, w, o = (
        f"{height}x{width}x{element}"
        for height, width in ((rows, depth), (depth, columns), (rows, columns))
    )
    tight = f"{o}, #cute.layout<({rows},{columns}):({columns},1)>"
    copies, operands = "", "%positive, %signed"
    if copied:
        operands = "%x, %w"
        copies = f"""%x = kn.copy %positive : tensor<{x}> -> tensor<{x}>
  %w = kn.copy %signed : tensor<{w}> -> tensor<{w}>"""
    return f"""
func.func @fuzzed(%positive: tensor<{x}>, %signed: tensor<{w}>) -> tensor<{tight}> {{
  {copies}
  %m = kn.matmul {operands} : (tensor<{x}>, tensor<{w}>) -> tensor<{o}>
  %o = kn.relu %m : tensor<{o}> -> tensor<{tight}>
  func.return %o : tensor<{tight}>
}}
"""


def matrices(rows: int, columns: int) -> str:
    """Three products in tiles of 16 x 32, whose rows follow each other in memory.

    Each matrix starts three elements behind the end of the one before, so that they start anywhere.
    """
    x, w = f"tensor<3x{rows}x32xf16>", f"tensor<3x32x{columns}xf16>"
    apart = rows * 32 + 3
    y = f"tensor<3x{rows}x{columns}xf16, #cute.layout<(3,{rows},{columns}):({apart},32,1)>>"
    left, right = "!tb.stensor<1x16x32xf16>", "!tb.stensor<1x32x32xf16>"
    return f"""
func.func @fuzzed(%signed: {x}, %signed_1: {w}) -> {y} {{
  %y = kn.customized %signed, %signed_1 grid [3, {-(-rows // 16)}, 1] block [128, 1, 1] forloop 1
      plan <tiles = written> {{
  ^bb0(%dx: {x}, %dw: {w}):
    %sx = tb.input %dx imap [0, 1, -1] : {x} -> {left}
    %sw = tb.input %dw imap [0, -1, -1] : {w} -> {right}
    %m = tb.matmul %sx, %sw : ({left}, {right}) -> {left}
    tb.output %m omap [0, 1, -1] : {left} -> {y}
  }} : ({x}, {w}) -> {y}
  func.return %y : {y}
}}
"""


PROGRAMS = {
    product(20, 67, 45, "f16"): ("tb::CopyShifted<", "tb::StoreShifted<"),
    product(1, 67, 45, "bf16"): ("tb::CopyShifted<",),
    product(70, 67, 89, "f16", copied=True): ("kn::Copy<", "tb::StoreShifted<"),
    product(9, 30, 19, "f32", copied=True): ("kn::Copy<",),
    matrices(20, 32): ("tb::StoreShifted<",),
    matrices(16, 28): ("tb::StoreShifted<",),
}
"""And copies that they must have."""


@pytest.fixture(scope="module")
def compiled() -> list[Compiled]:
    """Each program after every pass, checked where loads change or memory is laid out."""
    found: list[Compiled] = []
    for text, copies in PROGRAMS.items():
        found.append(compile_planned(parse(text), STAGES))
        assert all(copy in found[-1].cuda for copy in copies)
    return found


@pytest.mark.usefixtures("needs_emulator")
def test_the_cuda_is_right(compiled: list[Compiled]) -> None:
    MUGRAPHS.add(*compiled)


@pytest.mark.usefixtures("needs_emulator")
@pytest.mark.parametrize("alignment", [2, 8, 16])
def test_quads_of_lanes_write_only_tensors_that_start_at_vectors(alignment: int) -> None:
    """Neither what warp groups multiply nor what warps compute of their products."""
    tile, result = "!tb.stensor<32x64xf16>", "tensor<{}x128xf16>"
    promise = f" {{mugraph.alignment = {alignment} : i64}}"
    silu = f"%silu = tb.silu %am : {tile} -> {tile}\n    tb.output %silu"
    of_groups = as_written(64, 64, 64, loop=2, threads=256)
    of_warps = as_written(32, 64, 64, loop=2, threads=64).replace("tb.output %am", silu)
    for rows, text in ((64, of_groups), (32, of_warps)):
        made = result.format(rows)
        text = text.replace(f"-> {made} {{", f"-> ({made}{promise}) {{", 1)
        text = text.replace("forloop 2 {", "forloop 2 plan <tiles = written> {")
        compiled = compile_planned(parse(text), STAGES)
        assert ("tb::QuadStore<" in compiled.cuda) == (alignment == 16)
        MUGRAPHS.add(compiled)
