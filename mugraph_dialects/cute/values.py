"""The values of a tensor as a vector: ``a.load() + b.load()``, as the CuTe DSL's TensorSSA."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.int_tuple import IntTuple, size, to_text


def _quotient(left: Any, right: Any) -> Any:
    return left / right


class Values:
    """What each thread has read of a tensor, and functions of it, element by element."""

    __array_ufunc__ = None

    def __init__(self, held: Any, at: Callable[[Any], Any]) -> None:
        self.held = held
        """Registers of as many elements, of the same threads."""
        self.at = at
        """The element at a 1-D coordinate."""

    @property
    def shape(self) -> IntTuple:
        """The shape of the tensor that was read."""
        return self.held.layout.shape

    def to(self, dtype: Any) -> Values:
        """The same rounded to a type."""
        return self.held.rounded(self, dtype)

    @staticmethod
    def each(function: Callable[..., Any], *arguments: Any) -> Values:
        """A function of several vectors, or of vectors and numbers, element by element.

        Raises LayoutError where they are not of one size.
        """
        found = [one for one in arguments if isinstance(one, Values)]
        if any(size(one.shape) != size(found[0].shape) for one in found):
            shapes = " and ".join(to_text(one.shape) for one in found)
            raise LayoutError(f"Values of the shapes {shapes} are not of one size.")

        def at(index: Any) -> Any:
            return function(
                *(one.at(index) if isinstance(one, Values) else one for one in arguments)
            )

        return Values(found[0].held, at)

    def __add__(self, other: Any) -> Values:
        return Values.each(operator.add, self, other)

    def __sub__(self, other: Any) -> Values:
        return Values.each(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Values:
        return Values.each(operator.sub, other, self)

    def __mul__(self, other: Any) -> Values:
        return Values.each(operator.mul, self, other)

    def __truediv__(self, other: Any) -> Values:
        return Values.each(_quotient, self, other)

    def __rtruediv__(self, other: Any) -> Values:
        return Values.each(_quotient, other, self)

    def __neg__(self) -> Values:
        return Values.each(operator.neg, self)

    __radd__, __rmul__ = __add__, __mul__
