"""compute-sanitizer over the workloads' kernels, and over planted faults that it should report.

Each workload's library is called twice in a program of its own under memcheck, racecheck, synccheck
and initcheck.  What a silent tool is worth is said by the same tools' reports on kernels with one
fault each (``planted_faults.cu``), of plain stores, ``cp.async``, bulk copies and mbarriers.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import pages
from benchmarks.facts import facts_of_this_run
from benchmarks.h200.building import Build, Task, build
from benchmarks.h200.pipelines import Variant
from benchmarks.h200.programs import CALLER, FAULTS, call_command, compile_program
from benchmarks.h200.workloads import Workload
from mugraph.errors import UserError

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
SILENT = "silent"
CALLS = 2
"""The second call starts while the first one runs, where launches overlap."""

SECONDS = 100.0
"""A program that has not ended by then is ended; the table says so."""

AT_ONCE = 8
"""Programs that share the GPU."""

PLANTED: dict[str, tuple[str, ...]] = {
    "none-mbarrier": TOOLS,
    "none-bulk": TOOLS,
    "store-past-the-end": ("memcheck",),
    "bulk-copy-past-the-end": ("memcheck",),
    "plain-race": ("racecheck",),
    "async-copy-race": ("racecheck",),
    "mbarrier-race": ("racecheck",),
    "bulk-copy-race": ("racecheck",),
    "divergent-barrier": ("synccheck",),
    "read-of-unwritten": ("initcheck",),
    "bulk-copy-of-unwritten": ("initcheck",),
}
"""Each planted fault, and the tools that it is run under; ``none-...`` have no fault."""


@dataclass(frozen=True)
class Finding:
    """What one tool said of one program."""

    program: str
    tool: str
    said: str
    """``silent``, the number of errors, or why the tool has nothing to say."""
    seconds: float
    details: str = ""


def find_sanitizer() -> str:
    """compute-sanitizer; ``UserError`` where there is none."""
    nvcc = shutil.which("nvcc")
    beside = None if nvcc is None else Path(nvcc).resolve().parent / "compute-sanitizer"
    found = shutil.which("compute-sanitizer")
    if found is None and beside is not None and beside.is_file():
        found = str(beside)
    if found is None:
        raise UserError("compute-sanitizer is not on this machine; it comes with the CUDA toolkit.")
    return found


def command_of(sanitizer: str, tool: str, program: Sequence[str]) -> list[str]:
    """The command that runs a program under a tool."""
    options = ["--tool", tool, "--print-limit", "5", "--show-backtrace", "no"]
    if tool == "memcheck":
        options += ["--leak-check", "no"]
    return [sanitizer, *options, *program]


def summarize(output: str) -> str:
    """What a tool's output says: silent only where it counts no error and the program ran."""
    errors = re.search(r"ERROR SUMMARY: (\d+) error", output)
    hazards = re.search(r"RACECHECK SUMMARY: (\d+) hazard", output)
    if errors is None and hazards is None:
        return "no summary"
    found = next(int(match.group(1)) for match in (hazards, errors) if match is not None)
    if found:
        return f"{found} {'hazards' if hazards is not None else 'errors'}"
    return SILENT if re.search(r"^ran \d+ calls", output, re.M) else "did not run"


def watch(sanitizer: str, name: str, tool: str, program: Sequence[str]) -> Finding:
    """Runs a program under a tool."""
    start = time.perf_counter()
    try:
        done = subprocess.run(
            command_of(sanitizer, tool, program),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
        )
        output = done.stdout.decode(errors="replace")
        said = summarize(output)
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        said = f"not ended in {SECONDS:.0f} s"
    details = "" if said == SILENT else "\n".join(output.strip().splitlines()[:12])
    return Finding(name, tool, said, time.perf_counter() - start, details)


def sanitize(workloads: Sequence[Workload], arch: str, jobs: int, output: Path) -> list[Finding]:
    """Builds, runs and writes OUTPUT.json and OUTPUT.md; raises where a workload has no build."""
    sanitizer, start = find_sanitizer(), time.perf_counter()
    facts = facts_of_this_run(arch)
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(jobs) as pool:
        tasks = [Task(workload, Variant(), arch) for workload in workloads]
        pending = [pool.submit(build, task) for task in tasks]
        caller = compile_program(CALLER, arch, Path(folder))
        faults = compile_program(FAULTS, arch, Path(folder))
        builds = [future.result() for future in pending]
        print(f"{time.perf_counter() - start:.0f} s: built", flush=True)
        runs = [run for one in builds for run in _runs_of(one, caller)]
        planted = [
            (name, tool, [str(faults), name]) for name, tools in PLANTED.items() for tool in tools
        ]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            of_faults = list(threads.map(lambda run: watch(sanitizer, *run), planted))
            findings = list(threads.map(lambda run: watch(sanitizer, *run), runs))
    facts["seconds in all"] = f"{time.perf_counter() - start:.0f}"
    missing = [
        Finding(one.task.workload.name, tool, f"not built: {one.error}", 0.0)
        for one in builds
        if one.error is not None
        for tool in TOOLS
    ]
    write([*findings, *missing], of_faults, facts, output)
    return [*findings, *missing]


def _runs_of(one: Build, caller: Path) -> list[tuple[str, str, list[str]]]:
    if one.error is not None:
        return []
    command = call_command(caller, one, CALLS)
    return [(one.task.workload.name, tool, command) for tool in TOOLS]


def write(
    findings: Sequence[Finding], planted: Sequence[Finding], facts: dict[str, str], output: Path
) -> None:
    """Writes OUTPUT.json and OUTPUT.md."""
    content = {
        "facts": facts,
        "workloads": [asdict(finding) for finding in findings],
        "planted": [asdict(finding) for finding in planted],
    }
    pages.write(output, content, page(findings, planted, facts))


def page(
    findings: Sequence[Finding], planted: Sequence[Finding], facts: dict[str, str]
) -> list[str]:
    """The two tables, and what is behind each report."""
    silent = sum(finding.said == SILENT for finding in findings)
    lines = [
        *pages.head("compute-sanitizer over the workloads' kernels", facts),
        f"{CALLS} calls each at full size; {silent} of {len(findings)} runs are silent.",
        "",
        *_table("workload", findings),
        "",
        "## What the tools see",
        "",
        "Kernels with one planted fault each (`benchmarks/h200/planted_faults.cu`); those called",
        "none-... have no fault. A silent tool says nothing of faults of a kind that it is silent",
        "of here; the hazard checker (`--check-hazards`) covers those.",
        "",
        *_table("fault", planted),
    ]
    told = [finding for finding in (*findings, *planted) if finding.details]
    for finding in told:
        lines += ["", f"{finding.program}, {finding.tool}:", "", "```", finding.details, "```"]
    return lines


def _table(first: str, findings: Sequence[Finding]) -> list[str]:
    said = {(finding.program, finding.tool): finding for finding in findings}
    rows: list[list[str]] = []
    for program in dict.fromkeys(finding.program for finding in findings):
        found = [said.get((program, tool)) for tool in TOOLS]
        cells = ["" if finding is None else finding.said for finding in found]
        seconds = sum(finding.seconds for finding in found if finding is not None)
        rows.append([program, *cells, f"{seconds:.0f}"])
    return pages.table((first, *TOOLS, "seconds:"), rows)
