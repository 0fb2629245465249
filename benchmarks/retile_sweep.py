"""Times repartitions of saved µGraphs on a GPU: which grid, for-loop, block and split is fastest.

    python benchmarks/retile_sweep.py FOLDER --output benchmarks/results/retile_h200

``FOLDER`` holds Mirage's JSON files.  Of each file named in ``SWEEPS`` one graph is taken, put
through ``--retile`` with every combination of options there (those that are illegal or do not fit
are left out), compiled on all cores, checked against float64 and timed, as ``saved_mugraphs.py``
does.  Writes NAME.json and NAME.md, each file's rows from the fastest on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from saved_mugraphs import Row, inputs_and_result, measure

# saved_mugraphs lets the checkout's root be looked in.
from benchmarks.facts import graphics_card, revision
from mugraph.passes.retile import RetilePass
from mugraph.runtime.cuda import CudaProgram, generate_cuda
from mugraph.runtime.errors import UserError
from mugraph.tools.import_mirage import import_mirage
from mugraph.tools.modules import make_context

Options = dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    """One graph of a file, and the values of each option; ``()`` leaves it as it is."""

    index: int
    grid: Sequence[tuple[int, ...]]
    forloop: Sequence[int]
    block: Sequence[int]
    split: Sequence[int] = (1,)

    def options(self) -> Iterator[Options]:
        """Every combination."""
        for grid, forloop, block, split in itertools.product(
            self.grid, self.forloop, self.block, self.split
        ):
            yield {
                "grid": grid or None,
                "forloop": forloop or None,
                "block": (block,),
                "split": split,
                "kernel": 0,
            }


SWEEPS: dict[str, Sweep] = {
    "rmsnorm_bs8": Sweep(
        8,
        ((96,), (128,), (192,), (256,), (384,)),
        (8, 16, 32, 64),
        (128, 256, 512),
        (1, 2),
    ),
    "gated_mlp": Sweep(2, ((64,), (128,), (256,)), (8, 16, 32, 64), (128, 256, 512), (1, 2)),
    "lora": Sweep(1, ((64,), (128,), (256,)), (1, 2, 4), (64, 128, 256)),
}


@dataclass
class SweepRow(Row):
    """A row of the table, with the options that made it."""

    options: str = ""


@dataclass(frozen=True)
class Task:
    """What one worker builds."""

    path: str
    index: int
    arch: str
    options: Options | None
    """``None`` for the graph as it was saved."""


def label(options: Options | None) -> str:
    """The options as ``--retile`` takes them."""
    if options is None:
        return "as saved"
    words = {name: value for name, value in options.items() if value not in (None, -1)}
    texts = {name: str(value).strip("(),").replace(" ", "") for name, value in words.items()}
    return " ".join(f"{name}={text}" for name, text in texts.items())


def build(task: Task) -> tuple[CudaProgram | str, float, float]:
    """Imports, repartitions, transpiles and compiles; a message in its place where that fails."""
    start = time.perf_counter()
    try:
        context = make_context()
        document = Path(task.path).read_text()
        module = import_mirage(document, task.index, symbol=Path(task.path).stem)[0]
        if task.options is not None:
            RetilePass(**task.options).apply(context, module)
        program = generate_cuda(module, context, task.arch)
        generated = time.perf_counter()
        program.compile()
    except Exception as error:  # a row of the table says what went wrong, the others go on
        return f"{type(error).__name__}: {error}", 0.0, 0.0
    return program, generated - start, time.perf_counter() - generated


def tasks_of(folder: Path, names: Sequence[str], arch: str) -> list[Task]:
    """What there is to build."""
    tasks: list[Task] = []
    for name in names:
        sweep = SWEEPS[name]
        path = str(folder / f"{name}.json")
        choices: list[Options | None] = [None, *sweep.options()]
        tasks += [Task(path, sweep.index, arch, options) for options in choices]
    return tasks


def run(tasks: Sequence[Task], jobs: int) -> list[SweepRow]:
    """Builds in parallel, then checks and times one after the other."""
    rows: list[SweepRow] = []
    cached: tuple[str, Any, Any] | None = None
    with ProcessPoolExecutor(jobs) as pool:
        built = list(pool.map(build, tasks))
    for task, (program, generating, compiling) in zip(tasks, built, strict=True):
        file = Path(task.path)
        row = SweepRow(file.stem, task.index, "not built", options=label(task.options))
        rows.append(row)
        if isinstance(program, str):
            row.status = program
            print(f"{row.file} {row.options}: {program}", flush=True)
            continue
        row.generate_seconds, row.compile_seconds = generating, compiling
        if cached is None or cached[0] != task.path:
            cached = (task.path, *inputs_and_result(file, program))
        try:
            measure(row, program, cached[1], cached[2])
        except UserError as error:
            row.status = str(error)
        print(f"{row.file} {row.options}: {row.status} {row.microseconds} µs", flush=True)
    return rows


def markdown(rows: Sequence[SweepRow], facts: dict[str, str]) -> str:
    """A table of each file, the fastest first; failures at the end."""
    lines = [f"# Repartitions on {facts['gpu']}", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    for file in dict.fromkeys(row.file for row in rows):
        own = [row for row in rows if row.file == file]
        own.sort(key=lambda row: row.microseconds or float("inf"))
        lines += ["", f"## {file}", "", "| options | check | error | µs |", "|---|---|---|---|"]
        for row in own:
            error = "" if row.relative_error is None else f"{row.relative_error:.2e}"
            microseconds = "" if row.microseconds is None else f"{row.microseconds:.2f}"
            lines.append(f"| {row.options} | {row.status} | {error} | {microseconds} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Runs the command; exits 1 where a result is wrong."""
    parser = argparse.ArgumentParser(description="Time repartitions of saved µGraphs on a GPU.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", nargs="*", choices=tuple(SWEEPS), default=list(SWEEPS))
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="parallel builds")
    parser.add_argument("--output", type=Path, help="writes OUTPUT.json and OUTPUT.md")
    options = parser.parse_args()
    rows = run(tasks_of(options.folder, options.files, options.arch), options.jobs)
    facts = {
        "gpu": graphics_card(),
        "date": date.today().isoformat(),
        "commit": revision(),
        "arch": options.arch,
        "python": platform.python_version(),
    }
    text = markdown(rows, facts)
    print(text)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({**facts, "rows": [asdict(row) for row in rows]}, indent=1)
        options.output.with_suffix(".json").write_text(content + "\n")
        options.output.with_suffix(".md").write_text(text)
    return 1 if any(row.status == "wrong" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
