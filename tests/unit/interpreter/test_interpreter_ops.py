"""Each operator against a direct numpy expression, and where results are rounded."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from interpreter_programs import Array, integers, normal, on_tiles, parse, tensor, tile

from mugraph.dialects.elementwise import (
    FP4_NUMBERS,
    FUNCTIONS,
    NF4_NUMBERS,
    SCHEDULED_BINARY_FUNCTIONS,
    SCHEDULED_TERNARY_FUNCTIONS,
    SCHEDULED_UNARY_FUNCTIONS,
)
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.functions import SCALAR_FUNCTIONS

erf = np.vectorize(math.erf, otypes=[np.float64])
SCALE = float(np.float32(0.3))

UNARY: dict[str, Callable[[Array], Array]] = {
    "exp": lambda x: np.exp(x),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(x.dtype.type(0), x),
    "tanh": lambda x: np.tanh(x),
    "relu": lambda x: np.maximum(x, 0),
    "abs": lambda x: np.abs(x),
    "square": lambda x: x * x,
    "sqrt": lambda x: np.sqrt(x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "reciprocal_or_zero": lambda x: 1 / x,
    "erf": lambda x: erf(x),
    "fill": lambda x: np.full_like(x, SCALE),
    "log": lambda x: np.log(x),
    "cos": lambda x: np.cos(x),
    "round": lambda x: np.rint(x),
    "floor": lambda x: np.floor(x),
    "bits": lambda x: np.rint(x).astype(int) >> 1 & 7,
    "fp4": lambda x: np.array(FP4_NUMBERS)[np.rint(x).astype(int) & 15],
    "nf4": lambda x: np.array(NF4_NUMBERS)[np.rint(x).astype(int) & 15],
    "sin": lambda x: np.sin(x),
    "mul_scalar": lambda x: x * SCALE,
    "add_scalar": lambda x: x + SCALE,
    "clamp": lambda x: np.clip(x, -0.25, 0.5),
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "pow": lambda x, y: np.power(x, y),
    "max": lambda x, y: np.maximum(x, y),
    "min": lambda x, y: np.minimum(x, y),
    "less": lambda x, y: (x < y).astype(x.dtype),
    "less_equal": lambda x, y: (x <= y).astype(x.dtype),
}
COMPUTE = {"storage": np.float32, "float64": np.float64}
STORE = {"storage": np.float16, "float64": np.float64}


def run(text: str, *inputs: Array, precision: str = "storage") -> Array:
    (result,) = run_function(parse(text), "f", inputs, precision)
    assert result.dtype == STORE[precision]
    return result


def accumulate(value: str, shape: tuple[int, ...]) -> str:
    return f"%y = tb.forloop_accum none {value} : {tile(shape)} -> {tile(shape)}"


def with_constant(name: str, operand: str) -> str:
    return operand + {
        "mul_scalar": " by 0.3",
        "add_scalar": " by 0.3",
        "fill": " with 0.3",
        "clamp": " from -0.25 to 0.5",
        "bits": " from 1.0 count 3.0",
    }.get(name, "")


@pytest.mark.parametrize("precision", ["storage", "float64"])
@pytest.mark.parametrize("level", ["kn", "tb"])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, level: str, precision: str) -> None:
    shape = (4, 24)
    x = np.abs(normal(shape)) if name in ("sqrt", "rsqrt", "log") else normal(shape)
    operands = with_constant(name, "%t0" if level == "tb" else "%x")
    if level == "tb":
        body = f"%v = tb.{name} {operands} : {tile(shape)} -> {tile(shape)}\n"
        text = on_tiles([shape], shape, body + accumulate("%v", shape))
    else:
        text = f"""
        func.func @f(%x: {tensor(shape)}) -> {tensor(shape)} {{
          %y = kn.{name} {operands} : {tensor(shape)} -> {tensor(shape)}
          func.return %y : {tensor(shape)}
        }}"""
    expected = UNARY[name](x.astype(COMPUTE[precision])).astype(STORE[precision])
    result = run(text, x, precision=precision)
    if name == "gelu":
        tolerance = {"storage": 2.0**-10, "float64": 1e-13}[precision]
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance * 2.0**-10)
    else:
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("precision", ["storage", "float64"])
@pytest.mark.parametrize(
    ("level", "name"), [(level, name) for level in ("tb", "kn") for name in BINARY]
)
def test_binary_broadcasts(name: str, level: str, precision: str) -> None:
    left, right, both = (4, 1, 24), (1, 6, 24), (4, 6, 24)
    x, y = normal(left, seed=1), normal(right, seed=2)
    x = np.abs(x) if name == "pow" else x
    types = "({0}<4x1x24xf16>, {0}<1x6x24xf16>) -> {0}<4x6x24xf16>"
    if level == "tb":
        body = f"%v = tb.{name} %t0, %t1 : {types.format('!tb.stensor')}\n"
        text = on_tiles([left, right], both, body + accumulate("%v", both))
    else:
        text = f"""
        func.func @f(%x: {tensor(left)}, %w: {tensor(right)}) -> {tensor(both)} {{
          %y = kn.{name} %x, %w : {types.format("tensor")}
          func.return %y : {tensor(both)}
        }}"""
    wide = COMPUTE[precision]
    expected = BINARY[name](x.astype(wide), y.astype(wide)).astype(STORE[precision])
    np.testing.assert_array_equal(run(text, x, y, precision=precision), expected)


def test_every_scalar_function_is_computed_and_tested() -> None:
    scheduled = {
        *SCHEDULED_UNARY_FUNCTIONS,
        *SCHEDULED_BINARY_FUNCTIONS,
        *SCHEDULED_TERNARY_FUNCTIONS,
    }
    assert set(SCALAR_FUNCTIONS) == {*FUNCTIONS, *scheduled}
    assert {*UNARY, *BINARY, "where", "identity"} == {*FUNCTIONS}


@pytest.mark.parametrize("precision", ["storage", "float64"])
def test_where(precision: str) -> None:
    shape, row = (4, 8), (1, 8)
    types = f"({tile(shape)}, {tile(row)}, {tile(shape)}) -> {tile(shape)}"
    body = f"%v = tb.where %t0, %t1, %t2 : {types}\n{accumulate('%v', shape)}"
    condition, x, y = np.sign(integers(shape, 2)), normal(row), normal(shape)
    result = run(on_tiles([shape, row, shape], shape, body), condition, x, y, precision=precision)
    np.testing.assert_array_equal(result, np.where(condition != 0, x, y))


def test_block_matmul() -> None:
    a, b, c = (1, 8, 32), (1, 32, 5), (1, 8, 5)
    body = f"%v = tb.matmul %t0, %t1 : ({tile(a)}, {tile(b)}) -> {tile(c)}\n"
    x, y = integers(a, 9, seed=1), integers(b, 9, seed=2)
    expected = x.astype(np.float64) @ y.astype(np.float64)
    result = run(on_tiles([a, b], c, body + accumulate("%v", c)), x, y)
    np.testing.assert_array_equal(result, expected.astype(np.float16))


@pytest.mark.parametrize("compute", ["", "compute f16"])
def test_kernel_matmul_is_batched(compute: str) -> None:
    a, b, c = (3, 6, 9), (3, 9, 4), (3, 6, 4)
    text = f"""
    func.func @f(%x: {tensor(a)}, %w: {tensor(b)}) -> {tensor(c)} {{
      %y = kn.matmul %x, %w {compute} : ({tensor(a)}, {tensor(b)}) -> {tensor(c)}
      func.return %y : {tensor(c)}
    }}"""
    x, y = integers(a, seed=1), integers(b, seed=2)
    expected = np.einsum("bmk,bkn->bmn", x.astype(np.float64), y.astype(np.float64))
    np.testing.assert_array_equal(run(text, x, y), expected.astype(np.float16))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_reduction(dim: int) -> None:
    shape = (3, 4, 6)
    result = tuple(1 if axis == dim else extent for axis, extent in enumerate(shape))
    body = f"%v = tb.reduction %t0 dim {dim} : {tile(shape)} -> {tile(result)}\n"
    x = integers(shape)
    expected = x.astype(np.float64).sum(axis=dim, keepdims=True)
    got = run(on_tiles([shape], result, body + accumulate("%v", result)), x)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("order", ["strided", "contiguous"])
def test_reduction_to_dimx(order: str, dim: int) -> None:
    shape = (12, 12)
    result = tuple(4 if axis == dim else extent for axis, extent in enumerate(shape))
    body = f"%v = tb.reduction_to_dimx_{order} %t0 dim {dim} : {tile(shape)} -> {tile(result)}\n"
    x = integers(shape)
    rows = np.moveaxis(x.astype(np.float64), dim, 0)
    members = {
        "strided": lambda j: [j, j + 4, j + 8],
        "contiguous": lambda j: [3 * j, 3 * j + 1, 3 * j + 2],
    }[order]
    expected = np.moveaxis(np.stack([rows[members(j)].sum(axis=0) for j in range(4)]), 0, dim)
    got = run(on_tiles([shape], result, body + accumulate("%v", result)), x)
    np.testing.assert_array_equal(got, expected)


def test_rms_norm_is_of_the_tile() -> None:
    shape = (4, 48)
    body = f"%v = tb.rms_norm %t0 : {tile(shape)} -> {tile(shape)}\n"
    x = normal(shape)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(axis=-1, keepdims=True))
    text = on_tiles([shape], shape, body + accumulate("%v", shape))
    np.testing.assert_allclose(run(text, x, precision="float64"), expected, rtol=1e-14)
    np.testing.assert_allclose(run(text, x), expected, rtol=2.0**-11)


ACCUMULATORS: dict[str, tuple[str, tuple[int, int], Callable[[Array], Array]]] = {
    # x has extents [row, iteration, column of the tile].
    "none": ("forloop_accum none", (4, 6), lambda x: x.sum(axis=1)),
    "sum": ("forloop_accum sum", (4, 1), lambda x: x.sum(axis=(1, 2)).reshape(4, 1)),
    "mean": ("forloop_accum mean", (4, 1), lambda x: x.mean((1, 2)).reshape(4, 1)),
    "max": ("forloop_accum max", (4, 6), lambda x: x.max(axis=1)),
    "rms": ("forloop_accum rms", (4, 1), lambda x: np.sqrt((x**2).mean((1, 2))).reshape(4, 1)),
    "strided": (
        "forloop_accum_sum_to_dimx_strided",
        (4, 2),
        lambda x: np.stack([x[:, :, j::2].sum(axis=(1, 2)) for j in range(2)], axis=1),
    ),
    "contiguous": (
        "forloop_accum_sum_to_dimx_contiguous",
        (4, 2),
        lambda x: np.stack([x[:, :, 3 * j : 3 * j + 3].sum(axis=(1, 2)) for j in range(2)], axis=1),
    ),
}


@pytest.mark.parametrize("name", ACCUMULATORS)
def test_accumulators(name: str) -> None:
    op, result, reference = ACCUMULATORS[name]
    x = integers((4, 30))
    text = on_tiles(
        [(4, 30)], result, f"%y = tb.{op} %t0 : {tile((4, 6))} -> {tile(result)}", 5, fordims=(1,)
    )
    expected = reference(x.astype(np.float64).reshape(4, 5, 6))
    np.testing.assert_allclose(run(text, x, precision="float64"), expected, rtol=1e-15)
    np.testing.assert_array_equal(run(text, x), expected.astype(np.float16))


@pytest.mark.parametrize("kind", ["none", "sum"])
@pytest.mark.parametrize("factors", [(4, 1), (4, 6), (1, 6), (1, 1)])
def test_rescaled_accumulators(kind: str, factors: tuple[int, int]) -> None:
    x, r = integers((4, 30)), integers(tuple(n * 5 if d else n for d, n in enumerate(factors)), 2)
    result = (4, 6) if kind == "none" else (4, 1)
    types = f"({tile((4, 6))}, {tile(factors)}) -> {tile(result)}"
    body = f"%y = tb.forloop_accum_rescale {kind} %t0 by %t1 : {types}"
    shapes = [(4, 30), r.shape]
    text = on_tiles(shapes, result, body, 5, fordims=(1, 1))
    total = np.zeros((4, 6))
    for at in range(5):
        factor = r[:, at * factors[1] : (at + 1) * factors[1]].astype(np.float64)
        total = total * factor + x[:, at * 6 : (at + 1) * 6]
    expected = total if kind == "none" else total.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(run(text, x, r, precision="float64"), expected)


@pytest.mark.parametrize("dim", [0, 1])
def test_running_maximum(dim: int) -> None:
    """Accumulated over the iterations, so that each of them counts."""
    x = integers((5, 30))
    tiles = np.stack([x[:, 6 * at : 6 * at + 6] for at in range(5)]).astype(np.float64)
    result = (1, 6) if dim == 0 else (5, 1)
    types = f"{tile((5, 6))} -> ({tile(result)}, {tile(result)})"
    of_tiles = tiles.max(axis=1 + dim, keepdims=True)
    running = np.maximum.accumulate(of_tiles)
    falls = np.concatenate([np.zeros_like(running[:1]), running[:-1] - running[1:]])
    for value, expected in (("%m", running), ("%d", falls)):
        body = f"%m, %d = tb.reduction_max %t0 dim {dim} : {types}\n" + accumulate(value, result)
        text = on_tiles([(5, 30)], result, body, 5, fordims=(1,))
        np.testing.assert_array_equal(run(text, x), expected.sum(axis=0))


def test_running_maximum_of_special_numbers() -> None:
    """Nothing but -infinity so far is no fall; a NaN stays."""
    x = np.array([[-np.inf, 1.0, 3.0], [2.0, np.nan, 5.0]], np.float16)
    types = f"{tile((2, 1))} -> ({tile((2, 1))}, {tile((2, 1))})"
    body = f"%m, %d = tb.reduction_max %t0 dim 1 : {types}\n" + accumulate("%d", (2, 1))
    result = run(on_tiles([(2, 3)], (2, 1), body, 3, fordims=(1,)), x)
    np.testing.assert_array_equal(result, [[-2.0], [np.nan]])


def test_rms_norm_with_weight_and_epsilon() -> None:
    shape = (4, 48)
    types = f"{tile(shape)}, {tile((1, 48))} -> {tile(shape)}"
    body = f"%v = tb.rms_norm %t0 weight %t1 epsilon 0.5 : {types}\n" + accumulate("%v", shape)
    x, w = normal(shape), normal((1, 48), seed=3)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(axis=-1, keepdims=True) + 0.5) * w
    text = on_tiles([shape, (1, 48)], shape, body)
    np.testing.assert_allclose(run(text, x, w, precision="float64"), expected, rtol=1e-14)


def test_a_value_that_does_not_move_is_added_every_iteration() -> None:
    x = integers((4, 6))
    body = f"%y = tb.forloop_accum none %t0 : {tile((4, 6))} -> {tile((4, 6))}"
    np.testing.assert_array_equal(run(on_tiles([(4, 6)], (4, 6), body, forloop=7), x), 7 * x)


def test_sums_are_kept_in_fp32_over_the_iterations() -> None:
    """In fp16, 2048 + 1 is 2048."""
    x = np.ones((1, 9), np.float16)
    x[0, 0] = 2048
    body = f"%y = tb.forloop_accum none %t0 : {tile((1, 1))} -> {tile((1, 1))}"
    assert run(on_tiles([(1, 9)], (1, 1), body, 9, fordims=(1,)), x)[0, 0] == 2056


def test_an_epilogue_rounds_once() -> None:
    shape = (8, 40)
    x = normal(shape)
    apart = f"""%e = tb.exp %t0 : {tile(shape)} -> {tile(shape)}
    %v = tb.square %e : {tile(shape)} -> {tile(shape)}
    """
    fused = f"%v = tb.exp %t0 then [square] : {tile(shape)} -> {tile(shape)}\n"
    wide = x.astype(np.float32)
    rounded = np.exp(wide).astype(np.float16).astype(np.float32)
    results = [
        run(on_tiles([shape], shape, body + accumulate("%v", shape)), x) for body in (apart, fused)
    ]
    np.testing.assert_array_equal(results[0], (rounded**2).astype(np.float16))
    np.testing.assert_array_equal(results[1], (np.exp(wide) ** 2).astype(np.float16))
    assert (results[0] != results[1]).any()


def test_a_fused_accumulation_rounds_after_the_loop() -> None:
    """The product 2051 is 2052 in fp16; three of them are 6156 or, not rounded before, 6153."""
    a, b, c = (1, 6), (6, 1), (1, 1)
    x, y = np.tile(np.array([[2048, 3]], np.float16), (1, 3)), np.ones(b, np.float16)
    types = f"({tile((1, 2))}, {tile((2, 1))}) -> {tile(c)}"
    product = f"%v = tb.matmul %t0, %t1 : {types}\n{accumulate('%v', c)}"
    apart = on_tiles([a, b], c, product, 3, fordims=(1, 0))
    fused = on_tiles([a, b], c, f"%y = tb.matmul %t0, %t1 then [accum] : {types}", 3, (1, 0))
    assert run(apart, x, y)[0, 0] == 6156
    assert run(fused, x, y)[0, 0] == 6152
    assert run(fused, x, y, precision="float64")[0, 0] == 6153


def test_the_element_type_of_the_result_rounds() -> None:
    shape, wide = (2, 16), tile((2, 16), "f32")
    x = normal(shape)
    body = f"""%s = tb.square %t0 : {tile(shape)} -> {wide}
    %a = tb.forloop_accum none %s : {wide} -> {wide}
    %y = tb.sqrt %a : {wide} -> {tile(shape)}
    """
    np.testing.assert_array_equal(run(on_tiles([shape], shape, body), x), np.abs(x))


def test_special_numbers() -> None:
    """No warning is raised for any of them: pytest would turn it into an error."""
    shape = (1, 4)
    special = np.array([[np.inf, -np.inf, np.nan, 60000]], np.float16)
    square = f"%v = tb.square %t0 : {tile(shape)} -> {tile(shape)}\n{accumulate('%v', shape)}"
    np.testing.assert_array_equal(
        run(on_tiles([shape], shape, square), special), [[np.inf, np.inf, np.nan, np.inf]]
    )
    silu = square.replace("square", "silu")
    np.testing.assert_array_equal(
        run(on_tiles([shape], shape, silu), special), [[np.inf, np.nan, np.nan, 60000]]
    )
    sqrt = f"%a = tb.forloop_accum none %t0 : {tile(shape)} -> {tile(shape)}\n"
    sqrt += f"%y = tb.sqrt %a : {tile(shape)} -> {tile(shape)}"
    roots = run(on_tiles([shape], shape, sqrt), np.array([[-1.0, 0.0, -np.inf, 4.0]]))
    np.testing.assert_array_equal(roots, [[np.nan, 0.0, np.nan, 2.0]])


SPECIAL = {
    "relu": [np.inf, 0.0, np.nan, -0.0],
    "clamp": [0.5, -0.25, np.nan, -0.0],
    "sigmoid": [1.0, 0.0, np.nan, 0.5],
    "softplus": [np.inf, 0.0, np.nan, np.float16(np.log(2))],
    "tanh": [1.0, -1.0, np.nan, -0.0],
    "gelu": [np.inf, np.nan, np.nan, -0.0],
    "log": [np.inf, np.nan, np.nan, -np.inf],
    "abs": [np.inf, np.inf, np.nan, 0.0],
    "erf": [1.0, -1.0, np.nan, -0.0],
    "cos": [np.nan, np.nan, np.nan, 1.0],
    "round": [np.inf, -np.inf, np.nan, -0.0],
    "floor": [np.inf, -np.inf, np.nan, -0.0],
    "sin": [np.nan, np.nan, np.nan, -0.0],
    "rsqrt": [0.0, np.nan, np.nan, -np.inf],
    "reciprocal": [0.0, -0.0, np.nan, -np.inf],
    "reciprocal_or_zero": [0.0, -0.0, np.nan, 0.0],
    "fill": [np.float16(SCALE)] * 4,
}
"""Of infinity, -infinity, NaN and -0."""


@pytest.mark.parametrize("name", SPECIAL)
def test_special_numbers_of_a_function(name: str) -> None:
    x = np.array([[np.inf, -np.inf, np.nan, -0.0]], np.float16)
    root = "func.func @f(%x: tensor<1x4xf16>) -> tensor<1x4xf16> {\n"
    root += f"%y = kn.{name} {with_constant(name, '%x')} : tensor<1x4xf16> -> tensor<1x4xf16>\n"
    result = run(root + "func.return %y : tensor<1x4xf16>\n}", x)
    np.testing.assert_array_equal(result, [SPECIAL[name]])
    zero = result == 0
    np.testing.assert_array_equal(
        np.signbit(result[zero]), np.signbit(np.array(SPECIAL[name])[zero[0]])
    )


@pytest.mark.parametrize(("name", "holds"), [("less", [0, 0, 0, 1]), ("less_equal", [1, 0, 0, 1])])
def test_special_numbers_are_compared_as_numpys(name: str, holds: list[int]) -> None:
    x = np.array([[np.inf, np.inf, np.nan, -np.inf]], np.float16)
    y = np.array([[np.inf, 65504.0, np.nan, np.inf]], np.float16)
    types = "(tensor<1x4xf16>, tensor<1x4xf16>) -> tensor<1x4xf16>"
    root = "func.func @f(%x: tensor<1x4xf16>, %y: tensor<1x4xf16>) -> tensor<1x4xf16> {\n"
    root += f"%z = kn.{name} %x, %y : {types}\n"
    result = run(root + "func.return %z : tensor<1x4xf16>\n}", x, y)
    np.testing.assert_array_equal(result, [holds])


def test_whole_numbers_are_clamped_between_whole_numbers() -> None:
    text = """
    func.func @f(%x: tensor<1x3xi32>) -> tensor<1x3xf32> {
      %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
      ^bb0(%d: tensor<1x3xi32>):
        %s = tb.input %d imap [-1, -1, -1] : tensor<1x3xi32> -> !tb.stensor<1x3xi32>
        %y = tb.cast %s then [clamp(-0.5, 0.75)] : !tb.stensor<1x3xi32> -> !tb.stensor<1x3xf32>
        tb.output %y omap [-1, -1, -1] : !tb.stensor<1x3xf32> -> tensor<1x3xf32>
      } : (tensor<1x3xi32>) -> tensor<1x3xf32>
      func.return %o : tensor<1x3xf32>
    }"""
    for precision in ("storage", "float64"):
        (result,) = run_function(parse(text), "f", [np.array([[-7, 0, 7]], np.int32)], precision)
        np.testing.assert_array_equal(result, [[-0.5, 0.0, 0.75]])


def test_gelu_keeps_its_tail() -> None:
    """1 + erf(-4 / sqrt(2)) would have lost most digits in fp32."""
    text = """
    func.func @f(%x: tensor<1x1xf32>) -> tensor<1x1xf32> {
      %y = kn.gelu %x : tensor<1x1xf32> -> tensor<1x1xf32>
      func.return %y : tensor<1x1xf32>
    }"""
    (result,) = run_function(parse(text), "f", [np.array([[-4.0]])], "storage")
    np.testing.assert_allclose(result, [[-2 * math.erfc(4 / math.sqrt(2))]], rtol=2.0**-22)


def test_division_by_zero() -> None:
    shape = (1, 4)
    body = f"%v = tb.div %t0, %t1 : ({tile(shape)}, {tile(shape)}) -> {tile(shape)}\n"
    quotient = run(
        on_tiles([shape, shape], shape, body + accumulate("%v", shape)),
        np.array([[1.0, -1.0, 0.0, 1.0]]),
        np.array([[0.0, 0.0, 0.0, -0.0]]),
    )
    np.testing.assert_array_equal(quotient, [[np.inf, -np.inf, np.nan, -np.inf]])


def test_negative_zero_survives_maps_but_not_sums() -> None:
    x = np.array([[-0.0]])
    root = "func.func @f(%x: tensor<1x1xf16>) -> tensor<1x1xf16> {\n"
    root += "%y = kn.sqrt %x : tensor<1x1xf16> -> tensor<1x1xf16>\n"
    root += "func.return %y : tensor<1x1xf16>\n}"
    assert np.signbit(run(root, x)[0, 0])
    total = on_tiles([(1, 1)], (1, 1), accumulate("%t0", (1, 1)))
    assert not np.signbit(run(total, x)[0, 0])


def test_sub_normal_numbers_are_kept() -> None:
    smallest = np.array([[2.0**-24]])
    text = on_tiles([(1, 1)], (1, 1), accumulate("%t0", (1, 1)))
    assert run(text, smallest)[0, 0] == np.float16(2.0**-24)


def test_both_precisions_start_from_inputs_in_storage_type() -> None:
    text = on_tiles([(1, 1)], (1, 1), accumulate("%t0", (1, 1)))
    third = np.array([[1 / 3]])
    assert run(text, third, precision="float64")[0, 0] == np.float64(np.float16(1 / 3))


def test_powers_of_two_below_numbers_stay_within_limits() -> None:
    x = np.array([0, np.nan, -np.inf, np.inf, 1, 3, np.nextafter(4, 0, dtype=np.float32)], "f4")
    powers = SCALAR_FUNCTIONS["power_below"](x)
    assert powers.dtype == np.float32
    assert powers.tolist() == [2.0**-100, 2.0**-100, 2.0**-100, 2.0**127, 1.0, 2.0, 2.0]
    assert SCALAR_FUNCTIONS["power_below"](np.array([1e300])) == 2.0**127
