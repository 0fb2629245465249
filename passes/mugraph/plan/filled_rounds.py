"""Columns of a product's tiles that fill the rounds of its blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mugraph.dialects.programming_model import GROUP_COLUMNS, MAX_GROUP_COLUMNS

LEAST_FILLED = 96
"""Columns of such tiles, at least."""
LEAST_ALONE = 168
"""The same where there are more rounds than before: of narrower ones two blocks share a
multiprocessor.  3086 x 8192 x 3584 took 366 us on an H200 in tiles of 160, and 314 of 192."""
MOST_ROUNDS = 12
"""Rounds that are filled, at most: of more, the last one is little of all."""
FILLED_STEPS = (GROUP_COLUMNS, 64)
"""What their columns are multiples of: instructions, or whole swizzled rows of a right matrix."""


class Blocks(NamedTuple):
    """Into how many blocks a dimension is cut, and in tiles of how many elements if not evenly."""

    blocks: int
    tile: int | None = None


def filled(
    counts: Sequence[Blocks], columns: int, *, extent: int, others: int, at_once: int
) -> Iterator[Sequence[Blocks]]:
    """These numbers of blocks, and those of the narrowest tiles that need no more rounds of them.

    Of the widest tiles also those of more rounds that blocks fill.
    128 x 18944 x 3584 takes 39.5 us on an H200 by 132 blocks of 144 columns, and 55 by 148 of 128.
    """
    yield counts
    own = counts[columns]
    present = own.tile or extent // own.blocks
    if not LEAST_FILLED < present <= MAX_GROUP_COLUMNS:
        return
    beside = others * math.prod(each.blocks for each in counts) // own.blocks
    rounds = math.ceil(beside * own.blocks / at_once)
    most = min(2 * rounds, MOST_ROUNDS) if present == MAX_GROUP_COLUMNS else rounds
    for count in range(rounds, max(most, rounds) + 1):
        least = LEAST_FILLED if count == rounds else LEAST_ALONE
        for step in FILLED_STEPS:
            tile = math.ceil(extent / (count * at_once // beside * step)) * step
            if least <= tile < present:
                narrow = Blocks(-(-extent // tile), tile if extent % tile else None)
                yield (*counts[:columns], narrow, *counts[columns + 1 :])
