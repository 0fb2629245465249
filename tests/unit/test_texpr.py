"""`.te` programs: what they mean, and what is rejected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import ParseError

from mugraph.passes.texpr.te_check import TexprError, check_module
from mugraph.runtime.interpreter.arithmetic import Precision
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import build_module

EXAMPLES = Path(__file__).parents[2] / "examples" / "texpr"

GEMM = """
par M i { par N j { seq K k { C[i * N + j] += A[i * K + k] * B[k * N + j] } } }
"""


def function_of(text: str, **sizes: int) -> FuncOp:
    module = build_module(text, "test.te", sizes)
    check_module(module)
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    return function


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_gemm_of_the_seed(seed: int | None) -> None:
    function = function_of(GEMM, M=24, N=20, K=7)
    generator = np.random.default_rng(0)
    a, b = generator.standard_normal((24, 7)), generator.standard_normal((7, 20))
    c = generator.standard_normal((24, 20))
    run = run_texpr(function, [a, b, c], precision=Precision.FLOAT64, seed=seed)
    np.testing.assert_allclose(run.outputs["C"].reshape(24, 20), c + a @ b, rtol=1e-12)


def test_mma_of_the_seed() -> None:
    function = function_of((EXAMPLES / "mma.te").read_text())
    generator = np.random.default_rng(0)
    a = generator.standard_normal((16, 16)).astype(np.float16)
    b = generator.standard_normal((16, 8)).astype(np.float16)
    run = run_texpr(function, [a, b])
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(run.outputs["result"], exact, atol=1e-5)


def test_a_race_has_a_witness() -> None:
    with pytest.raises(TexprError, match=r"k = 0 and k = 1 of the 'par' .* C\[0\]"):
        function_of(GEMM.replace("seq K", "par K"), M=4, N=4, K=4)


def test_leaving_a_buffer_is_an_error() -> None:
    with pytest.raises(TexprError, match=r"a is accessed at index 8 where i = 7"):
        function_of("fn f(a: f32[8], b: f32[8]) { par 8 i { b[i] = a[i + 1] } }")


def test_a_name_that_is_not_defined() -> None:
    with pytest.raises(ParseError, match="'K' is not defined"):
        function_of(GEMM, M=4, N=4)


def test_anchors_are_observed_as_often_as_control_comes_there() -> None:
    function = function_of("fn f(a: f32[4]) { par 4 i { seq 2 k { anchor a[i] * 2.0 } } }")
    run = run_texpr(function, [np.array([3, 1, 2, 0])], seed=3)
    np.testing.assert_array_equal(run.anchors[0], [0, 0, 2, 2, 4, 4, 6, 6])


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "i32"])
def test_element_types(element: str) -> None:
    text = f"fn f(a: {element}[8], b: {element}[8]): {element}[8] {{ par 8 i {{ "
    function = function_of(text + "result[i] = a[i] * b[i] + a[7 - i] } }")
    generator = np.random.default_rng(0)
    a, b = np.rint(generator.standard_normal((2, 8)) * 5)
    run = run_texpr(function, [a, b])
    np.testing.assert_array_equal(run.outputs["result"].astype(np.float64), a * b + a[::-1])


def test_sums_in_f16_round_at_every_step() -> None:
    text = "fn f(a: f16[100]): f16[1] { result[0] = 0.0 seq 100 i { result[0] += a[i] } }"
    a = np.full(100, 0.1, np.float16)
    total = np.float16(0)
    for one in a:
        total = np.float16(np.float32(total) + np.float32(one))
    np.testing.assert_array_equal(run_texpr(function_of(text), [a]).outputs["result"], [total])


def test_the_order_of_iterations_is_random_where_a_program_shows_it() -> None:
    # No race: atomic operations are ordered, but nobody says how.
    text = "fn f(n: i32[1]): i32[50] { par 50 i { let k = atomic n[0] += 1 result[i] = k } }"
    function = function_of(text)
    orders = [run_texpr(function, [np.zeros(1)], seed=seed).outputs["result"] for seed in range(3)]
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(50))
    assert len({tuple(order) for order in orders}) == 3


def test_reading_what_nothing_wrote() -> None:
    function = function_of("fn f(a: f32[4]) { new t: f32[4] par 4 i { a[i] = t[i] } }")
    with pytest.raises(ExecutionError, match=r"reads t\[\d\] where i = \d, which nothing has"):
        run_texpr(function, [np.zeros(4)])


def test_a_call_stands_for_the_body_on_a_box() -> None:
    text = """
    fn add(x: f32[M, N], y: f32[M, N]) { par M i { par N j { y[i, j] += x[i * N + j] } } }
    fn f(a: f32[8, 8]) { par 2 t { add(a[t * 4 : 3, 0 : 4], a[t * 4 : 3, 4 : 4]) } }
    """
    a = np.arange(64.0).reshape(8, 8)
    expected = a.copy()
    for rows in (slice(0, 3), slice(4, 7)):
        expected[rows, 4:] += a[rows, :4]
    np.testing.assert_array_equal(run_texpr(function_of(text), [a]).outputs["a"], expected)


def test_a_buffer_passed_twice_is_seen_as_one() -> None:
    text = """
    fn shift(x: f32[8], y: f32[8]) { par 7 i { y[i + 1] = x[i] } }
    fn f(a: f32[8], b: f32[8]) { shift(a, b) }
    """
    function_of(text)
    with pytest.raises(TexprError, match=r"both touch a\[1\]"):
        function_of(text.replace("shift(a, b)", "shift(a, a)"))


def test_instructions_of_a_warp_need_a_warp() -> None:
    text = """
    fn f(a: f32[32]): f32[32] {
        fully par 32 i #align(32) {
            reg x = a[i]
            reg y: f32
            asm("shfl.sync.down.b32 %0, %1, 1, 31, 0xffffffff;", out y, x)
            result[i] = y
        }
    }
    """
    a = np.arange(32.0)
    shifted = np.append(a[1:], 31)
    np.testing.assert_array_equal(run_texpr(function_of(text), [a]).outputs["result"], shifted)
    with pytest.raises(ExecutionError, match=r"shfl\.sync\.down\.b32 is an instruction of a warp"):
        run_texpr(function_of(text.replace("fully par", "par").replace("#align(32)", "")), [a])
