"""Conversion from linalg: numbers before and after, and the normal form of scalar expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import passes_as_written

from mugraph.dialects.functions import mugraphs_of
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.program.convert_linalg_to_kn import ConvertLinalgToKnPass, convert_linalg_to_kn
from mugraph.passes.program.convert_linalg_to_kn.expressions import (
    Argument,
    Call,
    Constant,
    Expression,
    call,
    substituted,
)
from mugraph.passes.program.convert_linalg_to_kn.views import strides_of_reshaped
from mugraph.reading import make_context, parse_text, read_module
from mugraph.runtime.interpreter import run_function

ONNX = Path(__file__).resolve().parents[2] / "examples" / "front_ends" / "onnx_mlp.mlir"
FRONT_ENDS = Path(__file__).parent / "front_ends"
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


Array = npt.NDArray[np.float64]


def layer_norm(x: Array, w: Array, b: Array) -> Array:
    centered = x - x.mean(axis=1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis=1, keepdims=True) + 1e-5) * w + b


def gelu_by_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attention(q: Array, k: Array, v: Array) -> Array:
    q, k, v = (each.transpose(0, 2, 1, 3) for each in (q, k, v))
    weights = np.exp(q @ k.transpose(0, 1, 3, 2) / 4)
    return (weights / weights.sum(axis=-1, keepdims=True) @ v).transpose(0, 2, 1, 3)


def linear(x: Array, w: Array, b: Array) -> Array:
    return x @ w.T + b


TORCH: dict[str, Callable[..., Array]] = {
    "attention": attention,
    "gelu": gelu_by_tanh,
    "layer_norm": layer_norm,
    "linear": linear,
}


@pytest.mark.parametrize("name", TORCH)
def test_what_torch_writes_computes_its_function_at_every_stage(name: str) -> None:
    context = make_context()
    module = read_module(str(FRONT_ENDS / f"{name}.mlir"), context)
    ConvertLinalgToKnPass(strict=True).apply(context, module)
    module.verify()
    (function,) = mugraphs_of(module)
    random = np.random.default_rng(0)
    inputs = [
        random.standard_normal(shape_of(argument.type)).astype(np.float16)
        for argument in function.args
    ]
    expected = TORCH[name](*(array.astype(np.float64) for array in inputs))
    (result,) = run_function(module, None, inputs, "float64")
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)
    for step in passes_as_written():
        step.apply(context, module)
    (result,) = run_function(module, None, inputs, "storage")
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=4e-3, atol=4e-3)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_a_reshaped_tensor_needs_no_copy_where_strides_say_it(
    shape: list[int], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    memory = np.arange(math.prod(shape)).reshape([shape[dim] for dim in order])
    array = memory.transpose(np.argsort(order))
    left, wanted = array.size, list[int]()
    while left > 1:
        wanted.append(data.draw(st.sampled_from([n for n in range(2, left + 1) if left % n == 0])))
        left //= wanted[-1]
    wanted.insert(data.draw(st.integers(0, len(wanted))), 1)
    strides = strides_of_reshaped(array.shape, [n // array.itemsize for n in array.strides], wanted)
    reshaped = array.reshape(wanted)
    assert (strides is None) == (not np.shares_memory(reshaped, array))
    if strides is not None:
        where = np.indices(wanted).reshape(len(wanted), -1)
        assert (np.array(strides) @ where == reshaped.ravel()).all()


def power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except (ValueError, OverflowError):
        return math.nan


def one_of(choose: Callable[..., float], *values: float) -> float:
    """``choose`` of the values. Python's own ``max`` drops a NaN, by its place."""
    return math.nan if any(map(math.isnan, values)) else choose(values)


FUNCTIONS = {
    "add": lambda *parts: sum(parts),
    "sub": lambda a, b: a - b,
    "mul": lambda *parts: math.prod(parts),
    "div": lambda a, b: a / b if b != 0 else math.nan,
    "neg": lambda a: -a,
    "exp": lambda a: math.exp(min(a, 50.0)),
    "erf": math.erf,
    "maximum": partial(one_of, max),
    "minimum": partial(one_of, min),
    "sigmoid": lambda a: 1 / (1 + math.exp(-max(a, -50.0))),
    "silu": lambda a: a / (1 + math.exp(-max(a, -50.0))),
    "gelu": lambda a: a * (1 + math.erf(a / math.sqrt(2))) / 2,
    "relu": lambda a: one_of(max, a, 0.0),
    "clamp": lambda a, low, high: one_of(min, one_of(max, a, low), high),
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "pow": power,
    "tanh": math.tanh,
}


def evaluate(expression: Expression, arguments: list[float]) -> float:
    match expression:
        case Argument(index=index):
            return arguments[index]
        case Constant(value=value):
            return value
        case Call(function=function, operands=operands):
            value = FUNCTIONS[function](*(evaluate(operand, arguments) for operand in operands))
            # Past a value that overflows, two forms may differ as floats do.
            return value if abs(value) < 1e9 else math.nan


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
            st.builds(lambda a: Call("tanh", (a,)), inner),
            st.builds(lambda a: Call("div", (Constant(1.0), a)), inner),
            st.builds(
                lambda a, n: Call("pow", (a, Constant(n))),
                inner,
                st.sampled_from([-1.0, -0.5, 0.5, 1.5, 2.0, 3.0]),
            ),
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


def test_a_factor_that_stands_twice_is_taken_once() -> None:
    gate = call("div", Constant(1.0), call("add", Constant(1.0), call("exp", Constant(-1.0))))
    squared = call("pow", gate, Constant(2.0))
    assert math.isclose(evaluate(squared, []), evaluate(gate, []) ** 2)


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


SCALAR_OPERATORS: dict[str, Callable[..., Array]] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "math.absf": np.abs,
    "math.tanh": np.tanh,
    "math.exp": np.exp,
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
}
SHAPES = {"x": "4x8xf16", "y": "4x1xbf16", "z": "1x8xf32"}


def generic(name: str, operator: str, operands: Sequence[str], types: dict[str, str]) -> str:
    """One scalar operator, in f32, on tensors that are cast and broadcast."""
    columns = [types[each].split("x") for each in operands]
    maps = ", ".join(
        f"affine_map<(i, j) -> ({'0' if m == '1' else 'i'}, {'0' if n == '1' else 'j'})>"
        for m, n, _ in (*columns, types[name].split("x"))
    )
    body, used = "", [f"%a{at}" for at in range(len(operands))]
    for at, (_, _, own) in enumerate(columns):
        if own != "f32":
            body += f"%w{at} = arith.extf %a{at} : {own} to f32\n"
            used[at] = f"%w{at}"
    if len(used) == 1 and operator.startswith("arith"):
        used.append("%half")
    body += f"%r = {operator} {', '.join(used)} : f32\n"
    kind = types[name].split("x")[-1]
    if kind != "f32":
        body += f"%n = arith.truncf %r : f32 to {kind}\n"
    arguments = ", ".join(f"%a{at}: {own}" for at, (_, _, own) in enumerate(columns))
    tensors = ", ".join(f"tensor<{types[each]}>" for each in operands)
    return f"""
    %e{name} = tensor.empty() : tensor<{types[name]}>
    %{name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "parallel"]}}
      ins({", ".join("%" + each for each in operands)} : {tensors})
      outs(%e{name} : tensor<{types[name]}>) {{
    ^bb0({arguments}, %o: {kind}):
      {body} linalg.yield {"%r" if kind == "f32" else "%n"} : {kind}
    }} -> tensor<{types[name]}>"""


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_chains_of_generics_compute_the_same(data: st.DataObject) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    types, lines = dict(SHAPES), "%half = arith.constant 0.5 : f32"
    inputs = [
        random.integers(-24, 24, [int(n) for n in t.split("x")[:2]]) / 8 for t in types.values()
    ]
    values = dict(zip(types, inputs, strict=True))
    for number in range(data.draw(st.integers(1, 6))):
        operator, name = data.draw(st.sampled_from(list(SCALAR_OPERATORS))), f"v{number}"
        count = data.draw(st.integers(1, 2)) if operator.startswith("arith") else 1
        whole = [each for each, type_ in types.items() if type_.startswith("4x8")]
        operands = [data.draw(st.sampled_from(names)) for names in (whole, list(types))[:count]]
        types[name] = data.draw(st.sampled_from(["4x8xf32", "4x8xf16"]))
        lines += generic(name, operator, operands, types)
        numbers = [values[each] for each in operands]
        if count == 1 and operator.startswith("arith"):
            numbers.append(np.array([[0.5]]))
        with np.errstate(all="ignore"):
            values[name] = np.broadcast_to(SCALAR_OPERATORS[operator](*numbers), (4, 8))
    arguments = ", ".join(f"%{name}: tensor<{type_}>" for name, type_ in SHAPES.items())
    signature = f"func.func @f({arguments}) -> tensor<{types[name]}>"
    text = f"{signature} {{\n{lines}\nfunc.return %{name} : tensor<{types[name]}>\n}}"
    context = make_context()
    module = parse_text(context, text, "chain")
    module.verify()
    assert not convert_linalg_to_kn(next(iter(module.ops)))
    module.verify()
    with np.errstate(all="ignore"):
        (result,) = run_function(module, None, inputs, "float64")
    defined = np.isfinite(values[name])
    np.testing.assert_allclose(result[defined], values[name][defined], rtol=1e-5, atol=1e-5)
