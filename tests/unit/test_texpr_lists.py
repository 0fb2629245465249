"""Registers with a list of first elements, whose name may hide a parameter's."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import ParseError

from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import build_module, texpr_text

# The listing of a warp's product, its loads filled in.
MMA = """
fn mma(a: f16[M, K], b: f16[K, N]): f16[M, N] {
    fully par 32 |i| #align(32) #block { -- forces the code to execute in a block, as a warp
        reg a = [
            a[i / 4, i % 4 * 2], a[i / 4, i % 4 * 2 + 1],
            a[i / 4 + 8, i % 4 * 2], a[i / 4 + 8, i % 4 * 2 + 1],
            a[i / 4, i % 4 * 2 + 8], a[i / 4, i % 4 * 2 + 9],
            a[i / 4 + 8, i % 4 * 2 + 8], a[i / 4 + 8, i % 4 * 2 + 9]
        ]
        reg b = [
            b[i % 4 * 2, i / 4], b[i % 4 * 2 + 1, i / 4],
            b[i % 4 * 2 + 8, i / 4], b[i % 4 * 2 + 9, i / 4]
        ]
        reg c = [0.0, 0.0, 0.0, 0.0]
        asm(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 %2, %0, %1, %2;", a, b, inout c
        ) -- warp level instruction
        seq 2 h { seq 2 p { result[i / 4 + 8 * h, i % 4 * 2 + p] = c[p + 2 * h] } }
    }
}
"""


def test_product_of_a_warp() -> None:
    module = build_module(MMA, "mma.te", {"M": 16, "N": 8, "K": 16})
    (function,) = module.body.block.ops
    assert isinstance(function, FuncOp)
    generator = np.random.default_rng(0)
    a = generator.standard_normal((16, 16)).astype(np.float16)
    b = generator.standard_normal((16, 8)).astype(np.float16)
    product = run_texpr(function, [a, b]).outputs["result"]
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(product, expected, rtol=1e-3, atol=1e-2)
    text = texpr_text(module)
    assert "reg c: f32[4] = [0.0, 0.0, 0.0, 0.0]" in text
    again = build_module(text, "printed.te", {})
    assert texpr_text(again) == text
    assert len(list(again.walk())) == len(list(module.walk()))


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ("reg x: f32[3] = [1.0, 2.0]", "'x' has 3 elements, its list 2"),
        ("reg x = []", "a list has at least one element"),
        ("reg a = [a[0]] reg a = 1.0", "'a' is defined already"),
        ("reg x: i32[2] = [1, 2.5]", "2.5 is no i32"),
        ("a[i] = wat(1.0)", "wat is no function of numbers (exp, "),
        ("a[i] = wat(a[i]) + 1.0", "wat is no function of numbers (exp, "),
        ('asm("mma.sync.aligned.m16n8k16")', "'fully par' of a multiple of 32 iterations"),
    ],
)
def test_errors(statements: str, message: str) -> None:
    with pytest.raises(ParseError) as raised:
        build_module(f"fn f(a: f32[8]) {{ par 8 i {{ {statements} }} }}", "t.te", {})
    assert message in str(raised.value)


@pytest.mark.parametrize(("extent", "accepted"), [(32, True), (64, True), (16, False), (48, False)])
def test_instructions_of_a_warp_stand_in_whole_warps(extent: int, accepted: bool) -> None:
    text = f'fn f(a: f32[8]) {{ fully par {extent} i #block {{ asm("bar.sync.aligned 0;") }} }}'
    if accepted:
        build_module(text, "t.te", {})
    else:
        with pytest.raises(ParseError, match="instruction of a warp"):
            build_module(text, "t.te", {})
