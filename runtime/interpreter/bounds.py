"""Running error analysis: float64 numbers, each with bounds on how far rounding can move it.

Beside its value in float64 a number carries one bound for each :class:`RoundingModel`: no run that
rounds as the model says, in whatever order it sums, ends up farther from the exact result.  A bound
starts at 0 with the inputs and grows at every operator by what the operator makes of the errors of
its operands and by its own rounding.  It is derived from the numbers at hand, with no tolerance.

With u the unit roundoff of the model and |x̂ - x| <= e for each operand:

===========  =====================================================================
a + b        e_a + e_b
a * b        |a| e_b + |b| e_a + e_a e_b
a / b        (e_a + |a / b| e_b) / (|b| - e_b); unbounded where e_b >= |b|
exp(a)       exp(a) (exp(e_a) - 1)
log(a)       -log(1 - e_a / a); unbounded where e_a >= a
erfc(a)      the farther of its two ends, for it falls
f(a)         e_a times the largest slope, or how far values are apart if that is less
round(a)     the farther of its two ends, for it never falls; so floor(a)
a > 0        1 where |a| <= e_a, else 0
a ? b : c    e_b or e_c; their larger one and |b - c| where 0 < |a| <= e_a or e_a > |a| = 0
max(a, b)    max(e_a, e_b); clamp(a) e_a
a ^ b        the farthest of its four corners; unbounded where e_a >= a
sqrt(a)      e_a / (sqrt(a - e_a) + sqrt(a)); unbounded where e_a >= a
sum of n     sum of e_k, and n u / (1 - n u) times the sum of |a_k| + e_k
scan         of sums so far, each multiplied by |a| + e_a a place; 2 roundings a place
===========  =====================================================================

and then every result r of one rounding gets u (|r| + e), or half the least number that the type
holds where that is more.  Rounding to integers and f8 is a function of its own, which carries both
ends of the interval to numbers of the type.  Source: N. Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., sections 2.2, 3.1 and 3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from mugraph.dialects.kn.random import Distribution
from mugraph.runtime.interpreter import functions
from mugraph.runtime.interpreter.arithmetic import (
    Array,
    convert,
    is_quantizing,
    quantize,
    round_to_tf32,
)
from mugraph.runtime.interpreter.components import ComponentArray
from mugraph.runtime.interpreter.random_numbers import random_numbers
from mugraph.runtime.interpreter.rounding import (
    EXP_UNITS,
    OWN_ROUNDING,
    TF32_UNIT,
    RoundingModel,
    bound_after_quantizing,
    bound_after_rounding,
    bound_of_sum,
    is_infinite,
    least_error,
    unit_roundoff,
)


class BoundedArray(ComponentArray):
    """Float64 numbers with a bound for each model: components are the value, then the bounds."""

    def __init__(self, components: Sequence[Array], models: tuple[RoundingModel, ...]):
        super().__init__(components)
        self.models = models

    @property
    def value(self) -> Array:
        """The numbers in float64."""
        return self.components[0]

    def bound(self, model: RoundingModel) -> Array:
        """How far a run of this model may be from the exact numbers, infinite where unknown."""
        with np.errstate(over="ignore"):
            bound = self.components[1 + self.models.index(model)] * OWN_ROUNDING
        return np.where(np.isnan(bound), np.inf, bound)

    def of(self, components: Sequence[Array]) -> Self:
        """Other numbers with bounds for the same models."""
        return type(self)(components, self.models)

    def lift(self, number: float) -> Self:
        """A constant.

        Whole numbers, powers of two and infinities are exact.  Another one is an fp32 number that
        stands for a real number which rounds to it.
        """
        value = np.array(number, np.float64)
        exact = isinstance(number, int) or abs(float(np.frexp(number)[0])) in (0.0, 0.5, np.inf)
        doubt = 0.0 if exact else abs(number) * unit_roundoff(np.dtype(np.float32))
        return self.of([value, *(np.array(doubt) for _ in self.models)])

    def _result(self, value: Array, bounds: Callable[[int], Array], units: float = 1.0) -> Self:
        """A value that each model rounds once; ``bounds(i)`` is what model i had before that."""
        rounded = [
            bound_after_rounding(bounds(index), value, np.dtype(model.compute), units * model.unit)
            for index, model in enumerate(self.models, 1)
        ]
        return self.of([value, *rounded])

    def rounded_to_tf32(self) -> Self:
        """The same numbers; models that store round them to 10 bits of mantissa."""
        is_exact = (round_to_tf32(self.value) == self.value).all()
        bounds = [
            bound_after_rounding(bound, self.value, np.dtype(np.float32), TF32_UNIT)
            if model.stores and (bound.any() or not is_exact)
            else bound
            for bound, model in zip(self.components[1:], self.models, strict=True)
        ]
        return self.of([self.value, *bounds])

    def rounded_to(self, dtype: np.dtype[Any]) -> Self:
        """The same numbers; models that store round them to a storage type.

        Quantizing is a part of the function: it rounds the numbers, whatever the model.
        """
        if is_quantizing(dtype):
            rounded = quantize(self.value, dtype)
            moved = [
                bound_after_quantizing(self.value, one, rounded, dtype)
                for one in self.components[1:]
            ]
            return self.of([rounded, *moved])
        bounds: list[Array] = []
        for bound, model in zip(self.components[1:], self.models, strict=True):
            if not model.stores or dtype == np.dtype(model.compute):
                bounds.append(bound)
            elif not bound.any() and (convert(self.value, dtype) == self.value).all():
                bounds.append(bound)  # inputs on their way: already numbers of the type
            else:
                rounded = bound_after_rounding(bound, self.value, dtype, unit_roundoff(dtype))
                bounds.append(np.where(is_infinite(self.value, bound), 0.0, rounded))
        return self.of([self.value, *bounds])

    def add(self, other: Self) -> Self:
        """The sum."""
        return self._sum(self.value + other.value, other)

    def subtract(self, other: Self) -> Self:
        """The difference."""
        return self._sum(self.value - other.value, other)

    def _sum(self, value: Array, other: Self) -> Self:
        """A sum or difference."""
        ours, theirs = self.components, other.components
        result = self._result(value, lambda i: ours[i] + theirs[i])
        return self._with_infinities(result, other, lambda value, bound: np.isfinite(bound))

    def _with_infinities(
        self, result: Self, other: Self, keeps: Callable[[Array, Array], Array]
    ) -> Self:
        """A result that is exact where an operand is an infinity which the other one keeps.

        ``keeps(value, bound)`` says where an operand does that.
        """
        if np.isfinite(result.value).all():
            return result
        bounds: list[Array] = []
        mine, others = (self.value, self.components[1:]), (other.value, other.components[1:])
        for bound, one, two in zip(result.components[1:], mine[1], others[1], strict=True):
            exact = is_infinite(mine[0], one) & keeps(others[0], two)
            exact = exact | (is_infinite(others[0], two) & keeps(mine[0], one))
            bounds.append(np.where(exact, 0.0, bound))
        return self.of([result.value, *bounds])

    def multiply(self, other: Self) -> Self:
        """The product."""
        ours, theirs = self.components, other.components
        left, right = np.abs(ours[0]), np.abs(theirs[0])
        value = ours[0] * theirs[0]
        least = least_error(value, (left == 0) | (right == 0))
        result = self._result(
            value, lambda i: left * theirs[i] + ours[i] * (right + theirs[i]) + least
        )
        # An infinity stays one where the sign of the other factor is known.
        return self._with_infinities(result, other, lambda value, bound: np.abs(value) > bound)

    def divide(self, other: Self) -> Self:
        """The quotient."""
        ours, theirs = self.components, other.components
        value = ours[0] / theirs[0]
        size = np.abs(value)
        least = least_error(value, ours[0] == 0)

        def bound(i: int) -> Array:
            room = np.abs(theirs[0]) - theirs[i]
            return np.where(room > 0, (ours[i] + size * theirs[i]) / room + least, np.inf)

        return self._result(value, bound)

    def reciprocal_or_zero(self) -> Self:
        """1 over the number; 0 where it is 0."""
        return self.select(self.lift(1).divide(self), self.lift(0))

    def negative(self) -> Self:
        """The number with the other sign, which is exact."""
        return self.of([-self.value, *self.components[1:]])

    def exp(self) -> Self:
        """e to the power of it."""
        value = np.exp(self.value)
        least = least_error(value, self.value == -np.inf)
        # What is 0 in float64 may be so for all numbers that it may be of, however many these are.
        moved = [
            np.where(value > 0, value * np.expm1(bound), np.exp(self.value + bound)) + least
            for bound in self.components[1:]
        ]
        return self._result(value, lambda i: moved[i - 1], EXP_UNITS)

    def log(self) -> Self:
        """The natural logarithm."""
        value = np.log(self.value)

        def bound(i: int) -> Array:
            part = self.components[i] / np.abs(self.value)
            moved = -np.log1p(-np.minimum(part, 1))
            return np.where(self.components[i] == 0, 0.0, np.where(part < 1, moved, np.inf))

        return self._result(value, bound, EXP_UNITS)

    def erfc(self) -> Self:
        """1 less the error function, which falls: its bounds are at the ends."""
        value = functions.erfc(self.value)

        def bound(i: int) -> Array:
            low, high = (functions.erfc(self.value + sign * self.components[i]) for sign in (1, -1))
            return np.maximum(high - value, value - low)

        return self._result(value, bound, EXP_UNITS)

    def smooth(self, function: np.ufunc, slope: float, span: float) -> Self:
        """A function of a largest slope, between whose values there is a largest distance."""

        def bound(i: int) -> Array:
            return np.minimum(slope * self.components[i], span)

        return self._result(function(self.value), bound, EXP_UNITS)

    def steps(self, function: np.ufunc) -> Self:
        """As far as the ends of the number are carried, since the function never falls."""
        value = function(self.value)

        def carried(bound: Array) -> Array:
            with np.errstate(invalid="ignore"):
                high, low = (function(self.value + sign * bound) for sign in (1, -1))
                moved = np.maximum(high - value, value - low)
            # The ends of an infinity, or of what may be anything, have no distance.
            return np.where(np.isfinite(self.value) & np.isfinite(bound), moved, bound)

        return self.of([value, *map(carried, self.components[1:])])

    def positive(self) -> Self:
        """1 where the number is more than 0, else 0: unsure where its error reaches 0."""
        doubts = [
            np.where((bound > 0) & (np.abs(self.value) <= bound), 1.0, 0.0)
            for bound in self.components[1:]
        ]
        return self.of([(self.value > 0).astype(np.float64), *doubts])

    def select(self, one: Self, other: Self) -> Self:
        """The first of two others where the number is not 0, else the second; nothing rounds."""
        holds = self.value != 0
        parts = zip(self.components[1:], one.components[1:], other.components[1:], strict=True)
        distance = np.abs(one.value - other.value)
        bounds = [
            np.where(
                (bound > 0) & (np.abs(self.value) <= bound),
                np.maximum(first, second) + distance,
                np.where(holds, first, second),
            )
            for bound, first, second in parts
        ]
        return self.of([np.where(holds, one.value, other.value), *bounds])

    def rows_of(self, table: Self) -> Self:
        """What a table has at these numbers: nothing is known of a row that may be another one."""
        found = super().rows_of(table)
        bounds = [
            np.where(doubt.reshape(*doubt.shape, *[1] * (table.ndim - 1)) > 0, np.inf, bound)
            for bound, doubt in zip(found.components[1:], self.components[1:], strict=True)
        ]
        return self.of([found.value, *bounds])

    def clamp(self, low: float, high: float) -> Self:
        """The nearest number from ``low`` to ``high``: errors do not grow, and nothing rounds."""
        return self.of([functions.clamp(self.value, low, high), *self.components[1:]])

    def maximum(self, other: Self) -> Self:
        """The larger number, which does not round."""
        pairs = zip(self.components, other.components, strict=True)
        return self.of([np.maximum(one, two) for one, two in pairs])

    def largest(self, axis: int, count: int) -> tuple[Self, Self]:
        """The largest numbers, which move no further than any of them may, and their places.

        A place is as far off as another where a number may be that is as large.
        """
        values, places = functions.largest(self.value, axis, count)
        doubts = [bound.max(axis=axis, keepdims=True) for bound in self.components[1:]]
        moved = [np.broadcast_to(doubt, values.shape) for doubt in doubts]
        away = [np.zeros(places.shape) for _ in self.models]
        for rank in range(count):
            at = (*[slice(None)] * axis, slice(rank, rank + 1))
            distance = np.abs(self._places(axis) - places[at])
            for index, doubt in enumerate(doubts):
                reach = self.components[1 + index] + doubt
                rivals = (doubt > 0) & ~(np.abs(self.value - values[at]) > reach)
                away[index][at] = np.where(rivals, distance, 0).max(axis, keepdims=True)
        return self.of([values, *moved]), self.of([places.astype(np.float64), *away])

    def random(self, distribution: Distribution, shape: Sequence[int], offset: Self) -> Self:
        """Random numbers: bits and uniform ones are exact; nothing is known of an unsure seed."""
        numbers = random_numbers(distribution, shape, self.value, offset.value).astype(np.float64)
        doubts = [
            np.where(one.reshape(-1)[0] + other.reshape(-1)[0] > 0, np.inf, np.zeros(numbers.shape))
            for one, other in zip(self.components[1:], offset.components[1:], strict=True)
        ]
        if distribution is not Distribution.NORMAL:
            return self.of([numbers, *doubts])
        return self._result(numbers, lambda i: doubts[i - 1], EXP_UNITS)

    def power(self, other: Self) -> Self:
        """The number to the power of another; unbounded where the number may be 0 or less.

        Where it is more, the power rises or falls with both, so that its bounds lie in corners.
        """
        ours, theirs = self.components, other.components
        value = np.power(ours[0], theirs[0])

        def bound(i: int) -> Array:
            corners = [
                np.abs(
                    np.power(np.maximum(ours[0] + one * ours[i], 0), theirs[0] + two * theirs[i])
                    - value
                )
                for one in (-1, 1)
                for two in (-1, 1)
            ]
            exact = (ours[i] == 0) & (theirs[i] == 0)
            moved = np.where(ours[0] > ours[i], np.maximum.reduce(corners), np.inf)
            return np.where(exact, 0.0, moved) + least_error(value, ours[0] == 0)

        return self._result(value, bound, 2 * EXP_UNITS)

    def sqrt(self) -> Self:
        """The square root."""
        value = np.sqrt(self.value)

        def bound(i: int) -> Array:
            error = self.components[i]
            room = self.value - error
            moved = error / (np.sqrt(np.maximum(room, 0)) + value)
            return np.where(error == 0, 0.0, np.where(room > 0, moved, np.inf))

        return self._result(value, bound)

    def sum(self, axis: int, keepdims: bool = False) -> Self:
        """The sum along an axis, in any order."""
        total = self.value.sum(axis=axis, keepdims=keepdims)
        size = np.abs(self.value).sum(axis=axis, keepdims=keepdims)
        count = self.shape[axis]
        bounds = [
            bound_of_sum(count - 1, model, size, bound.sum(axis=axis, keepdims=keepdims))
            for bound, model in zip(self.components[1:], self.models, strict=True)
        ]
        return self.of([total, *bounds])

    def matmul(self, other: Self) -> Self:
        """The matrix product, summed in any order, with or without fused multiply-adds."""
        left, right = np.abs(self.value), np.abs(other.value)
        size = np.matmul(left, right)
        if not size.all():
            # Products may all have been too small for float64.
            exact_zero = np.matmul((left > 0).astype(np.float64), (right > 0) * 1.0) == 0
            size += self.shape[-1] * least_error(size, exact_zero)
        bounds: list[Array] = []
        for index, model in enumerate(self.models, 1):
            ours, theirs = self.components[index], other.components[index]
            # Inputs have no error, and a product with 0 need not be computed.
            error: Array = np.zeros_like(size)
            if theirs.any():
                error = error + np.matmul(left, theirs)
            if ours.any():
                error = error + np.matmul(ours, right + theirs)
            bounds.append(bound_of_sum(self.shape[-1], model, size, error))
        return self.of([np.matmul(self.value, other.value), *bounds])

    def scan(self, axis: int, decay: Self | None) -> Self:
        """Sums along an axis up to each number, or a recurrence, combined in any order."""
        if decay is None:
            earlier = self._places(axis)
            size = functions.scan(np.abs(self.value), axis)
            sums = [functions.scan(bound, axis) for bound in self.components[1:]]
            bounds = [
                bound_of_sum(earlier, model, size, error)
                for model, error in zip(self.models, sums, strict=True)
            ]
            return self.of([functions.scan(self.value, axis), *bounds])
        value = functions.scan(self.value, axis, decay.value)
        bounds = [
            self._scanned(axis, np.roll(value, 1, axis), decay, index)
            for index in range(1, 1 + len(self.models))
        ]
        return self.of([value, *bounds])

    def _places(self, axis: int) -> Array:
        """The place of each number along an axis."""
        along = [-1 if dim == axis else 1 for dim in range(self.ndim)]
        return np.arange(self.shape[axis]).reshape(along)

    def _scanned(self, axis: int, last: Array, decay: Self, index: int) -> Array:
        """The bound of a recurrence for one model; ``last`` are the results one place before."""
        model, earlier = self.models[index - 1], self._places(axis)
        ours, theirs = self.components[index], decay.components[index]
        factor = np.where(earlier > 0, np.abs(decay.value) + theirs, 0.0)
        moved = ours + np.where(earlier > 0, np.abs(last) * theirs, 0.0)
        error = functions.scan(moved, axis, factor)
        reach = functions.scan(np.abs(self.value) + ours, axis, factor)
        # A summand is rounded in one product and one sum for each place that it has come along.
        bound = bound_of_sum(2 * earlier, model, reach, error)
        # Products of neighbouring factors, which these sums bound, may be too small or too large.
        products = functions.scan(factor, axis, factor)
        most = np.maximum.accumulate(reach, axis)
        information = np.finfo(model.compute)
        lost = 2 * earlier * float(information.smallest_subnormal) * (1 + products) ** 2
        bound = bound + np.where(most > 0, lost * (1 + most), 0.0)
        return np.where(products <= float(information.max), bound, np.inf)
