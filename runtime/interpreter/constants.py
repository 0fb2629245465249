"""The number that an fp32 constant of a µGraph stands for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def meant_by(constant: float) -> Fraction:
    """The fraction of least denominator among the numbers that round to the fp32 ``constant``.

    A ``mul_scalar`` by the fp32 number nearest to 1/3 means 1/3: passes write means that way.
    Raises ``ValueError`` for infinities and NaN.
    """
    value = np.float32(constant)
    if not np.isfinite(value):
        raise ValueError(f"the constant {constant} is no number")
    exact = Fraction(float(value))
    lower = (exact + Fraction(float(np.nextafter(value, np.float32(-np.inf))))) / 2
    upper = (exact + Fraction(float(np.nextafter(value, np.float32(np.inf))))) / 2
    if lower < 0:
        return -_simplest(-upper, -lower) if upper <= 0 else Fraction(0)
    return _simplest(lower, upper)


def _simplest(lower: Fraction, upper: Fraction) -> Fraction:
    """The fraction of least denominator in a closed interval of positive numbers (Stern-Brocot)."""
    whole = -(-lower.numerator // lower.denominator)
    if whole <= upper:
        return Fraction(whole)
    floor = lower.numerator // lower.denominator
    return floor + 1 / _simplest(1 / (upper - floor), 1 / (lower - floor))
