"""How high the degrees of numerators and denominators are that a function computes.

Every element of a tensor is a quotient of polynomials in the inputs' elements; exponentials and
roots count as variables of their own.  A tensor carries upper limits of the two degrees over all of
its elements, and its extents.  The limits bound how probably two different functions agree at a
random point of a finite field (Schwartz-Zippel; see ``mugraph.runtime.equivalence.finite_field``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
from xdsl.ir import Attribute

from mugraph.dialects.kn.random import Distribution
from mugraph.dialects.tensor_types import shape_of
from mugraph.runtime.interpreter.arithmetic import (
    Array,
    ComponentArithmetic,
    is_quantizing,
    storage_dtype,
)
from mugraph.runtime.interpreter.components import ComponentArray


@dataclass(frozen=True)
class Degrees:
    """Degrees of a quotient of polynomials, and what is among its variables."""

    numerator: int = 0
    denominator: int = 0
    exponentials: bool = False
    roots: bool = False
    nested: bool = False
    """Whether there are exponentials of exponentials, which finite fields do not define."""

    def _over(self, other: Degrees, numerator: int, denominator: int) -> Degrees:
        return Degrees(
            numerator,
            denominator,
            self.exponentials or other.exponentials,
            self.roots or other.roots,
            self.nested or other.nested,
        )

    def times(self, other: Degrees) -> Degrees:
        """Of the product."""
        return self._over(
            other, self.numerator + other.numerator, self.denominator + other.denominator
        )

    def plus(self, other: Degrees) -> Degrees:
        """Of the sum, over the product of the denominators."""
        numerator = max(self.numerator + other.denominator, other.numerator + self.denominator)
        return self._over(other, numerator, self.denominator + other.denominator)

    def inverted(self) -> Degrees:
        """Of one over it."""
        return replace(self, numerator=self.denominator, denominator=self.numerator)

    def summed(self, count: int) -> Degrees:
        """Of a sum of so many, each with a denominator of its own."""
        numerator = self.numerator + (count - 1) * self.denominator
        return replace(self, numerator=numerator, denominator=count * self.denominator)

    def or_those_of(self, other: Degrees) -> Degrees:
        """Limits that hold for both."""
        return self._over(
            other,
            max(self.numerator, other.numerator),
            max(self.denominator, other.denominator),
        )


@dataclass
class Record:
    """The degrees of a tensor, which all views of it share."""

    degrees: Degrees


class DegreeArray(ComponentArray):
    """A tensor of which only extents and degrees are known."""

    def __init__(self, shape: Sequence[int], record: Record):
        # All elements are one zero in memory: numpy knows what views of them look like.
        super().__init__([np.broadcast_to(np.int8(0), tuple(shape))])
        self.record = record

    @property
    def degrees(self) -> Degrees:
        """The limits over all elements."""
        return self.record.degrees

    def has_numbers(self) -> bool:
        """No: all are one zero."""
        return False

    def of(self, components: Sequence[Array]) -> Self:
        """A view with other extents."""
        return type(self)(components[0].shape, self.record)

    def lift(self, number: float) -> Self:
        """A constant."""
        return type(self)((), Record(Degrees()))

    def _made(self, shape: Sequence[int], degrees: Degrees) -> Self:
        return type(self)(shape, Record(degrees))

    def add(self, other: Self) -> Self:
        """The sum."""
        shape = np.broadcast_shapes(self.shape, other.shape)
        return self._made(shape, self.degrees.plus(other.degrees))

    def subtract(self, other: Self) -> Self:
        """The difference."""
        return self.add(other)

    def multiply(self, other: Self) -> Self:
        """The product."""
        shape = np.broadcast_shapes(self.shape, other.shape)
        return self._made(shape, self.degrees.times(other.degrees))

    def divide(self, other: Self) -> Self:
        """The quotient."""
        shape = np.broadcast_shapes(self.shape, other.shape)
        return self._made(shape, self.degrees.times(other.degrees.inverted()))

    def negative(self) -> Self:
        """The number with the other sign."""
        return self

    def sqrt(self) -> Self:
        """A variable of its own."""
        return self._made(self.shape, replace(self.degrees, numerator=1, denominator=0, roots=True))

    def log(self) -> Self:
        """A variable of its own."""
        return self.sqrt()

    def erfc(self) -> Self:
        """A variable of its own."""
        return self.sqrt()

    def smooth(self, function: np.ufunc, slope: float, span: float) -> Self:
        """A variable of its own."""
        return self.sqrt()

    def positive(self) -> Self:
        """A variable of its own."""
        return self.sqrt()

    def select(self, one: Self, other: Self) -> Self:
        """The product of a variable of its own and a difference, and a sum."""
        return other.add(self.sqrt().multiply(one.subtract(other)))

    def clamp(self, low: float, high: float) -> Self:
        """A variable of its own."""
        return self.sqrt()

    def power(self, other: Self) -> Self:
        """A variable of its own."""
        shape = np.broadcast_shapes(self.shape, other.shape)
        both = self.degrees.or_those_of(other.degrees)
        return self._made(shape, replace(both, numerator=1, denominator=0, roots=True))

    def maximum(self, other: Self) -> Self:
        """One of the two."""
        shape = np.broadcast_shapes(self.shape, other.shape)
        both = self.degrees.or_those_of(other.degrees)
        return self._made(shape, replace(both, roots=True))

    def largest(self, axis: int, count: int) -> tuple[Self, Self]:
        """Variables of their own."""
        shape = (*self.shape[:axis], count, *self.shape[axis + 1 :])
        found = self._made(shape, self.sqrt().degrees)
        return found, found

    def random(self, distribution: Distribution, shape: Sequence[int], offset: Self) -> Self:
        """Variables of their own."""
        return self._made(tuple(shape), self.add(offset).sqrt().degrees)

    def scan(self, axis: int, decay: Self | None) -> Self:
        """The last sum, which has all numbers as summands."""
        count = self.shape[axis]
        if decay is None:
            return self._made(self.shape, self.degrees.summed(count))
        factor, last = decay.degrees, self.degrees
        for _ in range(count - 1):
            last = last.times(factor).plus(self.degrees)
        return self._made(self.shape, last)

    def exp(self) -> Self:
        """A variable of its own."""
        old = self.degrees
        nested = old.nested or old.exponentials
        new = replace(old, numerator=1, denominator=0, exponentials=True, nested=nested)
        return self._made(self.shape, new)

    def sum(self, axis: int, keepdims: bool = False) -> Self:
        """The sum along an axis."""
        shape = list(self.shape)
        shape[axis : axis + 1 or None] = [1] if keepdims else []
        return self._made(shape, self.degrees.summed(self.shape[axis]))

    def matmul(self, other: Self) -> Self:
        """The matrix product."""
        batch = np.broadcast_shapes(self.shape[:-2], other.shape[:-2])
        shape = (*batch, self.shape[-2], other.shape[-1])
        return self._made(shape, self.degrees.times(other.degrees).summed(self.shape[-1]))

    def __setitem__(self, index: Any, value: Self) -> None:
        self.record.degrees = self.degrees.or_those_of(value.degrees)


@dataclass(frozen=True)
class DegreeArithmetic(ComponentArithmetic):
    """Computes degrees; arrays take no memory."""

    @property
    def element_bytes(self) -> int:
        """Nothing, so that all blocks run at once."""
        return 0

    def input(self, shape: Sequence[int]) -> DegreeArray:
        """A tensor of independent variables."""
        return DegreeArray(shape, Record(Degrees(1)))

    def round(self, value: Any, element_type: Attribute) -> Any:
        """The same degrees, with an unknown function among the variables where rounding is one."""
        array = cast(DegreeArray, value)
        if not is_quantizing(storage_dtype(element_type)):
            return array
        degrees = replace(array.degrees, roots=True)
        return DegreeArray(array.shape, Record(degrees))

    def empty(self, type_: Attribute) -> Any:
        """A tensor in device memory, to be written."""
        return DegreeArray(shape_of(type_), Record(Degrees()))

    def full(self, shape: Sequence[int], value: float) -> Any:
        """One constant everywhere."""
        return DegreeArray(shape, Record(Degrees()))
