"""What nvcc takes for each workload's generated file, alone, to a cubin.

Needs nvcc and no GPU.  Each file is compiled several times, one after another, without the cache;
the time that counts is the fastest, since others on the machine only add to it.
"""

from __future__ import annotations

import csv
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path

from benchmarks import pages
from benchmarks.facts import revision
from benchmarks.h200.building import Task, cuda_text
from benchmarks.h200.pipelines import Variant
from benchmarks.h200.workloads import Workload
from mugraph.errors import UserError
from mugraph.runtime.toolchain import Toolchain, find_toolchain

HEADERS_ALONE = "the runtime's headers, no kernel"
HEADERS = '#include "runtime.h"\n'
EMPTY = "an empty file"
PHASES = ("gcc (preprocessing 1)", "cicc", "ptxas")
"""nvcc's steps to a cubin: the preprocessor, the front end and optimiser, the assembler."""


@dataclass(frozen=True)
class Compilation:
    """One file; seconds."""

    name: str
    lines: int
    wall: float
    processor: float
    """User and system time of nvcc and all it starts."""
    phases: dict[str, float] = field(default_factory=dict[str, float])
    """Wall time of each step, in the run whose wall time is given."""
    transpile: float = 0.0


def compile_alone(
    name: str, text: str, arch: str, toolchain: Toolchain, repeats: int
) -> Compilation:
    """The fastest of some compilations to a cubin; ``UserError`` with nvcc's words if it fails."""
    best: Compilation | None = None
    with tempfile.TemporaryDirectory() as folder:
        source, times = Path(folder) / "kernel.cu", Path(folder) / "times.csv"
        source.write_text(text, encoding="utf-8")
        command = [str(toolchain.nvcc), "-std=c++17", "-O3", "--expt-relaxed-constexpr"]
        command += ["-gencode", f"arch=compute_{arch.removeprefix('sm_')},code={arch}"]
        command += [f"-I{path}" for path in toolchain.include_paths]
        command += ["--time", str(times), "-cubin", "-o", f"{folder}/kernel.cubin", str(source)]
        for _ in range(repeats):
            times.unlink(missing_ok=True)
            start = time.perf_counter()
            process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            assert process.stderr is not None
            said = process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            wall = time.perf_counter() - start
            if process.returncode != 0:
                raise UserError(f"nvcc cannot compile {name}: {said.strip()[:500]}")
            done = Compilation(
                name,
                text.count("\n"),
                wall,
                usage.ru_utime + usage.ru_stime,
                phase_seconds(times.read_text(encoding="utf-8")),
            )
            if best is None or done.processor < best.processor:
                best = done
    assert best is not None
    return best


def phase_seconds(table: str) -> dict[str, float]:
    """The seconds of each of :data:`PHASES` in what ``nvcc --time`` wrote."""
    rows = list(csv.reader(table.splitlines(), skipinitialspace=True))
    names = [name.strip() for name in rows[0]]
    phase, metric, unit = (names.index(n) for n in ("phase name", "metric", "unit"))
    seconds: dict[str, float] = {}
    for row in rows[1:]:
        name = row[phase].strip()
        scale = {"ms": 1e-3, "s": 1.0}[row[unit].strip()]
        if name in PHASES:
            seconds[name] = seconds.get(name, 0.0) + float(row[metric]) * scale
    return seconds


def compile_all(workloads: Sequence[Workload], arch: str, repeats: int) -> list[Compilation]:
    """Every workload's file, after an empty one and the headers alone; a line each on the way."""
    toolchain = find_toolchain()
    results: list[Compilation] = []

    def add(name: str, text: str, transpile: float) -> None:
        done = compile_alone(name, text, arch, toolchain, repeats)
        results.append(replace(done, transpile=transpile))
        print(f"{name}: {done.processor:.2f} s of processor, {done.wall:.2f} s", flush=True)

    add(EMPTY, "\n", 0.0)
    add(HEADERS_ALONE, HEADERS, 0.0)
    for workload in workloads:
        start = time.perf_counter()
        text = cuda_text(Task(workload, Variant(), arch))
        add(workload.name, text, time.perf_counter() - start)
    return results


def write(results: Sequence[Compilation], arch: str, output: Path) -> None:
    """Writes OUTPUT.json and OUTPUT.md."""
    facts = {
        "date": date.today().isoformat(),
        "commit": revision(),
        "arch": arch,
        "nvcc": find_toolchain().version,
        "processors": str(os.cpu_count()),
        "load on the machine": f"{os.getloadavg()[1]:.1f}",
    }
    content = {**facts, "files": [asdict(result) for result in results]}
    pages.write(output, content, page(results, facts))


def page(results: Sequence[Compilation], facts: dict[str, str]) -> list[str]:
    """The table."""
    columns = ("lines", "processor s", "wall s", "preprocessor", "cicc", "ptxas", "transpiler s")
    return [
        *pages.head("nvcc's time for each workload's file", facts),
        "Each file alone, to a cubin, fastest of its repeats: seconds of processor time, and of",
        "wall time with its steps, which grow with what else the machine does.",
        "",
        *pages.table(("file", *(f"{name}:" for name in columns)), map(_row, results)),
    ]


def _row(result: Compilation) -> list[object]:
    phases = (result.phases.get(phase, 0.0) for phase in PHASES)
    seconds = (result.processor, result.wall, *phases, result.transpile)
    return [result.name, result.lines, *(f"{each:.2f}" for each in seconds)]
