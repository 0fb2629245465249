"""Which region each task stands in: least peak memory for given barriers, exactly.

Bytes are reusable after the next barrier, so within a region the order of tasks does not matter,
only which region they are in.  What a region needs is then known from two sets, the tasks done
before it and the tasks done with it: the buffers alive at its start, and those made in it.  A
dynamic program over the first sets (down-sets of the dependences) finds the least peak.  Sets that
cannot beat a schedule already known are cut, and a task that makes no buffer is done as soon as it
can, which only frees bytes earlier.  The number of steps is bounded; where it runs out the best
known schedule is returned with a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mugraph.dialects.kn import Phase
from mugraph.passes.schedule_threadblock.barriers import Windows
from mugraph.passes.schedule_threadblock.model import Barriers, Graph, lifetimes, peak_load

EXACT_STEPS = 200_000
"""How many choices of a region's tasks the exact search may look at."""
IMPROVEMENT_STEPS = 20_000
"""How many moves of one task the local search may try."""


@dataclass(frozen=True)
class Assignment:
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


class _Line:
    """The problem as the search uses it: tasks along one line of regions, sets as bits."""

    def __init__(self, graph: Graph, barriers: Barriers, windows: Windows) -> None:
        self.graph, self.barriers, self.windows = graph, barriers, windows
        count = len(graph.tasks)
        self.weak = [0] * count
        self.strict = [0] * count
        for dependence in graph.active_dependences():
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
            if whole_loop:
                start = min(early[0], loop_first)
                self.buffers.append((buffer.size, -1, start, mask, loop_last))
            elif Phase.BEFORE in phases:
                self.buffers.append((buffer.size, -1, early[0], mask, -1))
            else:
                self.makes[first] += buffer.size
                self.buffers.append((buffer.size, first, -1, mask & ~(1 << first), -1))

    def alive_at_start(self, done: int, region: int) -> int:
        """Bytes that region ``region`` finds alive, ``done`` being the tasks before it."""
        total = 0
        for size, maker, start, readers, until in self.buffers:
            made = start <= region if maker < 0 else done >> maker & 1
            if made and (region <= until or readers & ~done):
                total += size
        return total


def _search(line: _Line, best: int, steps: int) -> tuple[list[int] | None, int, bool]:
    """An assignment with a peak below ``best``, if any; its peak; and whether it ran to the end."""
    graph, windows = line.graph, line.windows
    count = len(graph.tasks)
    states: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
    for region in range(line.barriers.regions):
        due = [task for task in range(count) if windows.first[task] <= region]
        following: dict[int, tuple[int, tuple[int, ...]]] = {}
        for done, (peak, history) in states.items():
            base = line.alive_at_start(done, region)
            if base >= best:
                continue
            open_tasks = [task for task in due if not done >> task & 1]
            # Depth first over the open tasks: each is done now, or later.
            stack = [(0, done, base)]
            while stack:
                steps -= 1
                if steps < 0:
                    return None, best, False
                position, reached, load = stack.pop()
                if position == len(open_tasks):
                    total = max(peak, load)
                    known = following.get(reached)
                    if known is None or total < known[0]:
                        following[reached] = (total, (*history, reached))
                    continue
                task = open_tasks[position]
                bit = 1 << task
                can = not line.strict[task] & ~done and not line.weak[task] & ~reached
                must = windows.last[task] == region
                if must and not can:
                    continue
                free = can and not line.makes[task]
                if not must and not free:
                    stack.append((position + 1, reached, load))
                if can and load + line.makes[task] < best:
                    stack.append((position + 1, reached | bit, load + line.makes[task]))
        states = following
        if not states:
            return None, best, True
    (peak, history), *_ = states.values()
    regions = [0] * count
    before = 0
    for region, reached in enumerate(history):
        for task in range(count):
            if (reached & ~before) >> task & 1:
                regions[task] = region
        before = reached
    return regions, peak, True


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
        for dependence in self.graph.active_dependences():
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
        part = Graph(
            self.graph.tasks,
            (),
            tuple(self.graph.buffers[index] for index in touched),
            self.graph.iterations,
        )
        found = lifetimes(part, self.line.barriers, self.regions)
        for index, life in zip(touched, found, strict=True):
            self.lives[index] = life
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
    steps: int = EXACT_STEPS,
) -> Assignment | None:
    """The assignment of least peak; ``None`` where none has a peak below ``below``.

    Where the search ends early, the best assignment known, with a bound.
    """
    bound = lower_bound(graph, barriers, windows)
    if below is not None and bound >= below:
        return None
    line = _Line(graph, barriers, windows)
    starts = [list(windows.first), list(windows.last), _late_makers(line)]
    scored = [(peak_load(graph, barriers, regions), regions) for regions in starts]
    peak, regions = min(scored, key=lambda item: item[0])
    if peak > bound:
        regions = _Mover(line, regions).run(IMPROVEMENT_STEPS)
        peak = peak_load(graph, barriers, regions)
    if peak > bound:
        limit = peak if below is None else min(peak, below)
        found, found_peak, complete = _search(line, limit, steps)
        if found is not None:
            peak, regions = found_peak, found
        if complete:
            bound = min(peak, limit)
    if below is not None and peak >= below:
        return None
    return Assignment(tuple(regions), peak, bound)
