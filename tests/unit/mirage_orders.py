"""Orders of operators under Mirage's lifetime model, for graphs small enough to try everything.

There a tensor's bytes are free at its last use, also for what the same region writes next.  That is
a race, as another warp may still read them; plans use the model of
:mod:`mugraph.passes.schedule.barriers.regions`.  This one compares it with Mirage's
document "The CUDA Transpiler", "TB Graph Scheduling and Memory Planning", whose two schedules of
seven operators it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mugraph.dialects.kn import Phase
from mugraph.passes.schedule.barriers.model import Barriers, Graph


@dataclass(frozen=True)
class Order:
    """Operators by region, in order, and the most bytes alive at once."""

    regions: tuple[tuple[int, ...], ...]
    peak: int

    @property
    def barriers(self) -> int:
        """How many barriers stand between the regions."""
        return len(self.regions) - 1


def peak_at_last_use(graph: Graph, order: Sequence[int]) -> int:
    """The most bytes alive while operators run one by one, each freed once its last use is over."""
    place = {task: step for step, task in enumerate(order)}
    peak = 0
    for step in range(len(order)):
        alive = 0
        for buffer in graph.buffers:
            steps = [place[task] for task in buffer.touched_by]
            if min(steps) <= step <= max(steps):
                alive += buffer.size
        peak = max(peak, alive)
    return peak


def best_orders(graph: Graph) -> list[Order]:
    """The orders of straight code that no other beats in both barriers and peak, fewest first.

    A dynamic program over the tasks done and those done before the last barrier.
    """
    count = len(graph.tasks)
    every = (1 << count) - 1
    needs = [0] * count
    crossing = [0] * count
    for dependence in graph.dependences:
        needs[dependence.after] |= 1 << dependence.before
        if dependence.crosses:
            crossing[dependence.after] |= 1 << dependence.before
    touched = [
        (buffer.size, sum(1 << task for task in set(buffer.touched_by))) for buffer in graph.buffers
    ]
    front: list[Order] = []
    starts: dict[int, Order] = {0: Order((), 0)}
    while starts:
        # From each set done at a barrier, every way to run one region.
        reached: dict[tuple[int, int], Order] = {
            (done, done): Order((*order.regions, ()), order.peak) for done, order in starts.items()
        }
        ends: dict[int, Order] = {}
        for size in range(count):
            for (start, done), order in list(reached.items()):
                if done.bit_count() != start.bit_count() + size:
                    continue
                for task in range(count):
                    bit = 1 << task
                    if done & bit or needs[task] & ~done or crossing[task] & done & ~start:
                        continue
                    now = done | bit
                    alive = sum(
                        size for size, mask in touched if mask & now and mask & ~(now & ~bit)
                    )
                    regions = (*order.regions[:-1], (*order.regions[-1], task))
                    better = Order(regions, max(order.peak, alive))
                    known = reached.get((start, now))
                    if known is None or better.peak < known.peak:
                        reached[start, now] = better
        for (start, done), order in reached.items():
            if done != start and (done not in ends or order.peak < ends[done].peak):
                ends[done] = order
        complete = ends.pop(every, None)
        if complete is not None and (not front or complete.peak < front[-1].peak):
            front.append(complete)
        starts = ends
    return front


def level_schedule(graph: Graph) -> tuple[Barriers, tuple[int, ...]]:
    """Mirage's rule: in each phase one barrier between successive depths; each task's region.

    A task's depth is the longest chain of dependences that ends in it, crossing or not.  The loop
    begins with a barrier too, unless it begins with a wait, which has a depth of its own; so does
    what follows the loop.  Source: "TB Graph Scheduling" there.
    """
    looped = [index for index, task in enumerate(graph.tasks) if task.phase is Phase.LOOP]
    waits = bool(looped) and graph.tasks[looped[0]].latest == 0
    phases = {task.phase for task in graph.tasks}
    starts = {
        Phase.BEFORE: 0,
        Phase.LOOP: int(bool(looped) and not waits),
        Phase.AFTER: int(Phase.AFTER in phases and len(phases) > 1),
    }
    depth = [starts[task.phase] for task in graph.tasks]
    if waits:
        for index in looped[1:]:
            depth[index] = 1
    for dependence in sorted(graph.dependences, key=lambda item: item.after):
        before, after = dependence.before, dependence.after
        if dependence.distance == 0 and graph.tasks[before].phase is graph.tasks[after].phase:
            depth[after] = max(depth[after], depth[before] + 1)
    deepest = dict(starts)
    for task, reached in zip(graph.tasks, depth, strict=True):
        deepest[task.phase] = max(deepest[task.phase], reached)
    barriers = Barriers(0, deepest[Phase.LOOP], deepest[Phase.AFTER])
    regions = tuple(
        0 if task.phase is Phase.BEFORE else barriers.range_of(task.phase)[0] + reached
        for task, reached in zip(graph.tasks, depth, strict=True)
    )
    return barriers, regions
