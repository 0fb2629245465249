"""Compiles, checks and times saved µGraphs on a GPU.

    python -m benchmarks.saved_mugraphs FOLDER --graphs 3 --output benchmarks/results/NAME

``FOLDER`` holds Mirage's JSON files, named as in ``spec/mirage-inventory.md`` A.9.  Of each file
the first ``--graphs`` graphs (or all of them) are imported, transpiled, compiled with nvcc, run
three times on poisoned outputs and compared with the function that the file's name stands for,
written in numpy in float64 and independent of the interpreter.  A graph whose check fails has
no time.  After each graph it writes NAME.json and NAME.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

# Where this file is run by its path, the checkout's root is not looked in.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import pages, references
from benchmarks.facts import facts_of_this_run
from mugraph.errors import UserError
from mugraph.reading import make_context
from mugraph.runtime.compare import TOLERANCE, compare
from mugraph.runtime.cuda import CudaProgram, generate_cuda
from mugraph.runtime.execute import CudaModule
from mugraph.tools.import_mirage import import_mirage

Array = npt.NDArray[Any]
REPEATS = 3
INPUT_SEED = 20261121


@dataclass(frozen=True)
class Workload:
    """What the graphs of a file compute, and the scale of each random input."""

    function: Callable[..., Array]
    """One of :mod:`benchmarks.references`."""
    scales: tuple[float, ...]


WORKLOADS: dict[str, Workload] = {
    "rmsnorm": Workload(references.rms_norm_linear, (1.0, 1 / 64)),
    "gated_mlp": Workload(references.gated_mlp, (1.0, 1 / 64, 1 / 64)),
    "lora": Workload(references.lora, (1.0, 1 / 16, 1 / 16, 1 / 16)),
    "gqa": Workload(references.attention, (0.25, 0.25, 1.0)),
    "mqa": Workload(references.attention, (0.25, 0.25, 1.0)),
    "mha": Workload(references.attention, (0.25, 0.25, 1.0)),
}


def workload_of(file: Path) -> Workload:
    """The workload whose name the file's stem holds; ``UserError`` where none does."""
    for name, workload in WORKLOADS.items():
        if name in file.stem:
            return workload
    raise UserError(f"{file.name} stands for no known function; known are {', '.join(WORKLOADS)}")


@dataclass
class Row:
    """One graph: what was measured, or why nothing was."""

    file: str
    index: int
    status: str
    relative_error: float | None = None
    same_bits: bool | None = None
    microseconds: float | None = None
    spread: tuple[float, float] | None = None
    generate_seconds: float | None = None
    compile_seconds: float | None = None


def count_graphs(file: Path) -> int:
    """How many graphs a file holds."""
    content = json.loads(file.read_text())
    return len(content) if content and isinstance(content[0], list) else 1


def build(task: tuple[str, int, str]) -> tuple[CudaProgram | str, float, float]:
    """Imports, transpiles and compiles one graph; a message in its place where that fails."""
    path, index, arch = task
    start = time.perf_counter()
    try:
        context = make_context()
        document = Path(path).read_text()
        module = import_mirage(document, index, symbol=Path(path).stem)[0]
        program = generate_cuda(module, context, arch)
        generated = time.perf_counter()
        program.compile()
    except Exception as error:  # a row of the table says what went wrong, the others go on
        return f"{type(error).__name__}: {error}", 0.0, 0.0
    return program, generated - start, time.perf_counter() - generated


def measure(row: Row, program: CudaProgram, inputs: Sequence[Array], expected: Array) -> None:
    """Runs, checks and times one compiled graph."""
    module: CudaModule = program.load()
    outputs = [module.run(inputs)[0] for _ in range(REPEATS)]
    row.same_bits = all(output.tobytes() == outputs[0].tobytes() for output in outputs)
    comparison = compare([outputs[0]], [expected.reshape(outputs[0].shape)])[0]
    row.relative_error = comparison.relative_error
    if not comparison.holds(TOLERANCE) or not row.same_bits:
        row.status = "wrong"
        return
    row.status = "right"
    timing = module.time(inputs)
    row.microseconds = timing.median
    row.spread = (min(timing.samples), max(timing.samples))


def run_folder(folder: Path, graphs: int | None, arch: str, jobs: int) -> Iterator[list[Row]]:
    """The rows of a folder as they become more; one line a graph on the way."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise UserError(f"{folder} holds no .json files")
    tasks = [
        (str(file), index, arch)
        for file in files
        for index in range(min(graphs or sys.maxsize, count_graphs(file)))
    ]
    with ProcessPoolExecutor(jobs) as pool:
        built = list(pool.map(build, tasks))
    rows: list[Row] = []
    cached: tuple[str, list[Array], Array] | None = None
    for (path, index, _), (program, generating, compiling) in zip(tasks, built, strict=True):
        file = Path(path)
        row = Row(file.stem, index, "not built")
        rows.append(row)
        if isinstance(program, str):
            row.status = program
            print(f"{file.stem} {index}: {program}", flush=True)
            yield rows
            continue
        row.generate_seconds, row.compile_seconds = generating, compiling
        if cached is None or cached[0] != path:
            cached = (path, *inputs_and_result(file, program))
        try:
            measure(row, program, cached[1], cached[2])
        except UserError as error:
            row.status = str(error)
        print(f"{row.file} {row.index}: {row.status} {row.relative_error} {row.microseconds} µs")
        yield rows


def inputs_and_result(file: Path, program: CudaProgram) -> tuple[list[Array], Array]:
    """Random inputs in the storage type, and the float64 result of the file's function."""
    workload = workload_of(file)
    generator = np.random.default_rng(INPUT_SEED)
    inputs = [
        (generator.standard_normal(spec.shape, np.float32) * scale).astype(spec.dtype)
        for spec, scale in zip(program.signature.inputs, workload.scales, strict=True)
    ]
    return inputs, workload.function(np, *(array.astype(np.float64) for array in inputs))


def page(rows: Sequence[Row], facts: dict[str, str]) -> list[str]:
    """The table, with the best graph of each file first in a table of its own."""
    lines = [
        *pages.head(f"Saved µGraphs on {facts['gpu']}", facts),
        "Time: median of 41 samples, each a CUDA graph of at least 16 calls that goes round copies",
        "of the tensors of 200 MB in all; only graphs whose check passed have one.",
        "",
    ]
    columns = ("file", "graph", "check", "error against float64", "same bits", "µs", "min-max")
    right = [row for row in rows if row.microseconds is not None]
    best: dict[str, Row] = {}
    for row in right:
        if row.file not in best or (row.microseconds or 0) < (best[row.file].microseconds or 0):
            best[row.file] = row
    lines += [f"{len(right)} of {len(rows)} graphs are right. The fastest of each file:", ""]
    lines += [*pages.table((*columns, "nvcc s"), map(cells, best.values())), "", "All:", ""]
    return [*lines, *pages.table((*columns, "nvcc s"), map(cells, rows))]


def write(output: Path, rows: Sequence[Row], facts: dict[str, str]) -> None:
    """Writes OUTPUT.json and OUTPUT.md."""
    content = {**facts, "rows": [asdict(row) for row in rows]}
    pages.write(output, content, page(rows, facts))


def cells(row: Row) -> list[object]:
    """A line of the table."""

    def text(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    spread = "" if row.spread is None else f"{row.spread[0]:.2f}-{row.spread[1]:.2f}"
    times = (text(row.microseconds, ".2f"), spread, text(row.compile_seconds, ".1f"))
    bits = "" if row.same_bits is None else "yes" if row.same_bits else "NO"
    return [row.file, row.index, row.status, text(row.relative_error, ".2e"), bits, *times]


def main() -> int:
    """Runs the command; exits 1 where a graph is not right."""
    parser = argparse.ArgumentParser(description="Compile, check and time saved µGraphs on a GPU.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--graphs", type=int, help="how many of each file (default: all)")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="parallel builds")
    parser.add_argument("--output", type=Path, help="writes OUTPUT.json and OUTPUT.md")
    options = parser.parse_args()
    facts = facts_of_this_run(options.arch)
    rows: list[Row] = []
    for rows in run_folder(options.folder, options.graphs, options.arch, options.jobs):
        if options.output:
            write(options.output, rows, facts)
    print("\n".join(page(rows, facts)))
    return 0 if all(row.status == "right" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
