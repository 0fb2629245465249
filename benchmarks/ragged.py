"""Products that no tile divides, on one GPU: beside the next whole tiles, and cuBLAS.

    python -m benchmarks.ragged run --count 24 --output benchmarks/results/ragged_h200

Rows are drawn, small numbers as often as large ones; columns and depth are those of layers and
odd ones.  Each is checked against float64, and timed beside the product of the extents rounded up
to whole tiles of 128 rows, 64 columns and a depth of 64, and beside cuBLAS.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mugraph.build as mi
from benchmarks import pages
from benchmarks.compiled import processes
from benchmarks.extents import logarithmic
from benchmarks.facts import facts_of_this_run
from benchmarks.h200.checking import judge
from benchmarks.h200.device import DEVICE
from benchmarks.h200.measure import SEED, settle
from benchmarks.h200.statistics import set_count
from benchmarks.h200.timing import interleaved, prepared
from mugraph.build import KernelGraph

TOLERANCE = 2e-3
COLUMNS, DEPTHS = (3000, 3584, 50257, 1009), (3584, 1001, 100)
TILES = (128, 64, 64)
"""Rows, columns and depth of whole tiles."""
LARGEST = 4096
MICROSECONDS_A_ROUND = 20_000.0

Extents = tuple[int, int, int]
"""Rows, columns, depth."""


@dataclass
class Result:
    """Microseconds of a product, of the next whole one, and of cuBLAS."""

    extents: Extents
    ragged: float | None
    whole: float | None
    library: float | None
    status: str


def product(extents: Extents) -> KernelGraph:
    """A product, with an epilogue that keeps it from cuBLAS and costs nothing."""
    rows, columns, depth = extents
    graph = mi.new_kernel_graph("product")
    x, w = graph.new_input((rows, depth)), graph.new_input((depth, columns), constant=True)
    graph.mark_output(mi.relu(x @ w))
    return graph


def rounded_up(extents: Extents) -> Extents:
    """The next extents that tiles divide."""
    rows, columns, depth = (-(-e // t) * t for e, t in zip(extents, TILES, strict=True))
    return rows, columns, depth


def drawn(count: int, seed: int) -> list[Extents]:
    """So many products; 37 x 3000 of depth 3584 is the first."""
    chance = random.Random(seed)
    sides = itertools.cycle(itertools.product(COLUMNS, DEPTHS))
    found: dict[Extents, None] = {(37, 3000, 3584): None}
    while len(found) < count:
        columns, depth = next(sides)
        found[logarithmic(chance, LARGEST), columns, depth] = None
    return [*found]


def sets_of(extents: Extents) -> list[tuple[Any, Any]]:
    """Random arguments that are out of the cache together."""
    import torch

    rows, columns, depth = extents
    generator = torch.Generator(DEVICE).manual_seed(SEED + rows)
    count = set_count(2 * (rows * depth + depth * columns + rows * columns))

    def matrix(*shape: int) -> Any:
        return torch.randn(shape, generator=generator, device=DEVICE)

    return [
        (matrix(rows, depth).half(), (matrix(depth, columns) * depth**-0.5).half())
        for _ in range(count)
    ]


def timed(kernels: list[tuple[Callable[..., Any], list[tuple[Any, Any]]]]) -> list[float]:
    """Microseconds a call of each, in turns."""
    graphs = [
        prepared(lambda at, run=run, own=own: run(*own[at]), len(own)) for run, own in kernels
    ]
    return [each.median for each in interleaved(graphs, lambda _: None, MICROSECONDS_A_ROUND)]


def measured(extents: Extents, ragged: Any, whole: Any) -> Result:
    """Checks a product, and times it beside the others."""
    import torch

    sets = sets_of(extents)
    expected = (sets[0][0].double() @ sets[0][1].double()).relu()
    verdict = judge(torch, ragged(*sets[0]), expected, TOLERANCE)
    if not verdict.right:
        return Result(extents, None, None, None, verdict.status)
    kernels = [(ragged, sets), (whole, sets_of(rounded_up(extents))), (torch.matmul, sets)]
    ours, rounded, library = timed(kernels)
    return Result(extents, ours, rounded, library, "right")


def run(arch: str, count: int, seed: int, limit: float, output: Path) -> None:
    """Checks and times all; writes OUTPUT.json and OUTPUT.md after each."""
    import torch

    facts, start, results = facts_of_this_run(arch), time.perf_counter(), list[Result]()
    settle()
    with processes(arch) as submit:
        built = [
            (each, submit(product(each), None), submit(product(rounded_up(each)), None))
            for each in drawn(count, seed)
        ]
        for extents, ragged, whole in built:
            if time.perf_counter() - start > limit:
                print(f"time is up after {len(results)} products", flush=True)
                break
            results.append(measured(extents, ragged.result().kernel(), whole.result().kernel()))
            torch.cuda.empty_cache()
            print(*cells(results[-1]), flush=True)
            content = {"facts": facts, "results": [asdict(each) for each in results]}
            pages.write(output, content, page(results, facts))
    print(summary(results), flush=True)


def summary(results: list[Result]) -> str:
    """The geometric means of how much longer the products take."""
    right = [(r.ragged, r.whole, r.library) for r in results if r.ragged and r.whole and r.library]
    if not right:
        return "no product was right"
    means = (
        math.exp(math.fsum(math.log(row[0] / row[place]) for row in right) / len(right))
        for place in (1, 2)
    )
    whole, library = (f"{mean:.2f}" for mean in means)
    worst = max(ragged / other for ragged, _, other in right)
    return (
        f"{len(right)} products: {whole} of the next whole ones, {library} of cuBLAS (geometric "
        f"means), {worst:.2f} of cuBLAS at worst"
    )


def page(results: list[Result], facts: dict[str, str]) -> list[str]:
    """The table of a run."""
    return [
        *pages.head(f"Products that no tile divides on {facts['gpu']}", facts),
        "µs a call in f16, out of the cache, with a relu in ours.",
        "",
        f"- {summary(results)}",
        "",
        *pages.table(
            ("rows x columns x depth", "ragged:", "whole:", "cuBLAS:", "result"),
            map(cells, results),
        ),
    ]


def cells(result: Result) -> list[object]:
    """A line of the table."""
    times = (result.ragged, result.whole, result.library)
    return [
        " x ".join(map(str, result.extents)),
        *(None if each is None else f"{each:.1f}" for each in times),
        result.status,
    ]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ragged", description="products that no tile divides"
    )
    parser.add_argument("command", choices=("run",))
    parser.add_argument("--arch", default="sm_90a", help="the architecture to compile for")
    parser.add_argument("--count", type=int, default=24, help="products")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds")
    parser.add_argument("--output", type=Path, default=Path("build/ragged"))
    arguments = parser.parse_args()
    run(arguments.arch, arguments.count, arguments.seed, arguments.limit, arguments.output)


if __name__ == "__main__":
    main()
