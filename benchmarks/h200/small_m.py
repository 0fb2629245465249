"""Products of few rows: single warps against warp groups with swapped operands.

    python -m benchmarks.h200.small_m --output benchmarks/results/h200_small_m

rms_norm(X) · W with W[4096,6144] and X of 8 to 64 rows, by blocks of several sizes and tiles, and
workloads of the harness whose products have few rows.  Each kernel is built with
``swap_ab = false`` and ``true`` in its plan, checked and timed as the harness does, interleaved;
beside the times stands what the estimate chooses: at 64 rows warp groups without a swap.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from benchmarks.facts import facts_of_this_run
from benchmarks.h200.building import Build, Task, build, cuda_text, tensors_of
from benchmarks.h200.pipelines import Variant, with_parts
from benchmarks.h200.records import System
from benchmarks.h200.worker import Job, Watched
from benchmarks.h200.workloads import WORKLOADS, Workload, rewritten
from mugraph.dialects.cute.atoms.mma import SWAPPED
from mugraph.runtime.compare import TOLERANCE

ROWS = (8, 16, 32, 64)
DEPTH, COLUMNS, ITERATIONS = 4096, 6144, 32
TILES = ((96, 128), (96, 256), (48, 256))
"""Blocks of the grid, and threads of each."""
WAYS = ("mma", "swap")

PARTS = {"mma": "swap-ab=false", "swap": "swap-ab=true"}
OTHERS = {
    "rmsnorm_bs8": ("tiles=written", "block=256"),
    "gated_mlp": ("grid=64 forloop=32 block=256", "grid=64 forloop=64 block=128"),
}
"""Workloads of the harness, and repartitions of them whose tiles have whole 64 columns."""


def workloads(folder: str) -> Iterator[tuple[Workload, Sequence[str]]]:
    """Each workload, and the repartitions that it is timed in."""
    for rows in ROWS:
        workload = rewritten(
            WORKLOADS["rmsnorm_bs8"],
            f"rms_{rows}",
            2 * rows * DEPTH * COLUMNS,
            {"<16x": f"<{rows}x"},
            Path(folder),
        )
        yield workload, [f"grid={blocks} block={threads}" for blocks, threads in TILES]
    for name, tiles in OTHERS.items():
        yield WORKLOADS[name], tiles


def variant(workload: Workload, tiles: str, way: str) -> Variant:
    """A workload in one repartition and one way, launches one after the other."""
    parts = f"{tiles} loads=tma pdl=none {PARTS.get(way, '')}".strip()
    return Variant(f"{tiles} {way}", with_parts(parts, workload.pipeline))


def chosen_way(task: Task) -> str:
    """What the estimate makes of a task: ``swap``, ``mma``, or ``wgmma`` without a swap."""
    text = cuda_text(task)
    if SWAPPED in text:
        return WAYS[1]
    return "wgmma" if "SM90_64x" in text else WAYS[0]


def table(name: str, tiles: Sequence[str], systems: dict[str, System], ways: list[str]) -> str:
    """A line a repartition."""
    lines: list[str] = []
    for tile, chosen in zip(tiles, ways, strict=True):
        cells = [_cell(systems.get(f"{tile} {way}")) for way in WAYS]
        lines.append(f"| {name} | {tile or 'as it is'} | {' | '.join(cells)} | {chosen} |")
    return "\n".join(lines)


def _cell(system: System | None) -> str:
    if system is None or system.microseconds is None:
        return "" if system is None else system.status
    return f"{system.microseconds:.2f}"


TEXT = """
rms_M is rms_norm(X) · W with X[M,4096] and W[4096,6144] in 32 iterations; launches follow each
other. The last column is what the estimate chooses: at 64 rows warp groups without a swap.
"""
HEAD = "| workload | repartition | mma µs | swap µs | chosen |\n|---|---|---:|---:|---|"


def main() -> int:
    """Runs the command; exits 1 where a result is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.h200.small_m", description=__doc__)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="parallel builds")
    parser.add_argument("--output", type=Path, required=True, help="OUTPUT.json and .md")
    options = parser.parse_args()
    start = time.perf_counter()
    facts = facts_of_this_run(options.arch)
    watched = Watched(lambda text: print(text, flush=True))
    found: dict[str, list[System]] = {}
    lines: list[str] = [HEAD]
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(options.jobs) as pool:
        chosen = list(workloads(folder))
        tasks = [
            [
                Task(workload, variant(workload, tile, way), options.arch)
                for tile, way in itertools.product(tiles, WAYS)
            ]
            for workload, tiles in chosen
        ]
        autos = [
            [Task(workload, variant(workload, tile, "auto"), options.arch) for tile in tiles]
            for workload, tiles in chosen
        ]
        builds = [list(pool.map(build, of_workload)) for of_workload in tasks]
        ways = [list(pool.map(chosen_way, of_workload)) for of_workload in autos]
        print(f"{time.perf_counter() - start:.0f} s: built", flush=True)
        watched.start()
        try:
            for (workload, tiles), made, way in zip(chosen, builds, ways, strict=True):
                systems = measured(workload, made, facts, watched)
                found[workload.name] = systems
                lines.append(table(workload.name, tiles, {s.name: s for s in systems}, way))
                print(lines[-1], flush=True)
        finally:
            watched.end()
    heading = ["# Products of few rows", "", *(f"- {k}: {v}" for k, v in facts.items()), TEXT]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.with_suffix(".md").write_text("\n".join([*heading, *lines]) + "\n")
    content = {"facts": facts, **{n: [asdict(s) for s in systems] for n, systems in found.items()}}
    options.output.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")
    every = [system for systems in found.values() for system in systems]
    return 1 if any(system.status.startswith("wrong") for system in every) else 0


def measured(
    workload: Workload, builds: Sequence[Build], facts: dict[str, str], watched: Watched
) -> list[System]:
    """What was measured of the builds."""
    tolerance = max([TOLERANCE, *(one.tolerance for one in builds)])
    job = Job(workload, tensors_of(workload), tuple(builds), (), None, tolerance, facts)
    return list(watched.run(job).systems.values())


if __name__ == "__main__":
    sys.exit(main())
