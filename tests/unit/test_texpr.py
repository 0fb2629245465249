"""`.te` programs: what they mean, and what is rejected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import ParseError

from mugraph.passes.te_check import TexprError, check_module
from mugraph.runtime.interpreter.arithmetic import Precision
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
