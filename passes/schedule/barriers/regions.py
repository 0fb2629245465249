"""Which region each task stands in: least peak memory for given barriers, exactly.

Bytes are reusable after the next barrier, so within a region the order of tasks does not matter,
only which region they are in.  What a region needs is then known from two sets, the tasks done
before it and the tasks done with it: the buffers alive at its start, and those made in it.

The search asks whether a number of bytes suffices, goes through the regions depth first over these
sets (down-sets of the dependences), and remembers those that have led nowhere.  It leaves out sets
to which a task could be added that frees at least what it makes: done at once it is never in the
way.  Asking for capacities between a lower bound and the best assignment known closes the gap
between the two.  The number of steps is bounded; where they run out the best assignment is returned
with the bound that was reached.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from mugraph.dialects.kn import Phase
from mugraph.passes.schedule.barriers.fewest import Windows
from mugraph.passes.schedule.barriers.model import Barriers, Graph, lifetime, lifetimes, peak_load

EXACT_STEPS = 1_000_000
"""How many partial choices of a region's tasks the exact search may look at."""
EXACT_TASKS = 60
"""Graphs of more tasks get a twentieth of the steps: some 30 operators with inputs and outputs."""
IMPROVEMENT_STEPS = 20_000
"""How many moves of one task the local search may try."""


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


class _Region(NamedTuple):
    """What of a region does not depend on the tasks done before it; sets are bits."""

    tasks: list[int]
    """Those that may stand in it or before it."""
    due: int
    """Those that may not stand behind it."""
    kept: int
    """Bytes that are alive whatever has been done."""
    alive_while_read: list[tuple[int, int, int]]
    """Of other buffers the bytes, the task that makes them, if any, and those that read."""


class _Line:
    """The problem as the search uses it: tasks along one line of regions, sets as bits."""

    def __init__(self, graph: Graph, barriers: Barriers, windows: Windows) -> None:
        self.graph, self.barriers, self.windows = graph, barriers, windows
        count = len(graph.tasks)
        self.weak = [0] * count
        self.strict = [0] * count
        for dependence in graph.active_dependences:
            gap = dependence.gap(barriers.loop)
            if dependence.before == dependence.after:
                continue
            if gap == 1:
                self.strict[dependence.after] |= 1 << dependence.before
            elif gap == 0 and dependence.before < dependence.after:
                self.weak[dependence.after] |= 1 << dependence.before
        lives = lifetimes(graph, barriers, windows.first)
        late = lifetimes(graph, barriers, windows.last)
        # (size, task that makes it or -1, first region where no task makes it, tasks that read,
        #  last region in which it is alive in any case)
        self.makes = [0] * count
        self.reads: list[list[int]] = [[] for _ in range(count)]
        self.buffers: list[tuple[int, int, int, int, int]] = []
        loop_first, loop_last = barriers.range_of(Phase.LOOP)
        for buffer, early, latest in zip(graph.buffers, lives, late, strict=True):
            if early is None or latest is None:
                continue
            first = buffer.touched_by[0]
            mask = 0
            for task in buffer.touched_by:
                mask |= 1 << task
            phases = {graph.tasks[task].phase for task in buffer.touched_by}
            whole_loop = graph.iterations > 1 and (
                (phases != {Phase.LOOP} and Phase.LOOP in phases)
                or (
                    Phase.LOOP in phases
                    and (buffer.carried or early == latest == (loop_first, loop_last))
                )
            )
            for task in set(buffer.touched_by):
                self.reads[task].append(len(self.buffers))
            if whole_loop:
                start = min(early[0], loop_first)
                self.buffers.append((buffer.size, -1, start, mask, loop_last))
            elif Phase.BEFORE in phases:
                self.buffers.append((buffer.size, -1, early[0], mask, -1))
            else:
                self.makes[first] += buffer.size
                self.reads[first].pop()
                self.buffers.append((buffer.size, first, -1, mask & ~(1 << first), -1))

    @cached_property
    def regions(self) -> list[_Region]:
        """What the search asks of each region again and again."""
        tasks = range(len(self.graph.tasks))
        first, last = self.windows
        found: list[_Region] = []
        for region in range(self.barriers.regions):
            kept = 0
            alive_while_read: list[tuple[int, int, int]] = []
            for size, maker, start, readers, until in self.buffers:
                if maker >= 0:
                    alive_while_read.append((size, 1 << maker, readers))
                elif start <= region <= until:
                    kept += size
                elif start <= region:
                    alive_while_read.append((size, 0, readers))
            tasks_so_far = [task for task in tasks if first[task] <= region]
            due = sum(1 << task for task in tasks if last[task] == region)
            found.append(_Region(tasks_so_far, due, kept, alive_while_read))
        return found

    def alive_at_start(self, done: int, region: int) -> int:
        """Bytes that region ``region`` finds alive, ``done`` being the tasks before it."""
        here, open_ = self.regions[region], ~done
        total = here.kept
        for size, maker, readers in here.alive_while_read:
            if readers & open_ and not maker & open_:
                total += size
        return total


@dataclass
class _Budget:
    """How many steps are left."""

    steps: int


class _Search:
    """Is there an assignment with no more than ``capacity`` bytes in any region?

    Depth first through the regions; a pair of a region and a set of tasks done that has led nowhere
    is not entered again.
    """

    def __init__(self, line: _Line, capacity: int, budget: _Budget) -> None:
        self.line, self.capacity, self.budget = line, capacity, budget
        self.dead: set[tuple[int, int]] = set()
        self.count = len(line.graph.tasks)

    def run(self) -> list[int] | None:
        """An assignment, or ``None``; where the budget is spent by then, nothing is proved."""
        stack = [iter([0])]
        history: list[int] = []
        while stack:
            region = len(stack) - 1
            reached = next(stack[-1], None)
            if self.budget.steps < 0:
                return None
            if reached is None:
                stack.pop()
                if history:
                    self.dead.add((region, history.pop()))
                continue
            if (region, reached) in self.dead:
                continue
            if region == self.line.barriers.regions:
                return self._regions([*history, reached])
            history.append(reached)
            stack.append(self._choices(region, reached))
        return None

    def _regions(self, history: Sequence[int]) -> list[int]:
        regions = [0] * self.count
        for region, (before, after) in enumerate(pairwise(history)):
            for task in range(self.count):
                if (after & ~before) >> task & 1:
                    regions[task] = region
        return regions

    def _choices(self, region: int, done: int) -> Iterator[int]:
        """The sets of tasks that may be done when a region is left, many tasks first."""
        line, windows, capacity = self.line, self.line.windows, self.capacity
        base = line.alive_at_start(done, region)
        if base > capacity:
            return
        here, open_, strict = line.regions[region], ~done, line.strict
        candidates = [task for task in here.tasks if open_ >> task & 1 and not strict[task] & open_]
        due = here.due & open_
        options = [
            (1 << task, line.weak[task], line.makes[task], windows.last[task] == region)
            for task in candidates
        ]
        stack = [(0, done, base)]
        while stack:
            position, reached, load = stack.pop()
            while True:
                self.budget.steps -= 1
                if self.budget.steps < 0:
                    return
                if position == len(options):
                    if not due & ~reached and not self._lacks(candidates, region, reached, load):
                        yield reached
                    break
                bit, before, makes, must = options[position]
                position += 1
                if not before & ~reached and load + makes <= capacity:
                    if not must:
                        stack.append((position, reached, load))
                    reached |= bit
                    load += makes
                elif must:
                    break

    def _lacks(self, candidates: Sequence[int], region: int, reached: int, load: int) -> bool:
        """Whether a task left for later would fit here and free at least what it makes.

        Doing it here is never worse: nothing it waits for is still to come, and from the next
        region on it keeps no more bytes than it frees.
        """
        line = self.line
        for task in candidates:
            bit = 1 << task
            if reached & bit or line.weak[task] & ~reached:
                continue
            made = line.makes[task]
            if load + made > self.capacity:
                continue
            freed = 0
            for buffer in line.reads[task]:
                size, _, _, readers, until = line.buffers[buffer]
                if not readers & ~(reached | bit) and until <= region:
                    freed += size
            if freed >= made:
                return True
        return False


def _close_gap(
    line: _Line, regions: list[int], peak: int, bound: int, steps: int
) -> tuple[list[int], int, int]:
    """Brings peak and lower bound together by asking for capacities between the two."""
    units = sorted({buffer.size for buffer in line.graph.buffers if buffer.size})
    unit = math.gcd(*units) if units else 1
    share = max(steps // 16, 1)
    ceiling = peak
    while bound < peak and steps > 0:
        if bound >= ceiling:
            # All that is left has been too hard for this share: try again with a larger one.
            share, ceiling = 2 * share, peak
        middle = max(bound, (bound + ceiling - unit) // 2 // unit * unit)
        budget = _Budget(min(share, steps))
        found = _Search(line, middle, budget).run()
        steps -= min(share, steps) - max(budget.steps, 0)
        if found is not None:
            needed = peak_load(line.graph, line.barriers, found)
            if needed >= peak:
                # The search counts a buffer from the first task that is listed for it.  Where
                # another stands in a region before, more is needed than was asked for.
                break
            regions, peak, ceiling = found, needed, needed
        elif budget.steps < 0:
            # Too hard to decide: smaller capacities are easier to rule out.
            ceiling = middle
        else:
            bound = min(peak, (middle // unit + 1) * unit)
    return regions, peak, bound


def _late_makers(line: _Line) -> list[int]:
    """Every task as late as its readers allow, but those that make no buffer as soon as they can.

    One of the assignments that the search starts from.
    """
    graph, windows = line.graph, line.windows
    regions = list(windows.last)
    for task in range(len(graph.tasks)):
        if line.makes[task]:
            continue
        earliest = windows.first[task]
        for mask, gap in ((line.strict[task], 1), (line.weak[task], 0)):
            other = 0
            while mask:
                if mask & 1:
                    earliest = max(earliest, regions[other] + gap)
                mask >>= 1
                other += 1
        regions[task] = min(earliest, windows.last[task])
    return regions


def _spread(line: _Line) -> list[int]:
    """An order that keeps few bytes alive, cut evenly into the regions of each phase.

    The next task is always one that adds the fewest bytes, net of those it frees.
    """
    graph, windows = line.graph, line.windows
    count = len(graph.tasks)
    remaining = [0] * len(line.buffers)
    for reads in line.reads:
        for buffer in reads:
            remaining[buffer] += 1
    waits = [(line.weak[task] | line.strict[task]).bit_count() for task in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for task in range(count):
        mask = line.weak[task] | line.strict[task]
        while mask:
            before = (mask & -mask).bit_length() - 1
            after[before].append(task)
            mask &= mask - 1
    totals = {phase: sum(task.phase is phase for task in graph.tasks) for phase in Phase}
    ranks = dict.fromkeys(Phase, 0)
    regions = list(windows.first)
    ready = [task for task in range(count) if not waits[task]]

    readers: list[list[int]] = [[] for _ in line.buffers]
    for task, reads in enumerate(line.reads):
        for buffer in reads:
            readers[buffer].append(task)
    grows = [
        makes - sum(line.buffers[buffer][0] for buffer in reads if remaining[buffer] == 1)
        for makes, reads in zip(line.makes, line.reads, strict=True)
    ]

    def growth(task: int) -> tuple[int, int, int]:
        return windows.last[task], grows[task], task

    while ready:
        task = min(ready, key=growth)
        ready.remove(task)
        for buffer in line.reads[task]:
            remaining[buffer] -= 1
            if remaining[buffer] == 1:
                for reader in readers[buffer]:
                    grows[reader] -= line.buffers[buffer][0]
        phase = graph.tasks[task].phase
        first, last = line.barriers.range_of(phase)
        even = first + ranks[phase] * (last - first + 1) // totals[phase]
        ranks[phase] += 1
        regions[task] = min(max(even, regions[task]), windows.last[task])
        for other in after[task]:
            gap = line.strict[other] >> task & 1
            regions[other] = max(regions[other], regions[task] + gap)
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    return regions


class _Mover:
    """Moves tasks one at a time between regions while the loads of the fullest regions fall."""

    def __init__(self, line: _Line, regions: Sequence[int]) -> None:
        self.line = line
        self.graph, self.windows = line.graph, line.windows
        self.regions = list(regions)
        self.touching: list[list[int]] = [[] for _ in self.graph.tasks]
        for index, buffer in enumerate(self.graph.buffers):
            for task in set(buffer.touched_by):
                self.touching[task].append(index)
        self.after: list[list[tuple[int, int]]] = [[] for _ in self.graph.tasks]
        self.before: list[list[tuple[int, int]]] = [[] for _ in self.graph.tasks]
        for dependence in self.graph.active_dependences:
            gap = dependence.gap(line.barriers.loop)
            if gap >= 0 and dependence.before != dependence.after:
                self.after[dependence.before].append((dependence.after, gap))
                self.before[dependence.after].append((dependence.before, gap))
        self.load = [0] * (line.barriers.regions)
        self.lives = lifetimes(self.graph, line.barriers, self.regions)
        for index in range(len(self.graph.buffers)):
            self._count(index, 1)

    def _count(self, index: int, sign: int) -> None:
        life = self.lives[index]
        if life is not None:
            size = sign * self.graph.buffers[index].size
            for region in range(life[0], life[1] + 1):
                self.load[region] += size

    def _place(self, task: int, region: int) -> None:
        touched = self.touching[task]
        for index in touched:
            self._count(index, -1)
        self.regions[task] = region
        for index in touched:
            buffer = self.graph.buffers[index]
            self.lives[index] = lifetime(self.graph, self.line.barriers, self.regions, buffer)
            self._count(index, 1)

    def _score(self) -> tuple[int, int]:
        peak = max(self.load)
        return peak, self.load.count(peak)

    def run(self, steps: int) -> list[int]:
        """The regions after as many rounds as help, or as ``steps`` allow."""
        score = self._score()
        improved = True
        while improved and steps > 0:
            improved = False
            fullest = self.load.index(max(self.load))
            around = [
                task
                for index, life in enumerate(self.lives)
                if life is not None and life[0] <= fullest <= life[1]
                for task in self.graph.buffers[index].touched_by
            ]
            for task in dict.fromkeys(around):
                here = self.regions[task]
                low = max(
                    [self.windows.first[task]]
                    + [self.regions[other] + gap for other, gap in self.before[task]]
                )
                high = min(
                    [self.windows.last[task]]
                    + [self.regions[other] - gap for other, gap in self.after[task]]
                )
                for region in {low, high, here - 1, here + 1} - {here}:
                    if not low <= region <= high:
                        continue
                    steps -= 1
                    self._place(task, region)
                    trial = self._score()
                    if trial < score:
                        score, improved = trial, True
                        break
                    self._place(task, here)
                if improved or steps <= 0:
                    break
        return self.regions


def assign_regions(
    graph: Graph,
    barriers: Barriers,
    windows: Windows,
    *,
    below: int | None = None,
    steps: int | None = None,
) -> Assignment | None:
    """The assignment of least peak; ``None`` where it is proved that none is below ``below``.

    Where the search ends early, the best assignment known, with a bound.
    """
    bound = lower_bound(graph, barriers, windows)
    if below is not None and bound >= below:
        return None
    line = _Line(graph, barriers, windows)
    starts = [list(windows.first), list(windows.last), _late_makers(line), _spread(line)]
    scored = [(peak_load(graph, barriers, regions), regions) for regions in starts]
    peak, regions = min(scored, key=lambda item: item[0])
    if peak > bound:
        moves = IMPROVEMENT_STEPS if steps is None or steps else IMPROVEMENT_STEPS // 40
        regions = _Mover(line, regions).run(moves)
        peak = peak_load(graph, barriers, regions)
    if peak > bound:
        if steps is None:
            steps = EXACT_STEPS if len(graph.tasks) <= EXACT_TASKS else EXACT_STEPS // 20
        regions, peak, bound = _close_gap(line, regions, peak, bound, steps)
    if below is not None and bound >= below:
        return None
    return Assignment(tuple(regions), peak, bound)
