"""What is packed, and what a packing is: no IR here.

The dynamic storage allocation problem of Mirage's document "The CUDA Transpiler", "Memory
Planning": buffers with lifetimes get offsets such that those that meet in time do not meet in
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mugraph.passes.memory.lifetimes import Lifetime


class Request(NamedTuple):
    """A buffer of ``size`` bytes, alive in the regions of ``lifetime``.

    ``alignment`` in bytes is what its offset must be a multiple of, beside the alignment that all
    buffers of a plan have.
    """

    size: int
    lifetime: Lifetime
    alignment: int = 1


@dataclass(frozen=True)
class Packing:
    """An offset in bytes a request, and the bytes needed in all."""

    offsets: tuple[int, ...]
    peak: int


def order_of_birth(requests: Sequence[Request]) -> list[int]:
    """The order of their first regions, larger ones first."""
    return sorted(
        range(len(requests)), key=lambda i: (requests[i].lifetime.first, -requests[i].size, i)
    )


def aligned(size: int, alignment: int) -> int:
    """``size`` rounded up to a multiple of ``alignment``."""
    return (size + alignment - 1) // alignment * alignment
