"""All numbers of narrow types, and the numbers that are hard to round to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def codes(dtype: Any) -> Array:
    """All numbers of a type of 8 or 16 bits."""
    bits = 8 * np.dtype(dtype).itemsize
    return np.arange(2**bits, dtype=f"uint{bits}").view(dtype)


def around_halves(dtype: Any) -> Array:
    """Numbers of fp32: of a type, halfway between neighbours, and the nearest on both sides."""
    numbers = np.unique(codes(dtype).astype(np.float32))
    numbers = numbers[np.isfinite(numbers)]
    halves = ((numbers[1:].astype(np.float64) + numbers[:-1]) / 2).astype(np.float32)
    sides = [np.nextafter(halves, side, dtype=np.float32) for side in (-np.inf, np.inf)]
    beyond = np.array([np.inf, -np.inf, np.nan, -0.0, 1e38, -1e38], np.float32)
    return np.concatenate([numbers, halves, *sides, beyond])
