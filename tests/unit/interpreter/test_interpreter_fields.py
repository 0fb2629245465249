"""Arithmetic in finite fields, against Python's whole numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter_programs import on_tiles, parse, tile
from xdsl.dialects.builtin import TensorType, f8E4M3FN, f8E5M2, f16, i8, i32

from mugraph.runtime.interpreter.constants import meant_by
from mugraph.runtime.interpreter.fields import FieldArithmetic, FieldArray, FieldPair
from mugraph.runtime.interpreter.run import evaluate_function, find_function

SMALL = FieldPair(227, 113, 5)
LARGE = FieldPair(524243, 262121, 5)
fields = st.sampled_from([SMALL, LARGE])


def residues(numbers: FieldArray) -> tuple[list[int | None], list[int | None]]:
    first, second = (
        [None if np.isnan(number) else int(number) for number in np.ravel(part)]
        for part in numbers.components
    )
    return first, second


def draw(pair: FieldPair, *shape: int, seed: int = 0) -> FieldArray:
    return pair.random(shape, np.random.default_rng(seed))


@given(fields, st.integers(0, 100))
def test_operations_are_those_of_whole_numbers(pair: FieldPair, seed: int) -> None:
    a, b = draw(pair, 9, seed=seed), draw(pair, 9, seed=seed + 1000)
    for part, prime in enumerate((pair.p, pair.q)):
        for left, right, total, less, product, quotient in zip(
            residues(a)[part],
            residues(b)[part],
            residues(a + b)[part],
            residues(a - b)[part],
            residues(a * b)[part],
            residues(a / b)[part],
            strict=True,
        ):
            assert left is not None and right is not None
            assert total == (left + right) % prime
            assert less == (left - right) % prime
            assert product == left * right % prime
            if right == 0:
                assert quotient is None
            else:
                assert quotient == left * pow(right, -1, prime) % prime


@given(st.integers(0, 100), st.sampled_from([1, 7, 4096, 70000]))
@settings(max_examples=20, deadline=None)
def test_matrix_products_are_exact_however_deep(seed: int, depth: int) -> None:
    a, b = draw(LARGE, 2, depth, seed=seed), draw(LARGE, depth, 3, seed=seed + 1)
    for part, prime in enumerate((LARGE.p, LARGE.q)):
        left = a.components[part].astype(object).astype(int).astype(object)
        right = b.components[part].astype(int).astype(object)
        expected = left.dot(right) % prime
        assert residues(np.matmul(a, b))[part] == list(np.ravel(expected))


@given(fields, st.integers(0, 100))
def test_exp_turns_sums_into_products(pair: FieldPair, seed: int) -> None:
    a, b = draw(pair, 20, seed=seed), draw(pair, 20, seed=seed + 1)
    assert residues(np.exp(a + b))[0] == residues(np.exp(a) * np.exp(b))[0]
    assert residues(np.exp(a))[1] == [None] * 20


def test_powers_of_the_root_of_unity_are_all_different() -> None:
    assert len(set(LARGE.powers)) == LARGE.q
    assert LARGE.powers[1] * LARGE.powers[-1] % LARGE.p == 1


def test_roots_are_one_function() -> None:
    a = draw(LARGE, 50)
    assert residues(np.sqrt(a)) == residues(np.sqrt(a + 0))
    assert residues(np.sqrt(a * 4))[0] != residues(np.sqrt(a) * 2)[0]
    assert residues(np.sqrt(np.exp(a)))[1] == [None] * 50


def test_constants_are_the_fractions_that_they_stand_for() -> None:
    a = draw(LARGE, 8)
    third = a * float(np.float32(1 / 3))
    assert residues(third * 3) == residues(a)
    assert residues(a * 0.25 * 4) == residues(a)


@pytest.mark.parametrize("p,q", [(226, 113), (227, 111), (227, 11), (2**31 - 1, 2)])
def test_fields_need_primes_that_fit(p: int, q: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        FieldPair(p, q, 0)


def test_a_graph_runs_on_residues() -> None:
    body = f"""
    %m = tb.matmul %t0, %t1 : ({tile((2, 4))}, {tile((4, 3))}) -> {tile((2, 3))}
    %y = tb.forloop_accum none %m : {tile((2, 3))} -> {tile((2, 3))}"""
    module = parse(on_tiles([(2, 8), (8, 3)], (2, 3), body, 2, [1, 0]))
    a, b = draw(SMALL, 2, 8), draw(SMALL, 8, 3, seed=1)
    arithmetic = FieldArithmetic(fields=SMALL)
    (result,) = evaluate_function(module, find_function(module, None), [a, b], arithmetic)
    assert residues(result) == residues(np.matmul(a, b))


@given(st.integers(-(10**6), 10**6), st.integers(1, 4000))
def test_a_constant_means_the_simplest_fraction(numerator: int, denominator: int) -> None:
    value = Fraction(numerator, denominator)
    meant = meant_by(float(np.float32(float(value))))
    assert meant.denominator <= value.denominator
    assert np.float32(float(meant)) == np.float32(float(value))
    if abs(numerator) < 2000:
        assert meant == value


def test_infinities_mean_nothing() -> None:
    with pytest.raises(ValueError, match="no number"):
        meant_by(float("inf"))


def test_quantizing_is_an_unknown_function_of_what_is_not_of_the_type() -> None:
    arithmetic = FieldArithmetic(fields=LARGE)
    x = draw(LARGE, 3, 4)
    for type_ in (i8, i32, f8E4M3FN, f8E5M2):
        rounded = arithmetic.round(x, type_)
        assert residues(rounded) != residues(x)
        assert residues(arithmetic.round(x, type_)) == residues(rounded)
        # Also of a part of it, moved: it is of the type already.
        moved = rounded.reshape(4, 3).transpose(1, 0)[1:]
        assert residues(arithmetic.round(moved, type_)) == residues(moved)
    assert residues(arithmetic.round(x, f16)) == residues(x)


def test_sums_and_products_of_integers_are_integers() -> None:
    arithmetic = FieldArithmetic(fields=LARGE)
    generator = np.random.default_rng(0)
    left = arithmetic.input(TensorType(i8, [3, 5]), generator)
    right = arithmetic.input(TensorType(i8, [5, 2]), generator)
    product = np.matmul(left, right)
    assert residues(arithmetic.round(product, i32)) == residues(product)
    assert residues(arithmetic.round(product, i8)) != residues(product)
    halves = arithmetic.round(product * 0.5, i32)
    assert residues(halves) != residues(product * 0.5)


def test_what_is_written_into_zeros_makes_them_numbers_of_no_type() -> None:
    """Also through a view, as tiles are put side by side."""
    arithmetic = FieldArithmetic(fields=LARGE)
    whole = arithmetic.full((2, 3), 0.0)
    assert residues(arithmetic.round(whole, i8)) == residues(whole)
    whole[1:][...] = draw(LARGE, 1, 3)
    assert residues(arithmetic.round(whole, i8)) != residues(whole)
