"""Loop nests as layouts: the canonical form of slide "Loop Philosophy".

A nest of loops ``for (i = start; i < end; i += step)`` that accesses ``A[c0*i + c1*j + ... + d]``
accesses ``(A + offset)[layout(i', j', ...)]`` where all loops run from 0 by 1::

    for (int j = 3; j < 43; j += 2)
      for (int i = 4; i <= 20; i += 5)          ->   offset 38, layout (4,20):(50,-2)
        A[10*i - j + 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.layout import Layout


@dataclass(frozen=True)
class Loop:
    """``for (i = start; i < end; i += step)``, or ``i <= end`` if inclusive; step of any sign.

    The loop must run at least once.
    """

    start: int
    end: int
    step: int = 1
    inclusive: bool = False

    def trip_count(self) -> int:
        """How often the loop runs.  Raises LayoutError if it does not run or never ends."""
        if self.step == 0:
            raise LayoutError(f"The loop from {self.start} to {self.end} has step 0.")
        span = self.end - self.start
        if self.inclusive:
            span += 1 if self.step > 0 else -1
        count = -(-span // self.step) if span * self.step > 0 else 0
        if count < 1:
            raise LayoutError(
                f"The loop from {self.start} to {self.end} by {self.step} does not run; a layout "
                "has at least one element."
            )
        return count


def loop_nest_layout(
    loops: Sequence[Loop], coefficients: Sequence[int], constant: int = 0
) -> tuple[Layout[int], int]:
    """The layout and offset of the accesses ``sum(coefficient * variable) + constant``.

    ``loops`` and ``coefficients`` go from the innermost loop to the outermost.
    """
    if len(loops) != len(coefficients):
        raise LayoutError(f"{len(loops)} loops need as many coefficients, not {len(coefficients)}.")
    offset = constant
    shape: list[int] = []
    stride: list[int] = []
    for loop, coefficient in zip(loops, coefficients, strict=True):
        shape.append(loop.trip_count())
        stride.append(coefficient * loop.step)
        offset += coefficient * loop.start
    if len(shape) == 1:
        return Layout(shape[0], stride[0]), offset
    return Layout(tuple(shape), tuple(stride)), offset
