"""Times repartitions of the workloads: which grid, for-loop, block and split is fastest.

    python -m benchmarks.h200.sweep --output benchmarks/results/h200_sweep --workloads lora,gqa_bs1

Each workload goes through ``--retile`` with every combination of options in :data:`SWEEPS`, then
through its own pipeline.  Combinations that no kernel can be made of are left out.  All are built
on all cores first, then checked and timed as the harness does, some at a time, interleaved.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.facts import facts_of_this_run
from benchmarks.h200.building import Build, Task, build, tensors_of
from benchmarks.h200.pipelines import OURS, Variant
from benchmarks.h200.records import System
from benchmarks.h200.worker import Job, Watched
from benchmarks.h200.workloads import WORKLOADS, Workload
from mugraph.errors import UserError
from mugraph.runtime.compare import TOLERANCE

TOGETHER = 16
"""How many kernels are timed interleaved."""


@dataclass(frozen=True)
class Sweep:
    """The values of each option of ``--retile``; an empty text leaves it out."""

    grid: Sequence[str] = ("",)
    forloop: Sequence[int] = ()
    block: Sequence[int] = (128, 256)
    split: Sequence[int] = (1,)

    def options(self) -> Iterator[str]:
        """Every combination, as ``--retile`` takes it."""
        for grid, forloop, block, split in itertools.product(
            self.grid, self.forloop or (0,), self.block, self.split
        ):
            words = [
                grid and f"grid={grid}",
                f"forloop={forloop}" if forloop else "",
                f"block={block}",
                f"split={split}" if split > 1 else "",
            ]
            yield " ".join(word for word in words if word)


_PRODUCTS = Sweep(
    grid=("96", "128", "192", "256", "384"), forloop=(16, 32, 64), block=(128, 256, 512)
)
_ATTENTION = (32, 64)
SWEEPS: dict[str, Sweep] = {
    "rmsnorm_bs8": replace(_PRODUCTS, split=(1, 2)),
    "rmsnorm_bs1": _PRODUCTS,
    "gated_mlp": Sweep(("64", "128", "256"), (16, 32, 64), (128, 256, 512), (1, 2)),
    "lora": Sweep(("64", "128", "256"), (1, 2, 4), (64, 128, 256)),
    "gqa_bs8": Sweep(("16,4", "16,2"), _ATTENTION, (128, 256), (1, 2, 4, 8)),
    "gqa_bs1": Sweep(("2,4", "2,2"), _ATTENTION, (128, 256), (8, 16, 32)),
    "mqa_bs8": Sweep(("8,16", "8,8"), _ATTENTION, (128, 256), (1, 2, 4)),
    "mqa_bs1": Sweep(("1,16", "1,8"), _ATTENTION, (128, 256), (4, 8, 16)),
    "mha_bs8": Sweep(("256",), (16, 32, 64), (64, 128, 256), (1, 2)),
    "mha_bs1": Sweep(("32",), (32, 64), (64, 128, 256), (2, 4, 8, 16)),
    "ntrans_bs8": Sweep(block=(128, 256, 512, 1024)),
    "ntrans_bs1": Sweep(block=(128, 256, 512, 1024)),
}


def variants_of(workload: Workload) -> list[Variant]:
    """The workload as it is, and each repartition of it."""
    plain = Variant(OURS, workload.pipeline)
    return [
        plain,
        *(
            Variant(options, f"retile{{{options}}},{workload.pipeline}")
            for options in SWEEPS[workload.name].options()
        ),
    ]


def measured(
    workload: Workload, builds: Sequence[Build], facts: dict[str, str], watched: Watched
) -> list[System]:
    """What was measured of the builds, the fastest first."""
    systems: list[System] = []
    for start in range(0, len(builds), TOGETHER):
        part = tuple(builds[start : start + TOGETHER])
        tolerance = max([TOLERANCE, *(one.tolerance for one in part)])
        job = Job(workload, tensors_of(workload), part, (), None, tolerance, facts)
        systems += watched.run(job).systems.values()
    return sorted(systems, key=lambda system: system.microseconds or float("inf"))


def table(name: str, systems: Sequence[System]) -> list[str]:
    """A table of one workload."""
    lines = ["", f"## {name}", "", "| retile | µs | error | check |", "|---|---:|---|---|"]
    for system in systems:
        time_ = "" if system.microseconds is None else f"{system.microseconds:.2f}"
        error = "" if system.relative_error is None else f"{system.relative_error:.1e}"
        lines.append(f"| {system.name} | {time_} | {error} | {system.status} |")
    return lines


def main() -> int:
    """Runs the command; exits 1 where a result is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.h200.sweep", description=__doc__)
    parser.add_argument("--workloads", default=",".join(SWEEPS), help="names, with commas")
    parser.add_argument("--pipeline", help="instead of the workloads' own")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="parallel builds")
    parser.add_argument("--limit", type=float, default=480.0, help="seconds to begin workloads in")
    parser.add_argument("--output", type=Path, required=True, help="OUTPUT.json and .md")
    options = parser.parse_args()
    names = options.workloads.split(",")
    unknown = [name for name in names if name not in SWEEPS]
    if unknown:
        raise UserError(f"no sweep of {unknown[0]!r}; there are {', '.join(SWEEPS)}")
    start = time.perf_counter()
    facts = facts_of_this_run(options.arch)
    found: dict[str, list[System]] = {}
    watched = Watched(lambda text: print(text, flush=True))
    chosen = [
        replace(WORKLOADS[name], pipeline=options.pipeline or WORKLOADS[name].pipeline)
        for name in names
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        tasks = [
            [Task(workload, variant, options.arch) for variant in variants_of(workload)]
            for workload in chosen
        ]
        builds = [list(pool.map(build, of_workload)) for of_workload in tasks]
    print(f"{time.perf_counter() - start:.0f} s: built", flush=True)
    watched.start()
    try:
        for workload, of_workload in zip(chosen, builds, strict=True):
            if time.perf_counter() - start > options.limit:
                print(f"time is up; {workload.name} is not begun", flush=True)
                continue
            found[workload.name] = measured(workload, of_workload, facts, watched)
            print("\n".join(table(workload.name, found[workload.name][:8])), flush=True)
            _write(options.output, facts, found)
    finally:
        watched.end()
    wrong = [s for systems in found.values() for s in systems if s.status.startswith("wrong")]
    return 1 if wrong else 0


def _write(output: Path, facts: dict[str, str], found: dict[str, list[System]]) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"# Repartitions on {facts['gpu']}", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    for name, systems in found.items():
        lines += table(name, systems)
    content = {"facts": facts, **{n: [asdict(s) for s in systems] for n, systems in found.items()}}
    output.with_suffix(".md").write_text("\n".join(lines) + "\n")
    output.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
