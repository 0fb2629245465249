"""Samples of one system, and what is said of them."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

ROTATED_BYTES = 200 * 10**6
"""What the input sets add up to, so that the 60 MB L2 holds none of the next call's."""

MOST_SETS = 1024
FEWEST_CALLS = 16
"""Calls in a CUDA graph, at least."""

GRAPH_MICROSECONDS = 500.0
"""How long a graph runs, at least: starting one, 2 to 3 µs, must not count."""

MOST_CALLS = 4096
ROUNDS = 5
SAMPLES_PER_ROUND = 8


@dataclass(frozen=True)
class Samples:
    """Microseconds of a call in each sample."""

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.values or not all(math.isfinite(v) and v > 0 for v in self.values):
            raise ValueError(f"samples must be positive times, got {self.values}")

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        """What a quarter of the samples are below, and above."""
        if len(self.values) == 1:
            return self.values[0], self.values[0]
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high


def set_count(total_bytes: int) -> int:
    """How many sets of tensors of so many bytes calls go round."""
    return max(1, min(MOST_SETS, math.ceil(ROTATED_BYTES / max(1, total_bytes))))


def call_count(sets: int, microseconds: float | None = None) -> int:
    """Calls in a graph: whole rounds of the sets, at least 16, and long enough.

    ``microseconds`` is an estimate of one call, if there is one.
    """
    needed = FEWEST_CALLS
    if microseconds is not None and microseconds > 0:
        needed = max(needed, min(MOST_CALLS, math.ceil(GRAPH_MICROSECONDS / microseconds)))
    return math.ceil(needed / sets) * sets
