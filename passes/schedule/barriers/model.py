"""A kernel as the choice of its schedule sees it: tasks, buffers and dependences, with no IR.

A schedule puts every task into a *region*: what lies between two barriers.  Regions are numbered
through the text of the kernel, before the loop, in it and after it.  The last region before the
loop and the first in it are one, and so are the last in the loop and the first after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from mugraph.dialects.kn import Phase


class Task(NamedTuple):
    """Operators that stay together, in one phase of the kernel.

    ``latest`` bounds the barriers of its phase that may stand before it.
    """

    name: str
    phase: Phase
    latest: int | None = None


class Dependence(NamedTuple):
    """Task ``after`` must find ``before`` done.

    ``crosses``: some thread depends on what another one did, so that a barrier must stand between
    the two; otherwise their order in the text is enough.  ``distance`` is the number of whole
    iterations of the loop between the two: 1 from an iteration to the next.  ``why`` names it.
    """

    before: int
    after: int
    crosses: bool
    distance: int = 0
    why: str = ""

    def gap(self, loop_barriers: int) -> int:
        """How many regions ``after`` must stand behind ``before`` in the text, at least."""
        return int(self.crosses) - self.distance * loop_barriers


class Buffer(NamedTuple):
    """Bytes of shared memory that some tasks touch, in the order of the text.

    ``carried``: it holds a value from one iteration to the next.
    """

    name: str
    size: int
    touched_by: tuple[int, ...]
    carried: bool = False


@dataclass(frozen=True)
class Graph:
    """What is to be scheduled; ``iterations`` of the loop.

    Tasks stand in an order that every dependence without distance agrees with.
    """

    tasks: tuple[Task, ...]
    dependences: tuple[Dependence, ...]
    buffers: tuple[Buffer, ...] = ()
    iterations: int = 1

    @cached_property
    def active_dependences(self) -> tuple[Dependence, ...]:
        """Those that the loop is long enough to have."""
        loop = Phase.LOOP
        return tuple(
            dependence
            for dependence in self.dependences
            if dependence.distance < self.iterations
            or self.tasks[dependence.before].phase is not loop
            or self.tasks[dependence.after].phase is not loop
        )

    @cached_property
    def successors(self) -> tuple[tuple[Dependence, ...], ...]:
        """Of each task the active dependences on it."""
        found: list[list[Dependence]] = [[] for _ in self.tasks]
        for dependence in self.active_dependences:
            found[dependence.before].append(dependence)
        return tuple(map(tuple, found))

    @cached_property
    def predecessors(self) -> tuple[tuple[Dependence, ...], ...]:
        """Of each task its active dependences on others."""
        found: list[list[Dependence]] = [[] for _ in self.tasks]
        for dependence in self.active_dependences:
            found[dependence.after].append(dependence)
        return tuple(map(tuple, found))


@dataclass(frozen=True, order=True)
class Barriers:
    """How many barriers stand before the loop, in its body and after it."""

    before: int
    loop: int
    after: int

    def executed(self, iterations: int) -> int:
        """How often a thread arrives at a barrier."""
        return self.before + self.loop * iterations + self.after

    @property
    def regions(self) -> int:
        """The number of regions in the text."""
        return self.before + self.loop + self.after + 1

    def range_of(self, phase: Phase) -> tuple[int, int]:
        """The first and the last region of a phase."""
        if phase is Phase.BEFORE:
            return 0, self.before
        if phase is Phase.LOOP:
            return self.before, self.before + self.loop
        return self.before + self.loop, self.before + self.loop + self.after


def lifetime(
    graph: Graph, barriers: Barriers, regions: Sequence[int], buffer: Buffer
) -> tuple[int, int] | None:
    """First and last region of a buffer, both included; ``None`` where nothing touches it.

    A buffer that each iteration writes before it reads, and that nothing outside the loop touches,
    lives from its first to its last use in an iteration, unless that is before the loop's first
    barrier: that region runs on from the last one of the iteration before.  Any other buffer that
    the loop touches lives for the whole loop.
    """
    touched_by = buffer.touched_by
    if not touched_by:
        return None
    places = [regions[task] for task in touched_by]
    first, last = min(places), max(places)
    if graph.iterations == 1:
        return first, last
    loop_first, loop_last = barriers.range_of(Phase.LOOP)
    inside = [graph.tasks[task].phase is Phase.LOOP for task in touched_by]
    if not any(inside):
        return first, last
    stays = all(inside) and not buffer.carried and loop_first not in places
    return (first, last) if stays else (min(first, loop_first), max(last, loop_last))


def lifetimes(
    graph: Graph, barriers: Barriers, regions: Sequence[int]
) -> list[tuple[int, int] | None]:
    """The :func:`lifetime` of every buffer."""
    return [lifetime(graph, barriers, regions, buffer) for buffer in graph.buffers]


def peak_load(graph: Graph, barriers: Barriers, regions: Sequence[int]) -> int:
    """The most bytes alive in one region."""
    load = [0] * (barriers.regions + 1)
    for buffer, life in zip(graph.buffers, lifetimes(graph, barriers, regions), strict=True):
        if life is not None:
            load[life[0]] += buffer.size
            load[life[1] + 1] -= buffer.size
    peak = current = 0
    for change in load:
        current += change
        peak = max(peak, current)
    return peak
