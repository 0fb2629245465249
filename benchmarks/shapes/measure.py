"""Drawn shapes on a GPU: built in processes, checked, timed beside peers, one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import pages
from benchmarks.facts import facts_of_this_run
from benchmarks.h200 import records as results
from benchmarks.h200.building import Build, Task, TensorOf, build, builders, tensors_of
from benchmarks.h200.device import DEVICE
from benchmarks.h200.jobs import PEER_SECONDS, Job, Step
from benchmarks.h200.measure import measured, random_inputs, settle
from benchmarks.h200.peers import Level
from benchmarks.h200.pipelines import OURS, PLANNED, Variant
from benchmarks.h200.records import Record, Records
from benchmarks.h200.run import LAST_PEER, measured_in_turn
from benchmarks.h200.warming import compile_peers, in_processes
from benchmarks.h200.worker import Watched
from benchmarks.h200.workloads import Rewritten
from benchmarks.programs.families import several
from benchmarks.programs.measure import FUSED
from benchmarks.shapes.draw import ELEMENT_TYPES, Shape, shape_named
from benchmarks.shapes.kinds import Attention
from benchmarks.shapes.peers import peers_of, written
from benchmarks.shapes.report import PLANS, TUNED, page
from mugraph.runtime.compare import tolerance_for
from mugraph.runtime.interpreter.arithmetic import storage_dtype
from mugraph.tune import gpu_here

ROUND_MICROSECONDS = 40_000.0
"""How long a system's samples of one of five rounds take, at most."""


@dataclass(frozen=True)
class Options:
    """What to run."""

    shapes: Sequence[Shape]
    level: Level
    tuned: int
    """Of so many shapes one is also compiled by max-autotune; 0 for none."""
    arch: str
    jobs: int
    limit: float
    """Seconds after which no further shape is begun."""
    output: Path
    plans: Path | None = None
    """A plan database: ours is measured under its plans, too."""
    compiled: bool = False
    """Whether :func:`compile_only` has compiled the peers; libraries are found in any case."""


def level_of(shape: Shape, options: Options) -> Level:
    """The peers of one shape."""
    if options.level is Level.FAST and options.tuned and shape.index % options.tuned == 0:
        return Level.ALL
    return options.level


def tasks_of(shape: Shape, arch: str, folder: Path, plans: Path | None = None) -> list[Task]:
    """What is built of a shape, whose program is written into a folder: ours, and ours tuned."""
    scales = tuple(each.scale for each in shape.operands)
    plain = Rewritten(shape.name, partial(written, shape), scales, shape.least_flop, folder=folder)
    plain.path.write_text(str(shape.module()), encoding="utf-8")
    variants = [Variant(OURS, FUSED)]
    if plans is not None:
        variants.append(Variant(TUNED, tuned_pipeline(plans)))
    return [Task(plain, variant, arch) for variant in variants]


def tuned_pipeline(plans: Path) -> str:
    """What ``mugraph.compile(..., tune=True)`` does to a program, with a database that is there."""
    known = f'use-plans{{database="{plans.resolve()}" gpu="{gpu_here() or ""}"}}'
    return f"fuse-kernels,decompose-program,end-loads,factor-products,{known},{PLANNED}"


def inputs_of(shape: Shape, tensors: Sequence[TensorOf]) -> tuple[Any, ...]:
    """Random inputs on the GPU."""
    operands = shape.operands
    scales, shifts = [each.scale for each in operands], [each.shift for each in operands]
    return random_inputs(tensors[: len(operands)], scales, shifts)


def expected_of(shape: Shape, inputs: Sequence[Any]) -> list[Any]:
    """The results in float64; of attention a matrix at a time, whose scores need room."""
    import torch

    function = shape.of_torch()
    if not isinstance(shape.kind, Attention):
        return [*several(function(*(each.double() for each in inputs)))]
    parts = [
        function(*(each[at : at + 1].double() for each in inputs))
        for at in range(inputs[0].shape[0])
    ]
    return [torch.cat(parts)]


def measure(job: Job, begin: Callable[[Step], None]) -> Record:
    """Measures one shape; raises where the GPU cannot be used any more."""
    import torch

    settle()
    begin(Step("inputs", PEER_SECONDS))
    torch.cuda.empty_cache()
    shape = shape_named(job.workload.name)
    inputs = inputs_of(shape, job.tensors)
    expected = expected_of(shape, inputs)
    return measured(job, begin, inputs, expected, inputs[0].dtype, job.peers, ROUND_MICROSECONDS)


def compile_ahead(level: Level, names: Sequence[str]) -> None:
    """Lets torch compile the peers of shapes, for the process that measures."""
    import torch

    types = {"f16": torch.float16, "bf16": torch.bfloat16}
    for name in names:
        shape = shape_named(name)
        dtype = types[shape.element_type]
        inputs = [torch.zeros(each.shape, dtype=dtype, device=DEVICE) for each in shape.operands]
        compile_peers(peers_of(shape, level), inputs)


def compile_only(options: Options) -> int:
    """Builds ours and lets torch compile the peers, for a later run; how many are not built."""
    failed = 0
    with TemporaryDirectory() as folder, builders(options.jobs) as pool:
        tasks = [tasks_of(s, options.arch, Path(folder), options.plans) for s in options.shapes]
        building = [pool.submit(build, task) for each in tasks for task in each]
        if options.level is not Level.NONE:
            in_processes(partial(compile_ahead, options.level), [s.name for s in options.shapes])
        for future in building:
            made = future.result()
            failed += made.error is not None
            print(f"{made.task.workload.name}: {made.error or 'built'}", flush=True)
    return failed


def run(options: Options) -> Records:
    """Measures what OUTPUT.json does not have of this commit; writes it after each shape."""
    start, began = time.perf_counter(), time.time()

    def say(text: str) -> None:
        print(f"{time.perf_counter() - start:6.1f} s  {text}", flush=True)

    records = results.known(options.output)
    facts = facts_of_this_run(options.arch)
    missing = [s for s in options.shapes if not is_measured(s, records, facts, options.plans)]
    say(f"{len(missing)} of {len(options.shapes)} shapes are to be measured on {facts['gpu']}")
    watched = Watched(say, measure)
    with TemporaryDirectory() as folder, builders(options.jobs) as pool:
        tasks = [tasks_of(s, options.arch, Path(folder), options.plans) for s in missing]
        building = [[pool.submit(build, task) for task in each] for each in tasks]
        if options.level is not Level.NONE and not options.compiled:
            in_processes(partial(compile_ahead, options.level), [s.name for s in missing])
            say("torch has compiled the peers")
        end = began + options.limit + LAST_PEER

        def job(shape: Shape, futures: Sequence[Future[Build]]) -> Job:
            builds = [future.result() for future in futures]
            return job_of(shape, builds, facts | shape.facts, options, end)

        pairs = zip(missing, building, strict=True)
        jobs = ((shape.name, partial(job, shape, futures)) for shape, futures in pairs)
        until = start + options.limit
        return measured_in_turn(jobs, watched, options.output, write, say, until)


def is_measured(
    shape: Shape, records: Records, facts: dict[str, str], plans: Path | None = None
) -> bool:
    """Whether a shape was measured at this commit on such a GPU, under plans if there are some."""
    record = records.get(shape.name)
    if record is None or (plans is not None and PLANS not in record.facts):
        return False
    return all(record.facts[name] == facts[name] for name in ("commit", "gpu"))


def job_of(
    shape: Shape,
    builds: Sequence[Build],
    facts: dict[str, str],
    options: Options,
    end: float,
) -> Job:
    """What the measuring process does for a shape, once it is built."""
    ours, *tuned = builds
    # Where measured plans change nothing there is one library: the cache is by contents.
    differing = [one for one in tuned if one.library is None or one.library != ours.library]
    peers = peers_of(shape, level_of(shape, options))
    # Ours may not be built; its peers are checked nevertheless.
    tolerance = tolerance_for([storage_dtype(ELEMENT_TYPES[shape.element_type])])
    workload = ours.task.workload
    facts = facts | {PLANS: options.plans.name} if options.plans is not None else facts
    return Job(
        *(workload, tensors_of(workload), (ours, *differing), peers, None, tolerance, facts),
        end=end,
    )


def write(records: Records, output: Path) -> None:
    """Writes OUTPUT.json, which :func:`benchmarks.h200.records.read` reads, and OUTPUT.md."""
    pages.write(output, results.content_of(records), page(records))
