"""Which region each task stands in, for given barriers, so that few bytes are alive at once.

Bytes are reusable after the next barrier, so within a region the order of tasks does not matter,
only which region they are in.  All tasks as early as they may stand, all as late, and two orders
that keep few bytes alive: the assignment of least peak counts, and a lower bound says how good it
is.
An exact search found no better one for any kernel of the cases, workloads and programs
(``benchmarks/results/schedule_times.md``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mugraph.dialects.kn import Phase
from mugraph.passes.schedule.barriers.fewest import Windows
from mugraph.passes.schedule.barriers.model import Barriers, Graph, lifetimes, peak_load


class Assignment(NamedTuple):
    """A region for each task, its peak and a lower bound of every assignment's, in bytes."""

    regions: tuple[int, ...]
    peak: int
    bound: int

    @property
    def is_optimal(self) -> bool:
        """Whether no assignment has a lower peak."""
        return self.peak == self.bound


def lower_bound(graph: Graph, barriers: Barriers, windows: Windows) -> int:
    """Bytes that are alive at once whatever the assignment.

    In each region those of buffers that are surely alive there, and around each task those of all
    buffers that it touches.
    """
    load = [0] * (barriers.regions + 1)
    around = [0] * len(graph.tasks)
    latest = lifetimes(graph, barriers, windows.last)
    earliest = lifetimes(graph, barriers, windows.first)
    for buffer, late, early in zip(graph.buffers, latest, earliest, strict=True):
        if late is None or early is None:
            continue
        for task in set(buffer.touched_by):
            around[task] += buffer.size
        # Made at the latest in late[0], needed at the earliest until early[1].
        if late[0] <= early[1]:
            load[late[0]] += buffer.size
            load[early[1] + 1] -= buffer.size
    best = max(around, default=0)
    current = 0
    for change in load:
        current += change
        best = max(best, current)
    return best


def _kept_readers(
    graph: Graph, barriers: Barriers, windows: Windows
) -> Iterator[tuple[int | None, set[int]]]:
    """Of each buffer the task that makes it, and those that then keep it alive.

    No task makes what is there before it: what the whole loop keeps, or the prologue wrote.
    """
    earliest = lifetimes(graph, barriers, windows.first)
    latest = lifetimes(graph, barriers, windows.last)
    for buffer, *lives in zip(graph.buffers, earliest, latest, strict=True):
        phases = {graph.tasks[task].phase for task in buffer.touched_by}
        is_kept = Phase.LOOP in phases and (
            len(phases) > 1
            or buffer.carried
            or all(life == barriers.range_of(Phase.LOOP) for life in lives)
        )
        if not phases or Phase.BEFORE in phases or (is_kept and graph.iterations > 1):
            yield None, set(buffer.touched_by)
        else:
            maker = buffer.touched_by[0]
            yield maker, {*buffer.touched_by} - {maker}


def _spread(
    graph: Graph, barriers: Barriers, windows: Windows, *, due_first: bool
) -> tuple[int, ...]:
    """An order that keeps few bytes alive, cut evenly into the regions of each phase.

    The next task is always one that adds the fewest bytes, net of those it frees; what frees more
    than it makes stands as early as it may.  ``due_first``: of those whose last region comes first.
    """
    every = range(len(graph.tasks))
    waits: list[dict[int, int]] = [{} for _ in every]
    for dependence in graph.active_dependences:
        before, after = dependence.before, dependence.after
        gap = dependence.gap(barriers.loop)
        if (gap == 1 and before != after) or (gap == 0 and before < after):
            waits[after][before] = max(gap, waits[after].get(before, 0))
    makes = [0 for _ in every]
    kept: list[tuple[int, set[int]]] = []
    for buffer, (maker, readers) in zip(
        graph.buffers, _kept_readers(graph, barriers, windows), strict=True
    ):
        kept.append((buffer.size, readers))
        if maker is not None:
            makes[maker] += buffer.size
    totals = {phase: sum(task.phase is phase for task in graph.tasks) for phase in Phase}
    ranks = dict.fromkeys(Phase, 0)
    regions = list(windows.first)
    left = set(every)

    def growth(task: int) -> int:
        return makes[task] - sum(size for size, readers in kept if readers & left == {task})

    while ready := [task for task in left if left.isdisjoint(waits[task])]:
        due = windows.last if due_first else [0 for _ in every]
        grown, task = min((due[task], growth(task), task) for task in ready)[1:]
        left.remove(task)
        phase = graph.tasks[task].phase
        first, last = barriers.range_of(phase)
        even = first + ranks[phase] * (last - first + 1) // totals[phase]
        ranks[phase] += 1
        earliest = [regions[before] + gap for before, gap in waits[task].items()]
        wanted = max(regions[task], *earliest, even if grown >= 0 else 0)
        regions[task] = min(wanted, windows.last[task])
    return tuple(regions)


def assign_regions(
    graph: Graph, barriers: Barriers, windows: Windows, *, below: int | None = None
) -> Assignment | None:
    """The assignment of least peak that is known; ``None`` where none is below ``below``."""
    bound = lower_bound(graph, barriers, windows)
    if below is not None and bound >= below:
        return None
    best = min(windows, key=lambda regions: peak_load(graph, barriers, regions))
    peak = peak_load(graph, barriers, best)
    for due_first in (True, False):
        if peak > bound:
            spread = _spread(graph, barriers, windows, due_first=due_first)
            if (reached := peak_load(graph, barriers, spread)) < peak:
                best, peak = spread, reached
    return Assignment(best, peak, bound)
