"""The iterations of a loop that a block runs, where that depends on the block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mugraph.dialects.linear_forms import LinearForm


@dataclass(frozen=True)
class Span:
    """Iterations of a block: ``count`` of them, of which the first one has the tile ``first``."""

    first: int
    count: int


def span_of(
    forms: Sequence[LinearForm], block: Sequence[int], iterations: int, fewest: int = 1
) -> Span:
    """The iterations in which forms of block and iteration are at least 0; ``fewest`` at least.

    Without an iteration in which they are it is one in which they are not, or none.
    """
    first, end = 0, iterations
    for form in forms:
        step = form.coefficients[-1]
        pairs = zip(form.coefficients[:-1], block, strict=True)
        rest = form.constant + sum(one * index for one, index in pairs)
        if step > 0:
            first = max(first, -(rest // step))
        elif step < 0:
            end = min(end, rest // -step + 1)
    first = min(first, iterations - 1)
    return Span(first, max(end - first, fewest))
