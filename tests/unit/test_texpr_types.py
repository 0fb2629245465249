"""Elements of 8 bits and truths in `.te` text: what is computed with them, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

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
        ("t[i] = p[i] == 3 & t[i]", "'&' takes two truths or two i32; put comparisons in"),
        ("q[i] = 128", "128 is no i8"),
        ("q[i] = 0.5", "0.5 is no i8"),
        ("u[i] = -1", "-1 is no u8"),
        ("u[i] = d[i]", "a f64 where u8 is expected; write u8"),
        ("d[i] = p[i] * d[i]", "of an i32 and a floating-point number"),
        ("p[i] = q[i] + 0.5", "of an i32 and 0.5"),
        ("atomic q[0] += q[i]", "changes elements of f16, bf16, f32, f64, i32, not of i8"),
        ("red w[0] += w[i]", "changes elements of f16, bf16, f32, f64, i32, not of f8E4M3FN"),
    ],
)
def test_what_cannot_be_is_one_sentence(statement: str, sentence: str) -> None:
    text = (
        "fn f(q: i8[64], u: u8[64], p: i32[64], w: f8e4m3[64], t: bool[64], d: f64[64]) "
        f"{{ par 64 i {{ {statement} }} }}"
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


def written_and_lowered(text: str) -> Iterator[FuncOp]:
    """The function of a text, which prints as it reads, and the same lowered."""
    module = read_texpr(text, "f.te", {})
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    yield function
    assert texpr_text(read_texpr(texpr_text(module), "f.te", {})) == texpr_text(module)
    TeLowerPass().apply(Context(), module)
    yield function


def test_truths() -> None:
    generator = np.random.default_rng(0)
    x, m = generator.standard_normal((4, 64)).astype(np.float32), generator.random((4, 64)) < 0.5
    t = m[:, ::-1]
    counts = (t ^ m).sum(axis=1, keepdims=True)
    expected = (np.roll(t, -7, axis=1) & (x > 0)) | (counts % 3 != 0)
    expected[:, 9:] &= ~m[:, 9:]
    for function in written_and_lowered(TRUTHS):
        (found,) = run_texpr(function, [x, m], seed=0).outputs.values()
        np.testing.assert_array_equal(found, expected)


WIDE = """
fn f(x: f64[4, 64], h: f16[4, 64], u: u8[4, 64], m: f64[4]): f64[4, 64] {
    par 4 b #grid {
        new t: f64[64]
        new s: f64
        s = 0.0
        par 64 i #block { t[i] = x[b, 63 - i] * f32(u[b, i]) + h[b, i] }
        par 64 i #block {
            red s += exp(t[i] / 1000)
            atomic m[b] max= t[i]
        }
        par 64 i #block { result[b, i] = fma(t[(i + 7) % 64], 0.1, s) - rsqrt(f64(i + 1)) }
    }
}
"""


def test_a_number_of_f64_makes_arithmetic_f64() -> None:
    generator = np.random.default_rng(0)
    x, m = generator.standard_normal((4, 64)), np.zeros(4)
    h = generator.standard_normal((4, 64)).astype(np.float16)
    u = generator.integers(0, 256, (4, 64)).astype(np.uint8)
    t = x[:, ::-1] * u + h
    sums = np.exp(t / 1000).sum(axis=1, keepdims=True)
    expected = np.roll(t, -7, axis=1) * 0.1 + sums - 1 / np.sqrt(np.arange(1, 65))
    for function in written_and_lowered(WIDE):
        found = run_texpr(function, [x, h, u, m], seed=0).outputs
        np.testing.assert_allclose(found["result"], expected, rtol=1e-13)
        np.testing.assert_array_equal(found["m"], np.maximum(t.max(axis=1), 0))


def test_bytes_wrap_around_and_f64_is_rounded_to_f16_by_f32() -> None:
    text = """
fn f(u: u8[64], d: f64[64], h: f16[64]): u8[64] {
    par 64 i { result[i] = u8(u[i] * 3 - 250) h[i] = d[i] }
}
"""
    (function,) = read_texpr(text, "f.te", {}).body.block.ops
    assert isinstance(function, FuncOp)
    u = np.arange(192, 256).astype(np.uint8)
    # Just above the middle of two numbers of f16, and in f32 the middle itself.
    d = np.full(64, 1 + 2.0**-11 + 2.0**-40)
    found = run_texpr(function, [u, d, np.zeros(64, np.float16)], seed=0).outputs
    np.testing.assert_array_equal(found["result"], (u.astype(np.int64) * 3 - 250) % 256)
    np.testing.assert_array_equal(found["h"], np.ones(64, np.float16))
