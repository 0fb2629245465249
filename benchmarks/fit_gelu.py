"""Fits the polynomial of ``ops::Gelu`` (``runtime/include/mugraph/ops.h``).

``python -m benchmarks.fit_gelu`` prints the coefficients, the highest power first.  The normal
distribution's upper tail is Q(y) = t exp(-y^2 / 2) exp2(R(t)) with t = 1 / (1 + 0.4 y), where R
is a polynomial: least squares on Chebyshev nodes, which is near the best for the largest error.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

SLOPE, LARGEST, DEGREE, NODES = 0.4, 14.5, 8, 2000
"""Slopes of 0.25 to 0.5 were tried: this one needs the lowest degree for errors below 1e-7."""


def remainder(t: float) -> float:
    """What R(t) should be."""
    y = (1 / t - 1) / SLOPE
    tail = math.erfc(y / math.sqrt(2)) / 2
    return (math.log(tail / t) + y * y / 2) / math.log(2)


def fit() -> Polynomial:
    """R, in powers of t."""
    least = 1 / (1 + SLOPE * LARGEST)
    angles = (np.arange(NODES) + 0.5) * np.pi / NODES
    nodes = (np.cos(angles) + 1) / 2 * (1 - least) + least
    wanted = [remainder(float(t)) for t in nodes]
    found = Chebyshev.fit(nodes, wanted, DEGREE, domain=[least, 1])
    error = np.abs(found(nodes) - wanted).max() * math.log(2)
    print(f"largest relative error of the tail: {error:.1e}")
    return found.convert(kind=Polynomial)


if __name__ == "__main__":
    print(*(f"{float(c):.9g}f" for c in fit().coef[::-1]))
