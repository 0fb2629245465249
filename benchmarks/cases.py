"""Cases of a benchmark: each is built in a process of its own, checked, and timed beside peers.

A benchmark is a list of :class:`Case` and a call of :func:`main`::

    python -m benchmarks.NAME --only decode --output benchmarks/results/NAME

It writes OUTPUT.json and OUTPUT.md after each case, and keeps what OUTPUT.json has of others.
``--compile`` needs no GPU.  Times are taken as in ``benchmarks.h200.timing``.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

import mugraph
from benchmarks import pages
from benchmarks.commands import add_builds, new_parser, sentence
from benchmarks.facts import facts_of_this_run
from benchmarks.h200.checking import RIGHT, distance
from benchmarks.h200.measure import settle
from benchmarks.h200.timing import Captured, interleaved, prepared
from mugraph.build import KernelGraph
from mugraph.codegen.c_abi import CInterface
from mugraph.dialects.plan import Plan
from mugraph.jit.cuda import CudaKernel

OURS = "mugraph"
"""How the names of our systems start; the fastest of them is compared with the others."""
MICROSECONDS_A_ROUND = 20_000.0
"""How long the samples of one of five rounds take together, at most."""

Call = Callable[..., Any]
"""A system: from the tensors of a set to its result."""


@dataclass(frozen=True)
class Built:
    """A compiled library, and how it is called."""

    library: Path
    interface: CInterface
    arch: str

    def kernel(self) -> CudaKernel:
        """The kernel, loaded into this process."""
        return CudaKernel(self.library, self.interface, self.arch)


def compiled(graph: KernelGraph | ModuleOp | str, arch: str, plan: Plan | None = None) -> Built:
    """What ``mugraph.compile`` makes of a program or of its text, perhaps under a plan."""
    kernel = mugraph.compile(graph, arch, plan=plan)
    assert isinstance(kernel, CudaKernel)
    return Built(kernel.library_path, kernel.interface, kernel.arch)


@dataclass(frozen=True)
class Comparison:
    """What is measured of a case on the GPU."""

    sets: Sequence[Sequence[Any]]
    """Tensors; calls go round these sets."""
    systems: Mapping[str, Call]
    """By name, ours first."""
    error: Callable[[Any], float]
    """Of a result of the first set; not a number, or infinite, where elements are missing."""
    allowed: float
    """The largest error of what is right."""
    work: float = 0.0
    """Bytes or operations of a call."""
    unit: str = "TB/s"
    """Of a million of them in a microsecond."""
    unchecked: frozenset[str] = frozenset()
    """Systems that do something else, such as a copy of as many bytes."""
    overwrites: bool = True
    """Whether our results do not depend on what was in their memory."""
    while_checked: AbstractContextManager[object] = field(default_factory=nullcontext[None])
    """Around the calls that are checked."""


class Case(ABC):
    """Something to check and to time."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What ``--only`` looks in."""

    @property
    def group(self) -> str:
        """Cases whose ratios have a mean of their own."""
        return "all"

    @abstractmethod
    def build(self, arch: str) -> Any:
        """Compiles, in a process of its own; what it returns goes through pickle."""

    @abstractmethod
    def comparison(self, built: Any) -> Comparison:
        """Loads what was built, and draws inputs."""


@dataclass
class Row:
    """One system on one case."""

    case: str
    group: str
    system: str
    commit: str
    status: str = RIGHT
    error: float | None = None
    microseconds: float | None = None
    rate: float | None = None
    unit: str = ""


def error_against(expected: Any) -> Callable[[Any], float]:
    """The norm of a result's error by the norm of what is expected, a tensor of float64."""
    import torch

    return lambda result: distance(torch, result.reshape(expected.shape), expected).relative_error


def measured(case: Case, built: Any, commit: str) -> list[Row]:
    """Checks the systems of a case, and times those that are right, in turn."""
    import torch

    comparison = case.comparison(built)
    sets = comparison.sets
    rows: dict[str, Row] = {}
    graphs: dict[str, Captured] = {}
    with torch.inference_mode():
        for name, call in comparison.systems.items():
            row = rows[name] = Row(case.name, case.group, name, commit, unit=comparison.unit)
            try:
                if name not in comparison.unchecked:
                    row.status, row.error = _checked(comparison, call, ours=name.startswith(OURS))
                if row.status == RIGHT:
                    graphs[name] = prepared(lambda at, call=call: call(*sets[at]), len(sets))
            except Exception as problem:  # the others are measured nevertheless
                row.status = f"failed: {sentence(problem)}"
                torch.cuda.synchronize()  # raises where the GPU cannot be used any more
        samples = interleaved([*graphs.values()], lambda _: None, MICROSECONDS_A_ROUND)
    for name, values in zip(graphs, samples, strict=True):
        rows[name].microseconds = values.median
        if comparison.work:
            rows[name].rate = comparison.work / values.median / 1e6
    return [*rows.values()]


def _checked(comparison: Comparison, call: Call, *, ours: bool) -> tuple[str, float]:
    """The status and the error of a system.

    Ours runs twice: the second result lies where the first one was, which is NaN by then, and has
    the same bits.
    """
    import torch

    inputs = comparison.sets[0]
    with comparison.while_checked:
        result = call(*inputs)
        differs = False
        if ours:
            before = result.clone()
            if comparison.overwrites:
                result.fill_(math.nan if result.is_floating_point() else -1)
            del result
            result = call(*inputs)
            differs = not torch.equal(result, before)
        error = comparison.error(result)
    if not error <= comparison.allowed:
        return f"wrong: error {error:.1e}, allowed {comparison.allowed:.1e}", error
    return ("wrong: two calls differ" if differs else RIGHT), error


def parser(description: str | None, *, output: str) -> argparse.ArgumentParser:
    """The options of a benchmark of cases."""
    found = new_parser(description)
    found.add_argument("--only", default="", help="cases whose name has this")
    found.add_argument("--list", action="store_true", help="their names alone")
    found.add_argument("--compile", action="store_true", help="compile only, without a GPU")
    add_builds(found)
    found.add_argument(
        "--limit", type=float, default=math.inf, help="seconds after which no case is begun"
    )
    found.add_argument("--output", type=Path, default=Path(output), help="OUTPUT.json and .md")
    return found


def main(title: str, description: str | None, cases: Sequence[Case], *, output: str) -> int:
    """The command of a benchmark that has no options of its own."""
    return run(title, cases, parser(description, output=output).parse_args())


def run(title: str, cases: Sequence[Case], options: argparse.Namespace) -> int:
    """Builds, checks and times cases, one after another; 1 where one of ours is not right."""
    start = time.perf_counter()
    chosen = [case for case in cases if options.only in case.name]
    if options.list:
        print(*(case.name for case in chosen), sep="\n")
        return 0
    rows: list[Row] = []
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        builds = [pool.submit(case.build, options.arch) for case in chosen]
        try:
            if options.compile:
                return _compile_only(chosen, builds)
            facts = facts_of_this_run(options.arch)
            settle()
            for case, future in zip(chosen, builds, strict=True):
                if time.perf_counter() - start > options.limit:
                    print(f"time is up; {case.name} and what follows is not begun", flush=True)
                    break
                rows += (found := _rows_of(case, future, facts["commit"]))
                print("", *map(said, found), sep="\n", flush=True)
                _write(title, options.output, rows, facts)
        finally:
            pool.shutdown(cancel_futures=True)
    return int(any(row.status != RIGHT for row in rows if row.system.startswith(OURS)))


def _compile_only(cases: Iterable[Case], builds: Iterable[Future[Any]]) -> int:
    failed = 0
    for case, future in zip(cases, builds, strict=True):
        problem = future.exception()
        failed += problem is not None
        print(f"{case.name}: {'compiled' if problem is None else problem}", flush=True)
    return int(failed > 0)


def _rows_of(case: Case, future: Future[Any], commit: str) -> list[Row]:
    import torch

    torch.cuda.empty_cache()
    try:
        return measured(case, future.result(), commit)
    except Exception as problem:  # the other cases are measured nevertheless
        torch.cuda.synchronize()
        return [Row(case.name, case.group, OURS, commit, f"failed: {sentence(problem)}")]


def said(row: Row) -> str:
    """A line about a system."""
    error = "" if row.error is None else f", error {row.error:.1e}"
    taken = "" if row.microseconds is None else f": {row.microseconds:.1f} µs"
    rate = "" if row.rate is None else f", {row.rate:.4g} {row.unit}"
    return f"{row.case}, {row.system}{taken}{rate}, {row.status}{error}"


def _write(title: str, output: Path, rows: Sequence[Row], facts: dict[str, str]) -> None:
    """Writes these rows, and those that the file has of other cases."""
    path = output.with_suffix(".json")
    known: list[dict[str, Any]] = []
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))["rows"]
    measured_now = {row.case for row in rows}
    others = [row for each in known if (row := Row(**each)).case not in measured_now]
    all_rows = [*others, *rows]
    content = {"facts": facts, "rows": [asdict(row) for row in all_rows]}
    pages.write(output, content, page(title, all_rows, facts))


COLUMNS = ("case", "system", "µs:", "of ours:", "rate:", "error:", "commit", "result")


def page(title: str, rows: Sequence[Row], facts: dict[str, str]) -> list[str]:
    """The means of each peer, and a line for each system of each case."""
    ours = ours_of(rows)
    return [
        *pages.head(f"{title}, on {facts['gpu']}", facts),
        "µs a call, out of the cache. *Of ours* is a system's time over ours.",
        "",
        *(f"- {line}" for line in means(rows)),
        "",
        *pages.table(COLUMNS, (_cells(row, ours.get(row.case)) for row in rows)),
    ]


def ours_of(rows: Iterable[Row]) -> dict[str, float]:
    """Our shortest time of each case."""
    found: dict[str, float] = {}
    for row in rows:
        if row.system.startswith(OURS) and row.microseconds is not None:
            found[row.case] = min(row.microseconds, found.get(row.case, math.inf))
    return found


def means(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each peer of each group: what its times are of ours."""
    ours = ours_of(rows)
    ratios: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if not row.system.startswith(OURS) and row.microseconds is not None and row.case in ours:
            found = ratios.setdefault((row.group, row.system), [])
            found.append(row.microseconds / ours[row.case])
    for (group, system), values in ratios.items():
        mean, median = statistics.geometric_mean(values), statistics.median(values)
        yield (
            f"{group}, {system}: {len(values)} cases, geometric mean {mean:.2f}, median "
            f"{median:.2f}, {min(values):.2f} to {max(values):.2f} of ours"
        )


def _cells(row: Row, ours: float | None) -> list[object]:
    time_ = row.microseconds
    return [
        row.case,
        row.system,
        None if time_ is None else f"{time_:.1f}",
        None if time_ is None or ours is None else f"{time_ / ours:.2f}",
        None if row.rate is None else f"{row.rate:.4g} {row.unit}",
        None if row.error is None else f"{row.error:.1e}",
        row.commit,
        row.status.replace("|", "/"),
    ]
