"""Normal forms of what one element of a tensor is, as a function of the inputs' elements.

A normal form is a sum of terms.  A term is a rational number times a product of factors, summed
over the ranges of its bound variables::

    sum over k of X[i, k] * W[k, j] * (sum over k of X[i, k]² / 4096)^(-1/2)

Factors are elements of the inputs at affine indices, exponentials of normal forms, normal forms to
a rational power (what divisions and roots leave), unknown functions of normal forms, choices:
1 where a variable has a value, else 0, of which a concatenation is made; and whether an index is
below a bound, 1 or 0, so that sums over ragged tiles add up what exists, and sums over
concatenations what each part has.  A sum over all places
below a bound, or from one on, becomes a sum over a shorter range.  Products
of sums are multiplied out; sums stand outside products.  A range of sums that together run through
one longer range once, because their variables occur in every index side by side as the digits of
one mixed-radix number, becomes one sum over the longer range.  Bound variables are then named by
where they occur.

Equal normal forms are equal functions, wherever both are defined: every step is an identity of
commutative algebra, of finite sums, of ``exp(a) exp(b) = exp(a + b)`` and ``x^a x^b = x^(a+b)``, or
of ``log(x^a y) = a log(x) + log(y)`` for positive x.
The reverse does not hold, so different normal forms say nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

from mugraph.runtime.equivalence.derivation import current
from mugraph.runtime.equivalence.errors import NoProofError
from mugraph.runtime.equivalence.indices import (
    Affine,
    Variable,
    affine,
    fresh_variable,
    merge_digits,
)
from mugraph.runtime.equivalence.orders import orders_of
from mugraph.runtime.equivalence.terms import (
    DECAYS,
    Application,
    Below,
    Choice,
    Element,
    Exponential,
    Factor,
    Factors,
    Key,
    NormalForm,
    Power,
    Term,
    by_dependence,
    height_of,
    indices_of,
    place_of,
    without_known_bounds,
    without_known_signs,
)

MOST_TERMS = 256
"""How many terms a normal form may have before a proof is given up."""

Values = Mapping[Variable, Affine]


@dataclass
class Substitution:
    """Replaces variables, all at once, in each normal form once."""

    values: Values
    done: dict[NormalForm, NormalForm] = field(default_factory=dict["NormalForm", "NormalForm"])

    def of(self, form: NormalForm) -> NormalForm:
        """The normal form with the variables replaced."""
        if not any(v in self.values for index in form.indices for v, _ in index.terms):
            return form
        if form not in self.done:
            self.done[form] = _collect(
                itertools.chain.from_iterable(
                    _terms(term.coefficient, term.bound, self.of_factors(term.factors))
                    for term in form.terms
                )
            )
        return self.done[form]

    def of_factors(self, factors: Factors) -> Factors:
        """The factors of a term with the variables replaced."""
        return tuple((self._of_factor(factor), power) for factor, power in factors)

    def _of_factor(self, factor: Factor) -> Factor:
        current().budget.step()
        match factor:
            case Element(tensor, indices):
                return Element(tensor, tuple(index.substituted(self.values) for index in indices))
            case Choice(index, value):
                return Choice(index.substituted(self.values), value)
            case Below(index, bound):
                return Below(index.substituted(self.values), bound)
            case _:
                return _of_nested(factor, self.of)


def _of_nested(factor: Factor, change: Callable[[NormalForm], NormalForm]) -> Factor:
    """A factor with other normal forms in the place of those that it is made of."""
    match factor:
        case Exponential(exponent):
            return Exponential(change(exponent))
        case Power(base):
            return Power(change(base))
        case Application(function, arguments):
            return Application(function, tuple(map(change, arguments)))
        case _:
            return factor


def given(form: NormalForm, known: Factor, value: int) -> NormalForm:
    """The normal form where a factor of free variables is 1 or 0."""
    if not form.indices.issuperset(indices_of(known)):
        return form
    number = Power(constant(value))

    def factors_of(term: Term) -> Iterator[tuple[Factor, Fraction]]:
        for factor, power in term.factors:
            other = _of_nested(factor, lambda nested: given(nested, known, value))
            yield (number if factor == known else other), power

    return _collect(
        itertools.chain.from_iterable(
            _terms(term.coefficient, term.bound, tuple(factors_of(term))) for term in form.terms
        )
    )


def substitute(form: NormalForm, values: Values) -> NormalForm:
    """The normal form with free variables replaced, all at once."""
    return Substitution(values).of(form)


def _collect(terms: Iterable[Term]) -> NormalForm:
    """The sum of terms, with equal ones added up."""
    sums: dict[Key, tuple[Term, Fraction]] = {}
    budget = current().budget
    for term in terms:
        budget.step()
        _, total = sums.get(term.shape_key, (term, Fraction(0)))
        sums[term.shape_key] = (term, total + term.coefficient)
        if len(sums) > MOST_TERMS:
            raise NoProofError(f"an element is a sum of more than {MOST_TERMS} different terms")
    return NormalForm(
        tuple(
            Term(total, term.bound, term.factors)
            for _, (term, total) in sorted(sums.items())
            if total
        )
    )


def constant(value: Fraction | int) -> NormalForm:
    """A number."""
    return _collect([Term(Fraction(value), (), ())])


def element(tensor: int, indices: Sequence[Affine]) -> NormalForm:
    """An element of input number ``tensor``."""
    return NormalForm((Term(Fraction(1), (), ((Element(tensor, tuple(indices)), Fraction(1)),)),))


def input_of(form: NormalForm) -> int | None:
    """The number of the input that a form is an element of; ``None`` for others."""
    if len(form.terms) != 1:
        return None
    (term,) = form.terms
    if term.coefficient != 1 or term.bound or len(term.factors) != 1:
        return None
    ((factor, exponent),) = term.factors
    return factor.tensor if isinstance(factor, Element) and exponent == 1 else None


def product(factors: Factors, coefficient: Fraction | int = 1) -> NormalForm:
    """A number times factors to their powers."""
    return _collect(_terms(Fraction(coefficient), (), factors))


def times(form: NormalForm, factors: Factors, bound: Iterable[Variable] = ()) -> NormalForm:
    """Each term times factors, with which its own may cancel, summed over more variables."""
    return _collect(
        itertools.chain.from_iterable(
            _terms(term.coefficient, (*term.bound, *bound), (*term.factors, *factors))
            for term in form.terms
        )
    )


def choice(index: Affine, value: int) -> NormalForm:
    """1 where an index has a value, else 0."""
    return product(((Choice(index, value), Fraction(1)),))


def below(index: Affine, bound: int) -> NormalForm:
    """1 where an index is less than a bound, else 0."""
    return product(((Below(index, bound), Fraction(1)),))


def within(index: Affine, first: int, end: int) -> NormalForm:
    """1 where an index is at least ``first`` and less than ``end``, else 0."""
    limits = Below(index, end), Below(index, first).opposite
    return product(tuple((limit, Fraction(1)) for limit in limits))


def add(left: NormalForm, right: NormalForm) -> NormalForm:
    """The sum."""
    return _collect((*left.terms, *right.terms))


def scale(form: NormalForm, factor: Fraction | int) -> NormalForm:
    """The normal form times a number."""
    return _collect(
        Term(term.coefficient * factor, term.bound, term.factors) for term in form.terms
    )


def multiply(left: NormalForm, right: NormalForm) -> NormalForm:
    """The product, multiplied out."""
    return _collect(
        itertools.chain.from_iterable(
            _product(one, other) for one, other in itertools.product(left.terms, right.terms)
        )
    )


def sum_over(form: NormalForm, variables: Iterable[Variable]) -> NormalForm:
    """The sum over the ranges of free variables, which become bound.

    Where something is chosen by a variable its values are taken one by one.
    """
    bound = tuple(variables)
    for variable in form.choosing & {*bound}:
        cases = cases_of(form, [variable])
        form = _collect(itertools.chain.from_iterable(case.terms for case in cases))
        bound = tuple(other for other in bound if other != variable)
    return times(form, (), bound)


def cases_of(form: NormalForm, variables: Sequence[Variable]) -> list[NormalForm]:
    """The normal form for all values of some free variables."""
    ranges = [range(variable.extent) for variable in variables]
    if math.prod(map(len, ranges)) > MOST_TERMS:
        raise NoProofError(f"there are more than {MOST_TERMS} cases of what is chosen")
    return [
        substitute(form, {v: Affine((), n) for v, n in zip(variables, values, strict=True)})
        for values in itertools.product(*ranges)
    ]


def exponential(form: NormalForm) -> NormalForm:
    """e to the power of it."""
    if not form.terms:
        return constant(1)
    return NormalForm((Term(Fraction(1), (), ((Exponential(form), Fraction(1)),)),))


def application(function: str, arguments: Sequence[NormalForm]) -> NormalForm:
    """An unknown function of normal forms."""
    factor = Application(function, tuple(arguments))
    return NormalForm((Term(Fraction(1), (), ((factor, Fraction(1)),)),))


def applied(form: NormalForm, function: str) -> tuple[NormalForm, ...] | None:
    """What a form is an unknown function of; ``None`` where it is not that function alone."""
    (term,) = form.terms if len(form.terms) == 1 else (None,)
    if term is None or term.bound or term.coefficient != 1 or len(term.factors) != 1:
        return None
    ((factor, exponent),) = term.factors
    if not isinstance(factor, Application) or factor.function != function or exponent != 1:
        return None
    return factor.arguments


def _number(form: NormalForm) -> Fraction | None:
    """The number that a normal form is, if it is one."""
    (term,) = form.terms if len(form.terms) == 1 else (None,)
    return None if term is None or term.bound or term.factors else term.coefficient


def _renamed_apart(term: Term) -> tuple[tuple[Variable, ...], list[tuple[Factor, Fraction]]]:
    """The term's bound variables and factors with names that no other term has."""
    if not term.bound:
        return (), list(term.factors)
    names = {v: fresh_variable(v.extent) for v in term.bound}
    values = {v: affine(name) for v, name in names.items()}
    return tuple(names.values()), list(Substitution(values).of_factors(term.factors))


def _product(one: Term, other: Term) -> list[Term]:
    bound_one, factors_one = _renamed_apart(one)
    bound_other, factors_other = _renamed_apart(other)
    coefficient = one.coefficient * other.coefficient
    return _terms(coefficient, (*bound_one, *bound_other), [*factors_one, *factors_other])


def _terms(
    coefficient: Fraction,
    bound: Sequence[Variable],
    factors: Sequence[tuple[Factor, Fraction]],
) -> list[Term]:
    """The terms that ``coefficient * sum over bound of the product of factors`` is."""
    current().budget.step(1 + len(factors))
    if any(isinstance(factor, Choice) for factor, _ in factors):
        chosen = _chosen(factors)
        if chosen is None:
            return []
        factors = chosen
    if any(isinstance(factor, Application) for factor, _ in factors):
        varying = without_known_signs(tuple(factors))
        if varying is None:
            return []
        factors = tuple(itertools.chain.from_iterable(map(_decays, varying)))
    if any(isinstance(factor, Below) for factor, _ in factors):
        existing = without_known_bounds(tuple(factors))
        if existing is None:
            return []
        shorter = _shortened(bound, existing)
        if shorter is not None:
            return _terms(coefficient, *shorter)
        factors = _placed(existing)
    powers: dict[Factor, Fraction] = {}
    exponent = NormalForm()
    for factor, power in factors:
        if isinstance(factor, Exponential):
            exponent = add(exponent, scale(factor.exponent, power))
        else:
            powers[factor] = powers.get(factor, Fraction(0)) + power
    for part in by_dependence(exponent, bound):
        powers[Exponential(part)] = Fraction(1)
    for factor, power in tuple(powers.items()):
        # Of a power of a number the whole part is a number.
        if isinstance(factor, Power) and (number := _number(factor.base)) is not None:
            powers[factor] = power % 1
            coefficient *= number ** int(power // 1)
    kept = {factor: power for factor, power in powers.items() if power}
    for factor, power in kept.items():
        if isinstance(factor, Power) and power.denominator == 1 and power > 0:
            rest = [(other, p) for other, p in kept.items() if other != factor]
            if power > 1:
                rest.append((factor, power - 1))
            return _expanded(coefficient, bound, rest, factor.base)
    return [_canonical(coefficient, bound, tuple(kept.items()))] if coefficient else []


def _chosen(factors: Sequence[tuple[Factor, Fraction]]) -> Factors | None:
    """Factors of which each choice is of one variable, whose value the others have.

    ``None`` where choices exclude one another.
    """
    values: dict[Variable, int] = {}
    others: list[tuple[Factor, Fraction]] = []
    for factor, power in factors:
        if not isinstance(factor, Choice):
            others.append((factor, power))
            continue
        digits = factor.index.digits_of(factor.value)
        if digits is None or any(values.setdefault(v, digit) != digit for v, digit in digits):
            return None
    known = Substitution({variable: Affine((), value) for variable, value in values.items()})
    choices = [(Choice(affine(v), value), Fraction(1)) for v, value in values.items()]
    return (*known.of_factors(tuple(others)), *choices)


def _decays(factor_and_power: tuple[Factor, Fraction]) -> Factors:
    """The decays whose product a factor is where its places are known; else the factor."""
    factor, power = factor_and_power
    if not isinstance(factor, Application) or factor.function != DECAYS:
        return (factor_and_power,)
    *span, decay, anywhere = factor.arguments
    first, last, place = (place_of(form) for form in (*span, anywhere))
    if first is None or last is None or place is None or power.denominator > 1:
        return (factor_and_power,)
    if first.terms or last.terms:
        return (factor_and_power,)
    numbers = [place.digits_of(each) for each in range(first.constant + 1, last.constant + 1)]
    values = [{v: Affine((), digit) for v, digit in each} for each in numbers if each is not None]
    if len(values) < len(numbers):
        return (factor_and_power,)
    return tuple((Power(substitute(decay, each)), power) for each in values)


def _placed(factors: Factors) -> Factors:
    """Factors with the value of each variable to which bounds leave one."""
    ranges: dict[Variable, tuple[int, int]] = {}
    for factor, _ in factors:
        if isinstance(factor, Below) and len(factor.index.terms) == 1:
            ((variable, _),) = factor.index.terms
            first, end = factor.range_of(variable)
            low, high = ranges.get(variable, (0, variable.extent))
            ranges[variable] = max(first, low), min(end, high)
    values = {v: Affine((), first) for v, (first, end) in ranges.items() if end - first == 1}
    if not values:
        return factors
    known = Substitution(values)
    return tuple(
        each if isinstance(each[0], Below) else known.of_factors((each,))[0] for each in factors
    )


def _with_merged_digits(
    bound: Sequence[Variable], factors: Factors
) -> tuple[list[Variable], list[Variable], Factors]:
    """The bound variables that factors use, those left when digits are merged, and the factors."""
    indices = {index for factor, _ in factors for index in indices_of(factor)}
    used = [v for v in bound if any(index.coefficient(v) for index in indices)]
    current().budget.step(len(used) ** 2 * len(indices))
    merged, values = merge_digits(used, indices)
    return used, merged, Substitution(values).of_factors(factors) if values else factors


def _shortened(
    bound: Sequence[Variable], factors: Factors
) -> tuple[list[Variable], Factors] | None:
    """A sum over fewer values of a variable, in the place of the factor that keeps others out.

    ``None`` where no factor is about one variable of the sum alone, its digits merged.
    """
    used, merged, factors = _with_merged_digits(bound, factors)
    left = [*merged, *(v for v in bound if v not in used)]
    for place, (factor, _) in enumerate(factors):
        if not isinstance(factor, Below) or len(factor.index.terms) != 1:
            continue
        ((variable, _),) = factor.index.terms
        if variable not in merged:
            continue
        # Nothing shorter than one: a factor that never holds has been found before.
        first, end = factor.range_of(variable)
        extent = end - first
        shorter = fresh_variable(extent)
        value = Affine((), first) if extent == 1 else affine(shorter) + Affine((), first)
        left = [v for v in left if v != variable] + ([] if extent == 1 else [shorter])
        rest = (*factors[:place], *factors[place + 1 :])
        return left, Substitution({variable: value}).of_factors(rest)
    return None


def _expanded(
    coefficient: Fraction,
    bound: Sequence[Variable],
    factors: Sequence[tuple[Factor, Fraction]],
    base: NormalForm,
) -> list[Term]:
    """The product of the rest of a term with a sum, multiplied out."""
    terms: list[Term] = []
    for term in base.terms:
        inner, inner_factors = _renamed_apart(term)
        terms += _terms(
            coefficient * term.coefficient, (*bound, *inner), [*factors, *inner_factors]
        )
    return terms


def _canonical(coefficient: Fraction, bound: Sequence[Variable], factors: Factors) -> Term:
    """The term with unused sums done, digits merged and bound variables named by their places."""
    before, used, factors = _with_merged_digits(bound, factors)
    coefficient *= math.prod(v.extent for v in bound if v not in before)
    height = 1 + max((height_of(factor) for factor, _ in factors), default=0)
    candidates = [
        Term(coefficient, *_named(order, factors, height))
        for order in orders_of(used, partial(_occurrences, variables=used, factors=factors))
    ]
    return min(candidates, key=lambda term: term.shape_key)


def _named(
    order: Sequence[Variable], factors: Factors, height: int
) -> tuple[tuple[Variable, ...], Factors]:
    names = [Variable(height, place, v.extent) for place, v in enumerate(order)]
    if not names:
        return (), _sorted(factors)
    values = {v: affine(name) for v, name in zip(order, names, strict=True)}
    return tuple(names), _sorted(Substitution(values).of_factors(factors))


def _sorted(factors: Factors) -> Factors:
    return tuple(sorted(factors, key=lambda item: (item[0].key, item[1])))


def _occurrences(variable: Variable, variables: Sequence[Variable], factors: Factors) -> Key:
    """How a variable occurs, whatever the others are called."""
    values = {
        other: affine(Variable(-2, int(other == variable), other.extent)) for other in variables
    }
    renamed = Substitution(values).of_factors(factors)
    return tuple(sorted((factor.key, power) for factor, power in renamed))
