"""The run on a GPU: builds in parallel, then one workload after another."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.facts import facts_of_this_run
from benchmarks.h200 import records as results
from benchmarks.h200.building import Build, Task, build
from benchmarks.h200.checking import RIGHT
from benchmarks.h200.measure import Measurement
from benchmarks.h200.peers import Level, peers_of
from benchmarks.h200.pipelines import OURS, Variant, ablations
from benchmarks.h200.plot import svg
from benchmarks.h200.practical_floor import compile_read_kernel
from benchmarks.h200.records import Records, System
from benchmarks.h200.report import markdown, number
from benchmarks.h200.workloads import Workload


@dataclass(frozen=True)
class Options:
    """What to run."""

    workloads: tuple[Workload, ...]
    peers: Level
    arch: str
    output: Path
    ablate: bool
    jobs: int
    limit: float
    """Seconds after which no further workload is begun."""


def variants_of(workload: Workload, options: Options) -> tuple[Variant, ...]:
    """Ours, and what is left of it with one thing switched off."""
    ours = Variant(OURS, workload.pipeline)
    if not options.ablate:
        return (ours,)
    return (ours, *ablations(workload.pipeline, options.arch))


def run(options: Options) -> Records:
    """Measures the workloads; writes the results after each of them."""
    start = time.perf_counter()

    def say(text: str) -> None:
        print(f"{time.perf_counter() - start:6.1f} s  {text}", flush=True)

    records: Records = {}
    json_path = options.output.with_suffix(".json")
    if json_path.exists():
        records = results.read(json_path)
        say(f"{json_path} holds {len(records)} workloads; those measured now replace theirs")
    # The processes are started before this one opens the GPU.
    with ProcessPoolExecutor(options.jobs) as pool:
        reader = pool.submit(compile_read_kernel, options.arch)
        builds = {
            workload.name: [
                (variant, pool.submit(build, Task(workload, variant, options.arch)))
                for variant in variants_of(workload, options)
            ]
            for workload in options.workloads
        }
        import torch

        facts = {**facts_of_this_run(options.arch), "torch": str(torch.__version__)}
        say(f"torch {facts['torch']} on {facts['gpu']}, commit {facts['commit']}")
        library = reader.result()
        left: list[str] = []
        for workload in options.workloads:
            if time.perf_counter() - start > options.limit:
                left.append(workload.name)
                continue
            record = _measure(workload, builds[workload.name], library, facts, options, say)
            if record is not None:
                records = results.merged([records, {workload.name: record}])
                write(records, options.output)
            torch.cuda.empty_cache()
        if left:
            say(f"time is up; not begun: {','.join(left)}")
            for _, future in (pair for name in left for pair in builds[name]):
                future.cancel()
    return records


def _measure(
    workload: Workload,
    builds: Sequence[tuple[Variant, Future[Build]]],
    library: Path,
    facts: dict[str, str],
    options: Options,
    say: _Say,
) -> results.Record | None:
    done = [(variant, future.result()) for variant, future in builds]
    for variant, built in done:
        if built.error is not None:
            say(f"{workload.name} {variant.name}: {built.error}")
    known = next((built.interface for _, built in done if built.interface is not None), None)
    if known is None:
        return None
    tolerance = max(built.tolerance for _, built in done)
    measurement = Measurement(workload, known.tensors, facts)
    for variant, built in done:
        measurement.add_ours(variant.name, built)
    say(f"{workload.name}: {measurement.record.systems[OURS].status}")
    if not options.ablate:
        measurement.add_read_kernel(library)
    for peer in peers_of(workload, options.peers):
        measurement.add_peer(peer, tolerance)
        _warn(workload, measurement.record.systems[peer.name], say)
    measurement.time()
    times = [
        f"{system.name} {number(system.microseconds)}"
        for system in measurement.record.systems.values()
        if system.microseconds is not None
    ]
    say(f"{workload.name}: floor {number(measurement.record.floor)}, {', '.join(times)} µs")
    return measurement.record


class _Say:
    """What prints a line of progress."""

    def __call__(self, text: str) -> None: ...


def _warn(workload: Workload, system: System, say: _Say) -> None:
    if system.status != RIGHT:
        say(f"{workload.name} {system.name}: {system.status}")


def write(records: Records, output: Path) -> None:
    """Writes OUTPUT.json, OUTPUT.md and OUTPUT.svg; each appears whole or not at all."""
    gpus = sorted({record.facts["gpu"].split(",")[0] for record in records.values()})
    title = f"Workloads on {' and '.join(gpus)}"
    output.parent.mkdir(parents=True, exist_ok=True)
    for suffix, text in (
        (".json", results.to_json(records)),
        (".md", markdown(records, title)),
        (".svg", svg(records, title)),
    ):
        temporary = output.with_suffix(suffix + ".part")
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, output.with_suffix(suffix))
