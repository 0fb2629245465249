"""Shared-memory bank conflicts of one access by a warp, by counting.

Shared memory has 32 banks of 4-byte words; word ``w`` lies in bank ``w % 32``.  A warp's access
takes as many wavefronts as the busiest bank has distinct words.  Accesses of 8 bytes a lane are
served in two half-warps and of 16 bytes in four quarter-warps, each counted on its own.

:func:`mugraph.dialects.cute.f2.conflict_count` gives the same number for linear maps by rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.programming_model import BANK_BYTES, BANKS

_LANES_BY_WIDTH = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}


class Wavefront(NamedTuple):
    """The lanes served together, and for every bank the words they need of it."""

    lanes: tuple[int, ...]
    words: tuple[frozenset[int], ...]

    def conflicts(self) -> int:
        """The most distinct words in one bank: how often the access is repeated; 1 is free."""
        return max([len(words) for words in self.words], default=0)


def wavefronts(addresses: Sequence[int], bytes_per_lane: int) -> list[Wavefront]:
    """The access split as the hardware serves it.

    ``addresses`` are the byte addresses of the lanes, in order (at most 32 at a time are a warp);
    each lane accesses ``bytes_per_lane`` bytes (1, 2, 4, 8 or 16), aligned to that number.
    Raises LayoutError for another width or a misaligned address.
    """
    group = _LANES_BY_WIDTH.get(bytes_per_lane)
    if group is None:
        raise LayoutError(
            f"A lane accesses 1, 2, 4, 8 or 16 bytes of shared memory at once, not "
            f"{bytes_per_lane}."
        )
    for lane, address in enumerate(addresses):
        if address % bytes_per_lane:
            raise LayoutError(
                f"Lane {lane} accesses {bytes_per_lane} bytes at address {address}, which is not "
                "aligned to them."
            )
    result: list[Wavefront] = []
    for first in range(0, len(addresses), group):
        words: list[set[int]] = [set() for _bank in range(BANKS)]
        lanes = range(first, min(first + group, len(addresses)))
        for lane in lanes:
            start = addresses[lane] // BANK_BYTES
            end = (addresses[lane] + bytes_per_lane - 1) // BANK_BYTES
            for word in range(start, end + 1):
                words[word % BANKS].add(word)
        result.append(Wavefront(tuple(lanes), tuple(frozenset(bank) for bank in words)))
    return result
