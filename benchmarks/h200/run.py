"""The run on a GPU: builds in parallel, then one workload after another."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks import pages
from benchmarks.facts import facts_of_this_run
from benchmarks.h200 import records as results
from benchmarks.h200.building import (
    Build,
    Prepared,
    Task,
    builders,
    compile_prepared,
    prepare,
    tensors_of,
)
from benchmarks.h200.checking import RIGHT
from benchmarks.h200.jobs import Job
from benchmarks.h200.peers import Level, peers_of
from benchmarks.h200.pipelines import TRY, Variant
from benchmarks.h200.practical_floor import compile_read_kernel
from benchmarks.h200.records import SAME_AS, Record, Records
from benchmarks.h200.report import markdown, number
from benchmarks.h200.warming import warm_up
from benchmarks.h200.worker import Say, Watched
from benchmarks.h200.workloads import Workload
from mugraph.runtime.compare import TOLERANCE

SECONDS = 440.0
"""No workload is begun later than this, and :data:`LAST_PEER` later no peer, so that a run ends
within 9 minutes."""

LAST_PEER = 50.0


@dataclass(frozen=True)
class Options:
    """What to run."""

    workloads: tuple[Workload, ...]
    peers: Level
    arch: str
    output: Path
    jobs: int
    tried: dict[str, tuple[Variant, ...]]
    """Further pipelines of workloads."""
    limit: float = SECONDS
    """Seconds after which no further workload is begun."""

    @property
    def end(self) -> float:
        """Seconds after which no further peer is begun, and one still compiling is ended."""
        return self.limit + LAST_PEER


def variants_of(workload: Workload, options: Options) -> tuple[Variant, ...]:
    """Ours, and what ``--try`` has."""
    return (Variant(), *options.tried.get(workload.name, ()))


def run(options: Options) -> Records:
    """Measures the workloads; writes the results after each of them."""
    start, began = time.perf_counter(), time.time()

    def say(text: str) -> None:
        print(f"{time.perf_counter() - start:6.1f} s  {text}", flush=True)

    facts = facts_of_this_run(options.arch)
    say(f"torch {facts['torch']} on {facts['gpu']}, commit {facts['commit']}")
    watched = Watched(say)
    with builders(options.jobs) as pool:
        reader = pool.submit(compile_read_kernel, options.arch)
        prepared = {
            workload.name: [
                pool.submit(prepare, Task(workload, variant, options.arch))
                for variant in variants_of(workload, options)
            ]
            for workload in options.workloads
        }
        builds = {
            name: compiled([future.result() for future in futures], pool)
            for name, futures in prepared.items()
        }
        if options.peers is not Level.NONE:
            warm_up(options.workloads, options.peers)
            say("torch has compiled the peers")
        watched.start()

        def jobs() -> Iterator[tuple[str, Callable[[], Job]]]:
            library = None if options.peers is Level.NONE else reader.result()
            for workload in options.workloads:
                built = builds[workload.name]
                yield workload.name, partial(_job, workload, built, library, facts, options, began)

        until = start + options.limit
        return measured_in_turn(jobs(), watched, options.output, write, say, until)


def measured_in_turn(
    jobs: Iterable[tuple[str, Callable[[], Job]]],
    watched: Watched,
    output: Path,
    write: Callable[[Records, Path], None],
    say: Say,
    until: float = math.inf,
) -> Records:
    """Measures jobs, each behind its name, one after another, and writes OUTPUT after each.

    Returns the records of OUTPUT.json with the new ones in the place of those of the same name.  No
    job is begun behind ``until``, of ``time.perf_counter()``.  Ends the measuring process.
    """
    records = results.known(output)
    if records:
        path = output.with_suffix(".json")
        say(f"{path} holds {len(records)} records; those measured now replace theirs")
    try:
        for name, job in jobs:
            if time.perf_counter() > until:
                say(f"time is up; {name} and what follows is not begun")
                break
            record = watched.run(job())
            for line in summary(record):
                say(line)
            records = results.merged([records, {record.workload: record}])
            write(records, output)
    finally:
        watched.end()
    return records


def compiled(files: Sequence[Prepared | Build], pool: Executor) -> list[Build | Future[Build]]:
    """The builds of a workload's variants; what has the same file as another is not built."""
    first: dict[str, str] = {}
    found: list[Build | Future[Build]] = []
    for one in files:
        if isinstance(one, Build):
            found.append(one)
            continue
        name = one.task.variant.name
        other = first.setdefault(one.source, name)
        if other == name:
            found.append(pool.submit(compile_prepared, one))
        else:
            found.append(replace(one.build, same_as=other))
    return found


def _job(
    workload: Workload,
    builds: Sequence[Build | Future[Build]],
    library: Path | None,
    facts: dict[str, str],
    options: Options,
    began: float,
) -> Job:
    done = tuple(one.result() if isinstance(one, Future) else one for one in builds)
    tolerance = max([TOLERANCE, *(built.tolerance for built in done)])
    peers = peers_of(workload, options.peers)
    tensors, end = tensors_of(workload), began + options.end
    return Job(workload, tensors, done, peers, library, tolerance, facts, end=end)


def summary(record: Record) -> list[str]:
    """What is not right of a record, a line each, and all times in one line."""
    lines = [
        f"{record.workload} {system.name}: {system.status}"
        for system in record.systems.values()
        if system.status != RIGHT and not system.status.startswith(SAME_AS)
    ]
    timed = [system for system in record.systems.values() if system.microseconds is not None]
    lines += [
        f"{record.workload} {system.name}: {number(system.microseconds)} µs, {system.pipeline}"
        for system in sorted(timed, key=lambda system: system.microseconds or 0.0)
        if system.name.startswith(TRY)
    ]
    times = [f"{system.name} {number(system.microseconds)}" for system in timed]
    return [*lines, f"{record.workload}: floor {number(record.floor)}, {', '.join(times)} µs"]


def write(records: Records, output: Path) -> None:
    """Writes OUTPUT.json and OUTPUT.md; each appears whole or not at all."""
    gpus = sorted({record.facts["gpu"].split(",")[0] for record in records.values()})
    title = f"Workloads on {' and '.join(gpus)}"
    pages.write(output, results.content_of(records), markdown(records, title))
