"""The fewest barriers: a pure function of a graph, with the dependences that force them.

*Straight code.*  Along a chain of dependences every crossing one needs a barrier of its own, so a
chain with the most crossings is a lower bound.  Giving every task the number of crossings on the
worst chain that ends in it, its region, meets the bound: every crossing dependence leads to a
later region.

*The loop.*  Between a task and one that depends on it ``d`` iterations later there are
``region(after) - region(before) + d * K`` barriers, K being those of the body.  All dependences
together are a system of difference constraints, ``region(after) >= region(before) + crosses -
d * K``, with every region between the first and the last of the body.  Such a system has a
solution exactly if no cycle of constraints adds up to more than nothing, that is if every cycle
with W crossings that spans D iterations has ``W <= K * D``; going from the end of the body to its
start counts as an iteration.  So K is the largest ``ceil(W / D)`` over all cycles, and no loop with
fewer barriers in its body is right: this is the longest chain wound round the loop.

The bound is for loops whose tasks stay in their iteration and whose wait for an iteration's tiles
stands in that iteration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from mugraph.dialects.kn import Phase
from mugraph.passes.schedule.barriers.model import Barriers, Dependence, Graph


class Witness(NamedTuple):
    """Dependences in a row that need ``crossings`` barriers in ``iterations`` iterations."""

    dependences: tuple[Dependence, ...]
    crossings: int
    iterations: int

    @property
    def bound(self) -> int:
        """The barriers that each iteration, or the straight code, must have."""
        return -(-self.crossings // self.iterations)


class Windows(NamedTuple):
    """The first and the last region that each task can have."""

    first: tuple[int, ...]
    last: tuple[int, ...]


class FewestBarriers(NamedTuple):
    """All ways to have the fewest barriers, and what forces them.

    ``loop`` and ``straight`` are the chains behind the barriers of the body and those outside.
    """

    executed: int
    choices: tuple[Barriers, ...]
    loop: Witness | None
    straight: Witness | None


class _Constraints:
    """``region(after) >= region(before) + gap`` for all dependences, for one K."""

    def __init__(self, graph: Graph, loop_barriers: int) -> None:
        self.graph, self.loop_barriers = graph, loop_barriers

    def least(
        self, lower: Sequence[int], upper: Sequence[int]
    ) -> tuple[list[int], list[Dependence | None], int | None]:
        """The least solution above ``lower``, what forces each region, and who exceeds ``upper``.

        Ends at the first task that has no place.
        """
        places = list(lower)
        forced_by: list[Dependence | None] = [None] * len(places)
        queue = deque(range(len(places)))
        waiting = [True] * len(places)
        while queue:
            task = queue.popleft()
            waiting[task] = False
            for dependence in self.graph.successors[task]:
                after = dependence.after
                place = places[task] + dependence.gap(self.loop_barriers)
                if place > places[after]:
                    places[after] = place
                    forced_by[after] = dependence
                    if places[after] > upper[after]:
                        return places, forced_by, after
                    if not waiting[after]:
                        waiting[after] = True
                        queue.append(after)
        return places, forced_by, None

    def greatest(self, lower: Sequence[int], upper: Sequence[int]) -> list[int] | None:
        """The greatest solution below ``upper``; ``None`` where it falls below ``lower``."""
        places = list(upper)
        queue = deque(reversed(range(len(places))))
        waiting = [True] * len(places)
        while queue:
            task = queue.popleft()
            waiting[task] = False
            for dependence in self.graph.predecessors[task]:
                before = dependence.before
                place = places[task] - dependence.gap(self.loop_barriers)
                if place < places[before]:
                    places[before] = place
                    if places[before] < lower[before]:
                        return None
                    if not waiting[before]:
                        waiting[before] = True
                        queue.append(before)
        return places


def _limits(graph: Graph, barriers: Barriers) -> tuple[list[int], list[int]]:
    lower: list[int] = []
    upper: list[int] = []
    for task in graph.tasks:
        first, last = barriers.range_of(task.phase)
        if task.phase is Phase.BEFORE:
            last = first
        if task.latest is not None:
            last = min(last, first + task.latest)
        lower.append(first)
        upper.append(last)
    return lower, upper


def windows(graph: Graph, barriers: Barriers) -> Windows | None:
    """Where each task can stand; ``None`` where there are too few barriers.

    In a loop, the region before the first barrier is left to the tasks that have no other place.
    """
    constraints = _Constraints(graph, barriers.loop)
    lower, upper = _limits(graph, barriers)
    last = constraints.greatest(lower, upper)
    if last is None:
        return None
    if barriers.loop and graph.iterations > 1:
        start = barriers.before
        for index, task in enumerate(graph.tasks):
            if task.phase is Phase.LOOP and last[index] > start:
                lower[index] = start + 1
    first, _, failed = constraints.least(lower, last)
    if failed is not None:
        return None
    last = constraints.greatest(first, last)
    return None if last is None else Windows(tuple(first), tuple(last))


def _chain(forced_by: Sequence[Dependence | None], end: int) -> list[Dependence]:
    """The dependences that force a task's region, first one first; of a cycle one round."""
    chain: list[Dependence] = []
    seen: dict[int, int] = {}
    task = end
    while task not in seen:
        dependence = forced_by[task]
        if dependence is None:
            return chain[::-1]
        seen[task] = len(chain)
        chain.append(dependence)
        task = dependence.before
    return chain[seen[task] :][::-1]


def _loop_bound(graph: Graph) -> tuple[int, Witness | None]:
    """The fewest barriers of the loop's body, and a chain or cycle that needs them."""
    witness: Witness | None = None
    barriers = 0
    while True:
        trial = Barriers(1, barriers, len(graph.tasks))
        constraints = _Constraints(graph, barriers)
        lower, upper = _limits(graph, trial)
        # What comes after the loop takes no part.
        for index, task in enumerate(graph.tasks):
            if task.phase is Phase.AFTER:
                lower[index], upper[index] = 0, 10 * len(graph.tasks) + 10
        _, forced_by, failed = constraints.least(lower, upper)
        if failed is None:
            return barriers, witness
        if barriers > len(graph.tasks) + 1:
            raise ValueError("tasks depend on each other in a circle, within one iteration")
        chain = _chain(forced_by, failed)
        crossings = sum(dependence.crosses for dependence in chain)
        closes = chain[0].before == chain[-1].after
        spanned = sum(dependence.distance for dependence in chain) + (0 if closes else 1)
        witness = Witness(tuple(chain), crossings, spanned)
        barriers = max(barriers + 1, witness.bound)


def _after_loop(graph: Graph, before: int, loop: int) -> tuple[int, Witness | None] | None:
    """The fewest barriers after the loop, given those before and in it, and what needs them."""
    constraints = _Constraints(graph, loop)
    lower, upper = _limits(graph, Barriers(before, loop, len(graph.tasks) + 1))
    places, forced_by, failed = constraints.least(lower, upper)
    if failed is not None:
        return None
    start = before + loop
    late = [
        (places[index] - start, index)
        for index, task in enumerate(graph.tasks)
        if task.phase is Phase.AFTER
    ]
    after, end = max(late, default=(0, -1), key=lambda item: (item[0], -item[1]))
    if after == 0:
        return 0, None
    chain = _chain(forced_by, end)
    crossings = sum(dependence.crosses for dependence in chain)
    return after, Witness(tuple(chain), crossings, 1)


def _chain_after(graph: Graph) -> int:
    """The longest chain of crossing dependences among the tasks after the loop alone."""
    depth = [0] * len(graph.tasks)
    for dependence in sorted(graph.dependences, key=lambda item: item.after):
        both = (graph.tasks[dependence.before].phase, graph.tasks[dependence.after].phase)
        if both == (Phase.AFTER, Phase.AFTER):
            reached = depth[dependence.before] + dependence.crosses
            depth[dependence.after] = max(depth[dependence.after], reached)
    return max(depth, default=0)


def fewest_barriers(graph: Graph) -> FewestBarriers:
    """The fewest barriers that a thread can arrive at, with every way to have so few."""
    least, loop_witness = _loop_bound(graph)
    least_after = _chain_after(graph)
    best: int | None = None
    choices: list[Barriers] = []
    straight: Witness | None = None
    loop = least
    has_loop = any(task.phase is Phase.LOOP for task in graph.tasks)
    # One barrier more in the body costs one an iteration and cannot save more than the rest has.
    while best is None or (has_loop and loop * graph.iterations + least_after <= best):
        for before in (0, 1) if has_loop else (0,):
            found = _after_loop(graph, before, loop)
            if found is None:
                continue
            barriers = Barriers(before, loop, found[0])
            if windows(graph, barriers) is None:
                continue
            executed = barriers.executed(graph.iterations)
            if best is None or executed < best:
                best, choices, straight = executed, [], found[1]
            if executed == best:
                choices.append(barriers)
        loop += 1
    return FewestBarriers(best, tuple(choices), loop_witness, straight)
