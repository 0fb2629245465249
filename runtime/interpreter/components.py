"""Arrays of numbers that consist of several parts each, in place of numpy's.

The interpreter computes with numpy's functions.  A :class:`ComponentArray` answers to those that it
uses, so that the same implementations of operators run on other kinds of number: intervals of error
(:mod:`mugraph.runtime.interpreter.bounds`) or finite fields
(:mod:`mugraph.runtime.interpreter.fields`).  A kind of number says what the arithmetic is; how
arrays are cut, moved and broadcast is said here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from mugraph.runtime.interpreter.arithmetic import Array
from mugraph.runtime.interpreter.errors import ExecutionError

if TYPE_CHECKING:
    from mugraph.dialects.kn.random import Distribution


def existing_rows(count: int, numbers: Array, what: str = "row") -> Array:
    """Numbers of rows of a table; raises ``ExecutionError`` for one that names none."""
    outside = numbers[~((numbers >= 0) & (numbers < count))]
    if outside.size:
        raise ExecutionError(
            f"{outside.flat[0]:g} names no {what} of a table of {count}; numbers of {what}s are 0 "
            f"to {count - 1}"
        )
    return numbers.astype(np.int64)


def named_rows(count: int, numbers: Array) -> tuple[Array, Array]:
    """Whole numbers, and which of them name a row of a table."""
    whole = numbers.components[0] if isinstance(numbers, ComponentArray) else numbers
    whole = whole.astype(np.int64)
    return whole, (whole >= 0) & (whole < count)


def with_rows(values: Array, table: Array, rows: Array, axis: int) -> Array:
    """A table with new values at whole numbers along an axis; raises as :func:`existing_rows`."""
    extent = table.shape[axis]
    result = table.copy()
    places = existing_rows(extent, np.where(rows < 0, rows + extent, rows))
    result[(*[slice(None)] * axis, places)] = values
    return result


class ComponentArray(NDArrayOperatorsMixin, ABC):
    """Arrays of the same shape, one for each part of a number.

    The other operand of an operation is of the same kind of number.
    """

    def __init__(self, components: Sequence[Array]):
        self.components = tuple(components)

    @abstractmethod
    def of(self, components: Sequence[Array]) -> Self:
        """An array of the same kind of number with other components."""

    @abstractmethod
    def lift(self, number: float) -> Self:
        """A number of the program, such as a constant, as an array of no dimensions."""

    @abstractmethod
    def add(self, other: Any) -> Self:
        """The sum."""

    @abstractmethod
    def subtract(self, other: Any) -> Self:
        """The difference."""

    @abstractmethod
    def multiply(self, other: Any) -> Self:
        """The product."""

    @abstractmethod
    def divide(self, other: Any) -> Self:
        """The quotient."""

    def reciprocal_or_zero(self) -> Self:
        """1 over the number; a kind of number that knows which ones are 0 makes 0 of those."""
        return self.lift(1).divide(self)

    @abstractmethod
    def matmul(self, other: Any) -> Self:
        """The matrix product over the last two axes."""

    @abstractmethod
    def negative(self) -> Self:
        """The number with the other sign."""

    def square(self) -> Self:
        """The number times itself."""
        return self.multiply(self)

    @abstractmethod
    def sqrt(self) -> Self:
        """The square root."""

    @abstractmethod
    def exp(self) -> Self:
        """e to the power of it."""

    @abstractmethod
    def log(self) -> Self:
        """The natural logarithm."""

    @abstractmethod
    def erfc(self) -> Self:
        """1 less the error function."""

    @abstractmethod
    def smooth(self, function: np.ufunc, slope: float, span: float) -> Self:
        """A function of numpy whose slope is at most ``slope`` and values at most ``span`` apart.

        Numpy computes it to 4 units in the last place.
        """

    def steps(self, function: np.ufunc) -> Self:
        """A function of numpy that never falls, and is constant but for its steps; it is exact."""
        return self.smooth(function, np.inf, np.inf)

    @abstractmethod
    def positive(self) -> Self:
        """1 where the number is more than 0, else 0."""

    @abstractmethod
    def select(self, one: Any, other: Any) -> Self:
        """The first of two others where the number is not 0, else the second."""

    @abstractmethod
    def clamp(self, low: float, high: float) -> Self:
        """The nearest number from ``low`` to ``high``."""

    @abstractmethod
    def power(self, other: Any) -> Self:
        """The number to the power of another."""

    @abstractmethod
    def maximum(self, other: Any) -> Self:
        """The larger number."""

    def filled(self, number: float) -> Self:
        """A number of the program for each of these."""
        lifted = self.lift(number)
        return lifted.of([np.broadcast_to(part, self.shape) for part in lifted.components])

    def has_numbers(self) -> bool:
        """Whether elements are numbers; of some arrays nobody knows any."""
        return True

    def whole_numbers(self) -> Array:
        """The elements as numbers, which whole ones are exactly."""
        return self.components[0]

    def rows_of(self, table: Any) -> Any:
        """What a table has at these numbers along its first axis."""
        return table[existing_rows(table.shape[0], self.components[0])]

    def with_rows(self, values: Any, rows: Any, axis: int) -> Self:
        """Itself with new values at whole numbers along an axis."""
        pairs = zip(values.components, self.components, strict=True)
        return self.of([with_rows(*pair, rows.components[0], axis) for pair in pairs])

    def relu(self) -> Self:
        """The number, or 0 if that is larger."""
        return self.clamp(0.0, math.inf)

    @abstractmethod
    def sum(self, axis: int, keepdims: bool = False) -> Self:
        """The sum along an axis."""

    @abstractmethod
    def largest(self, axis: int, count: int) -> tuple[Self, Self]:
        """The largest numbers along an axis, the largest first, and their places."""

    @abstractmethod
    def random(self, distribution: Distribution, shape: Sequence[int], offset: Any) -> Self:
        """Random numbers of this seed and an offset."""

    @abstractmethod
    def scan(self, axis: int, decay: Any | None) -> Self:
        """Sums along an axis up to each number, or h_t = decay_t h_(t-1) + x_t."""

    def max(self, axis: int) -> Self:
        """The largest number along an axis, by halves."""
        values = self
        while (extent := values.shape[axis]) > 1:
            before = (slice(None),) * (axis % self.ndim)
            middle = extent - extent // 2
            largest = values[(*before, slice(extent // 2))].maximum(
                values[(*before, slice(middle, None))]
            )
            if extent % 2:
                rest = values[(*before, slice(middle - 1, middle))]
                first = largest[(*before, slice(1))].maximum(rest)
                if extent == 3:
                    values = first
                    continue
                largest[(*before, slice(1))] = first
            values = largest
        return values.reshape(*np.delete(values.shape, axis))

    def fall_to(self, later: Any) -> Self:
        """This number minus a later one; 0 where this one is -infinity."""
        is_start = self.components[0] == -np.inf
        difference = self.subtract(later)
        return difference.of([np.where(is_start, 0, part) for part in difference.components])

    def mean(self, axis: int, keepdims: bool = False) -> Self:
        """The sum along an axis, divided by the extent."""
        return self.sum(axis, keepdims).divide(self.lift(self.shape[axis]))

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.components[0].shape

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return self.components[0].ndim

    def _each(self, function: Callable[[Array], Array]) -> Self:
        return self.of([function(component) for component in self.components])

    def reshape(self, *shape: int) -> Self:
        """The same elements with other extents; a view where numpy's would be one."""
        return self._each(lambda component: component.reshape(*shape))

    def transpose(self, *axes: int) -> Self:
        """A view with the axes in another order."""
        return self._each(lambda component: component.transpose(*axes))

    def __getitem__(self, index: Any) -> Self:
        return self._each(lambda component: component[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        for component, new in zip(self.components, value.components, strict=True):
            component[index] = new

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Numpy's functions of these arrays, with plain numbers as constants."""
        name = _METHODS.get(ufunc)
        if name is None or method != "__call__" or options:
            return NotImplemented
        # Adding nothing is exact in every arithmetic; accumulators start that way.
        if name == "add" and isinstance(inputs[0], int) and inputs[0] == 0:
            return inputs[1]
        first, *rest = [
            value if isinstance(value, ComponentArray) else self.lift(value) for value in inputs
        ]
        return getattr(first, name)(*rest)


_METHODS: dict[np.ufunc, str] = {
    np.add: "add",
    np.subtract: "subtract",
    np.multiply: "multiply",
    np.divide: "divide",
    np.matmul: "matmul",
    np.negative: "negative",
    np.square: "square",
    np.sqrt: "sqrt",
    np.exp: "exp",
    np.log: "log",
    np.power: "power",
    np.maximum: "maximum",
}
"""The method that computes each of numpy's functions."""
