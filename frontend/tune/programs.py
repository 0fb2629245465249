"""Tunes the kernels of a program, one after another, and writes down what is found."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mugraph.dialects.plan import Plan
from mugraph.passes.mugraph.known_plans import (
    Entry,
    PlanDatabase,
    UsePlansPass,
    estimated,
    measured_plans,
)
from mugraph.passes.mugraph.known_plans.structure import likeness_of
from mugraph.passes.targets import gpu_named, target_named
from mugraph.runtime.toolchain import cache_directory, device_name
from mugraph.tune.children import Children
from mugraph.tune.cuda import bench_of, time_programs
from mugraph.tune.kernels import TunedKernel, compiler_version, tunable_kernels
from mugraph.tune.records import Records
from mugraph.tune.search import Outcome, Search
from mugraph.tune.workbench import AnyPlan, MeasureError, Workbench

VARIABLE = "MUGRAPH_PLANS"
"""The environment variable that names the plan database."""

CANDIDATES = 48
"""Plans whose tiles are estimated to be the fastest, of which as many are tried."""
SECONDS = 60.0
"""How long the search for a kernel takes, about."""

Compare = Callable[[str, str, bool, UsePlansPass], tuple[list[float], list[float]]]
"""Of a program's text, a target and whether operators share kernels: microseconds without and with
the plans of a database."""

OpenBench = Callable[[TunedKernel, Children], AbstractContextManager[Workbench[Plan]]]
"""Where a kernel is built, by these processes, and measured."""


def database_path() -> Path:
    """The plan database: what :data:`VARIABLE` names, or a file in mugraph's cache."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else cache_directory() / "plans.jsonl"


def gpu_here() -> str | None:
    """What the first GPU of this machine is called in a database; ``None`` where there is none."""
    name = device_name()
    return None if name is None else gpu_named(name)


@dataclass(frozen=True)
class Options:
    """How kernels are tuned, and where what is found is kept."""

    database: Path
    gpu: str
    candidates: int = CANDIDATES
    seconds: float = SECONDS
    """For a kernel."""
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)
    again: bool = False
    """Whether kernels are tuned that the database knows."""

    @property
    def records(self) -> Path:
        """Where all that is measured is written down."""
        return self.database.with_name(self.database.name + ".records")


Say = Callable[[str], None]


def say_on_stderr(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def tune_kernels(
    kernels: Sequence[TunedKernel],
    options: Options,
    builders: Children,
    say: Say = say_on_stderr,
    open_bench: OpenBench = bench_of,
) -> list[Entry]:
    """Finds the fastest plan of each kernel, and writes it into the database when it is found.

    Returns the entries of all kernels, those that the database knew before among them.  A kernel
    that cannot be measured is said, and has none.  Raises ``UserError`` where a file cannot be
    read or written.
    """
    entries: list[Entry] = []
    for number, kernel in enumerate(kernels, 1):
        head = f"[{number}/{len(kernels)}] {kernel.name}"
        database = PlanDatabase.read(options.database).over(measured_plans(options.gpu))
        known = database.find(kernel.structure, options.gpu)
        if known is not None and not options.again:
            say(f"{head} is known: {known.microseconds:.2f} µs, {known.before:.2f} µs before")
            entries.append(known)
            continue
        records = Records(
            options.records,
            kernel.structure,
            options.gpu,
            kernel.name,
            compiler_version(),
            anew=options.again,
        )
        try:
            with open_bench(kernel, builders) as bench:
                search = Search(
                    bench, records, lambda text, head=head: say(f"{head}: {text}"), options.seconds
                )
                outcome = search.run(kernel.candidates(options.candidates), kernel.variants)
        except MeasureError as error:
            say(f"{head} is not tuned: {error}")
            continue
        if not (outcome.built or outcome.complete):
            say(f"{head} is not tuned: there was no time to build another plan")
            continue
        entry = entry_of(kernel, outcome, options.gpu)
        say(f"{head}: {said(outcome)}")
        keep([entry], options.database)
        entries.append(entry)
    return entries


def tune_program(
    module: ModuleOp,
    context: Context,
    target: str,
    options: Options,
    *,
    fuse: bool = True,
    builders: Children | None = None,
    say: Say = say_on_stderr,
    open_bench: OpenBench = bench_of,
    compare: Compare = time_programs,
) -> list[Entry]:
    """Tunes the kernels of a program, and then compares the program as a whole.

    ``builders`` are processes that other programs were tuned with; without them some are started.
    Kernels that follow each other are not as fast as each alone: where the program takes longer
    with the plans that are new, these are taken back.  Returns the entries of its kernels.
    """
    kernels, left = tunable_kernels(module, context, target, fuse=fuse)
    for sentence in left:
        say(sentence)
    old = PlanDatabase.read(options.database)
    with nullcontext(builders) if builders is not None else Children(options.jobs) as children:
        entries = tune_kernels(kernels, options, children, say, open_bench)
    new = [one for one in entries if one != old.find(one.structure, one.gpu) and one.plan.parts()]
    if not new or len(entries) == 1:
        return entries
    known = UsePlansPass(str(options.database), options.gpu, target)
    try:
        before, after = map(statistics.median, compare(str(module), target, fuse, known))
    except MeasureError as error:
        say(f"the program as a whole is not compared: {error}")
        return entries
    say(f"the program: {after:.2f} µs, {before:.2f} µs without measured plans")
    if after <= before:
        return entries
    say(f"the plans of {len(new)} kernels are taken back: the program is slower with them")
    kept = [
        replace(one, plan=Plan(), microseconds=one.before) if one in new else one for one in entries
    ]
    keep(kept, options.database)
    return kept


_WRITING = Lock()


def keep(entries: Sequence[Entry], path: Path) -> None:
    """Writes entries into a database in the place of others for the same kernels."""
    with _WRITING:
        database = PlanDatabase.read(path)  # others may have written meanwhile
        for entry in entries:
            database.replace(entry)
        database.write(path)


def entry_of(kernel: TunedKernel, outcome: Outcome[Plan], gpu: str) -> Entry:
    """What a database keeps of a search."""
    return Entry(
        kernel.structure,
        gpu,
        outcome.plan,
        round(outcome.microseconds, 3),
        round(outcome.before, 3),
        *likeness_of(kernel.graph),
        estimated(kernel.graph, outcome.plan, target_named(kernel.target)),
        kernel.name,
        datetime.now(UTC).date().isoformat(),
    )


def said(outcome: Outcome[AnyPlan]) -> str:
    """A sentence on a search."""
    tried = f"{outcome.built} plans measured, {outcome.refused} cannot be"
    rest = "" if outcome.complete else "; its time was up before all were tried"
    if outcome.plan == type(outcome.plan)():
        return f"the plan of the estimate stays, {outcome.before:.2f} µs ({tried}{rest})"
    return f"{outcome.microseconds:.2f} µs, {outcome.before:.2f} µs before ({tried}{rest})"
