"""The choice of a schedule: fewest barriers, and what trades more of them for memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mugraph.dialects.kn import Phase
from mugraph.passes.schedule.barriers.fewest import FewestBarriers, fewest_barriers, windows
from mugraph.passes.schedule.barriers.model import Barriers, Graph
from mugraph.passes.schedule.barriers.regions import assign_regions, lower_bound

FRONT_TRIALS = 400
"""How many numbers of barriers the search for all trades may look at."""
MANY_TASKS = 60
"""More than these, of some 30 operators with inputs and outputs, get fewer trials."""
FRUITLESS_TRIALS = 4
"""Beyond ``MANY_TASKS``: how many in a row may save nothing before the search for trades ends."""


class Schedule(NamedTuple):
    """Where the tasks of a graph stand, and how good that is.

    A thread arrives at ``executed`` barriers, of which ``barrier_bound`` cannot be avoided;
    ``peak`` bytes are alive in the fullest region, and no schedule with as many barriers has less
    than ``peak_bound``.  ``is_optimal``: it is proved that no schedule has fewer of one and no more
    of the other.
    """

    barriers: Barriers
    regions: tuple[int, ...]
    executed: int
    barrier_bound: int
    peak: int
    peak_bound: int
    is_optimal: bool

    @property
    def key(self) -> tuple[int, int, Barriers]:
        """Fewer barriers, then less memory, then the same choice every time."""
        return self.executed, self.peak, self.barriers


def _schedule(graph: Graph, barriers: Barriers, bound: int, below: int | None) -> Schedule | None:
    limits = windows(graph, barriers)
    if limits is None:
        return None
    found = assign_regions(graph, barriers, limits, below=below)
    if found is None:
        return None
    executed = barriers.executed(graph.iterations)
    optimal = found.is_optimal and executed == bound
    return Schedule(barriers, found.regions, executed, bound, found.peak, found.bound, optimal)


def least_barriers_schedule(graph: Graph, fewest: FewestBarriers | None = None) -> Schedule:
    """The schedule of least peak that is known among those with the fewest barriers."""
    fewest = fewest or fewest_barriers(graph)
    found = [
        schedule
        for barriers in fewest.choices
        if (schedule := _schedule(graph, barriers, fewest.executed, None)) is not None
    ]
    best = min(found, key=lambda schedule: schedule.key)
    bound = min(schedule.peak_bound for schedule in found)
    return best._replace(peak_bound=bound, is_optimal=best.peak == bound)


def _more_barriers(graph: Graph, fewest: FewestBarriers) -> Iterator[Barriers]:
    """Every number of barriers beyond the fewest that could help, fewest executed first."""
    loop_tasks = sum(task.phase is Phase.LOOP for task in graph.tasks)
    late_tasks = sum(task.phase is Phase.AFTER for task in graph.tasks)
    least = fewest.choices[0]
    loops = range(min(choice.loop for choice in fewest.choices), loop_tasks + 2)
    afters = range(late_tasks + 1)
    befores: Sequence[int] = (0, 1)
    if len(graph.tasks) > MANY_TASKS:
        # What a trial costs grows with the graph: few of them, in the loop above all.
        befores, loops = (least.before,), _thinned(loops)
        afters = sorted({least.after, afters[-1]})
    every = [
        Barriers(before, loop, after) for before in befores for loop in loops for after in afters
    ]
    every.sort(key=lambda barriers: (barriers.executed(graph.iterations), barriers))
    for barriers in every:
        if barriers.executed(graph.iterations) > least.executed(graph.iterations):
            yield barriers


def _thinned(counts: Sequence[int]) -> list[int]:
    """The first of several numbers, and those 1, 2, 4, 8 ... behind it, to the last."""
    places = [0, *(1 << power for power in range(len(counts).bit_length()))]
    return sorted({counts[place] for place in places if place < len(counts)} | {counts[-1]})


def improvements(graph: Graph) -> Iterator[Schedule]:
    """Schedules of ever more barriers and ever less memory, that of fewest barriers first.

    Ends after ``FRONT_TRIALS`` numbers of barriers, or where no number of barriers can save more.
    For graphs beyond ``MANY_TASKS`` only numbers at doubling distances are looked at, and no
    further than ``FRUITLESS_TRIALS`` of them that save nothing.
    """
    fewest = fewest_barriers(graph)
    last = least_barriers_schedule(graph, fewest)
    yield last
    is_small = len(graph.tasks) <= MANY_TASKS
    most = Barriers(
        1,
        sum(task.phase is Phase.LOOP for task in graph.tasks) + 1,
        sum(task.phase is Phase.AFTER for task in graph.tasks),
    )
    limits = windows(graph, most)
    least = 0 if limits is None else lower_bound(graph, most, limits)
    proved = last.is_optimal and is_small
    fruitless = 0
    for trial, barriers in enumerate(_more_barriers(graph, fewest)):
        gives_up = not is_small and fruitless == FRUITLESS_TRIALS
        if trial >= FRONT_TRIALS or last.peak <= least or gives_up:
            return
        fruitless += 1
        better = _schedule(graph, barriers, fewest.executed, last.peak)
        if better is None:
            continue
        proved = proved and better.peak == better.peak_bound
        if better.peak < last.peak:
            last = better._replace(is_optimal=proved)
            fruitless = 0
            yield last
