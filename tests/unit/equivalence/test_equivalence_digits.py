"""Comparisons of places digit by digit: forms keep their values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest

from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.digits import digit_by_digit, places_compared
from mugraph.runtime.equivalence.functions import positive
from mugraph.runtime.equivalence.indices import Affine, Variable, affine
from mugraph.runtime.equivalence.scans import sums_so_far
from mugraph.runtime.equivalence.tensors import Symbolic
from mugraph.runtime.equivalence.terms import (
    PLACE,
    Element,
    Exponential,
    Factor,
    NormalForm,
    positive_place,
)

Values = dict[Variable, int]
Inputs = list[npt.NDArray[np.float64]]
CHUNKS, SIZE = 4, 6


def place(index: Affine, values: Values) -> int:
    return index.constant + sum(step * values[variable] for variable, step in index.terms)


def value(form: NormalForm, inputs: Inputs, values: Values) -> float:
    """What a form of elements, exponentials and comparisons is, sum by sum."""
    total = 0.0
    for term in form.terms:
        for numbers in itertools.product(*(range(v.extent) for v in term.bound)):
            known = values | dict(zip(term.bound, numbers, strict=True))
            product = math.prod(
                factor_value(factor, inputs, known) ** float(power)
                for factor, power in term.factors
            )
            total += float(term.coefficient) * product
    return total


def factor_value(factor: Factor, inputs: Inputs, values: Values) -> float:
    compared = positive_place(factor)
    if compared is not None:
        return float(place(compared, values) > 0)
    match factor:
        case Element(tensor, (index,)):
            return float(inputs[tensor][place(index, values)])
        case Exponential(exponent):
            return math.exp(value(exponent, inputs, values))
        case _:
            raise AssertionError(factor)


def summand(index: Affine) -> NormalForm:
    return nf.element(0, [index])


def logarithm(index: Affine) -> NormalForm:
    return nf.element(1, [index])


@pytest.mark.parametrize("radix", [0, SIZE, 3])
@pytest.mark.parametrize("behind", [0, 1])
def test_forms_keep_their_values(radix: int, behind: int) -> None:
    symbolic = Symbolic()
    chunk, within = symbolic.scope.variable(CHUNKS), symbolic.scope.variable(SIZE)
    last = affine(chunk, SIZE) + affine(within) + Affine((), -behind)
    form = sums_so_far(symbolic, CHUNKS * SIZE, last, summand, logarithm)
    apart = digit_by_digit(form, radix)
    assert apart != form
    random = np.random.default_rng(radix)
    inputs = [random.standard_normal(CHUNKS * SIZE) for _ in range(2)]
    for c, i in [(0, 0), (0, 5), (2, 0), (3, 4)]:
        values = {chunk: c, within: i}
        assert value(apart, inputs, values) == pytest.approx(value(form, inputs, values))


def test_digits_are_compared_alone() -> None:
    symbolic = Symbolic()
    chunk, within = symbolic.scope.variable(CHUNKS), symbolic.scope.variable(SIZE)
    last = affine(chunk, SIZE) + affine(within)
    apart = digit_by_digit(sums_so_far(symbolic, CHUNKS * SIZE, last, summand, logarithm))
    steps = {
        abs(step)
        for term in apart.terms
        for compared in places_compared(term.factors)
        for _, step in compared.terms
    }
    assert steps == {1}


def test_what_is_not_summed_stays() -> None:
    one, other = Variable(0, 1, SIZE), Variable(0, 2, SIZE)
    form = positive(nf.element(PLACE, [affine(one) + affine(other, -1)]))
    assert digit_by_digit(form) == form
