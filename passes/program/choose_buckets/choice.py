"""Which sizes buckets end at: a pure function of how long plans take at the sizes below theirs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

Values = tuple[int, ...]
"""A value of each extent that a call says."""

WORTH_A_BUCKET = 5e-4
"""What another bucket must take off the mean square of what sizes lose: one of 20 sizes of which
each loses a tenth."""
WORST = 10.0
"""Ratios above it count as it."""
LEAST_NS = 1.0
"""What a program takes at least, be it of views alone."""


def holds(end: Values, size: Values) -> bool:
    """Whether a bucket that ends there has a size."""
    return all(most >= value for most, value in zip(end, size, strict=True))


@dataclass(frozen=True)
class SizeTimes:
    """Nanoseconds of a program, by estimate."""

    times: dict[Values, dict[Values, float]]
    """Of the kernels planned for each size at each size that it holds, its own among them.

    Infinite where an estimate has none, though not at their own size."""
    least: Values = ()
    """The smallest value of each extent, if another one than that of the smallest size."""

    @property
    def largest(self) -> Values:
        """The size that holds all others."""
        return max(self.times)

    @cached_property
    def losses(self) -> dict[Values, dict[Values, float]]:
        """For each end how much longer each size takes that it holds than by plans of its own."""
        return {
            end: {
                size: min(max(time / max(self.times[size][size], LEAST_NS), 1.0), WORST)
                for size, time in row.items()
            }
            for end, row in self.times.items()
        }

    def ordered(self, ends: Sequence[Values]) -> list[Values]:
        """Ends in the order in which a call looks for the first that holds its values."""
        return sorted(ends, key=lambda end: (self.times[end][end], end))

    def ratios(self, ends: Sequence[Values]) -> dict[Values, float]:
        """How much longer each size takes in its bucket than by kernels planned for it alone."""
        found: dict[Values, float] = {}
        for end in reversed(self.ordered(ends)):
            found.update(self.losses[end])
        return found

    @cached_property
    def weights(self) -> dict[Values, float]:
        """What part of all values each size stands for, if those of any magnitude are alike.

        Along an extent a value stands for those down to the next smaller one, the smallest for all
        below it.
        """
        along = [sorted({*values}) for values in zip(*self.times, strict=True)]
        least = self.least or [values[0] for values in along]
        octaves = [
            {v: math.log2(v / before) for before, v in pairwise([first / 2, *values])}
            for first, values in zip(least, along, strict=True)
        ]
        found = {
            size: math.prod(own[v] for own, v in zip(octaves, size, strict=True))
            for size in self.times
        }
        whole = sum(found.values())
        return {size: weight / whole for size, weight in found.items()}

    def loss(self, ends: Sequence[Values]) -> float:
        """The mean square of what sizes lose."""
        ratios = self.ratios(ends).items()
        return sum(self.weights[size] * (ratio - 1.0) ** 2 for size, ratio in ratios)


def choose_ends(table: SizeTimes, most: int) -> list[Values]:
    """Where at most so many buckets should end, the largest size among them, in a call's order.

    Of all sizes that is left out with which least is lost, one by one; what is left moves as long
    as that loses less.
    """
    chosen = list(table.times)
    while len(chosen) > 1:
        rest = min(
            ([each for each in chosen if each != end] for end in chosen if end != table.largest),
            key=table.loss,
        )
        if len(chosen) <= most:
            chosen, rest = _settled(table, chosen), _settled(table, rest)
            if table.loss(rest) - table.loss(chosen) >= WORTH_A_BUCKET:
                break
        chosen = rest
    return table.ordered(chosen)


def _best(table: SizeTimes, ends: Sequence[Values]) -> Values:
    """The size with which some ends lose least."""
    others = (size for size in table.times if size not in ends)
    return min(others, key=lambda size: (table.loss([*ends, size]), size))


def _settled(table: SizeTimes, ends: Sequence[Values]) -> list[Values]:
    """Ends of which none but the largest should be another size."""
    settled, least = list(ends), table.loss(ends)
    moved = True
    while moved:
        moved = False
        for end in [each for each in settled if each != table.largest]:
            rest = [each for each in settled if each != end]
            moved_to = [*rest, _best(table, rest)]
            if (loss := table.loss(moved_to)) < least:
                settled, least, moved = moved_to, loss, True
    return settled
