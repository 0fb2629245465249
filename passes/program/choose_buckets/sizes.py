"""The sizes at which a program is planned to find where its buckets should end."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from mugraph.dialects.named_extents import NamedExtent

MOST_SIZES = 72
"""Sizes of one function: each is planned, in 0.1 s to 1 s."""
LEAST = 8
"""Rows of the smallest tile of an instruction: below only powers of two are looked at, and of what
memory holds none."""
STEPS = (4, 2, 1)
"""Values in each power of two, evenly; then in one of two, of four, ..."""


def sizes_of(extents: Sequence[NamedExtent]) -> list[tuple[int, ...]]:
    """Values of some extents together, of all magnitudes; the largest last.

    Extents with most values get fewer of them, as long as there are too many together.
    """
    levels = [0] * len(extents)
    values = [values_at(extent, 0) for extent in extents]
    while math.prod(map(len, values)) > MOST_SIZES:
        longest = max(range(len(extents)), key=lambda at: len(values[at]))
        levels[longest] += 1
        thinner = values_at(extents[longest], levels[longest])
        if levels[longest] >= len(STEPS) and len(thinner) == len(values[longest]):
            # So many extents that not even the ends of each can all be planned together.
            thinner = [extents[longest].largest]
        values[longest] = thinner
    return list(itertools.product(*values))


def values_at(extent: NamedExtent, level: int) -> list[int]:
    """Values of an extent, in order; higher levels have fewer."""
    steps = STEPS[min(level, len(STEPS) - 1)]
    apart = 2 ** max(level - len(STEPS) + 1, 0)
    powers = itertools.takewhile(
        lambda power: power < extent.largest, (LEAST * 2 ** (apart * n) for n in itertools.count())
    )
    spread = (power + power * step // steps for power in powers for step in range(steps))
    whole = {math.ceil(value / extent.multiple) * extent.multiple for value in spread}
    if extent.held is None:
        few = itertools.takewhile(lambda power: power < LEAST, (2**n for n in itertools.count()))
        whole |= {math.ceil(value / extent.multiple) * extent.multiple for value in few}
    return sorted({value for value in whole if value < extent.largest} | {extent.largest})
