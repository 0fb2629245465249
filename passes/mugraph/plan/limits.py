"""How long a partition may be estimated to take, to be among those that are compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush

WORTH_FILLING = 1.1
"""How much longer a partition may take that gives more multiprocessors a block."""
ALIKE_NS = 80.0
"""Times that differ by less are alike: no launch is as regular."""

Longest = Callable[[float], float]
"""Of the times that are found one after another: how long another partition may take."""


def nearly_the_least() -> Longest:
    """As long as ``--plan`` may prefer one to the fastest."""
    longest = math.inf

    def after(time: float) -> float:
        nonlocal longest
        longest = min(longest, WORTH_FILLING * time + ALIKE_NS)
        return longest

    return after


def among_the_least(count: int) -> Longest:
    """As long as it is among so many fastest ones."""
    least: list[float] = []

    def after(time: float) -> float:
        heappush(least, -time)
        if len(least) > count:
            heappop(least)
        return math.inf if len(least) < count else -least[0]

    return after
