"""Views of flat memory by extents and strides, for every element type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def strided_view(memory: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """The elements of one-dimensional memory with these extents and strides, in elements.

    Numpy makes such views of its own types only; others are seen as bytes on the way.
    """
    bits = memory.view(np.dtype(f"u{memory.itemsize}"))
    steps = [stride * memory.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(bits, tuple(shape), steps).view(memory.dtype)
