"""Types and loops under the names that NVIDIA's CuTe DSL has them in ``cutlass``.

from mugraph import cute
from mugraph.cute import cutlass
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, TypeVar

import numpy as np

from mugraph.cute import pipeline as pipeline
from mugraph.cute.control import dynamic_range
from mugraph.cute.errors import KernelError
from mugraph.cute.numbers import dtype_named
from mugraph.cute.sizes import ceil_div

Float64, Float32, Float16 = np.float64, np.float32, np.float16
Int64, Int32, Int8, Uint8 = np.int64, np.int32, np.int8, np.uint8
BFloat16 = dtype_named("bf16").type
Boolean = bool


Known = TypeVar("Known")
Constexpr = Annotated[Known, "known when the kernel is recorded"]
"""The type of such a parameter: ``tiler: cutlass.Constexpr``.  It says it alone."""


def const_expr(value: Known) -> Known:
    """The value, which is known when the kernel is recorded."""
    return value


def range_constexpr(*bounds: int) -> Iterator[int]:
    """Python's ``range``: the iterations are written out."""
    return iter(builtins.range(*bounds))


def range(*bounds: Any, unroll: int = 1, unroll_full: bool = False) -> Iterable[Any]:
    """A loop of the kernel, as :func:`~mugraph.cute.dynamic_range`: ``range(start, stop, step)``.

    ``unroll_full`` writes the iterations out; of ``unroll`` the compiler decides.  Raises
    KernelError for a step that is no number from 1 on.
    """
    del unroll
    if unroll_full:
        return builtins.range(*bounds)
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if not isinstance(step, int) or step < 1:
        raise KernelError(f"range: the step {step} is no number from 1 on")
    return (start + step * k for k in dynamic_range(ceil_div(stop - start, step)))
