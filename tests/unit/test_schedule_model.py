"""Barriers and regions against brute force on small random graphs, and the figure's example."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import pytest
from mirage_orders import Order, best_orders, level_schedule, peak_at_last_use

from mugraph.dialects.kn import Phase
from mugraph.passes.schedule.barriers.fewest import (
    fewest_barriers,
    windows,
)
from mugraph.passes.schedule.barriers.model import (
    Barriers,
    Buffer,
    Dependence,
    Graph,
    Task,
    lifetimes,
    peak_load,
)
from mugraph.passes.schedule.barriers.trades import improvements, least_barriers_schedule

FIGURE_EDGES = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 6), (5, 6)]


def straight(edges: Sequence[tuple[int, int]], sizes: Sequence[int]) -> Graph:
    """Operators that run once, with one tensor each; every dependence crosses threads."""
    readers = [[after for before, after in edges if before == op] for op in range(len(sizes))]
    return Graph(
        tuple(Task(f"{op + 1}", Phase.AFTER) for op in range(len(sizes))),
        tuple(Dependence(before, after, True) for before, after in edges),
        tuple(Buffer(f"t{op}", size, (op, *readers[op])) for op, size in enumerate(sizes)),
    )


def test_the_figure_with_bytes_free_after_the_next_barrier() -> None:
    # ``1234 56 7`` and ``12 534 6 7``: 2 barriers and 6 units, 3 barriers and 5.
    front = list(improvements(straight(FIGURE_EDGES, [1] * 7)))
    assert [(schedule.executed, schedule.peak) for schedule in front] == [(2, 6), (3, 5), (4, 4)]
    assert front[0].is_optimal and front[0].regions == (0, 0, 0, 0, 1, 1, 2)


def test_the_figure_with_bytes_free_at_their_last_use() -> None:
    # The two schedules of the text, with 5 and 4 units.
    graph = straight(FIGURE_EDGES, [1] * 7)
    few, small = best_orders(graph)
    assert few == Order(((0, 1, 2, 3), (4, 5), (6,)), 5)
    assert small == Order(((0, 1), (4, 2, 3), (5,), (6,)), 4)
    assert (few.barriers, small.barriers) == (2, 3)


@pytest.mark.parametrize("seed", range(20))
def test_no_order_beats_the_front_at_last_use(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(2, 6)
    edges = [pair for pair in itertools.combinations(range(count), 2) if rng.random() < 0.4]
    graph = straight(edges, [rng.randint(1, 5) for _ in range(count)])
    best: dict[int, int] = {}
    for order in itertools.permutations(range(count)):
        place = {task: step for step, task in enumerate(order)}
        if any(place[before] > place[after] for before, after in edges):
            continue
        # A barrier as soon as one is needed leaves no fewer for the rest.
        barriers, start = 0, 0
        for step, task in enumerate(order):
            if any(start <= place[before] for before, after in edges if after == task):
                barriers, start = barriers + 1, step
        peak = peak_at_last_use(graph, order)
        best[barriers] = min(peak, best.get(barriers, peak))
    expected: list[tuple[int, int]] = []
    for barriers in sorted(best):
        if not expected or best[barriers] < expected[-1][1]:
            expected.append((barriers, best[barriers]))
    front = best_orders(graph)
    assert [(order.barriers, order.peak) for order in front] == expected
    for order in front:
        flat = [task for region in order.regions for task in region]
        assert peak_at_last_use(graph, flat) == order.peak


def test_trades_on_the_figure() -> None:
    graph = straight(FIGURE_EDGES, [1] * 7)
    assert least_barriers_schedule(graph).executed == 2
    first, *_, least = improvements(graph)
    assert first.executed == 2
    assert (least.executed, least.peak) == (4, 4)


def random_graph(seed: int, *, loop: bool) -> Graph:
    """Up to eight tasks of random phases, sizes, dependences and distances."""
    rng = random.Random(seed)
    count = rng.randint(2, 7)
    phases = [Phase.BEFORE] if rng.random() < 0.7 else []
    phases += [Phase.LOOP] * (rng.randint(0, count) if loop else 0)
    phases += [Phase.AFTER] * max(0, count - len(phases))
    iterations = rng.choice([1, 2, 3, 4])
    tasks = tuple(Task(f"{i}", phase) for i, phase in enumerate(phases))
    dependences: list[Dependence] = []
    touched: list[list[int]] = [[index] for index in range(len(tasks))]
    for before, after in itertools.combinations(range(len(tasks)), 2):
        if rng.random() < 0.45:
            crosses = rng.random() < 0.7
            dependences.append(Dependence(before, after, crosses))
            touched[before].append(after)
            if phases[before] is phases[after] is Phase.LOOP and rng.random() < 0.8:
                distance = rng.choice([1, 1, 1, 2])
                dependences.append(Dependence(after, before, crosses, distance))
    buffers = tuple(
        Buffer(f"b{i}", rng.randint(0, 9), tuple(where), rng.random() < 0.1)
        for i, where in enumerate(touched)
    )
    return Graph(tasks, tuple(dependences), buffers, iterations)


def executed_order(graph: Graph, barriers: Barriers, regions: Sequence[int]) -> list[list[int]]:
    """For each execution of each task how many barriers a thread has passed: ``[task][time]``."""
    first_loop = barriers.before
    times: list[list[int]] = []
    for task, region in zip(graph.tasks, regions, strict=True):
        if task.phase is Phase.BEFORE:
            times.append([region])
        elif task.phase is Phase.LOOP:
            inside = region - first_loop
            times.append(
                [first_loop + it * barriers.loop + inside for it in range(graph.iterations)]
            )
        else:
            after = region - first_loop - barriers.loop
            times.append([first_loop + graph.iterations * barriers.loop + after])
    return times


def is_right(graph: Graph, barriers: Barriers, regions: Sequence[int]) -> bool:
    """Whether a barrier stands between all executions that depend on each other, one by one."""
    times = executed_order(graph, barriers, regions)
    for dependence in graph.dependences:
        before, after = times[dependence.before], times[dependence.after]
        both_looped = len(before) > 1 or len(after) > 1
        for index, time in enumerate(before):
            later = index + dependence.distance if len(before) == len(after) else 0
            if later >= len(after):
                continue
            if not both_looped and dependence.distance:
                continue
            if len(before) > len(after) and index != len(before) - 1:
                continue
            gap = after[later] - time
            if gap < int(dependence.crosses):
                return False
            same_place = gap == 0 and regions[dependence.before] > regions[dependence.after]
            if dependence.distance == 0 and same_place:
                return False
    return True


def every_schedule(graph: Graph, most: int) -> Iterator[tuple[Barriers, tuple[int, ...]]]:
    """Every assignment with up to ``most`` barriers in each part that keeps the phases."""
    for before, loop, after in itertools.product((0, 1), range(most + 1), range(most + 1)):
        barriers = Barriers(before, loop, after)
        ranges: list[range] = []
        for task in graph.tasks:
            first, last = barriers.range_of(task.phase)
            ranges.append(range(first, first + 1 if task.phase is Phase.BEFORE else last + 1))
        for regions in itertools.product(*ranges):
            if is_right(graph, barriers, regions):
                yield barriers, regions


@pytest.mark.one_in(7)
@pytest.mark.parametrize("seed", range(60))
def test_no_schedule_has_fewer_barriers_or_less_memory_than_the_bound(seed: int) -> None:
    graph = random_graph(seed, loop=seed % 3 != 0)
    found = least_barriers_schedule(graph)
    assert is_right(graph, found.barriers, found.regions)
    assert found.peak == peak_load(graph, found.barriers, found.regions)
    assert found.is_optimal == (found.peak == found.peak_bound)
    most = min(3, len(graph.tasks))
    best: int | None = None
    least: int | None = None
    for barriers, regions in every_schedule(graph, most):
        executed = barriers.executed(graph.iterations)
        if best is None or executed < best:
            best, least = executed, None
        if executed == best and not starts_early(graph, barriers, regions):
            peak = peak_load(graph, barriers, regions)
            least = peak if least is None else min(least, peak)
    if best is not None:
        assert found.executed <= best
        if max(found.barriers.loop, found.barriers.after) <= most:
            assert found.executed == best
            assert least is None or found.peak_bound <= least


def starts_early(graph: Graph, barriers: Barriers, regions: Sequence[int]) -> bool:
    """Whether a task stands before the loop's first barrier that could stand behind it."""
    limits = windows(graph, barriers)
    if limits is None or graph.iterations == 1:
        return limits is None
    return any(region < first for region, first in zip(regions, limits.first, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_what_forces_the_barriers_of_the_loop(seed: int) -> None:
    graph = random_graph(seed, loop=True)
    fewest = fewest_barriers(graph)
    least = min(choice.loop for choice in fewest.choices)
    if fewest.loop is None:
        assert least == 0
        return
    chain = fewest.loop.dependences
    assert fewest.loop.bound == least
    assert fewest.loop.crossings == sum(dependence.crosses for dependence in chain)
    assert all(one.after == other.before for one, other in itertools.pairwise(chain))
    assert all(dependence in graph.dependences for dependence in chain)
    closed = chain[0].before == chain[-1].after
    spanned = sum(dependence.distance for dependence in chain)
    assert fewest.loop.iterations == spanned + (0 if closed else 1)


def test_most_small_graphs_have_a_schedule_of_the_least_memory() -> None:
    found = [least_barriers_schedule(random_graph(seed, loop=seed % 3 != 0)) for seed in range(60)]
    assert sum(schedule.is_optimal for schedule in found) >= 53


@pytest.mark.parametrize("seed", range(30))
def test_never_more_barriers_than_one_a_level(seed: int) -> None:
    graph = random_graph(seed, loop=False)
    barriers, _ = level_schedule(graph)
    assert fewest_barriers(graph).executed <= barriers.executed(graph.iterations)


def test_a_value_written_and_read_in_each_iteration_needs_two_barriers() -> None:
    # Read after write, and the next iteration's write after this one's read.
    tasks = (Task("write", Phase.LOOP), Task("read", Phase.LOOP))
    both = (Dependence(0, 1, True), Dependence(1, 0, True, 1))
    found = fewest_barriers(Graph(tasks, both, iterations=5))
    assert found.executed == 10
    assert found.loop is not None and (found.loop.crossings, found.loop.iterations) == (2, 1)
    # With two stages the next iteration writes elsewhere, and one barrier serves both.
    staged = (Dependence(0, 1, True), Dependence(1, 0, True, 2))
    assert fewest_barriers(Graph(tasks, staged, iterations=5)).executed == 5
    # Within one thread none is needed.
    own = (Dependence(0, 1, False), Dependence(1, 0, False, 1))
    assert fewest_barriers(Graph(tasks, own, iterations=5)).executed == 0


def test_a_cycle_over_several_iterations_counts_in_full() -> None:
    # Three crossings in two iterations need two barriers an iteration.
    tasks = tuple(Task(name, Phase.LOOP) for name in "abc")
    cycle = (Dependence(0, 1, True), Dependence(1, 2, True), Dependence(2, 0, True, 1))
    assert fewest_barriers(Graph(tasks, cycle, iterations=9)).executed == 27
    longer = (*cycle[:2], Dependence(2, 0, True, 2))
    assert fewest_barriers(Graph(tasks, longer, iterations=9)).executed == 18


def test_a_loop_long_enough_for_its_distance_only() -> None:
    tasks = (Task("write", Phase.LOOP), Task("read", Phase.LOOP))
    both = (Dependence(0, 1, True), Dependence(1, 0, True, 1))
    assert fewest_barriers(Graph(tasks, both, iterations=1)).executed == 1


def test_operators_that_make_nothing_are_done_early() -> None:
    # The second reader frees %a's bytes; leaving it for later would keep them.
    graph = Graph(
        tuple(Task(name, Phase.AFTER) for name in ("a", "b", "store", "c")),
        (Dependence(0, 1, True), Dependence(0, 2, True), Dependence(1, 3, True)),
        (Buffer("a", 8, (0, 1, 2)), Buffer("b", 4, (1, 3)), Buffer("c", 8, (3,))),
    )
    found = least_barriers_schedule(graph)
    assert found.regions == (0, 1, 1, 2)
    assert found.peak == found.peak_bound == 12


def test_lifetimes_of_the_model() -> None:
    phases = [Phase.BEFORE, Phase.LOOP, Phase.LOOP, Phase.AFTER]
    graph = Graph(
        tuple(Task(phase.name, phase) for phase in phases),
        (),
        (
            Buffer("kept", 1, (0, 3)),
            Buffer("input", 1, (0, 1)),
            Buffer("within", 1, (1, 2)),
            Buffer("carried", 1, (1, 2), carried=True),
            Buffer("sum", 1, (2, 3)),
            Buffer("unused", 1, ()),
        ),
        iterations=3,
    )
    barriers = Barriers(0, 3, 1)
    assert lifetimes(graph, barriers, [0, 1, 2, 4]) == [
        (0, 4), (0, 3), (1, 2), (0, 3), (0, 4), None,
    ]  # fmt: skip
    # What is made before the loop's first barrier shares a region with the end of the iteration.
    assert lifetimes(graph, barriers, [0, 0, 2, 4])[2] == (0, 3)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("loop", [False, True])
def test_one_barrier_between_depths_and_what_needs_no_more_memory(seed: int, loop: bool) -> None:
    graph = random_graph(seed, loop=loop)
    barriers, regions = level_schedule(graph)
    for dependence in graph.active_dependences:
        apart = regions[dependence.after] - regions[dependence.before]
        assert apart >= dependence.gap(barriers.loop)
    trades = list(improvements(graph))
    limit = peak_load(graph, barriers, regions)
    found = next(schedule for schedule in trades if schedule.peak <= limit)
    assert found.executed <= barriers.executed(graph.iterations)
    assert found.executed >= least_barriers_schedule(graph).executed
