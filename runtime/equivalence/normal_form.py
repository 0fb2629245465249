"""Normal forms of what one element of a tensor is, as a function of the inputs' elements.

A normal form is a sum of terms.  A term is a rational number times a product of factors, summed
over the ranges of its bound variables::

    sum over k of X[i, k] * W[k, j] * (sum over k of X[i, k]² / 4096)^(-1/2)

Factors are elements of the inputs at affine indices, exponentials of normal forms, normal forms to
a rational power (what divisions and roots leave), and unknown functions of normal forms.  Products
of sums are multiplied out; sums stand outside products.  A range of sums that together run through
one longer range once, because their variables occur in every index side by side as the digits of
one mixed-radix number, becomes one sum over the longer range.  Bound variables are then named by
where they occur.

Equal normal forms are equal functions, wherever both are defined: every step is an identity of
commutative algebra, of finite sums, or of ``exp(a) exp(b) = exp(a + b)`` and ``x^a x^b = x^(a+b)``.
The reverse does not hold, so different normal forms say nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from mugraph.runtime.equivalence.errors import NoProofError
from mugraph.runtime.equivalence.indices import ZERO, Affine, Variable, affine

MOST_ORDERS = 720
"""How many orders of the bound variables of one term are tried for the least one."""

MOST_TERMS = 256
"""How many terms a normal form may have before a proof is given up."""

Key = tuple[Any, ...]
Values = Mapping[Variable, Affine]


@dataclass(frozen=True)
class Element:
    """An element of an input."""

    tensor: int
    indices: tuple[Affine, ...]

    @cached_property
    def key(self) -> Key:
        """What orders factors."""
        return ("element", self.tensor, self.indices)


@dataclass(frozen=True)
class Exponential:
    """e to the power of a normal form."""

    exponent: NormalForm

    @cached_property
    def key(self) -> Key:
        """What orders factors."""
        return ("exp", *self.exponent.key)


@dataclass(frozen=True)
class Power:
    """A normal form that is raised to some power; which one is said by the term."""

    base: NormalForm

    @cached_property
    def key(self) -> Key:
        """What orders factors."""
        return ("power", *self.base.key)


@dataclass(frozen=True)
class Application:
    """A function, of which nothing is known but its name, of normal forms."""

    function: str
    arguments: tuple[NormalForm, ...]

    @cached_property
    def key(self) -> Key:
        """What orders factors."""
        return ("apply", self.function, *(argument.key for argument in self.arguments))


Factor = Element | Exponential | Power | Application
Factors = tuple[tuple[Factor, Fraction], ...]


@dataclass(frozen=True)
class Term:
    """``coefficient * sum over bound of the product of factor^exponent``, named canonically."""

    coefficient: Fraction
    bound: tuple[Variable, ...]
    factors: Factors

    @cached_property
    def shape_key(self) -> Key:
        """What orders terms: all but the coefficient."""
        return (
            len(self.factors),
            len(self.bound),
            self.bound,
            tuple((factor.key, exponent) for factor, exponent in self.factors),
        )

    @cached_property
    def height(self) -> int:
        """How many sums are nested in the term."""
        return max((_height(factor) for factor, _ in self.factors), default=0) + bool(self.bound)


@dataclass(frozen=True)
class NormalForm:
    """A sum of terms, in order."""

    terms: tuple[Term, ...] = ()

    @cached_property
    def key(self) -> Key:
        """What orders normal forms, and tells them apart."""
        return tuple((term.shape_key, term.coefficient) for term in self.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NormalForm) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _nested(factor: Factor) -> tuple[NormalForm, ...]:
    match factor:
        case Element():
            return ()
        case Exponential(exponent):
            return (exponent,)
        case Power(base):
            return (base,)
        case Application(_, arguments):
            return arguments


def _height(factor: Factor) -> int:
    terms = itertools.chain.from_iterable(nested.terms for nested in _nested(factor))
    return max((term.height for term in terms), default=0)


def _affines(factor: Factor) -> Iterator[Affine]:
    """Every index in a factor, however deep."""
    for nested in _nested(factor):
        yield from indices_of(nested)
    if isinstance(factor, Element):
        yield from factor.indices


def indices_of(form: NormalForm) -> Iterator[Affine]:
    """Every index in a normal form, however deep."""
    for term in form.terms:
        for factor, _ in term.factors:
            yield from _affines(factor)


def free_variables(form: NormalForm) -> set[Variable]:
    """The variables that no sum binds."""
    return {v for index in indices_of(form) for v, _ in index.terms if v.height == 0}


def _substituted_factor(factor: Factor, values: Values) -> Factor:
    match factor:
        case Element(tensor, indices):
            return Element(tensor, tuple(index.substituted(values) for index in indices))
        case Exponential(exponent):
            return Exponential(substitute(exponent, values))
        case Power(base):
            return Power(substitute(base, values))
        case Application(function, arguments):
            return Application(function, tuple(substitute(form, values) for form in arguments))


def substitute(form: NormalForm, values: Values) -> NormalForm:
    """The normal form with free variables replaced, all at once."""
    if not values:
        return form
    return _collect(
        itertools.chain.from_iterable(
            _terms(
                term.coefficient,
                term.bound,
                [(_substituted_factor(factor, values), power) for factor, power in term.factors],
            )
            for term in form.terms
        )
    )


def _collect(terms: Iterable[Term]) -> NormalForm:
    """The sum of terms, with equal ones added up."""
    sums: dict[Key, tuple[Term, Fraction]] = {}
    for term in terms:
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
    """The sum over the ranges of free variables, which become bound."""
    bound = tuple(variables)
    return _collect(
        itertools.chain.from_iterable(
            _terms(term.coefficient, (*term.bound, *bound), list(term.factors))
            for term in form.terms
        )
    )


def exponential(form: NormalForm) -> NormalForm:
    """e to the power of it."""
    if not form.terms:
        return constant(1)
    return NormalForm((Term(Fraction(1), (), ((Exponential(form), Fraction(1)),)),))


def application(function: str, arguments: Sequence[NormalForm]) -> NormalForm:
    """An unknown function of normal forms."""
    factor = Application(function, tuple(arguments))
    return NormalForm((Term(Fraction(1), (), ((factor, Fraction(1)),)),))


def square_root(form: NormalForm) -> NormalForm:
    """The square root; of a negative number it is undefined.

    A number that all terms share is taken out, as :func:`inverse` does, so that both raise the same
    sum to some power.
    """
    if not form.terms:
        return form
    shared = form.terms[0].coefficient
    if shared < 0:
        return NormalForm((Term(Fraction(1), (), ((Power(form), Fraction(1, 2)),)),))
    rest = scale(form, 1 / shared)
    number = Fraction(math.isqrt(shared.numerator), math.isqrt(shared.denominator))
    bases = [] if rest == constant(1) else [rest]
    if number * number != shared:
        number, bases = Fraction(1), [constant(shared), *bases]
    return _collect(_terms(number, (), [(Power(base), Fraction(1, 2)) for base in bases]))


def inverse(form: NormalForm) -> NormalForm:
    """1 over it; a single product is inverted factor by factor."""
    if not form.terms:
        raise NoProofError("something is divided by a sum that is always 0")
    content, rest = _content(form)
    inverted = _terms(1 / content.coefficient, (), [(f, -power) for f, power in content.factors])
    if rest == constant(1):
        return _collect(inverted)
    power = Term(Fraction(1), (), ((Power(rest), Fraction(-1)),))
    return _collect(
        itertools.chain.from_iterable(_product(term, power) for term in _collect(inverted).terms)
    )


def _content(form: NormalForm) -> tuple[Term, NormalForm]:
    """A number and factors that all terms have, none of them summed over, and what is left."""
    first = form.terms[0]
    shared = {
        factor: power
        for factor, power in first.factors
        if all(
            _depends_on_none(factor, term) and _power(factor, term) == power for term in form.terms
        )
    }
    rest = _collect(
        Term(
            term.coefficient / first.coefficient,
            term.bound,
            tuple((factor, power) for factor, power in term.factors if factor not in shared),
        )
        for term in form.terms
    )
    content = Term(first.coefficient, (), tuple(shared.items()))
    return content, substitute_nothing(rest)


def substitute_nothing(form: NormalForm) -> NormalForm:
    """The same, with bound variables named anew after factors were taken out."""
    return _collect(
        itertools.chain.from_iterable(
            _terms(term.coefficient, term.bound, list(term.factors)) for term in form.terms
        )
    )


def _number(form: NormalForm) -> Fraction | None:
    """The number that a normal form is, if it is one."""
    (term,) = form.terms if len(form.terms) == 1 else (None,)
    return None if term is None or term.bound or term.factors else term.coefficient


def _power(factor: Factor, term: Term) -> Fraction:
    return next((power for other, power in term.factors if other == factor), Fraction(0))


def _depends_on_none(factor: Factor, term: Term) -> bool:
    """Whether a factor has none of the variables that the term binds."""
    return not any(index.coefficient(v) for index in _affines(factor) for v in term.bound)


_fresh = itertools.count()


def _renamed_apart(term: Term) -> tuple[tuple[Variable, ...], list[tuple[Factor, Fraction]]]:
    """The term's bound variables and factors with names that no other term has."""
    if not term.bound:
        return (), list(term.factors)
    # Heights below 0 are used for nothing else.
    names = {v: Variable(-1, next(_fresh), v.extent) for v in term.bound}
    values = {v: affine(name) for v, name in names.items()}
    factors = [(_substituted_factor(factor, values), power) for factor, power in term.factors]
    return tuple(names.values()), factors


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
    powers: dict[Factor, Fraction] = {}
    exponent = NormalForm()
    for factor, power in factors:
        if isinstance(factor, Exponential):
            exponent = add(exponent, scale(factor.exponent, power))
        else:
            powers[factor] = powers.get(factor, Fraction(0)) + power
    if exponent.terms:
        powers[Exponential(exponent)] = Fraction(1)
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
    indices = {index for factor, _ in factors for index in _affines(factor)}
    used = [v for v in bound if any(index.coefficient(v) for index in indices)]
    coefficient *= math.prod(v.extent for v in bound if v not in used)
    used, values = merge_digits(used, indices)
    if values:
        factors = tuple((_substituted_factor(factor, values), power) for factor, power in factors)
    height = 1 + max((_height(factor) for factor, _ in factors), default=0)
    candidates = [
        Term(coefficient, *_named(order, factors, height)) for order in _orders(used, factors)
    ]
    return min(candidates, key=lambda term: term.shape_key)


def merge_digits(
    variables: Sequence[Variable], indices: Iterable[Affine]
) -> tuple[list[Variable], dict[Variable, Affine]]:
    """Merges variables that are digits of one number wherever they occur.

    ``outer`` and ``inner`` merge where in every index the coefficient of ``outer`` is that of
    ``inner`` times the extent of ``inner``: they occur only as ``outer * extent + inner``, which
    takes each value of its range once.  Returns the variables left, and what to replace.
    """
    left = list(variables)
    values: dict[Variable, Affine] = {}
    current = set(indices)
    while True:
        pair = next(
            (
                (outer, inner)
                for outer, inner in itertools.permutations(left, 2)
                if all(
                    index.coefficient(outer) == inner.extent * index.coefficient(inner)
                    for index in current
                )
            ),
            None,
        )
        if pair is None:
            return left, values
        outer, inner = pair
        merged = Variable(-1, next(_fresh), outer.extent * inner.extent)
        # The merged number is the inner digit where the outer one is taken to be 0.
        step = {outer: ZERO, inner: affine(merged)}
        left = [v for v in left if v not in pair] + [merged]
        current = {index.substituted(step) for index in current}
        values = {v: value.substituted(step) for v, value in values.items()} | step


def _named(
    order: Sequence[Variable], factors: Factors, height: int
) -> tuple[tuple[Variable, ...], Factors]:
    names = [Variable(height, place, v.extent) for place, v in enumerate(order)]
    if not names:
        return (), _sorted(factors)
    values = {v: affine(name) for v, name in zip(order, names, strict=True)}
    renamed = tuple((_substituted_factor(factor, values), power) for factor, power in factors)
    return tuple(names), _sorted(renamed)


def _sorted(factors: Factors) -> Factors:
    return tuple(sorted(factors, key=lambda item: (item[0].key, item[1])))


def _orders(variables: Sequence[Variable], factors: Factors) -> Iterator[tuple[Variable, ...]]:
    """The orders of bound variables that may be the least: those that sort their occurrences."""
    if len(variables) <= 1:
        yield tuple(variables)
        return
    signatures: dict[Key, list[Variable]] = {}
    for variable in variables:
        signature = (variable.extent, _occurrences(variable, variables, factors))
        signatures.setdefault(signature, []).append(variable)
    groups = [group for _, group in sorted(signatures.items())]
    if math.prod(math.factorial(len(group)) for group in groups) > MOST_ORDERS:
        raise NoProofError("a sum has too many variables that look alike")
    for order in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield tuple(itertools.chain.from_iterable(order))


def _occurrences(variable: Variable, variables: Sequence[Variable], factors: Factors) -> Key:
    """How a variable occurs, whatever the others are called."""
    values = {
        other: affine(Variable(-2, int(other == variable), other.extent)) for other in variables
    }
    return tuple(
        sorted((_substituted_factor(factor, values).key, power) for factor, power in factors)
    )
