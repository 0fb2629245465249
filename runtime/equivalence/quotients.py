"""Roots and inverses of normal forms, and what all terms of one share."""

from __future__ import annotations

import math
from fractions import Fraction

from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.errors import NoProofError
from mugraph.runtime.equivalence.terms import (
    Below,
    Choice,
    Exponential,
    Factor,
    Factors,
    NormalForm,
    Power,
    Term,
)


def square_root(form: NormalForm) -> NormalForm:
    """The square root; of a negative number it is undefined.

    A number that all terms share is taken out, as :func:`inverse` does, so that both raise the same
    sum to some power.
    """
    if not form.terms:
        return form
    shared = form.terms[0].coefficient
    if shared < 0:
        return nf.product(((Power(form), Fraction(1, 2)),))
    rest = nf.scale(form, 1 / shared)
    number = Fraction(math.isqrt(shared.numerator), math.isqrt(shared.denominator))
    bases = [] if rest == nf.constant(1) else [rest]
    if number * number != shared:
        number, bases = Fraction(1), [nf.constant(shared), *bases]
    return nf.product(tuple((Power(base), Fraction(1, 2)) for base in bases), number)


def inverse(form: NormalForm) -> NormalForm:
    """1 over it; a single product is inverted factor by factor."""
    if not form.terms:
        raise NoProofError("something is divided by a sum that is always 0")
    number, shared = form.terms[0].coefficient, shared_factors(form)
    rest = nf.scale(without(shared, form), 1 / number)
    inverted = nf.product(_inverted(shared), 1 / number)
    if rest == nf.constant(1):
        return inverted
    return nf.multiply(inverted, nf.product(((Power(rest), Fraction(-1)),)))


def _inverted(factors: Factors) -> Factors:
    return tuple((factor, -power) for factor, power in factors)


def shared_factors(form: NormalForm) -> Factors:
    """The factors that all terms have, none of them summed over.

    Of exponentials it is the one of the summands that all exponents have.
    """
    shared: list[tuple[Factor, Fraction]] = [
        (factor, power)
        for factor, power in (form.terms[0].factors if form.terms else ())
        if not isinstance(factor, Choice | Below | Exponential)
        and all(
            term.sums_over_none_of(factor) and _power(factor, term) == power for term in form.terms
        )
    ]
    exponents = [_exponents(term) for term in form.terms]
    summands = tuple(
        summand
        for summand in (exponents[0] if exponents else ())
        if all(summand in others for others in exponents[1:])
    )
    if summands:
        shared.append((Exponential(NormalForm(summands)), Fraction(1)))
    return tuple(shared)


def _exponents(term: Term) -> tuple[Term, ...]:
    """The summands of the exponents that the term does not sum over."""
    return tuple(
        summand
        for factor, _ in term.factors
        if isinstance(factor, Exponential) and term.sums_over_none_of(factor)
        for summand in factor.exponent.terms
    )


def without(shared: Factors, form: NormalForm) -> NormalForm:
    """A normal form divided by factors that all terms have."""
    return nf.times(form, _inverted(shared))


def _power(factor: Factor, term: Term) -> Fraction:
    return next((power for other, power in term.factors if other == factor), Fraction(0))
