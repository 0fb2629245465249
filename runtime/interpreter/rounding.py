"""What one rounding does to a bound: the rules that ``runtime/interpreter/bounds.py`` applies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mugraph.runtime.interpreter.arithmetic import (
    Array,
    float_info,
    quantize,
)

TF32_UNIT = 2.0**-11
"""The largest relative error of rounding to TF32."""

EXP_UNITS = 8
"""How many unit roundoffs numpy's exp may be off: 4 units in the last place, in fp32 and float64.

Numpy states less than 3 for its fp32 and less than 1 for its float64.
"""

OWN_ROUNDING = 1 + 2.0**-20
"""What bounds are multiplied by in the end.

They are sums and products of numbers that are not negative, so that computing them in float64 errs
by a relative 2^-53 an operation; this covers 2^33 operations on the way to one element.
"""


UNDERFLOW = 16 * float(np.finfo(np.float64).smallest_subnormal)
"""What float64 may lose at one operation where numbers are that small, in values and in bounds."""


@dataclass(frozen=True)
class RoundingModel:
    """How a run rounds: every operation to ``compute``, and stored values if it ``stores``."""

    compute: type[np.floating[Any]]
    stores: bool

    @property
    def unit(self) -> float:
        """The largest relative error of one operation."""
        return unit_roundoff(np.dtype(self.compute))


def unit_roundoff(dtype: np.dtype[Any]) -> float:
    """Half the distance from 1 to the next number of a type."""
    return float(float_info(dtype).eps) / 2


STORAGE = RoundingModel(np.float32, stores=True)
"""A run with precision "storage"."""
FLOAT64 = RoundingModel(np.float64, stores=False)
"""A run with precision "float64", which the values are."""


def bound_after_rounding(bound: Array, value: Array, dtype: np.dtype[Any], unit: float) -> Array:
    """The bound after one more rounding to ``dtype`` with unit roundoff ``unit``."""
    information = float_info(dtype)
    reach = np.asarray(np.abs(value) + bound)
    # In place, since these arrays may be hundreds of megabytes.
    rounded = np.asarray(reach * unit)
    # Below the least normal number the error is absolute; 0 stays 0.
    least = max(float(information.smallest_subnormal) / 2, UNDERFLOW)
    np.maximum(rounded, least, out=rounded, where=reach > 0)
    rounded += bound
    # What may overflow has no bound, and neither has NaN.
    rounded[~(reach <= float(information.max))] = np.inf
    return rounded


def bound_after_quantizing(
    value: Array, bound: Array, rounded: Array, dtype: np.dtype[Any]
) -> Array:
    """The bound after quantizing: as far as its ends are carried, since rounding is monotonic.

    It is 0 where all numbers within the bound round alike.
    """
    bound = bound * OWN_ROUNDING
    if dtype.kind == "b":
        return np.where((bound > 0) & ~(np.abs(value) > bound), 1.0, 0.0)
    low = np.where(bound > 0, np.nextafter(value - bound, -np.inf), value)
    high = np.where(bound > 0, np.nextafter(value + bound, np.inf), value)
    moved = np.maximum(quantize(high, dtype) - rounded, rounded - quantize(low, dtype))
    return np.where(np.isfinite(bound) & np.isfinite(value), moved, np.inf)


def is_infinite(value: Array, bound: Array) -> Array:
    """Where a number is an infinity of the program, not one that is too large for float64."""
    return np.isinf(value) & (bound == 0)


def least_error(value: Array, exact_zero: Array) -> Array:
    """What float64 may have lost where it makes 0 of what is not exactly that."""
    return np.where((value == 0) & ~exact_zero, UNDERFLOW, 0.0)


def bound_of_sum(roundings: int | Array, model: RoundingModel, size: Array, error: Array) -> Array:
    """The bound of a sum, each summand of which is rounded so often at most."""
    unit = roundings * model.unit
    information = np.finfo(model.compute)
    # Products that are summed may each be less than the least normal number.
    tiny = roundings * float(information.smallest_subnormal)
    reach = size + error
    bound = error + unit / (1 - unit) * reach + np.where(reach > 0, tiny, 0.0)
    return np.where(reach + bound <= float(information.max), bound, np.inf)
