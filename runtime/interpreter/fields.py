"""Numbers of two finite fields, in which rational functions and exponentials are exact.

A number is a pair of residues, modulo primes p and q with q dividing p - 1.  Sums, products and
quotients are taken in both fields.  exp takes the residue modulo q to a power of a q-th root of
unity modulo p, so that exp(a + b) = exp(a) exp(b); its result has no residue modulo q.  A root is
an unknown function of its argument: a table of random residues, the same for equal arguments.  So
is rounding to integers and f8, of what is not known to be a number of the type already.

Residues are whole numbers held in float64: sums of products below 2^53 are exact, and matrix
products run as fast as those of float64.  NaN is an undefined residue: a quotient by 0, and what
exp has modulo q.  It makes everything computed from it undefined.

Source: M. Wu et al., Mirage: A Multi-Level Superoptimizer for Tensor Programs (OSDI 2025), section
5: the probabilistic equivalence verifier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Self, cast

import numpy as np
from xdsl.dialects.builtin import i1, i8, i32, i64
from xdsl.ir import Attribute

from mugraph.dialects.kn.random import Distribution
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.runtime.interpreter import functions
from mugraph.runtime.interpreter.arithmetic import (
    STORAGE_DTYPES,
    Array,
    ComponentArithmetic,
    is_quantizing,
)
from mugraph.runtime.interpreter.components import ComponentArray
from mugraph.runtime.interpreter.constants import meant_by
from mugraph.runtime.interpreter.errors import ExecutionError

_QUANTIZING = frozenset(type_ for type_, dtype in STORAGE_DTYPES.items() if is_quantizing(dtype))
_SUMS = frozenset({i32, i64})
"""Types of which sums and products of their numbers are numbers, too."""


def _quantized_numbers(element_type: Attribute) -> frozenset[Attribute]:
    """The quantizing types that have all numbers of a quantizing type; none of another one."""
    by_size = (i1, i8, i32, i64)
    if element_type in by_size:
        return frozenset(by_size[by_size.index(element_type) :])
    return _QUANTIZING & {element_type}


_NOT_0 = "not 0"
"""What numbers are rounded to where they are truths."""
EXACT = 2**53
"""Whole numbers up to this are numbers of float64."""


@dataclass(frozen=True)
class FieldPair:
    """Integers modulo ``p`` and modulo ``q``, and the tables that a seed gives."""

    p: int
    q: int
    seed: int

    def __post_init__(self) -> None:
        if not (_is_prime(self.p) and _is_prime(self.q)) or (self.p - 1) % self.q:
            raise ValueError(f"{self.p} and {self.q} must be primes, the second dividing p - 1")
        if self.p * self.p > EXACT // 2:
            raise ValueError(f"the square of {self.p} must be below 2^52 to compute in float64")

    @cached_property
    def _generator(self) -> np.random.Generator:
        return np.random.default_rng((self.p, self.q, self.seed))

    @cached_property
    def powers(self) -> Array:
        """The powers of a random q-th root of unity modulo p, from 0 to q - 1."""
        root = 1
        while root == 1:
            candidate = int(self._generator.integers(2, self.p))
            root = pow(candidate, (self.p - 1) // self.q, self.p)
        powers = np.ones(1, np.int64)
        while powers.size < self.q:
            powers = np.concatenate([powers, powers * pow(root, powers.size, self.p) % self.p])
        return powers[: self.q].astype(np.float64)

    @cached_property
    def inverses(self) -> tuple[Array, Array]:
        """1 / x of each residue modulo p and modulo q; NaN for 0."""
        return _inverses(self.p), _inverses(self.q)

    def unknown_function(self, name: str) -> tuple[Array, Array, Array]:
        """Random tables: how a residue modulo q counts for one modulo p, and values in both."""
        if name not in self._tables:
            generator = np.random.default_rng((self.p, self.q, self.seed, 1, *name.encode()))
            self._tables[name] = (
                generator.integers(0, self.p, self.q).astype(np.float64),
                generator.integers(1, self.p, self.p).astype(np.float64),
                generator.integers(1, self.q, self.p).astype(np.float64),
            )
        return self._tables[name]

    @cached_property
    def _tables(self) -> dict[str, tuple[Array, Array, Array]]:
        return {}

    def random(self, shape: Sequence[int], generator: np.random.Generator) -> FieldArray:
        """Random residues."""
        parts = [generator.integers(0, prime, tuple(shape)) for prime in (self.p, self.q)]
        return FieldArray([part.astype(np.float64) for part in parts], self)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, int(number**0.5) + 1))


@lru_cache
def _inverses(prime: int) -> Array:
    """1 / x of each residue: x to the power of ``prime`` - 2; NaN for 0."""
    base = np.arange(prime, dtype=np.int64)
    inverses = np.ones_like(base)
    exponent = prime - 2
    while exponent:
        if exponent % 2:
            inverses = inverses * base % prime
        base = base * base % prime
        exponent //= 2
    table = inverses.astype(np.float64)
    table[0] = np.nan
    return table


def _modulo(values: Array, prime: int) -> Array:
    """Residues of whole numbers below 2^53; faster than numpy's remainder."""
    rest = values - prime * np.floor(values / prime)
    # The quotient was rounded, perhaps up to the next whole number.
    return np.where(rest < 0, rest + prime, rest)


def _look_up(table: Array, residues: Array) -> Array:
    """``table`` at residues; undefined where they are."""
    undefined = np.isnan(residues)
    places = np.where(undefined, 0, residues).astype(np.intp)
    return np.where(undefined, np.nan, table[places])


@dataclass
class Known:
    """Quantizing element types of which all numbers of an array, and of views of it, are known."""

    types: frozenset[Attribute] = frozenset()


class FieldArray(ComponentArray):
    """Residues modulo p and modulo q."""

    def __init__(self, components: Sequence[Array], fields: FieldPair, known: Known | None = None):
        super().__init__(components)
        self.fields = fields
        self.known = known or Known()

    @property
    def primes(self) -> tuple[int, int]:
        """The modulus of each component."""
        return self.fields.p, self.fields.q

    def of(self, components: Sequence[Array]) -> Self:
        """Other residues of the same fields."""
        return type(self)(components, self.fields)

    def known_as(self, types: frozenset[Attribute]) -> Self:
        """The same residues, of which it is known that they are numbers of these types."""
        return type(self)(self.components, self.fields, Known(types))

    def rounded_to(self, element_type: Attribute) -> Self:
        """An unknown function, of what is not of the type yet, if it is a quantizing one."""
        known = _quantized_numbers(element_type)
        if not known or element_type in self.known.types:
            return self
        name = _NOT_0 if element_type == i1 else f"to {element_type}"
        return self._unknown(name).known_as(known)

    def _each(self, function: Callable[[Array], Array]) -> Self:
        view = super()._each(function)
        view.known = self.known
        return view

    def __setitem__(self, index: Any, value: Self) -> None:
        super().__setitem__(index, value)
        self.known.types &= value.known.types

    def lift(self, number: float) -> Self:
        """The fraction that a constant stands for; one over a multiple of p is undefined."""
        if not np.isfinite(number):
            raise ExecutionError(f"the constant {number} is no number of a finite field")
        value = Fraction(number) if isinstance(number, int) else meant_by(number)
        parts = [
            np.nan
            if value.denominator % prime == 0
            else value.numerator * pow(value.denominator, -1, prime) % prime
            for prime in self.primes
        ]
        return self.of([np.array(part, np.float64) for part in parts])

    def _reduced(self, components: Sequence[Array]) -> Self:
        return self.of(
            [_modulo(part, prime) for part, prime in zip(components, self.primes, strict=True)]
        )

    def _pairs(self, other: Self) -> list[tuple[Array, Array]]:
        return list(zip(self.components, other.components, strict=True))

    def add(self, other: Self) -> Self:
        """The sum."""
        total = self._reduced([one + two for one, two in self._pairs(other)])
        return total.known_as(self.known.types & other.known.types & _SUMS)

    def subtract(self, other: Self) -> Self:
        """The difference."""
        return self._reduced([one - two for one, two in self._pairs(other)])

    def multiply(self, other: Self) -> Self:
        """The product."""
        return self._reduced([one * two for one, two in self._pairs(other)])

    def divide(self, other: Self) -> Self:
        """The product with the inverse; by 0 it is undefined."""
        inverted = [
            _look_up(table, part)
            for table, part in zip(self.fields.inverses, other.components, strict=True)
        ]
        return self.multiply(self.of(inverted))

    def negative(self) -> Self:
        """The number with the other sign."""
        return self._reduced([-part for part in self.components])

    def exp(self) -> Self:
        """A power of the root of unity modulo p, 0 of what is masked; nothing modulo q."""
        exponent = self.components[1]
        masked = exponent == -np.inf
        power = _look_up(self.fields.powers, np.where(masked, 0, exponent))
        power = np.where(masked, 0, power)
        return self.of([power, np.full_like(power, np.nan)])

    def sqrt(self) -> Self:
        """The unknown function of the argument."""
        return self._unknown("sqrt")

    def log(self) -> Self:
        """The unknown function of the argument."""
        return self._unknown("log")

    def erfc(self) -> Self:
        """The unknown function of the argument."""
        return self._unknown("erfc")

    def smooth(self, function: np.ufunc, slope: float, span: float) -> Self:
        """The unknown function of the argument."""
        return self._unknown(function.__name__)

    def positive(self) -> Self:
        """The unknown function of the argument."""
        return self._unknown("positive").known_as(_quantized_numbers(i1))

    def select(self, one: Self, other: Self) -> Self:
        """The second other number, and an unknown function of this one times what the first is
        above it."""
        holds = self.rounded_to(i1)
        return other.add(holds.multiply(one.subtract(other)))

    def largest(self, axis: int, count: int) -> tuple[Self, Self]:
        """Refused: residues have no order."""
        raise ExecutionError("residues have no order, and so no place of the largest")

    def random(self, distribution: Distribution, shape: Sequence[int], offset: Self) -> Self:
        """An unknown function of seed, offset and place."""
        places = np.arange(math.prod(shape), dtype=np.float64).reshape(*shape)
        place = self.of([_modulo(places, prime) for prime in self.primes])._unknown("place")
        both = self.add(offset._unknown("offset")).reshape(*[1] * len(shape))
        return both.add(place)._unknown(f"random {distribution}")

    def scan(self, axis: int, decay: Self | None) -> Self:
        """Sums along an axis up to each number, or a recurrence."""
        if decay is not None:
            return functions.recurrence(
                self.of([part.copy() for part in self.components]), axis, decay
            )
        total = self._reduced([part.cumsum(axis) for part in self.components])
        return total.known_as(self.known.types & _SUMS)

    def whole_numbers(self) -> Array:
        """Refused: residues are no lengths."""
        raise ExecutionError("residues are no lengths")

    def rows_of(self, table: Self) -> Self:
        """Refused: residues name no rows."""
        raise ExecutionError("residues name no rows of a table")

    def clamp(self, low: float, high: float) -> Self:
        """The unknown function of the argument, another one for other bounds."""
        return self._unknown(f"clamp {low} {high}")

    def power(self, other: Self) -> Self:
        """The unknown function of both arguments."""
        return self.add(other._unknown("exponent"))._unknown("power")

    def maximum(self, other: Self) -> Self:
        """One of the two: that with the larger residues, first modulo p.

        That is no order that goes with sums, but a maximum of several does not depend on how they
        are paired, and where a maximum cancels, as in a softmax, any choice of it does.
        """
        (first, second), (third, fourth) = self.components, other.components
        takes_other = (third > first) | ((third == first) & (fourth > second))
        undefined = np.isnan(first) | np.isnan(third)
        largest = self.of(
            [
                np.where(undefined, np.nan, np.where(takes_other, third, first)),
                np.where(undefined, np.nan, np.where(takes_other, fourth, second)),
            ]
        )
        return largest.known_as(self.known.types & other.known.types)

    def _unknown(self, name: str) -> Self:
        """An unknown function, the same for equal arguments."""
        first, second = self.components
        weights, of_p, of_q = self.fields.unknown_function(name)
        # An argument that has no residue modulo q is known by its residue modulo p alone.
        weight = np.where(np.isnan(second), 0, _look_up(weights, second))
        place = _modulo(first + weight, self.fields.p)
        value_q = np.where(np.isnan(second), np.nan, _look_up(of_q, place))
        return self.of([_look_up(of_p, place), value_q])

    def sum(self, axis: int, keepdims: bool = False) -> Self:
        """The sum along an axis."""
        total = self._reduced([part.sum(axis=axis, keepdims=keepdims) for part in self.components])
        return total.known_as(self.known.types & _SUMS)

    def matmul(self, other: Self) -> Self:
        """The matrix product, in pieces whose sums of products are exact."""
        total = self.of(
            [
                _exact_matmul(one, two, prime)
                for (one, two), prime in zip(self._pairs(other), self.primes, strict=True)
            ]
        )
        return total.known_as(self.known.types & other.known.types & _SUMS)


def _exact_matmul(left: Array, right: Array, prime: int) -> Array:
    depth = left.shape[-1]
    step = EXACT // (prime * prime) - 1
    total: Any = 0
    for start in range(0, depth, step):
        piece = slice(start, start + step)
        product = np.matmul(left[..., piece], right[..., piece, :])
        total = _modulo(total + product, prime)
    return total


@dataclass(frozen=True)
class FieldArithmetic(ComponentArithmetic):
    """Computes in a pair of finite fields; element types mean nothing, but for quantizing ones."""

    fields: FieldPair = field(kw_only=True)

    def round(self, value: Any, element_type: Attribute) -> Any:
        """The same numbers, or an unknown function of them where rounding is one."""
        return cast(FieldArray, value).rounded_to(element_type)

    def empty(self, type_: Attribute) -> Any:
        """A tensor in device memory, to be written."""
        nothing = FieldArray([np.full(shape_of(type_), np.nan) for _ in range(2)], self.fields)
        return nothing.known_as(_quantized_numbers(element_type_of(type_)))

    def input(self, type_: Attribute, generator: np.random.Generator) -> FieldArray:
        """A tensor of random residues."""
        numbers = self.fields.random(shape_of(type_), generator)
        return numbers.known_as(_quantized_numbers(element_type_of(type_)))

    def full(self, shape: Sequence[int], value: float) -> Any:
        """One constant everywhere."""
        if value == -np.inf:
            # Less than every residue: where a running maximum starts.
            return FieldArray([np.full(tuple(shape), value)] * 2, self.fields)
        constant = FieldArray([], self.fields).lift(value)
        whole = constant.of([np.full(tuple(shape), part) for part in constant.components])
        return whole if value else whole.known_as(_QUANTIZING)
