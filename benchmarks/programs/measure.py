"""Programs on a GPU: with and without ``--fuse-kernels``, checked, and timed beside peers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import pages
from benchmarks.facts import facts_of_this_run
from benchmarks.h200 import records as results
from benchmarks.h200.building import Build, Task, build, builders, tensors_of
from benchmarks.h200.checking import RIGHT
from benchmarks.h200.device import DEVICE
from benchmarks.h200.jobs import PEER_SECONDS, Job, Step
from benchmarks.h200.measure import SEED, measured, settle
from benchmarks.h200.peers import MAX_AUTOTUNE, Level, Peer
from benchmarks.h200.pipelines import OURS, PLANNED, Variant
from benchmarks.h200.records import Record, Records
from benchmarks.h200.report import number
from benchmarks.h200.run import measured_in_turn
from benchmarks.h200.worker import Watched
from benchmarks.h200.workloads import Rewritten
from benchmarks.programs import PROGRAMS
from benchmarks.programs.families import Program
from mugraph.runtime.compare import TOLERANCE

WRITTEN = "as written"
"""The program without ``--fuse-kernels``."""

BY_HAND = "by hand"
"""The µGraph of the same function that was written by hand, with its best plan."""

FUSED = f"fuse-kernels,{PLANNED}"


def measure(job: Job, begin: Callable[[Step], None]) -> Record:
    """Measures one program; raises where the GPU cannot be used any more."""
    import torch

    settle()
    begin(Step("inputs", PEER_SECONDS))
    program = PROGRAMS[job.workload.name]
    given = program.random_inputs(SEED)
    inputs = tuple(torch.from_numpy(each).to(DEVICE) for each in given)
    expected = [torch.from_numpy(each).to(DEVICE) for each in program.reference(*given)]
    function = program.torch_function()
    peers = [replace(peer, function=function) for peer in job.peers]
    return measured(job, begin, inputs, expected, torch.float16, peers)


def tasks_of(program: Program, arch: str, folder: Path) -> list[Task]:
    """What is built of a program, whose file is written into a folder."""
    scales = tuple(each.scale for each in program.inputs)
    plain = Rewritten(program.name, program.family.function, scales, 0, folder=folder)
    plain.path.write_text(str(program.module()), encoding="utf-8")
    tasks = [Task(plain, Variant(OURS, FUSED), arch)]
    tasks.append(Task(plain, Variant(WRITTEN, PLANNED), arch))
    if program.by_hand is not None:
        tasks.append(Task(program.by_hand, Variant(BY_HAND, PLANNED), arch))
    return tasks


def run(programs: Sequence[Program], level: Level, arch: str, jobs: int, output: Path) -> Records:
    """Measures programs one after another; writes OUTPUT.json and OUTPUT.md after each."""
    facts = facts_of_this_run(arch)
    watched = Watched(print, measure)
    with TemporaryDirectory() as folder, builders(jobs) as pool:
        tasks = [tasks_of(program, arch, Path(folder)) for program in programs]
        building = [[pool.submit(build, task) for task in each] for each in tasks]

        def job(each: Sequence[Task], futures: Sequence[Future[Build]]) -> Job:
            workload, builds = each[0].workload, tuple(one.result() for one in futures)
            peer = Peer(MAX_AUTOTUNE, workload.reference, Level.ALL, "max-autotune-no-cudagraphs")
            peers = (peer,) if level.includes(peer.level) else ()
            return Job(workload, tensors_of(workload), builds, peers, None, TOLERANCE, facts)

        pairs = zip(tasks, building, strict=True)
        jobs_ = ((each[0].workload.name, partial(job, each, made)) for each, made in pairs)
        return measured_in_turn(jobs_, watched, output, write, print)


COLUMNS = (
    "program", "ours:", "by hand:", "ours / by hand:", "as written:",
    "max-autotune:", "ours / max-autotune:", "error", "commit", "not right",
)  # fmt: skip


def page(records: Records) -> list[str]:
    """The table of a run."""
    facts = next(iter(records.values())).facts
    return [
        *pages.head(f"Plain programs on {facts['gpu']}", facts),
        "µs a call, as in `docs/benchmarks.md`. *Ours* is what `--fuse-kernels` and `--transpile`",
        "make of the program, *as written* without `--fuse-kernels`, *by hand* the µGraph of",
        "`benchmarks/h200/mugraphs` for the same function. What is not right has no time.",
        "",
        *pages.table(COLUMNS, map(cells, records.values())),
    ]


def cells(record: Record) -> list[object]:
    """A line of the table."""

    def ratio(other: str) -> str | None:
        ours, theirs = record.ours, record.time_of(other)
        return None if ours is None or theirs is None else f"{ours / theirs:.2f}"

    def time(name: str) -> str | None:
        microseconds = record.time_of(name)
        return None if microseconds is None else number(microseconds)

    ours = record.systems[OURS]
    wrong = [f"{one.name}: {one.status}" for one in record.systems.values() if one.status != RIGHT]
    return [
        record.workload,
        time(OURS),
        time(BY_HAND),
        ratio(BY_HAND),
        time(WRITTEN),
        time(MAX_AUTOTUNE),
        ratio(MAX_AUTOTUNE),
        None if ours.relative_error is None else f"{ours.relative_error:.1e}",
        record.facts["commit"],
        "; ".join(wrong),
    ]


def write(records: Records, output: Path) -> None:
    """Writes OUTPUT.json, which :func:`benchmarks.h200.records.read` reads, and OUTPUT.md."""
    pages.write(output, results.content_of(records), page(records))
