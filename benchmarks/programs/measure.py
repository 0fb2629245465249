"""Programs on a GPU: with and without ``--fuse-kernels``, checked, and timed beside peers."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import pages
from benchmarks.facts import facts_of_this_run
from benchmarks.h200 import records as results
from benchmarks.h200.anchors import floor_microseconds
from benchmarks.h200.building import Build, Task, build, tensors_of
from benchmarks.h200.checking import RIGHT, Verdict, judge
from benchmarks.h200.device import DEVICE
from benchmarks.h200.kernels import Guarded, Ours
from benchmarks.h200.measure import SEED, settle
from benchmarks.h200.peers import MAX_AUTOTUNE, Level, Peer
from benchmarks.h200.pipelines import OURS, PLANNED, Variant
from benchmarks.h200.records import Record, Records, System
from benchmarks.h200.report import number
from benchmarks.h200.run import summary
from benchmarks.h200.statistics import set_count
from benchmarks.h200.timing import Captured, interleaved, prepared
from benchmarks.h200.worker import (
    EXPECTED_SECONDS,
    NO_TIME_LEFT,
    OURS_SECONDS,
    PEER_SECONDS,
    Job,
    Step,
    Watched,
)
from benchmarks.h200.workloads import Rewritten
from benchmarks.programs import PROGRAMS
from benchmarks.programs.families import Program, several
from mugraph.runtime.compare import TOLERANCE

WRITTEN = "as written"
"""The program without ``--fuse-kernels``."""

BY_HAND = "by hand"
"""The µGraph of the same function that was written by hand, with its best plan."""

FUSED = f"fuse-kernels,{PLANNED}"


class Results(Ours):
    """A compiled program; its results lie one after another in one tensor."""

    def cut(self, whole: Any) -> list[Any]:
        """The results that lie in a tensor."""
        assert self.build.interface is not None
        shapes = [output.shape for output in self.build.interface.outputs]
        ends = accumulate(map(math.prod, shapes), initial=0)
        parts = zip(pairwise(ends), shapes, strict=True)
        return [whole[start:end].reshape(shape) for (start, end), shape in parts]

    def launch(self, inputs: Sequence[Any], output: Any) -> None:
        """Enqueues one call on torch's current stream."""
        import torch

        pointers = [tensor.data_ptr() for tensor in (*inputs, *self.cut(output))]
        stream = torch.cuda.current_stream().cuda_stream
        self._kernel.launch(pointers, self._workspace.tensor.data_ptr(), stream)

    def check(
        self, inputs: Sequence[Any], expected: Any, dtype: Any, tolerance: float | None = None
    ) -> Verdict:
        """Judges all results as one tensor, as :class:`Ours` does, and then each of them."""
        import torch

        verdict = super().check(inputs, expected, dtype, tolerance)
        if not verdict.right:
            return verdict
        allowed = self.build.tolerance if tolerance is None else tolerance
        return judge_each(torch, self.cut(self._result), self.cut(expected), allowed)


def judge_each(
    library: Any, outputs: Sequence[Any], expected: Sequence[Any], tolerance: float
) -> Verdict:
    """The first verdict on several results that is not right, or the one of the largest error."""
    verdicts = [judge(library, *pair, tolerance) for pair in zip(outputs, expected, strict=True)]
    return max(verdicts, key=lambda one: (not one.right, one.relative_error or 0.0))


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


def measured(
    job: Job,
    begin: Callable[[Step], None],
    inputs: tuple[Any, ...],
    expected: Sequence[Any],
    dtype: Any,
    peers: Sequence[Peer],
    sample_microseconds: float | None = None,
) -> Record:
    """Checks and times what was built of one program, and its peers, on inputs on the GPU.

    ``expected`` are the results in float64, ``dtype`` is torch's type of all results.
    ``sample_microseconds`` is how long the samples of a round should take together, at most: those
    of long graphs are fewer then.  Raises where the GPU cannot be used any more.
    """
    import torch

    flat = torch.cat([result.reshape(-1) for result in expected])
    total = sum(tensor.bytes for tensor in job.tensors)
    sets = [inputs] + [tuple(map(torch.clone, inputs)) for _ in range(set_count(total) - 1)]
    floor = floor_microseconds(total, job.workload.flop)
    record = Record(job.workload.name, job.facts, total, floor)
    graphs: dict[str, Captured] = {}
    kernels: dict[str, Results] = {}

    def add(system: System, seconds: float, prepare: Callable[[], Captured | None]) -> None:
        record.add(job.failed.get(system.name, system))
        if system.name in job.failed or system.status != RIGHT:
            return
        left = job.end - time.time()
        if left < EXPECTED_SECONDS[Level.FAST] and system.is_peer:
            system.status = NO_TIME_LEFT
            return
        begin(Step(system.name, min(seconds, max(left, OURS_SECONDS))))
        try:
            if (graph := prepare()) is not None:
                graphs[system.name] = graph
        except Exception as error:  # the others are measured nevertheless
            lines = [*str(error).strip().splitlines(), ""]
            system.status = f"{type(error).__name__}: {lines[0]}"[:300]
            torch.cuda.synchronize()  # raises where the GPU cannot be used any more

    def ours(system: System, built: Build) -> Captured | None:
        kernel = kernels[system.name] = Results(built)
        verdict = kernel.check(inputs, flat, dtype)
        system.status, system.relative_error = verdict.status, verdict.relative_error
        if not verdict.right:
            return None
        return prepared(kernel.call(sets, Guarded(flat.shape, dtype).tensor), len(sets))

    def others(system: System, peer: Peer) -> Captured | None:
        torch.compiler.reset()
        with torch.inference_mode():
            function = peer.ready()
            given = [inputs if peer.prepare is None else peer.prepare(inputs) for inputs in sets]
            results = function(*given[0])
            if peer.same_function:
                verdict = judge_each(torch, several(results), expected, job.tolerance)
                system.status, system.relative_error = verdict.status, verdict.relative_error
            if system.status != RIGHT:
                return None
            return prepared(lambda index: function(*given[index]), len(sets))

    for built in job.builds:
        variant = built.task.variant
        system = System(variant.name, built.error or RIGHT, pipeline=variant.pipeline)
        system.kernels, system.progress = list(built.kernels), list(built.progress)
        add(system, OURS_SECONDS, lambda system=system, built=built: ours(system, built))
    for peer in peers:
        system = System(peer.name, RIGHT, is_peer=peer.same_function)
        add(system, PEER_SECONDS, lambda system=system, peer=peer: others(system, peer))
    names = list(graphs)
    samples = interleaved(
        list(graphs.values()),
        lambda index: begin(Step(names[index], OURS_SECONDS)),
        sample_microseconds,
    )
    for name, values in zip(names, samples, strict=True):
        system = record.systems[name]
        if name in kernels:
            begin(Step(name, OURS_SECONDS))
            system.status = kernels[name].check_calls(graphs[name].graph.replay).status
        if system.status == RIGHT:
            system.set_samples(values)
    return record


def tasks_of(program: Program, arch: str, folder: Path) -> list[Task]:
    """What is built of a program, whose file is written into a folder."""
    scales = tuple(each.scale for each in program.inputs)
    plain = Rewritten(program.name, program.family.function, scales, 0, folder=folder)
    plain.path.write_text(str(program.module()), encoding="utf-8")
    tasks = [Task(plain, Variant(OURS, FUSED), arch)]
    tasks.append(Task(plain, Variant(WRITTEN, PLANNED), arch))
    if program.by_hand is not None:
        tasks.append(Task(program.by_hand, Variant(BY_HAND, program.by_hand.pipeline), arch))
    return tasks


def run(programs: Sequence[Program], level: Level, arch: str, jobs: int, output: Path) -> Records:
    """Measures programs one after another; writes OUTPUT.json and OUTPUT.md after each."""
    found = output.with_suffix(".json")
    records = results.read(found) if found.exists() else {}
    facts = facts_of_this_run(arch)
    watched = Watched(print, measure)
    with TemporaryDirectory() as folder, ProcessPoolExecutor(jobs) as pool:
        tasks = [tasks_of(program, arch, Path(folder)) for program in programs]
        building = [[pool.submit(build, task) for task in each] for each in tasks]
        try:
            for each, futures in zip(tasks, building, strict=True):
                workload, builds = each[0].workload, tuple(one.result() for one in futures)
                peer = Peer(
                    MAX_AUTOTUNE, workload.reference, Level.ALL, "max-autotune-no-cudagraphs"
                )
                peers = (peer,) if level.includes(peer.level) else ()
                tensors = tensors_of(workload)
                job = Job(workload, tensors, builds, peers, None, TOLERANCE, facts)
                record = watched.run(job)
                print(*summary(record), sep="\n", flush=True)
                records = results.merged([records, {record.workload: record}])
                write(records, output)
        finally:
            watched.end()
            pool.shutdown(cancel_futures=True)
    return records


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
    pages.write(output, json.loads(results.to_json(records)), page(records))
