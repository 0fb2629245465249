"""What normal forms are made of: terms, factors, and what is asked of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from mugraph.runtime.equivalence.derivation import current
from mugraph.runtime.equivalence.indices import Affine, Variable

Key = tuple[Any, ...]


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
        return ("exp", self.exponent.key)


@dataclass(frozen=True)
class Power:
    """A normal form that is raised to some power; which one is said by the term."""

    base: NormalForm

    @cached_property
    def key(self) -> Key:
        """What orders factors."""
        return ("power", self.base.key)


@dataclass(frozen=True)
class Application:
    """A function, of which nothing is known but its name, of normal forms."""

    function: str
    arguments: tuple[NormalForm, ...]

    @cached_property
    def key(self) -> Key:
        """What orders factors."""
        return ("apply", self.function, *(argument.key for argument in self.arguments))


@dataclass(frozen=True)
class Choice:
    """1 where an index has a value, else 0."""

    index: Affine
    value: int

    @cached_property
    def key(self) -> Key:
        """What orders factors."""
        return ("choice", self.index, self.value)


@dataclass(frozen=True)
class Below:
    """1 where an index is less than a bound, else 0.

    It says whether an element of a ragged tile exists, and of which part of a concatenation one is.
    """

    index: Affine
    bound: int

    @cached_property
    def key(self) -> Key:
        """What orders factors."""
        return ("below", self.index, self.bound)

    def implies(self, other: Below) -> bool:
        """Whether the other one is 1 wherever this one is."""
        ahead = other.index + self.index.scaled(-1)
        return ahead.limits()[1] <= other.bound - self.bound

    def excludes(self, other: Below) -> bool:
        """Whether the other one is 0 wherever this one is 1."""
        return self.implies(other.opposite)

    def range_of(self, variable: Variable) -> tuple[int, int]:
        """From which value of its only variable to before which one it is 1."""
        step, limit = self.index.coefficient(variable), self.bound - self.index.constant
        if step < 0:
            return max(limit // step + 1, 0), variable.extent
        return 0, min(-(-limit // step), variable.extent)

    @property
    def opposite(self) -> Below:
        """1 where this one is 0."""
        return Below(self.index.scaled(-1), 1 - self.bound)


Factor = Element | Exponential | Power | Application | Choice | Below
Factors = tuple[tuple[Factor, Fraction], ...]


@dataclass(frozen=True)
class Term:
    """``coefficient * sum over bound of the product of factor^exponent``, named canonically."""

    coefficient: Fraction
    bound: tuple[Variable, ...]
    factors: Factors

    def sums_over_none_of(self, factor: Factor) -> bool:
        """Whether a factor depends on none of the variables that the term binds."""
        return not any(index.coefficient(v) for index in indices_of(factor) for v in self.bound)

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
        return max((height_of(factor) for factor, _ in self.factors), default=0) + bool(self.bound)


@dataclass(frozen=True)
class NormalForm:
    """A sum of terms, in order."""

    terms: tuple[Term, ...] = ()

    @cached_property
    def key(self) -> int:
        """What orders normal forms, and tells them apart, in one derivation."""
        terms = tuple((term.shape_key, term.coefficient) for term in self.terms)
        return current().number_of(terms)

    @cached_property
    def indices(self) -> frozenset[Affine]:
        """Every index in it, however deep."""
        factors = (factor for term in self.terms for factor, _ in term.factors)
        return frozenset(itertools.chain.from_iterable(map(indices_of, factors)))

    @cached_property
    def choosing(self) -> frozenset[Variable]:
        """The variables by whose values something is chosen, however deep."""
        found: set[Variable] = set()
        for term in self.terms:
            for factor, _ in term.factors:
                if isinstance(factor, Choice):
                    found |= {v for v, _ in factor.index.terms}
                found = found.union(*(nested.choosing for nested in nested_in(factor)))
        return frozenset(found)

    @cached_property
    def summed_extents(self) -> frozenset[int]:
        """The extents of what sums run over, however deep."""
        found = {variable.extent for term in self.terms for variable in term.bound}
        factors = (factor for term in self.terms for factor, _ in term.factors)
        nested = itertools.chain.from_iterable(map(nested_in, factors))
        return frozenset(found.union(*(each.summed_extents for each in nested)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NormalForm) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def nested_in(factor: Factor) -> tuple[NormalForm, ...]:
    """The normal forms that a factor is made of."""
    match factor:
        case Element() | Choice() | Below():
            return ()
        case Exponential(exponent):
            return (exponent,)
        case Power(base):
            return (base,)
        case Application(_, arguments):
            return arguments


def height_of(factor: Factor) -> int:
    """How many sums are nested in a factor."""
    terms = itertools.chain.from_iterable(nested.terms for nested in nested_in(factor))
    return max((term.height for term in terms), default=0)


def indices_of(factor: Factor) -> Iterable[Affine]:
    """Every index in a factor, however deep."""
    if isinstance(factor, Element):
        return factor.indices
    if isinstance(factor, Choice | Below):
        return (factor.index,)
    return itertools.chain.from_iterable(nested.indices for nested in nested_in(factor))


PLACE = -1
"""The tensor whose element at a place is the place's number."""
DECAYS = "product of decays"
"""The function of two places, of decays at any place and of that place: the product of the decays
behind the first place up to the second one."""
POSITIVE = "positive"
"""The function that is 1 for numbers above 0, and 0 for others."""


def without_known_signs(factors: Factors) -> Factors | None:
    """Factors without places that are above 0 everywhere; ``None`` where one never is."""
    signs = [_known_sign(factor) for factor, _ in factors]
    if False in signs:
        return None
    return tuple(each for each, sign in zip(factors, signs, strict=True) if sign is None)


def _known_sign(factor: Factor) -> bool | None:
    """Whether a place is above 0, of the factor that says so; ``None`` where it varies."""
    place = positive_place(factor)
    if place is None:
        return None
    low, high = place.limits()
    return True if low > 0 else False if high <= 0 else None


def positive_place(factor: Factor) -> Affine | None:
    """The place of which a factor says whether it is above 0; ``None`` of another factor."""
    if not isinstance(factor, Application) or factor.function != POSITIVE:
        return None
    return place_of(factor.arguments[0])


def place_of(form: NormalForm) -> Affine | None:
    """The place that a form is the number of; ``None`` where it is something else."""
    if len(form.terms) != 1 or form.terms[0].bound or form.terms[0].coefficient != 1:
        return None
    match form.terms[0].factors:
        case ((Element(tensor, (index,)), power),) if (tensor, power) == (PLACE, 1):
            return index
        case _:
            return None


def without_known_bounds(factors: Factors) -> Factors | None:
    """Factors without bounds that hold always or follow from others; ``None`` where one never does.

    A power of 1 or 0 is itself.
    """
    others: list[tuple[Factor, Fraction]] = []
    bounds: list[Below] = []
    for factor, power in factors:
        if not isinstance(factor, Below):
            others.append((factor, power))
            continue
        low, high = factor.index.limits()
        if low >= factor.bound or any(map(factor.excludes, bounds)):
            return None
        if high < factor.bound or any(known.implies(factor) for known in bounds):
            continue
        bounds = [known for known in bounds if not factor.implies(known)]
        bounds.append(factor)
    return (*others, *((factor, Fraction(1)) for factor in bounds))


def applies(function: str, form: NormalForm) -> bool:
    """Whether an unknown function occurs in a normal form, however deep."""
    return any(
        (isinstance(factor, Application) and factor.function == function)
        or any(applies(function, nested) for nested in nested_in(factor))
        for term in form.terms
        for factor, _ in term.factors
    )


def free_variables(form: NormalForm) -> set[Variable]:
    """The variables that no sum binds."""
    return {v for index in form.indices for v, _ in index.terms if v.height == 0}


def by_dependence(form: NormalForm, bound: Sequence[Variable]) -> list[NormalForm]:
    """A sum as one of what has bound variables and one of the rest, where there are such.

    The exponential of the rest is a factor of the whole sum, and may cancel.
    """
    variables = set(bound)
    moving, still = list[Term](), list[Term]()
    for term in form.terms:
        indices = itertools.chain.from_iterable(indices_of(factor) for factor, _ in term.factors)
        moves = any(v in variables for index in indices for v, _ in index.terms)
        (moving if moves else still).append(term)
    return [NormalForm(tuple(terms)) for terms in (moving, still) if terms]
