"""The values of a tensor as a vector: ``a.load() + b.load()``, as the CuTe DSL's TensorSSA."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.int_tuple import IntTuple, size, to_text


def _quotient(left: Any, right: Any) -> Any:
    return left / right


def _by_element(function: Callable[[Any, Any], Any]) -> Callable[[Values, Any], Values]:
    return lambda values, other: Values.each(function, values, other)


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

    def __repr__(self) -> str:
        return f"a vector of the shape {to_text(self.shape)}"

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

    def __iter__(self) -> Iterator[Any]:
        """The elements in the order of their 1-D coordinates."""
        return map(self.at, range(size(self.shape)))

    def reduce(
        self, op: Callable[[Any, Any], Any], init_val: Any, reduction_profile: int = 0
    ) -> Any:
        """All elements combined in order, such as by ``ReductionOp.ADD``.

        Raises LayoutError for a profile that keeps modes.
        """
        if reduction_profile != 0:
            raise LayoutError(
                f"reduce: the profile {reduction_profile} keeps modes; vectors are reduced to one "
                "number, with the profile 0."
            )
        return functools.reduce(op, self, init_val)

    def __neg__(self) -> Values:
        return Values.each(operator.neg, self)

    def __rsub__(self, other: Any) -> Values:
        return Values.each(operator.sub, other, self)

    def __rtruediv__(self, other: Any) -> Values:
        return Values.each(_quotient, other, self)

    __add__ = __radd__ = _by_element(operator.add)
    __mul__ = __rmul__ = _by_element(operator.mul)
    __sub__, __truediv__ = _by_element(operator.sub), _by_element(_quotient)
    __lt__, __le__ = _by_element(operator.lt), _by_element(operator.le)
    __gt__, __ge__ = _by_element(operator.gt), _by_element(operator.ge)
