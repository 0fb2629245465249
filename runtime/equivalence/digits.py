"""Comparisons of places digit by digit: what a scan over places is in chunks of them.

A place 64 c + i is above 64 d + j where c is above d, or where c is d and i above j.  So the sum
over the places below one is the sum over all of the chunks before its own, and over those below it
in its own chunk; the same holds for sums in exponents, such as those of the logarithms of decays.
Exponentials of what a mask has made minus infinity are 0, a factor.

Nothing depends on how many chunks there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.functions import masked_exponent
from mugraph.runtime.equivalence.indices import Affine, Variable, affine, fresh_variable
from mugraph.runtime.equivalence.terms import (
    PLACE,
    POSITIVE,
    Application,
    Exponential,
    Factor,
    Factors,
    NormalForm,
    Power,
    nested_in,
    positive_place,
)

Bound = tuple[Variable, ...]


def digit_by_digit(form: NormalForm, radix: int = 0) -> NormalForm:
    """The form with each comparison of places as comparisons of their digits, however deep.

    With a ``radix`` places that are compared and summed over have two digits if they can, the inner
    one of so many values.  Raises ``NoProofError`` where there are too many terms.
    """
    return _Digits(radix).of(form)


@dataclass
class _Digits:
    """Takes comparisons apart, those of each normal form once."""

    radix: int
    done: dict[NormalForm, NormalForm] = field(default_factory=dict[NormalForm, NormalForm])

    def of(self, form: NormalForm) -> NormalForm:
        """The form with each comparison taken apart."""
        if form not in self.done:
            total = NormalForm()
            for term in form.terms:
                names = {v: fresh_variable(v.extent) for v in term.bound}
                values = {v: affine(name) for v, name in names.items()}
                factors = nf.Substitution(values).of_factors(term.factors)
                part = self.of_sum(tuple(names.values()), factors)
                total = nf.add(total, nf.scale(part, term.coefficient))
            self.done[form] = total
        return self.done[form]

    def of_sum(self, bound: Bound, factors: Factors) -> NormalForm:
        """The sum of a product over free variables."""
        for step in (_without_masked, self.with_digits, _compared):
            cases = step(bound, factors)
            if cases is not None:
                total = NormalForm()
                for coefficient, left, product in cases:
                    total = nf.add(total, nf.scale(self.of_sum(left, product), coefficient))
                return total
        product = nf.product(tuple((self.of_factor(factor), power) for factor, power in factors))
        return nf.sum_over(product, bound)

    def of_factor(self, factor: Factor) -> Factor:
        """A factor with the comparisons taken apart that are nested in it."""
        match factor:
            case Exponential(exponent):
                return Exponential(self.of(exponent))
            case Power(base):
                return Power(self.of(base))
            case Application(function, arguments) if positive_place(factor) is None:
                return Application(function, tuple(map(self.of, arguments)))
            case _:
                return factor

    def with_digits(self, bound: Bound, factors: Factors) -> Iterator[Case] | None:
        """The sum over two digits of a variable that is compared with a number of such digits."""
        for variable in bound:
            compared = [
                place for place in places_compared(factors) if abs(place.coefficient(variable)) == 1
            ]
            radix = max((_radix(place, variable, self.radix) for place in compared), default=0)
            if radix:
                outer, inner = fresh_variable(variable.extent // radix), fresh_variable(radix)
                value = affine(outer, radix) + affine(inner)
                left = (*(v for v in bound if v != variable), outer, inner)
                return iter([(1, left, nf.Substitution({variable: value}).of_factors(factors))])
        return None


Case = tuple[Fraction | int, Bound, Factors]
"""A number times the sum, over free variables, of a product."""


def _without_masked(bound: Bound, factors: Factors) -> Iterator[Case] | None:
    """The product where a mask keeps an exponent; ``None`` where no exponent is masked."""
    for place, (factor, power) in enumerate(factors):
        if not isinstance(factor, Exponential):
            continue
        for term in factor.exponent.terms:
            masked = masked_exponent(term, power)
            if masked is None:
                continue
            holds, kept = masked
            others = NormalForm(tuple(other for other in factor.exponent.terms if other != term))
            exponent = nf.add(nf.scale(others, power), kept)
            one = Fraction(1)
            rest: Factors = (*factors[:place], *factors[place + 1 :], (Exponential(exponent), one))
            return _times(holds, bound, rest)
    return None


def _times(form: NormalForm, bound: Bound, factors: Factors) -> Iterator[Case]:
    """The product of a form, whose sums have other variables, with factors."""
    for term in form.terms:
        names = {v: fresh_variable(v.extent) for v in term.bound}
        values = {v: affine(name) for v, name in names.items()}
        own = nf.Substitution(values).of_factors(term.factors)
        yield term.coefficient, (*bound, *names.values()), (*own, *factors)


def places_compared(factors: Factors) -> Iterator[Affine]:
    """The places that factors say are above 0, however deep."""
    for factor, _ in factors:
        place = positive_place(factor)
        if place is not None:
            yield place
        for nested in nested_in(factor):
            for term in nested.terms:
                yield from places_compared(term.factors)


def _radix(place: Affine, variable: Variable, least: int) -> int:
    """The largest step of another variable that divides a variable's range; 0 if there is none.

    ``least`` counts as such a step.
    """
    steps = [least, *(abs(step) for other, step in place.terms if other != variable)]
    return max((s for s in steps if 1 < s < variable.extent and not variable.extent % s), default=0)


def _compared(bound: Bound, factors: Factors) -> Iterator[Case] | None:
    """The sums in the place of a comparison that its digits decide; ``None`` if there is none."""
    for number, (factor, power) in enumerate(factors):
        # 1 / 0 is no number of either form.
        place = positive_place(factor) if power > 0 else None
        parts = None if place is None else _high_and_low(place)
        if parts is None:
            continue
        high, low = parts
        equal = _value_where_0(high, bound)
        if equal is None:
            continue
        rest = (*factors[:number], *factors[number + 1 :])
        return _cases(high, low, equal, bound, rest)
    return None


def _high_and_low(place: Affine) -> tuple[Affine, Affine | None] | None:
    """Two numbers of which the first decides whether a place is above 0 unless it is 0 itself.

    Then the second one decides; without a second one, the place is not above 0 there.
    """
    step = max((abs(coefficient) for _, coefficient in place.terms), default=0)
    if step == 1 and place.constant == 0:
        return place, None
    if step <= 1:
        return None
    high = Affine(tuple((v, c // step) for v, c in place.terms if c % step == 0))
    low = Affine(tuple((v, c) for v, c in place.terms if c % step), place.constant)
    first, last = low.limits()
    return (high, low) if -step < first and last <= step else None


def _value_where_0(form: Affine, bound: Sequence[Variable]) -> dict[Variable, Affine] | None:
    """What a variable that is summed over is where a form is 0: one value of its range, always."""
    for variable, coefficient in form.terms:
        if variable not in bound or abs(coefficient) != 1:
            continue
        value = form.scaled(-coefficient) + affine(variable)
        low, high = value.limits()
        if low >= 0 and high < variable.extent:
            return {variable: value}
    return None


def _cases(
    high: Affine,
    low: Affine | None,
    equal: dict[Variable, Affine],
    bound: Bound,
    rest: Factors,
) -> Iterator[Case]:
    """[high > 0], which is [high >= 0] less what is there where it is 0, and [low > 0] there."""
    at_least_0 = _comparison(high + Affine((), 1))
    yield 1, bound, (*rest, at_least_0)
    there = nf.Substitution(equal)
    left = tuple(variable for variable in bound if variable not in equal)
    yield -1, left, there.of_factors(rest)
    if low is not None:
        yield 1, left, there.of_factors((*rest, _comparison(low)))


def _comparison(place: Affine) -> tuple[Factor, Fraction]:
    """Whether a place is above 0, as a factor."""
    return Application(POSITIVE, (nf.element(PLACE, [place]),)), Fraction(1)
