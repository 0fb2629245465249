"""Which sides of its thresholds a function has been seen on.

A clamp, a maximum and rounding to 8 bits compute one thing on one side of a threshold and another
beyond it; a test whose numbers stay on one side says nothing of the other.  Likewise a sum says
nothing of an operand that float64 absorbs.  Every number carries, beside its float64 value, the
sides that it has been made on and shows: a bit each.  So the elements of a result say what their
comparison has tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

import numpy as np
from xdsl.ir import Attribute, Operation

from mugraph.dialects.kn.random import Distribution
from mugraph.dialects.tensor_types import op_label, shape_of
from mugraph.runtime.interpreter import functions
from mugraph.runtime.interpreter.arithmetic import (
    SATURATING,
    Array,
    ComponentArithmetic,
    float_info,
    integer_limits,
    is_quantizing,
    quantize,
    storage_dtype,
)
from mugraph.runtime.interpreter.components import ComponentArray
from mugraph.runtime.interpreter.random_numbers import random_numbers

COUNTS = 2.0**-40
"""What part of the other operand one must be to count in a sum, where nothing is quantized."""

ERFC_BEND = 4.25
"""Beyond this erfc(x) is 0, or 2, but for 2e-9."""

BITS = 62
"""How many sides one evaluation can tell apart."""


@dataclass
class Sides:
    """The sides of all thresholds of a function, found as it is evaluated."""

    numbers: dict[tuple[Operation | None, str], int] = field(
        default_factory=dict[tuple[Operation | None, str], int]
    )
    constants: set[float] = field(default_factory=set[float])
    """Where thresholds are, and other constants of the function."""
    seen: set[int] = field(default_factory=set[int])
    """The sides that compared elements have been made on."""
    first: int = 0
    """The first of those that this evaluation tells apart."""
    operator: Operation | None = None
    """The operator that is running."""
    quantizes: bool = False
    """Whether something is rounded to 8 bits or to integers."""

    @property
    def least_part(self) -> float:
        """What part of the other operand one must be to count in a sum.

        Where sums may be quantized, that hides small parts of them: then it is all of it.
        """
        return 1.0 if self.quantizes else COUNTS

    def enter(self, operator: Operation) -> None:
        """Says that an operator begins to run."""
        self.operator = operator

    def bit(self, side: str) -> int:
        """The bit of a side of a threshold of the current operator; 0 in another evaluation."""
        number = self.numbers.setdefault((self.operator, side), len(self.numbers))
        place = number - self.first
        return 1 << place if 0 <= place < BITS else 0

    def begin(self) -> None:
        """Forgets what has been seen."""
        self.numbers.clear()
        self.seen.clear()
        self.first = 0

    def note(self, made_on: int) -> None:
        """Takes down the bits of compared elements."""
        self.seen |= {self.first + place for place in range(BITS) if made_on >> place & 1}

    def unseen(self) -> list[str]:
        """What has not been tested, such as ``above 6.0 at 'kn.clamp'``."""
        return [
            f"{side} at {op_label(operator)}" if operator is not None else side
            for (operator, side), number in self.numbers.items()
            if number not in self.seen
        ]


def _above_zero(value: Array, exact_zero: Array) -> Array:
    """The values, with a least number where float64 makes 0 of what is not exactly that.

    So it differs from the 0 that sums start at: it is a summand that does not count.
    """
    return np.where((value == 0) & ~exact_zero, np.finfo(np.float64).smallest_subnormal, value)


def _joined(one: Array, other: Array) -> Array:
    return np.bitwise_or(one, other)


class CoverageArray(ComponentArray):
    """Float64 numbers, and the bits of the sides that each has been made on."""

    def __init__(self, components: Sequence[Array], sides: Sides):
        super().__init__(components)
        self.sides = sides

    @property
    def value(self) -> Array:
        """The numbers."""
        return self.components[0]

    @property
    def made_on(self) -> Array:
        """The bits of the sides."""
        return self.components[1]

    def of(self, components: Sequence[Array]) -> Self:
        """Other numbers."""
        return type(self)(components, self.sides)

    def lift(self, number: float) -> Self:
        """A constant."""
        if np.isfinite(number):
            self.sides.constants.add(float(number))
        return self.of([np.array(number, np.float64), np.array(0, np.int64)])

    def _flow(self, value: Array, *operands: tuple[Self, Array | bool]) -> Self:
        """A result, and those of its operands that it shows: each with where it does."""
        made_on: Array = np.zeros(value.shape, np.int64)
        for operand, shows in operands:
            made_on = _joined(made_on, np.where(shows, operand.made_on, 0))
        return self.of([value, made_on])

    def _same(self, value: Array) -> Self:
        """A function of these numbers; a 0 that is made of others shows nothing."""
        return self._flow(value, (self, (value != 0) | (self.value == 0)))

    def _on_sides(self, sides: dict[str, Array]) -> Self:
        made_on = self.made_on
        for side, where in sides.items():
            made_on = _joined(made_on, np.where(where, self.sides.bit(side), 0))
        return self.of([self.value, made_on])

    def add(self, other: Self) -> Self:
        """The sum; that an operand counts is a side."""
        return self._summed(self.value + other.value, other)

    def subtract(self, other: Self) -> Self:
        """The difference; that an operand counts is a side."""
        return self._summed(self.value - other.value, other)

    def _summed(self, value: Array, other: Self) -> Self:
        sides: dict[str, Array] = {}
        shows: list[Array] = []
        for name, one, two in (("first", self, other), ("second", other, self)):
            size, rest = np.abs(one.value), np.abs(two.value)
            shows.append((size > COUNTS * rest) | (size == 0))
            # Sums start at 0, and other zeros change nothing either.
            if one.value.any():
                sides[f"a {name} operand that counts"] = size > self.sides.least_part * rest
        return self._flow(value, (self, shows[0]), (other, shows[1]))._on_sides(sides)

    def multiply(self, other: Self) -> Self:
        """The product."""
        exact_zero = (self.value == 0) | (other.value == 0)
        value = _above_zero(self.value * other.value, exact_zero)
        return self._flow(value, (self, other.value != 0), (other, self.value != 0))

    def divide(self, other: Self) -> Self:
        """The quotient."""
        value = _above_zero(self.value / other.value, self.value == 0)
        return self._flow(value, (self, True), (other, self.value != 0))

    def reciprocal_or_zero(self) -> Self:
        """1 over the number; 0 where it is 0."""
        return self._flow(functions.reciprocal_or_zero(self.value), (self, True))

    def power(self, other: Self) -> Self:
        """The number to the power of another."""
        value = np.power(self.value, other.value)
        return self._flow(
            value, (self, (value != 0) & (other.value != 0)), (other, self.value != 1)
        )

    def negative(self) -> Self:
        """The number with the other sign."""
        return self._same(-self.value)

    def square(self) -> Self:
        """The number times itself."""
        return self._same(np.square(self.value))

    def sqrt(self) -> Self:
        """The square root."""
        return self._same(np.sqrt(self.value))

    def exp(self) -> Self:
        """e to the power of it."""
        return self._same(_above_zero(np.exp(self.value), self.value == -np.inf))

    def log(self) -> Self:
        """The natural logarithm."""
        return self._same(np.log(self.value))

    def erfc(self) -> Self:
        """1 less the error function; where it bends is a threshold."""
        result = self._same(_above_zero(functions.erfc(self.value), self.value == np.inf))
        return result._on_sides(self._sides_of(-ERFC_BEND, ERFC_BEND))

    def smooth(self, function: np.ufunc, slope: float, span: float) -> Self:
        """A function of numpy."""
        return self._same(function(self.value))

    def positive(self) -> Self:
        """1 where the number is more than 0, else 0: each is a side, and shows the number."""
        result = self._flow((self.value > 0).astype(np.float64), (self, True))
        return result._on_sides(
            {"a number above 0": self.value > 0, "a number up to 0": self.value <= 0}
        )

    def select(self, one: Self, other: Self) -> Self:
        """The first of two others where the number is not 0, else the second: each is a side."""
        holds = self.value != 0
        value = np.where(holds, one.value, other.value)
        result = self._flow(value, (self, one.value != other.value), (one, holds), (other, ~holds))
        return result._on_sides({"a condition that holds": holds, "one that does not": ~holds})

    def clamp(self, low: float, high: float) -> Self:
        """The nearest number from ``low`` to ``high``; below, between and above are sides."""
        return self._bounded(functions.clamp(self.value, low, high), low, high)

    def _bounded(self, value: Array, low: float, high: float) -> Self:
        """Numbers between two others, which show nothing of what lies beyond."""
        inside = (self.value > low) & (self.value < high)
        result = self._flow(value, (self._same(value), inside))
        return result._on_sides(self._sides_of(low, high))

    def _sides_of(self, low: float, high: float) -> dict[str, Array]:
        self.sides.constants |= {bound for bound in (low, high) if np.isfinite(bound)}
        sides: dict[str, Array] = {}
        if np.isfinite(low):
            sides[f"below {low:g}"] = self.value < low
        if low < high:
            sides[f"from {low:g} to {high:g}"] = (self.value > low) & (self.value < high)
        if np.isfinite(high):
            sides[f"above {high:g}"] = self.value > high
        return sides

    def maximum(self, other: Self) -> Self:
        """The larger number; either of both is a side.

        It is none where a running maximum starts.  Equal numbers hide each other.
        """
        value = np.maximum(self.value, other.value)
        is_first, is_second = self.value > other.value, self.value < other.value
        result = self._flow(value, (self, is_first), (other, is_second))
        if not (np.isfinite(self.value) & np.isfinite(other.value)).any():
            return result
        return result._on_sides(
            {"a larger first operand": is_first, "a larger second operand": is_second}
        )

    def largest(self, axis: int, count: int) -> tuple[Self, Self]:
        """The largest numbers along an axis and their places, each of which shows all of them."""
        values, places = functions.largest(self.value, axis, count)
        made_on = np.bitwise_or.reduce(self.made_on, axis=axis, keepdims=True)
        made_on = np.broadcast_to(made_on, values.shape)
        return self.of([values, made_on]), self.of([places.astype(np.float64), made_on])

    def random(self, distribution: Distribution, shape: Sequence[int], offset: Self) -> Self:
        """Random numbers, each of which shows the seed and the offset."""
        numbers = random_numbers(distribution, shape, self.value, offset.value)
        made_on = _joined(self.made_on.reshape(-1), offset.made_on.reshape(-1))
        return self.of([numbers.astype(np.float64), np.broadcast_to(made_on[0], numbers.shape)])

    def scan(self, axis: int, decay: Self | None) -> Self:
        """Sums along an axis up to each number, or a recurrence: each shows all before it."""
        made_on = np.bitwise_or.accumulate(self.made_on, axis=axis)
        if decay is None:
            return self.of([functions.scan(self.value, axis), made_on])
        value = functions.scan(self.value, axis, decay.value)
        factors = np.broadcast_to(decay.made_on, value.shape)
        return self.of([value, _joined(made_on, np.bitwise_or.accumulate(factors, axis=axis))])

    def max(self, axis: int) -> Self:
        """The largest number along an axis: no element is another one's threshold."""
        made_on = np.bitwise_or.reduce(self.made_on, axis=axis)
        return self.of([self.value.max(axis=axis), made_on])

    def rounded_to(self, dtype: np.dtype[Any]) -> Self:
        """The numbers of a type; where it saturates is a threshold."""
        value = quantize(self.value, dtype)
        if np.array_equal(value, self.value, equal_nan=True):
            return self
        self.sides.quantizes = True
        if dtype in SATURATING:
            largest = float(float_info(dtype).max)
            return self._bounded(value, -largest, largest)
        if dtype.itemsize > 1:
            return self._same(value)
        return self._bounded(value, *integer_limits(dtype))

    def sum(self, axis: int, keepdims: bool = False) -> Self:
        """The sum along an axis."""
        return self.of(
            [
                self.value.sum(axis=axis, keepdims=keepdims),
                np.bitwise_or.reduce(self.made_on, axis=axis, keepdims=keepdims),
            ]
        )

    def matmul(self, other: Self) -> Self:
        """The matrix product."""
        rows = np.bitwise_or.reduce(self.made_on, axis=-1, keepdims=True)
        columns = np.bitwise_or.reduce(other.made_on, axis=-2, keepdims=True)
        return self.of([np.matmul(self.value, other.value), _joined(rows, columns)])


@dataclass(frozen=True)
class CoverageArithmetic(ComponentArithmetic):
    """Computes in float64 and says what thresholds the numbers have come by."""

    sides: Sides = field(default_factory=Sides)

    def exact(self, array: Array) -> CoverageArray:
        """Inputs."""
        value = np.ascontiguousarray(array, np.float64)
        return CoverageArray([value, np.zeros_like(value, np.int64)], self.sides)

    def round(self, value: Any, element_type: Attribute) -> Any:
        """The same numbers, rounded where that is a part of the function."""
        dtype = storage_dtype(element_type)
        return cast(CoverageArray, value).rounded_to(dtype) if is_quantizing(dtype) else value

    def empty(self, type_: Attribute) -> Any:
        """A tensor in device memory, to be written."""
        return self.exact(np.zeros(shape_of(type_)))

    def full(self, shape: Sequence[int], value: float) -> Any:
        """One constant everywhere."""
        return self.exact(np.full(tuple(shape), value, np.float64))
