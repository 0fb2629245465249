"""Conversion from linalg: numbers before and after, and the normal form of scalar expressions."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mugraph.passes.convert_linalg_to_kn import ConvertLinalgToKnPass
from mugraph.passes.convert_linalg_to_kn.expressions import (
    Argument,
    Call,
    Constant,
    Expression,
    call,
    substituted,
)
from mugraph.runtime.interpreter import run_function
from mugraph.tools.modules import make_context, read_module

ONNX = Path(__file__).resolve().parents[2] / "examples" / "front_ends" / "onnx_mlp.mlir"
X, Y = Argument(0), Argument(1)


def test_an_onnx_file_computes_its_network() -> None:
    context = make_context()
    module = read_module(str(ONNX), context)
    ConvertLinalgToKnPass(strict=True).apply(context, module)
    module.verify()
    random = np.random.default_rng(0)
    shapes = [(8, 16), (32, 16), (32,), (16, 32), (16,)]
    x, w1, b1, w2, b2 = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    (result,) = run_function(module, None, [x, w1, b1, w2, b2], "float64")
    x, w1, b1, w2, b2 = (array.astype(np.float64) for array in (x, w1, b1, w2, b2))
    hidden = x @ w1.T + b1
    gelu = hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2))) / 2
    np.testing.assert_allclose(result, np.maximum(gelu @ w2.T + b2 + x, 0), rtol=1e-6, atol=1e-6)


FUNCTIONS = {
    "add": lambda *parts: sum(parts),
    "sub": lambda a, b: a - b,
    "mul": lambda *parts: math.prod(parts),
    "div": lambda a, b: a / b if b != 0 else math.nan,
    "neg": lambda a: -a,
    "exp": lambda a: math.exp(min(a, 50.0)),
    "erf": math.erf,
    "maximum": max,
    "minimum": min,
    "sigmoid": lambda a: 1 / (1 + math.exp(-max(a, -50.0))),
    "silu": lambda a: a / (1 + math.exp(-max(a, -50.0))),
    "gelu": lambda a: a * (1 + math.erf(a / math.sqrt(2))) / 2,
    "relu": lambda a: max(a, 0.0),
    "clamp": lambda a, low, high: min(max(a, low), high),
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "pow": lambda a, b: a**b if a > 0 else math.nan,
}


def evaluate(expression: Expression, arguments: list[float]) -> float:
    match expression:
        case Argument(index=index):
            return arguments[index]
        case Constant(value=value):
            return value
        case Call(function=function, operands=operands):
            return FUNCTIONS[function](*(evaluate(operand, arguments) for operand in operands))


def gelu_of(x: Expression) -> Expression:
    scaled = Call("div", (x, Constant(math.sqrt(2))))
    half = Call("mul", (Constant(0.5), Call("add", (Call("erf", (scaled,)), Constant(1.0)))))
    return Call("mul", (x, half))


def silu_of(x: Expression) -> Expression:
    denominator = Call("add", (Constant(1.0), Call("exp", (Call("neg", (x,)),))))
    return Call("div", (x, denominator))


def expressions() -> st.SearchStrategy[Expression]:
    leaves = st.sampled_from([X, Y, *map(Constant, (0.5, 1.0, -1.0, 2.0, 3.0))])

    def larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        binary = st.sampled_from(["add", "sub", "mul", "div", "maximum", "minimum"])
        return st.one_of(
            st.builds(lambda f, a, b: Call(f, (a, b)), binary, inner, inner),
            st.builds(lambda a: Call("neg", (a,)), inner),
            st.builds(lambda a: Call("exp", (Call("minimum", (a, Constant(3.0))),)), inner),
            st.builds(gelu_of, inner),
            st.builds(silu_of, inner),
        )

    return st.recursive(leaves, larger, max_leaves=8)


def normal(expression: Expression) -> Expression:
    """Built up by ``call``, as the pass does."""
    match expression:
        case Call(function=function, operands=operands):
            return call(function, *map(normal, operands))
        case _:
            return expression


@settings(max_examples=400, deadline=None)
@given(expressions(), st.floats(-2, 2), st.floats(-2, 2))
def test_the_normal_form_is_the_same_function(tree: Expression, x: float, y: float) -> None:
    before, after = evaluate(tree, [x, y]), evaluate(normal(tree), [x, y])
    if math.isfinite(before) and abs(before) < 1e6:
        assert math.isclose(before, after, rel_tol=1e-6, abs_tol=1e-6)


@settings(max_examples=200, deadline=None)
@given(expressions())
def test_the_normal_form_is_stable(tree: Expression) -> None:
    once = normal(tree)
    assert substituted(once, [X, Y]) == once


def test_functions_are_recognised_however_they_are_written() -> None:
    total = Call("add", (X, Y))
    assert normal(gelu_of(X)) == Call("gelu", (X,))
    assert normal(gelu_of(total)) == Call("gelu", (normal(total),))
    assert normal(silu_of(X)) == Call("silu", (X,))
    assert normal(Call("mul", (silu_of(X), Y))) == call("mul", Call("silu", (X,)), Y)
    assert normal(Call("maximum", (Constant(0.0), X))) == Call("relu", (X,))
    bounded = Call("minimum", (Constant(6.0), Call("maximum", (X, Constant(0.0)))))
    assert normal(bounded) == Call("clamp", (X, Constant(0.0), Constant(6.0)))
    assert normal(Call("pow", (X, Constant(2.0)))) == call("mul", X, X)
