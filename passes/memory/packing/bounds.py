"""A lower bound on the bytes that any plan needs, and the instance in the form that it reads.

A plan's peak is at least the load of every region: the sizes of all buffers alive in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from mugraph.passes.memory.packing.allocate import Request, aligned


class Instance(NamedTuple):
    """Buffers in units of bytes, and the sections in which they meet.

    ``sizes``, and ``alignments`` of offsets, are in units of ``unit`` bytes.  ``sections`` are the
    largest sets of buffers that live at the same time, in order of time: two buffers must be apart
    exactly where some section has both.  ``spans`` are the first and last section of each buffer.
    """

    unit: int
    sizes: tuple[int, ...]
    alignments: tuple[int, ...]
    sections: tuple[tuple[int, ...], ...]
    spans: tuple[tuple[int, int], ...]


def live_sets(requests: Sequence[Request]) -> list[frozenset[int]]:
    """The largest sets of requests alive at once, in order of time; none contains another."""
    starts = sorted({request.lifetime.first for request in requests})
    found: list[frozenset[int]] = []
    for region in starts:
        alive = frozenset(
            index
            for index, request in enumerate(requests)
            if request.lifetime.first <= region <= request.lifetime.last
        )
        # Buffers are born at every start, so that only an earlier set can be contained.
        if found and found[-1] <= alive:
            found[-1] = alive
        else:
            found.append(alive)
    return found


def instance_of(requests: Sequence[Request], alignment: int) -> Instance:
    """The instance of requests that all start at multiples of ``alignment`` bytes."""
    sizes = [aligned(request.size, alignment) for request in requests]
    steps = [math.lcm(alignment, request.alignment) for request in requests]
    unit = math.gcd(*sizes, *steps) or 1
    sections = live_sets(requests)
    spans = [(len(sections), -1)] * len(requests)
    for position, section in enumerate(sections):
        for index in section:
            first, last = spans[index]
            spans[index] = (min(first, position), max(last, position))
    return Instance(
        unit,
        tuple(size // unit for size in sizes),
        tuple(step // unit for step in steps),
        tuple(tuple(sorted(section)) for section in sections),
        tuple(spans),
    )


def neighbours_of(instance: Instance) -> list[list[int]]:
    """Which other buffers share a section with each, in order."""
    found: list[set[int]] = [set() for _ in instance.sizes]
    for section in instance.sections:
        for buffer in section:
            found[buffer].update(section)
    return [sorted(others - {buffer}) for buffer, others in enumerate(found)]


def max_load(instance: Instance) -> int:
    """The most units alive at once."""
    return max(
        (sum(instance.sizes[index] for index in section) for section in instance.sections),
        default=0,
    )
