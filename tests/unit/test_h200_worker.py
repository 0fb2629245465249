"""What hangs or kills the process that measures is blamed, and the rest measured by another."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import pages
from benchmarks.h200 import records as results
from benchmarks.h200.building import Build, Task
from benchmarks.h200.checking import RIGHT
from benchmarks.h200.jobs import Job, Step
from benchmarks.h200.pipelines import Variant
from benchmarks.h200.records import Record, Records, System
from benchmarks.h200.run import measured_in_turn
from benchmarks.h200.worker import Watched
from benchmarks.h200.workloads import WORKLOADS


def measure_by_name(job: Job, begin: Callable[[Step], None]) -> Record:
    """Stands in for the GPU: what a variant is called is what happens to it."""
    record = Record(job.workload.name, job.facts, 1, 1.0)
    for build in job.builds:
        name = build.task.variant.name
        if name in job.failed:
            record.add(job.failed[name])
            continue
        begin(Step(name, 1.0))
        if name == "hangs":
            time.sleep(600)
        if name == "dies":
            os._exit(139)
        if name == "raises":
            raise RuntimeError("CUDA error: an illegal memory access\nmore")
        record.add(System(name, RIGHT, microseconds=2.0))
    return record


def job_of(*variants: str) -> Job:
    workload = WORKLOADS["lora"]
    builds = tuple(Build(Task(workload, Variant(name, "transpile"), "sm_90a")) for name in variants)
    return Job(workload, (), builds, (), None, 1e-3, {"gpu": "GPU"})


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    process = Watched(print, measure_by_name)
    yield process
    process.end()


def test_what_breaks_the_process_is_blamed_and_the_rest_measured(watched: Watched) -> None:
    record = watched.run(job_of("good", "hangs", "dies", "raises", "last"))
    status = {name: system.status for name, system in record.systems.items()}
    assert status["good"] == status["last"] == RIGHT
    assert status["hangs"] == "breaks the process: nothing happened for 1 s"
    assert status["dies"] == "breaks the process: the process died"
    assert status["raises"].endswith("RuntimeError: CUDA error: an illegal memory access")
    assert [name for name, system in record.systems.items() if system.microseconds] == [
        "good",
        "last",
    ]


def test_one_process_measures_many_workloads(watched: Watched) -> None:
    for _ in range(2):
        assert watched.run(job_of("good")).systems["good"].microseconds == 2.0


def test_jobs_are_measured_in_turn_until_the_time_is_up(tmp_path: Path) -> None:
    def write(records: Records, output: Path) -> None:
        pages.write(output, results.content_of(records), [*records])

    def jobs() -> Iterator[tuple[str, Callable[[], Job]]]:
        for name in ("lora", "gated_mlp"):
            workload = WORKLOADS[name]
            yield name, lambda workload=workload: replace(job_of("good"), workload=workload)

    said: list[str] = []
    output = tmp_path / "results"
    write({"kept": Record("kept", {"gpu": "GPU"}, 1, 1.0)}, output)
    for until in (math.inf, 0.0):
        watched = Watched(said.append, measure_by_name)
        found = measured_in_turn(jobs(), watched, output, write, said.append, until)
        assert [*found] == ["kept", "lora", "gated_mlp"] == [*results.known(output)]
    assert said[0].endswith("results.json holds 1 records; those measured now replace theirs")
    assert "lora: floor 1.00, good 2.00 µs" in said
    assert said[-1] == "time is up; lora and what follows is not begun"
