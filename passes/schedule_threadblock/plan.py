"""The choice of a schedule: fewest barriers, least peak memory, or every trade between the two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from mugraph.dialects.kn import Phase
from mugraph.passes.schedule_threadblock.barriers import (
    FewestBarriers,
    fewest_barriers,
    windows,
)
from mugraph.passes.schedule_threadblock.model import Barriers, Graph
from mugraph.passes.schedule_threadblock.regions import (
    EXACT_STEPS,
    assign_regions,
    lower_bound,
)

FRONT_TRIALS = 400
"""How many numbers of barriers the search for all trades may look at."""


class Objective(Enum):
    """What a schedule is chosen for."""

    BARRIERS_FIRST = "barriers-first"
    MEMORY_FIRST = "memory-first"
    PARETO = "pareto"


@dataclass(frozen=True)
class Schedule:
    """Where the tasks of a graph stand, and how good that is.

    A thread arrives at ``executed`` barriers, of which ``barrier_bound`` cannot be avoided;
    ``peak`` bytes are alive in the fullest region, and no schedule with as many barriers has less
    than ``peak_bound``.
    """

    barriers: Barriers
    regions: tuple[int, ...]
    executed: int
    barrier_bound: int
    peak: int
    peak_bound: int

    @property
    def key(self) -> tuple[int, int, Barriers]:
        """Fewer barriers, then less memory, then the same choice every time."""
        return self.executed, self.peak, self.barriers


def _schedule(
    graph: Graph, barriers: Barriers, bound: int, below: int | None, steps: int
) -> Schedule | None:
    limits = windows(graph, barriers)
    if limits is None:
        return None
    found = assign_regions(graph, barriers, limits, below=below, steps=steps)
    if found is None:
        return None
    executed = barriers.executed(graph.iterations)
    return Schedule(barriers, found.regions, executed, bound, found.peak, found.bound)


def least_barriers_schedule(
    graph: Graph, fewest: FewestBarriers | None = None, steps: int = EXACT_STEPS
) -> Schedule:
    """The schedule of least peak among those with the fewest barriers."""
    fewest = fewest or fewest_barriers(graph)
    found = [
        schedule
        for barriers in fewest.choices
        if (schedule := _schedule(graph, barriers, fewest.executed, None, steps)) is not None
    ]
    best = min(found, key=lambda schedule: schedule.key)
    bound = min(schedule.peak_bound for schedule in found)
    return Schedule(
        best.barriers, best.regions, best.executed, best.barrier_bound, best.peak, bound
    )


def _more_barriers(graph: Graph, fewest: FewestBarriers) -> Iterator[Barriers]:
    """Every number of barriers beyond the fewest that could help, fewest executed first."""
    loop_tasks = sum(task.phase is Phase.LOOP for task in graph.tasks)
    late_tasks = sum(task.phase is Phase.AFTER for task in graph.tasks)
    least = fewest.choices[0]
    every = [
        Barriers(before, loop, after)
        for before in (0, 1)
        for loop in range(min(choice.loop for choice in fewest.choices), loop_tasks + 2)
        for after in range(late_tasks + 1)
    ]
    every.sort(key=lambda barriers: (barriers.executed(graph.iterations), barriers))
    for barriers in every:
        if barriers.executed(graph.iterations) > least.executed(graph.iterations):
            yield barriers


def pareto_front(
    graph: Graph, steps: int = EXACT_STEPS, trials: int = FRONT_TRIALS
) -> list[Schedule]:
    """The schedules that no other beats in both barriers and peak, fewest barriers first.

    Ends after ``trials`` numbers of barriers, or where no number of barriers can save more.
    """
    fewest = fewest_barriers(graph)
    front = [least_barriers_schedule(graph, fewest, steps)]
    most = Barriers(
        1,
        sum(task.phase is Phase.LOOP for task in graph.tasks) + 1,
        sum(task.phase is Phase.AFTER for task in graph.tasks),
    )
    limits = windows(graph, most)
    least = 0 if limits is None else lower_bound(graph, most, limits)
    for trial, barriers in enumerate(_more_barriers(graph, fewest)):
        if trial >= trials or front[-1].peak <= least:
            break
        better = _schedule(graph, barriers, fewest.executed, front[-1].peak, steps)
        if better is not None:
            if better.executed == front[-1].executed:
                front.pop()
            front.append(better)
    return front


def choose_schedule(
    graph: Graph, objective: Objective = Objective.BARRIERS_FIRST, steps: int = EXACT_STEPS
) -> Schedule:
    """The schedule that an objective asks for; ``PARETO`` takes the one of fewest barriers."""
    if objective is Objective.MEMORY_FIRST:
        return pareto_front(graph, steps)[-1]
    return least_barriers_schedule(graph, None, steps)
