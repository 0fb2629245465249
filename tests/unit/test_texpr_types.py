"""Elements of 8 bits and truths in `.te` text: what is computed with them, and what is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import ParseError

from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import build_module, read_texpr, texpr_text

TEXT = """
fn f(q: i8[64], w: f8e4m3[64], v: f8e5m2[64]): f8e4m3[64] {
    par 64 i { result[i] = f32(q[i] * 2 + i32(q[63 - i])) * w[i] + v[i] }
}
"""


def test_elements_of_8_bits_are_computed_with_as_wider_ones() -> None:
    module = read_texpr(TEXT, "f.te", {})
    assert str(build_module(texpr_text(module), "g.te", {})) == str(module)
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    generator = np.random.default_rng(0)
    q = generator.integers(-128, 128, 64).astype(np.int8)
    w = generator.standard_normal(64).astype(ml_dtypes.float8_e4m3fn)
    v = generator.standard_normal(64).astype(ml_dtypes.float8_e5m2)
    (found,) = run_texpr(function, [q, w, v]).outputs.values()
    whole = q.astype(np.int32) * 2 + q[::-1]
    wide = whole.astype(np.float32) * w.astype(np.float32) + v.astype(np.float32)
    wanted = np.clip(wide, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("q[i] = p[i]", "a i32 where i8 is expected; write i8"),
        ("t[i] = q[i]", "a i8 where bool is expected; write bool"),
        ("t[i] = 2", "2 is no bool"),
        ("p[i] = t[i]", "a condition where i32 is expected; write i32"),
        ("t[i] = t[i] + t[i]", "'\\+' takes numbers, not a condition"),
        ("q[i] = 128", "128 is no i8"),
        ("q[i] = 0.5", "0.5 is no i8"),
        ("p[i] = q[i] + 0.5", "of an i32 and 0.5"),
        ("atomic q[0] += q[i]", "changes elements of f16, bf16, f32, i32, not of i8"),
        ("red w[0] += w[i]", "changes elements of f16, bf16, f32, i32, not of f8E4M3FN"),
    ],
)
def test_what_cannot_be_is_one_sentence(statement: str, sentence: str) -> None:
    text = (
        f"fn f(q: i8[64], p: i32[64], w: f8e4m3[64], t: bool[64]) {{ par 64 i {{ {statement} }} }}"
    )
    with pytest.raises(ParseError, match=sentence):
        read_texpr(text, "f.te", {})


TRUTHS = """
fn f(x: f32[4, 64], m: bool[4, 64]): bool[4, 64] {
    par 4 b #grid {
        new t: bool[64]
        new count: i32
        count = 0
        par 64 i #block { t[i] = m[b, 63 - i] }
        par 64 i #block { red count += i32(t[i] ^ m[b, i]) }
        par 64 i #block {
            result[b, i] = (t[(i + 7) % 64] & (x[b, i] > 0.0)) | bool(count % 3)
            if m[b, i] and i > 8 { result[b, i] = 0 }
        }
    }
}
"""


def test_truths() -> None:
    generator = np.random.default_rng(0)
    x, m = generator.standard_normal((4, 64)).astype(np.float32), generator.random((4, 64)) < 0.5
    t = m[:, ::-1]
    counts = (t ^ m).sum(axis=1, keepdims=True)
    expected = (np.roll(t, -7, axis=1) & (x > 0)) | (counts % 3 != 0)
    expected[:, 9:] &= ~m[:, 9:]
    module = read_texpr(TRUTHS, "f.te", {})
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    for lower in (False, True):
        if lower:
            assert texpr_text(read_texpr(texpr_text(module), "f.te", {})) == texpr_text(module)
            TeLowerPass().apply(Context(), module)
        (found,) = run_texpr(function, [x, m], seed=0).outputs.values()
        np.testing.assert_array_equal(found, expected)
