"""Where tensors lie in the memory that devices of a group share, and what else is there.

The memory of each member begins with a 32-bit flag a member (``runtime/include/mugraph/meet.h``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mugraph.dialects.tensor_types import bytes_of
from mugraph.passes.memory.packing.allocate import aligned
from mugraph.passes.program.partition.segments import Delivery, Exchange

PLACE_ALIGNMENT = 256
"""Of what is laid out, in bytes."""


class Places(NamedTuple):
    """The byte at which each tensor begins, and the bytes of all together."""

    starts: tuple[int, ...]
    size: int


def places_of(exchanges: Iterable[Exchange | Delivery], members: int) -> Places:
    """Places behind the flags and this device's count of meetings, one for each exchange."""
    starts: list[int] = []
    end = aligned(4 * (members + 1), PLACE_ALIGNMENT)
    for step in exchanges:
        starts.append(end)
        end = aligned(end + bytes_of(step.value.type), PLACE_ALIGNMENT)
    return Places(tuple(starts), end)
