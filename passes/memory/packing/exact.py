"""Exact packing by branch and bound, with a limit on steps and never on time.

The search asks whether a plan of at most ``capacity`` units exists.  Every plan can be pushed down
until each buffer rests on the ground or on another; of those with the least sum of offsets the
search looks for one, placing buffers in the order of their offsets:

- each buffer goes to the lowest offset above all that is placed in its sections (its *floor*);
- offsets never fall, and of equal offsets the buffers come in one fixed order;
- a buffer is not placed where one that is still missing would fit entirely below it: that one
  could be moved down, so the plan would not have the least sum;
- a section needs its floor, and at least the last offset, plus all that it still misses;
- of equal buffers the first comes first.

Canonical solutions and their dominance are those of MiniMalloc (Moffitt, ASPLOS 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from mugraph.passes.memory.packing.allocate import aligned
from mugraph.passes.memory.packing.bounds import Instance, neighbours_of
from mugraph.passes.memory.packing.improve import Steps


class Answer(Enum):
    """What a search found out."""

    FOUND = "found"
    IMPOSSIBLE = "impossible"
    LIMIT_REACHED = "limit reached"


class SearchResult(NamedTuple):
    """The answer, and the offsets in units where a plan was found."""

    answer: Answer
    offsets: tuple[int, ...] = ()


class _Placement(NamedTuple):
    """A step of the search that can be taken back."""

    buffer: int
    last_offset: int
    last_rank: int
    floors: tuple[int, ...]
    lifted: tuple[tuple[int, int], ...]


class _Search:
    """The state of one search: floors by section, and the lowest offset of every missing buffer."""

    def __init__(self, instance: Instance, capacity: int, order: Sequence[int]) -> None:
        self.instance = instance
        self.capacity = capacity
        self.rank = [0] * len(order)
        for position, buffer in enumerate(order):
            self.rank[buffer] = position
        self.missing = list(order)
        self.floors = [0] * len(instance.sections)
        self.needed = [
            sum(instance.sizes[buffer] for buffer in section) for section in instance.sections
        ]
        self.lowest = [0] * len(order)
        self.offsets = [0] * len(order)
        self.last_offset = 0
        self.last_rank = -1
        self.neighbours = neighbours_of(instance)
        self.twins = _twins(instance, order)

    def is_hopeless(self) -> bool:
        """Whether some section cannot take what it misses, or some buffer no longer fits."""
        last, capacity = self.last_offset, self.capacity
        for floor, needed in zip(self.floors, self.needed, strict=True):
            if needed and (floor if floor > last else last) + needed > capacity:
                return True
        sizes, lowest = self.instance.sizes, self.lowest
        return any(lowest[buffer] + sizes[buffer] > capacity for buffer in self.missing)

    def candidates(self) -> list[int]:
        """The buffers that may come next, those at lower offsets first."""
        sizes, lowest = self.instance.sizes, self.lowest
        ceiling = min(lowest[buffer] + sizes[buffer] for buffer in self.missing)
        if ceiling <= self.last_offset:
            return []
        is_missing = set(self.missing)
        found = [
            buffer
            for buffer in self.missing
            if self.last_offset <= lowest[buffer] < ceiling
            and (lowest[buffer] > self.last_offset or self.rank[buffer] > self.last_rank)
            and self.twins[buffer] not in is_missing
        ]
        found.sort(key=lambda buffer: (lowest[buffer], self.rank[buffer]))
        return found

    def place(self, buffer: int) -> _Placement:
        """Puts a buffer at its lowest offset."""
        first, last = self.instance.spans[buffer]
        size = self.instance.sizes[buffer]
        offset = self.lowest[buffer]
        end = offset + size
        undo = _Placement(
            buffer,
            self.last_offset,
            self.last_rank,
            tuple(self.floors[first : last + 1]),
            self._lift(buffer, end),
        )
        for section in range(first, last + 1):
            self.floors[section] = end
            self.needed[section] -= size
        self.offsets[buffer] = offset
        self.last_offset, self.last_rank = offset, self.rank[buffer]
        self.missing.remove(buffer)
        return undo

    def _lift(self, buffer: int, end: int) -> tuple[tuple[int, int], ...]:
        """Raises the lowest offsets of all buffers that meet one, in the order of their index."""
        lifted: list[tuple[int, int]] = []
        alignments = self.instance.alignments
        for other in self.neighbours[buffer]:
            if self.lowest[other] < end:
                lifted.append((other, self.lowest[other]))
                self.lowest[other] = aligned(end, alignments[other])
        return tuple(lifted)

    def take_back(self, undo: _Placement) -> None:
        """Undoes the latest placement."""
        first, last = self.instance.spans[undo.buffer]
        size = self.instance.sizes[undo.buffer]
        self.floors[first : last + 1] = undo.floors
        for section in range(first, last + 1):
            self.needed[section] += size
        for other, before in undo.lifted:
            self.lowest[other] = before
        self.last_offset, self.last_rank = undo.last_offset, undo.last_rank
        self.missing.append(undo.buffer)


def _twins(instance: Instance, order: Sequence[int]) -> list[int]:
    """For each buffer the one before it in order that equals it, or -1."""
    latest: dict[tuple[int, int, tuple[int, int]], int] = {}
    twins = [-1] * len(order)
    for buffer in order:
        key = (instance.sizes[buffer], instance.alignments[buffer], instance.spans[buffer])
        twins[buffer] = latest.get(key, -1)
        latest[key] = buffer
    return twins


def search(instance: Instance, capacity: int, order: Sequence[int], steps: Steps) -> SearchResult:
    """Looks for a plan of at most ``capacity`` units, trying buffers in ``order`` at equal offsets.

    Each placement takes as many of ``steps`` as there are buffers; when they are used up the answer
    is ``LIMIT_REACHED``.
    """
    state = _Search(instance, capacity, order)
    if state.is_hopeless():
        return SearchResult(Answer.IMPOSSIBLE)
    if not state.missing:
        return SearchResult(Answer.FOUND, ())
    trail: list[_Placement] = []
    choices = [iter(state.candidates())]
    while choices:
        buffer = next(choices[-1], None)
        if buffer is None:
            choices.pop()
            if trail:
                state.take_back(trail.pop())
            continue
        if not steps.take(len(order)):
            return SearchResult(Answer.LIMIT_REACHED)
        trail.append(state.place(buffer))
        if not state.missing:
            return SearchResult(Answer.FOUND, tuple(state.offsets))
        if state.is_hopeless():
            state.take_back(trail.pop())
        else:
            choices.append(iter(state.candidates()))
    return SearchResult(Answer.IMPOSSIBLE)
