"""What the choice of barriers and regions costs, alone and with what leads to it.

    python -m benchmarks.schedule_times --output benchmarks/results/schedule_times.md

The first table is of random task graphs, with no IR: the fewest barriers, then a schedule of least
memory with so many.  The second is of ``--lower-threadblock`` on random µGraphs.  Times are
processor seconds of this process.
"""

from __future__ import annotations

import argparse
import platform
import random
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from statistics import fmean
from time import process_time

from benchmarks.planning_graphs import random_mugraph
from mugraph.dialects.kn import Phase
from mugraph.dialects.plan import Plan
from mugraph.passes.schedule.barriers.fewest import fewest_barriers
from mugraph.passes.schedule.barriers.model import Buffer, Dependence, Graph, Task
from mugraph.passes.schedule.barriers.trades import least_barriers_schedule
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context

CHOICES = (
    (10, True, 20),
    (30, True, 20),
    (100, True, 20),
    (300, True, 5),
    (1000, True, 5),
    (30, False, 20),
    (100, False, 20),
    (1000, False, 5),
)
"""Tasks of a graph, whether it has a loop, and how many graphs."""
OPERATORS = (10, 30, 100, 300, 1000)
SEEDS = range(5)


def random_tasks(count: int, seed: int, *, loop: bool) -> Graph:
    """Each task reads what one to three of the eight before it have made.

    Of those of a graph with a loop 70 % stand in it, and write anew what the iteration before has
    read; a tenth are loads before it, which read nothing.  70 % of all dependences cross threads.
    """
    rng = random.Random(seed)
    looping = 7 * count // 10 if loop else 0
    before = count // 10 if loop else 0
    phases = [Phase.BEFORE] * before + [Phase.LOOP] * looping
    phases += [Phase.AFTER] * (count - len(phases))
    dependences: list[Dependence] = []
    touched: list[list[int]] = [[index] for index in range(count)]
    for after in range(max(1, before), count):
        near = range(max(0, after - 8), after)
        for one in sorted(rng.sample(near, min(len(near), rng.randint(1, 3)))):
            crosses = rng.random() < 0.7
            dependences.append(Dependence(one, after, crosses))
            touched[one].append(after)
            if phases[one] is phases[after] is Phase.LOOP:
                dependences.append(Dependence(after, one, crosses, 1))
    buffers = tuple(
        Buffer(f"b{index}", rng.randint(1, 64), tuple(where)) for index, where in enumerate(touched)
    )
    tasks = tuple(Task(f"{index}", phase) for index, phase in enumerate(phases))
    return Graph(tasks, tuple(dependences), buffers, 16)


def choice_row(count: int, loop: bool, graphs: int) -> str:
    """The times, and how far from the bound, of random graphs of one size."""
    barriers: list[float] = []
    regions: list[float] = []
    gaps: list[float] = []
    for seed in range(graphs):
        graph = random_tasks(count, seed, loop=loop)
        start = process_time()
        fewest = fewest_barriers(graph)
        middle = process_time()
        found = least_barriers_schedule(graph, fewest)
        regions.append(1000 * (process_time() - middle))
        barriers.append(1000 * (middle - start))
        gaps.append(0.0 if found.is_optimal else found.peak / found.peak_bound - 1)
    proved = sum(gap == 0 for gap in gaps)
    return (
        f"| {count} | {'loop' if loop else 'straight'} | {fmean(barriers):.1f} | "
        f"{fmean(regions):.1f} ({max(regions):.1f}) | {proved} of {graphs} | {max(gaps):.0%} |"
    )


def seconds_of_pass(operators: int) -> Iterator[float]:
    """The seconds of ``--lower-threadblock`` on random µGraphs of one size."""
    for seed in SEEDS:
        context, module = make_context(), random_mugraph(operators, seed)
        for step in transpile_pipeline("sm_80", Plan(tiles="written"), check_hazards=False):
            start = process_time()
            step.apply(context, module)
            if step.name == "lower-threadblock":
                yield process_time() - start
                break


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    lines = [
        "# What choosing a schedule costs",
        "",
        f"{date.today().isoformat()}, Python {platform.python_version()}, {platform.machine()}, "
        "other work beside. Processor time.",
        "",
        "## The choice alone, on random task graphs",
        "",
        "| tasks | | barriers, ms | regions, ms (max) | optimal | greatest gap |",
        "|---:|---|---:|---:|---:|---:|",
        *(choice_row(*choice) for choice in CHOICES),
        "",
        f"## `--lower-threadblock` on random µGraphs for `sm_80`, {len(SEEDS)} of each size",
        "",
        "| operators | seconds |",
        "|---:|---:|",
    ]
    for operators in OPERATORS:
        times = list(seconds_of_pass(operators))
        lines.append(f"| {operators} | {min(times):.2f} to {max(times):.2f} |")
    options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
