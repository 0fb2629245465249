"""Index expressions: which element of a tensor is meant, as an affine form in bounded variables.

A dimension that a grid, a loop and a tile split together is indexed by a mixed-radix number:
``block * 64 + element`` runs through the dimension once while ``block`` and ``element`` run through
their ranges.  Two things are done with such numbers.  An index is *taken apart* into digits of
given radices, which may need one of its variables to be taken apart as well; and two digits that
occur nowhere but next to each other are *merged* into one variable.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mugraph.runtime.equivalence.errors import NoProofError


class Variable(NamedTuple):
    """A whole number from 0 to ``extent`` - 1.

    Free variables have height 0 and a number of their own.  Variables that a sum binds are named by
    their place in the sum (``number``) and by how many sums are nested inside it (``height``).
    What an argument holds has the height ``OF_ARGUMENTS`` and the argument's number.
    """

    height: int
    number: int
    extent: int


@dataclass(frozen=True, order=True)
class Affine:
    """``sum of coefficient * variable + constant``; variables in order, no coefficient is 0."""

    terms: tuple[tuple[Variable, int], ...] = ()
    constant: int = 0

    @classmethod
    def of(cls, terms: Iterable[tuple[Variable, int]], constant: int = 0) -> Affine:
        """The form with terms in the same variable added up."""
        sums: dict[Variable, int] = {}
        for variable, coefficient in terms:
            sums[variable] = sums.get(variable, 0) + coefficient
        return cls(tuple(sorted((v, c) for v, c in sums.items() if c)), constant)

    def __add__(self, other: Affine) -> Affine:
        constant = self.constant + other.constant
        if not (self.terms and other.terms):
            return Affine(self.terms or other.terms, constant)
        return Affine.of((*self.terms, *other.terms), constant)

    def scaled(self, factor: int) -> Affine:
        """This form times a whole number."""
        terms = tuple((v, c * factor) for v, c in self.terms) if factor else ()
        return Affine(terms, self.constant * factor)

    def coefficient(self, variable: Variable) -> int:
        """What ``variable`` is multiplied by; 0 where it does not occur."""
        return next((c for v, c in self.terms if v == variable), 0)

    def substituted(self, values: Mapping[Variable, Affine]) -> Affine:
        """This form with variables replaced, all at once."""
        if not any(variable in values for variable, _ in self.terms):
            return self
        terms: list[tuple[Variable, int]] = []
        constant = self.constant
        for variable, coefficient in self.terms:
            value = values.get(variable)
            if value is None:
                terms.append((variable, coefficient))
            else:
                terms += value.scaled(coefficient).terms
                constant += value.constant * coefficient
        return Affine.of(terms, constant)

    def limits(self) -> tuple[int, int]:
        """The smallest and the largest value."""
        low = high = self.constant
        for variable, coefficient in self.terms:
            reach = coefficient * (variable.extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high

    def digits_of(self, value: int) -> tuple[tuple[Variable, int], ...] | None:
        """What each variable is where this form is ``value``; ``None`` where it never is.

        Raises ``NoProofError`` where variables are no digits of one number.
        """
        digits: list[tuple[Variable, int]] = []
        rest = value - self.constant
        by_size = sorted(self.terms, key=lambda term: term[1], reverse=True)
        for place, (variable, coefficient) in enumerate(by_size):
            reach = sum(c * (v.extent - 1) for v, c in by_size[place + 1 :])
            if by_size[-1][1] < 0 or reach >= coefficient:
                raise NoProofError("a part is chosen by what is no mixed-radix number")
            digit, rest = divmod(rest, coefficient)
            if not 0 <= digit < variable.extent:
                return None
            digits.append((variable, digit))
        return None if rest else tuple(digits)


ZERO = Affine()


def affine(variable: Variable, coefficient: int = 1) -> Affine:
    """``coefficient * variable``."""
    return Affine(((variable, coefficient),)) if coefficient else ZERO


OF_ARGUMENTS = -2

_fresh = itertools.count()


def fresh_variable(extent: int) -> Variable:
    """A variable that nothing else has: heights below 0 are used for nothing else."""
    return Variable(-1, next(_fresh), extent)


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
        merged = fresh_variable(outer.extent * inner.extent)
        # The merged number is the inner digit where the outer one is taken to be 0.
        step = {outer: ZERO, inner: affine(merged)}
        left = [v for v in left if v not in pair] + [merged]
        current = {index.substituted(step) for index in current}
        values = {v: value.substituted(step) for v, value in values.items()} | step


def digit_strides(extents: Sequence[int]) -> list[int]:
    """What one step of each digit counts, outermost first."""
    return [math.prod(extents[place + 1 :]) for place in range(len(extents))]


@dataclass
class Scope:
    """Makes free variables, and remembers those that had to be taken apart into two digits."""

    _numbers: Iterable[int] = field(default_factory=itertools.count)
    _split: dict[Variable, tuple[Variable, Variable]] = field(
        default_factory=dict[Variable, tuple[Variable, Variable]]
    )
    _values: dict[Variable, Affine] | None = None
    """What :meth:`values` says, until another variable is taken apart."""

    def variable(self, extent: int) -> Variable:
        """A new free variable."""
        return Variable(0, next(iter(self._numbers)), extent)

    def index(self, extent: int) -> Affine:
        """A new index of a dimension: a variable, or 0 where there is one element."""
        return ZERO if extent == 1 else affine(self.variable(extent))

    def digits(self, variable: Variable) -> list[Variable]:
        """What is left of a variable after all splits, outermost digit first."""
        halves = self._split.get(variable)
        if halves is None:
            return [variable]
        return [digit for half in halves for digit in self.digits(half)]

    def digits_of_index(self, index: Affine) -> tuple[Variable, ...]:
        """The digits of a form that :meth:`index` made."""
        return tuple(digit for variable, _ in index.terms for digit in self.digits(variable))

    def values(self) -> Mapping[Variable, Affine]:
        """Each variable that was taken apart, written with its digits."""
        if self._values is None:
            self._values = {variable: self._in_digits(variable) for variable in self._split}
        return self._values

    def _in_digits(self, variable: Variable) -> Affine:
        digits = self.digits(variable)
        strides = digit_strides([digit.extent for digit in digits])
        return Affine.of(zip(digits, strides, strict=True))

    def take_apart(
        self, index: Affine, extents: Sequence[int], *, may_end: bool = False
    ) -> list[Affine]:
        """The digits of ``index`` in the given radices, outermost first.

        Variables of ``index`` may be split for it.  Where the index ``may_end`` behind the last
        place, as that of a ragged tile does, so may the outermost digit.  Raises ``NoProofError``
        where a digit is not affine in variables and their digits.
        """
        digits: list[Affine] = []
        rest = index
        for stride in digit_strides(extents)[:-1]:
            high, rest = self._divide(rest.substituted(self.values()), stride)
            digits.append(high)
        if extents:
            digits.append(rest)
        elif index != ZERO:
            raise NoProofError("an index leaves a dimension of one element")
        for place, (digit, extent) in enumerate(zip(digits, extents, strict=True)):
            digits[place] = digit.substituted(self.values())
            low, high_limit = digit.limits()
            if low < 0 or (high_limit >= extent and not (may_end and place == 0)):
                raise NoProofError("an index may leave its dimension")
        return digits

    def _divide(self, index: Affine, divisor: int) -> tuple[Affine, Affine]:
        """Quotient and remainder."""
        high: list[tuple[Variable, int]] = []
        low: list[tuple[Variable, int]] = []
        for variable, coefficient in index.terms:
            radix = divisor // coefficient if coefficient and divisor % coefficient == 0 else 0
            if coefficient % divisor == 0:
                high.append((variable, coefficient // divisor))
            elif 0 < radix < variable.extent and variable.extent % radix == 0:
                outer, inner = self._halve(variable, radix)
                high.append((outer, 1))
                low.append((inner, coefficient))
            else:
                low.append((variable, coefficient))
        quotient, remainder = divmod(index.constant, divisor)
        rest = Affine.of(low, remainder)
        smallest, largest = rest.limits()
        if smallest < 0 or largest >= divisor:
            raise NoProofError(
                f"an index is split into parts of {divisor} that do not line up with its tiles"
            )
        return Affine.of(high, quotient), rest

    def _halve(self, variable: Variable, inner: int) -> tuple[Variable, Variable]:
        halves = (self.variable(variable.extent // inner), self.variable(inner))
        self._split[variable] = halves
        self._values = None
        return halves
