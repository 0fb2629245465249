"""Bounds on rounding: no run is outside of them, and they are not much too wide."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter_programs import Array, normal, on_tiles, parse, tile
from xdsl.dialects.builtin import f8E4M3FN, f8E5M2, f16, i8, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.arithmetic import (
    Arithmetic,
    Precision,
    convert,
    storage_dtype,
)
from mugraph.runtime.interpreter.bounded_arithmetic import BoundedArithmetic
from mugraph.runtime.interpreter.bounds import BoundedArray
from mugraph.runtime.interpreter.rounding import FLOAT64, STORAGE, RoundingModel
from mugraph.runtime.interpreter.run import evaluate_function, find_function
from mugraph.runtime.interpreter.texpr.tiles import run_operator
from mugraph.texpr import read_texpr

ARITHMETIC = BoundedArithmetic()


def bounded(value: Array, storage: float, float64: float = 0.0) -> BoundedArray:
    """Numbers that runs of either model have with these errors."""
    value = np.asarray(value, np.float64)
    errors = [np.full_like(value, storage), np.full_like(value, float64)]
    return ARITHMETIC.exact(value).of([value, *errors])


def fractions(value: Array) -> list[Fraction]:
    return [Fraction(float(number)) for number in np.ravel(value)]


numbers = st.integers(-(2**10), 2**10).map(lambda number: number / 64)
lists = st.lists(numbers, min_size=1, max_size=40)


@given(lists, lists, st.sampled_from(["add", "subtract", "multiply", "divide"]))
def test_one_operation_is_within_its_bound(
    left: list[float], right: list[float], name: str
) -> None:
    length = min(len(left), len(right))
    a, b = np.array(left[:length]), np.array(right[:length])
    if name == "divide":
        a, b = a[b != 0], b[b != 0]
    function: Callable[..., Any] = getattr(np, name)
    exact = {
        "add": Fraction.__add__,
        "subtract": Fraction.__sub__,
        "multiply": Fraction.__mul__,
        "divide": Fraction.__truediv__,
    }[name]
    result: BoundedArray = function(ARITHMETIC.exact(a), ARITHMETIC.exact(b))
    expected = [exact(x, y) for x, y in zip(fractions(a), fractions(b), strict=True)]
    for model, rounded in (
        (STORAGE, function(a.astype(np.float32), b.astype(np.float32))),
        (FLOAT64, function(a, b)),
    ):
        for number, true, room in zip(
            fractions(rounded), expected, result.bound(model), strict=True
        ):
            assert abs(number - true) <= Fraction(float(room))


@given(st.data())
def test_errors_of_operands_are_carried_along(data: st.DataObject) -> None:
    """Any operand within its error gives a result within the bound."""
    a, b = data.draw(numbers.filter(bool)), data.draw(numbers.filter(bool))
    error = data.draw(st.floats(0, min(abs(a), abs(b)) / 2))
    share_a, share_b = data.draw(st.floats(-1, 1)), data.draw(st.floats(-1, 1))
    near_a, near_b = a + share_a * error, b + share_b * error
    left, right = bounded(np.array(a), error), bounded(np.array(b), error)
    for result, true, near in (
        (np.add(left, right), a + b, near_a + near_b),
        (np.multiply(left, right), a * b, near_a * near_b),
        (np.divide(left, right), a / b, near_a / near_b),
        (np.square(left), a * a, near_a * near_a),
        (np.exp(left), np.exp(a), np.exp(near_a)),
        (left.smooth(np.cos, 1.0, 2.0), np.cos(a), np.cos(near_a)),
        (left.steps(np.floor), np.floor(a), np.floor(near_a)),
        (left.steps(np.rint), np.rint(a), np.rint(near_a)),
        (np.sqrt(np.square(left)), abs(a), abs(near_a)),
    ):
        assert abs(near - true) <= result.bound(STORAGE)


@given(st.integers(1, 300), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_sums_and_products_of_matrices_are_within_their_bounds(depth: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    a = generator.integers(-(2**11), 2**11, (2, depth)) / 2.0**9
    b = generator.integers(-(2**11), 2**11, (depth, 2)) / 2.0**9
    product = np.matmul(ARITHMETIC.exact(a), ARITHMETIC.exact(b))
    exact = a @ b  # of 22 bits and 9 more for the sum: exact in float64
    stored = a.astype(np.float32) @ b.astype(np.float32)
    assert (np.abs(stored - exact) <= product.bound(STORAGE)).all()
    total = ARITHMETIC.exact(a).sum(axis=1)
    stored = a.astype(np.float32).sum(axis=1)
    assert (np.abs(stored - a.sum(axis=1)) <= total.bound(STORAGE)).all()
    assert (product.bound(STORAGE) <= 1e-4 * (np.abs(a) @ np.abs(b))).all()


def test_inputs_and_what_only_moves_have_no_error() -> None:
    value = ARITHMETIC.exact(normal((4, 6)))
    moved = ARITHMETIC.round(value.reshape(6, 4).transpose(1, 0)[1:], f16)
    assert not moved.bound(STORAGE).any()
    assert np.array_equal(moved.value, value.value.reshape(6, 4).T[1:])


def test_storing_adds_half_a_unit_in_the_last_place() -> None:
    third = np.divide(ARITHMETIC.exact(np.array([1.0])), ARITHMETIC.exact(np.array([3.0])))
    stored = ARITHMETIC.round(third, f16)
    error = abs(float(np.float16(1 / 3)) - 1 / 3)
    assert error <= stored.bound(STORAGE)[0] <= 2.0**-11 / 3 * 1.001 + 2.0**-24
    assert stored.bound(FLOAT64)[0] < 1e-16


@given(st.floats(-200, 200), st.floats(0, 2), st.floats(-1, 1))
@pytest.mark.parametrize("type_", [i8, i32, f8E4M3FN, f8E5M2])
def test_quantizing_rounds_the_numbers_and_carries_both_ends_of_their_errors(
    type_: Attribute, value: float, error: float, share: float
) -> None:
    dtype = storage_dtype(type_)
    rounded = ARITHMETIC.round(bounded(np.array(value), error), type_)
    assert rounded.value == convert(np.array(value), dtype)
    near = convert(np.array(value + share * error), dtype).astype(np.float64)
    assert abs(near - rounded.value) <= rounded.bound(STORAGE)


def test_numbers_that_all_round_alike_have_no_error() -> None:
    values = bounded(np.array([0.2, 0.6, 7.4, 1000.0]), 0.05)
    assert not ARITHMETIC.round(values, i8).bound(STORAGE).any()
    near_a_tie = ARITHMETIC.round(bounded(np.array([0.48, 3.5]), 0.05), i8)
    assert near_a_tie.bound(STORAGE).tolist() == pytest.approx([1.0, 1.0])


def test_what_is_no_number_and_what_no_i32_holds_is_undefined() -> None:
    for value, type_ in ((np.nan, i8), (np.nan, f8E4M3FN), (np.nan, i32), (2.0**31, i32)):
        assert ARITHMETIC.round(bounded(np.array(value), 0), type_).bound(STORAGE) == np.inf


TINY = np.array([[1e-200]])


@pytest.mark.parametrize(
    ("compute", "true"),
    [
        # Subnormal, so that it has few digits; and 0, which none of these is.
        (lambda x: np.log(np.exp(x * 0.0 - 735.0)), -735.0),
        (lambda x: np.sqrt(np.square(x)), 1e-200),
        (lambda x: np.sqrt(np.matmul(x, x)), 1e-200),
        (lambda x: np.sqrt(x / 1e200), 1e-200),
        (lambda x: np.sqrt(np.exp(x * 0.0 - 800.0)), np.exp(-400.0)),
        (lambda x: np.sqrt(np.power(x, x * 0.0 + 2.0)), 1e-200),
    ],
)
def test_numbers_that_float64_does_not_hold_have_large_bounds(
    compute: Callable[[Any], Any], true: float
) -> None:
    with np.errstate(all="ignore"):
        result = compute(ARITHMETIC.exact(TINY))
    assert (np.abs(result.value - true) <= result.bound(FLOAT64)).all()


def test_a_product_with_0_is_exact() -> None:
    zero, x = ARITHMETIC.exact(np.zeros((2, 3))), ARITHMETIC.exact(normal((3, 2)))
    for result in (np.matmul(zero, x), zero * x.reshape(2, 3)):
        assert not result.bound(FLOAT64).any()


@pytest.mark.parametrize(
    "value",
    [
        # Overflow of fp16, of fp32, and subnormal numbers of fp16.
        (lambda: ARITHMETIC.round(ARITHMETIC.exact(np.array(7e4)), f16), np.inf),
        (lambda: np.exp(ARITHMETIC.exact(np.array(100.0))), np.inf),
        (lambda: ARITHMETIC.round(ARITHMETIC.exact(np.array(1e-9)), f16), 2.0**-25),
        (lambda: np.divide(bounded(np.array(1.0), 0), bounded(np.array(1.0), 1)), np.inf),
        (lambda: np.sqrt(bounded(np.array(1.0), 1)), np.inf),
        (lambda: np.sqrt(bounded(np.array(0.0), 0)), 0.0),
    ],
)
def test_special_bounds(value: tuple[Callable[[], BoundedArray], float]) -> None:
    make, expected = value
    with np.errstate(all="ignore"):
        assert make().bound(STORAGE).max() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("constant", "doubt"), [(3, 0.0), (0.25, 0.0), (-2.0, 0.0), (0.1, 0.1 * 2.0**-24)]
)
def test_a_constant_stands_for_what_rounds_to_it(constant: float, doubt: float) -> None:
    model = RoundingModel(np.float64, stores=False)
    arithmetic = BoundedArithmetic(models=(model,))
    assert arithmetic.exact(np.zeros(())).lift(constant).bound(model) == pytest.approx(doubt, 1e-5)


def test_a_whole_graph_is_within_its_bounds_which_are_not_vacuous() -> None:
    body = f"""
    %s = tb.silu %t0 : {tile((8, 32))} -> {tile((8, 32))}
    %m = tb.matmul %s, %t1 : ({tile((8, 32))}, {tile((32, 16))}) -> {tile((8, 16))}
    %e = tb.exp %m : {tile((8, 16))} -> {tile((8, 16))}
    %a = tb.forloop_accum none %e : {tile((8, 16))} -> {tile((8, 16))}
    %r = tb.forloop_accum rms %s : {tile((8, 32))} -> {tile((8, 1))}
    %y = tb.div %a, %r : ({tile((8, 16))}, {tile((8, 1))}) -> {tile((8, 16))}"""
    module = parse(on_tiles([(8, 128), (128, 16)], (8, 16), body, 4, [1, 0]))
    inputs = [normal((8, 128), 0.5, 1), normal((128, 16), 0.25, 2)]
    (stored,) = run_function(module, None, inputs)
    (reference,) = run_function(module, None, inputs, "float64")
    (result,) = evaluate_function(
        module, find_function(module, None), [ARITHMETIC.exact(x) for x in inputs], ARITHMETIC
    )
    assert (np.abs(result.value - reference) <= 2 * result.bound(FLOAT64)).all()
    room = result.bound(STORAGE) + result.bound(FLOAT64)
    shares = np.abs(stored - result.value) / room
    assert 0.01 < shares.max() <= 1
    assert np.median(room / np.abs(result.value)) < 0.05


@pytest.mark.parametrize("name", ["erf", "sin", "cos", "abs", "exp2", "log2", "rsqrt", "ceil"])
def test_functions_of_tensor_expressions_have_bounds(name: str) -> None:
    text = f"fn f(x: f32[8]): f32[8] {{ par 8 i {{ result[i] = {name}(x[i]) }} }}"
    function = read_texpr(text, "f.te", {}).body.block.first_op
    assert isinstance(function, FuncOp)
    values = np.linspace(0.25, 2, 8)
    arithmetic = BoundedArithmetic(models=(STORAGE,))
    (bounded,) = run_operator(function, [arithmetic.exact(values)], 0, arithmetic)
    (exact,) = run_operator(function, [values], 0, Arithmetic(Precision.FLOAT64))
    single = values.astype(np.float32)
    (rounded,) = run_operator(function, [single], 0, Arithmetic(Precision.STORAGE))
    assert (np.abs(rounded - exact) <= bounded.bound(STORAGE)).all()
