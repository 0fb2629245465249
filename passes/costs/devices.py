"""What it takes to move tensors between devices of one host.

Fitted by ``python -m benchmarks.collective_costs`` to what two H200 took
(``benchmarks/results/collectives_h200x2.json``); they serve other hosts for want of better ones.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

LIBRARY = (
    (2_048, 11.03),
    (4_096, 11.88),
    (32_768, 11.52),
    (65_536, 12.77),
    (131_072, 12.39),
    (262_144, 13.82),
    (1_048_576, 20.81),
    (2_097_152, 31.83),
    (8_388_608, 55.84),
    (16_777_216, 77.63),
    (33_554_432, 165.07),
    (67_108_864, 250.96),
)
"""NCCL's collectives: the bytes that a device sends, and microseconds."""
START, LAUNCH, LOADED_BYTES = 3.6, 2.2, 1507e3
"""Of loads from other devices: microseconds to begin with, of each kernel or meeting, and bytes in
one.

Which is faster comes out right for 18 of 19 programs; the other differs by 1.5 µs.
"""
SHORT, LINK_BYTES = 2**21, 412e3
"""What is loaded beyond so many bytes comes at the link's pace, in bytes in a microsecond."""
MOVED_BYTES = 290e3
"""Bytes in a microsecond that kernels store in, or copies bring from, another device's memory.

What NCCL moves from 16 to 64 MiB; neither stores nor copies were measured by themselves.
"""
MOST_LOADED = 2**24
"""A device loads no more than this from others: longer exchanges were not measured."""


class Loads(NamedTuple):
    """A collective as loads from other devices."""

    launches: int
    """Kernels and meetings that there would not be otherwise."""
    loaded: int
    """Bytes that each device loads from the others."""

    @property
    def microseconds(self) -> float:
        """What they take; infinite where it is not known."""
        if self.loaded > MOST_LOADED:
            return math.inf
        short = min(self.loaded, SHORT)
        loading = short / LOADED_BYTES + (self.loaded - short) / LINK_BYTES
        return START + self.launches * LAUNCH + loading


def library_microseconds(sent: int) -> float:
    """What a collective of the library takes in which each device sends so many bytes."""
    return _between(LIBRARY, sent)


def _between(points: Sequence[tuple[int, float]], size: int) -> float:
    """What was measured, with a straight line between each two of the points."""
    behind = min(max(bisect_left(points, (size, 0.0)), 1), len(points) - 1)
    (low, fast), (high, slow) = points[behind - 1 : behind + 1]
    return max(points[0][1], fast + (slow - fast) * (size - low) / (high - low))


__all__ = ["LAUNCH", "MOVED_BYTES", "START", "Loads", "library_microseconds"]
