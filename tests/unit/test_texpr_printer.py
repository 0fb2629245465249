"""`.te` text of modules reads back to the same module."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from mugraph.texpr import build_module, texpr_text
from mugraph.texpr.notation import TexprPrintError

EXAMPLES = Path(__file__).parents[2] / "examples" / "texpr"

STATEMENTS = """
fn scale(a: f16[M], reg f: f32): c: f16[M] { par M i { c[i] = a[i] * f } }
fn f(a: f16[8, 4], b: bf16[32], n: i32[8]): f32[8, 4] {
    new t: f16[4] #shared
    par 8 |i| #block {
        reg x = a[i, 0]
        reg y: f16 = a[i, 1] + 1.0
        let twice = x + x
        let old = atomic n[i] += 3
        x = twice * twice - (y - 2.0) / -3.5
        y += x
        n[i] = old / 2 - i * 2 + 1
        let large = f32(old % 3) > x
        seq 4 k {
            if i > 1 and k + 3 * i <= 20 and k == 2 { result[i, k] = -x }
            if k < 2 { result[i, k] = select(large, max(x, b[4 * i + k]), exp(x) * 0.1) }
            if k / 3 * 3 == k { result[i, 3 - k] -= f16(x) + abs(y) }
            if (5 - k) % 4 >= 3 { result[i, k] max= a[i, k] }
        }
        anchor f32(a[i, 2])
        anchor a[i, 2]
        reg w: f32[4]
        asm("ex2.approx.f32 %0, %1;", out w[1 : 1], x * x)
        asm("bar.warp.sync 0xffffffff;")
    }
    par 8 |j| { red result[0, 0] min= 1.5 }
    reg two: f32 = 2.0
    new u: f16[4]
    u = scale(t, two)
}
"""


def assert_round_trip(module: ModuleOp) -> None:
    text = texpr_text(module)
    again = build_module(text, "printed.te", {})
    assert str(again) == str(module), text
    assert texpr_text(again) == text


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.te")), ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    sizes = {"M": 4, "N": 5, "K": 6} if path.stem == "gemm" else {}
    module = build_module(path.read_text(), path.name, sizes)
    if path.stem == "gemm_sm90":
        with pytest.raises(TexprPrintError, match=r"no .te text for 'te.new_mbarriers'"):
            texpr_text(module)
        return
    assert_round_trip(module)


def test_all_statements() -> None:
    assert_round_trip(build_module(STATEMENTS, "all.te", {}))
