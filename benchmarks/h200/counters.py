"""Nsight Compute's counters of the workloads' kernels, and what they say limits each.

One call of each workload is profiled, with caches flushed before each pass and the clocks left as
they are.  :func:`reason` names the unit that works most and what warps wait for.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks import pages
from benchmarks.facts import facts_of_this_run
from benchmarks.h200.building import Build, Task, build
from benchmarks.h200.pipelines import Variant
from benchmarks.h200.programs import CALLER, call_command, compile_program
from benchmarks.h200.workloads import Workload
from mugraph.errors import UserError

SECTIONS = (
    "SpeedOfLight",
    "ComputeWorkloadAnalysis",
    "MemoryWorkloadAnalysis",
    "WarpStateStats",
    "SchedulerStats",
    "Occupancy",
    "LaunchStats",
)
SECONDS = 90.0

DURATION = "gpu__time_duration.sum"
UNITS: dict[str, tuple[str, ...]] = {
    "DRAM": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",),
    "L2": ("lts__t_sectors.avg.pct_of_peak_sustained_elapsed",),
    "tensor cores": (
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    ),
    "exp and the like": ("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",),
    "fp32": (
        "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    ),
    "integers": (
        "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
    ),
    "issue slots": ("sm__inst_issued.avg.pct_of_peak_sustained_active",),
}
"""What works, and the counters of the share of its peak: the first there is counts."""

EXTRA = tuple(counter for counters in UNITS.values() for counter in counters)
WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
STALL = "smsp__average_warps_issue_stalled_"
STALL_END = "_per_issue_active.ratio"
STALLS = {
    "long_scoreboard": "loads from device memory or L2",
    "short_scoreboard": "shared memory, shuffles or exp",
    "mio_throttle": "the queue to shared memory",
    "lg_throttle": "the queue to device memory",
    "barrier": "a barrier of the block",
    "math_pipe_throttle": "a busy arithmetic unit",
    "wait": "a fixed latency",
    "membar": "a memory fence",
    "gmma": "a warpgroup's product",
    "not_selected": "other warps that are issued",
    "selected": "nothing",
    "no_instruction": "instructions to be fetched",
    "branch_resolving": "a branch",
    "sleeping": "sleep between tries at an mbarrier",
    "dispatch_stall": "dispatch",
    "drain": "stores to leave",
    "imc_miss": "constants",
    "tex_throttle": "the queue to textures",
}
BUSY = 60.0
"""Percent of its peak from which on a unit is called the limit."""


@dataclass(frozen=True)
class Kernel:
    """The counters of one kernel of a workload."""

    workload: str
    name: str
    counters: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def microseconds(self) -> float | None:
        """How long it ran, alone, from cold caches."""
        nanoseconds = self.counters.get(DURATION)
        return None if nanoseconds is None else nanoseconds / 1000

    def share(self, unit: str) -> float | None:
        """Percent of the peak of one of :data:`UNITS`."""
        known = [self.counters[name] for name in UNITS[unit] if name in self.counters]
        return known[0] if known else None

    @property
    def waits(self) -> list[tuple[str, float]]:
        """What warps wait for, with the share of their time in percent; the longest first."""
        ratios = {
            name[len(STALL) : -len(STALL_END)]: value
            for name, value in self.counters.items()
            if name.startswith(STALL) and name.endswith(STALL_END) and "not_issued" not in name
        }
        total = sum(ratios.values())
        shares = [(STALLS.get(name, name), 100 * value / total) for name, value in ratios.items()]
        return sorted(shares, key=lambda pair: -pair[1]) if total > 0 else []


def reason(kernel: Kernel) -> str:
    """A sentence on what limits a kernel, from its counters alone."""
    shares = [(unit, kernel.share(unit)) for unit in UNITS]
    known = sorted(((u, s) for u, s in shares if s is not None), key=lambda pair: -pair[1])
    if not known:
        return "no counter could be read"
    busy = [f"{unit} {share:.0f} %" for unit, share in known if share >= BUSY]
    waits = [
        f"{wait} ({share:.0f} %)"
        for wait, share in kernel.waits
        if wait not in ("nothing", STALLS["not_selected"])
    ][:2]
    waiting = f"; warps wait for {' and '.join(waits)}" if waits else ""
    if busy:
        return f"limited by {', '.join(busy)} of peak{waiting}"
    unit, share = known[0]
    return f"no unit is busy ({unit} {share:.0f} % is the most): latency{waiting}"


def parse(text: str, workload: str) -> list[Kernel]:
    """The kernels in ncu's raw page as CSV; a row of units stands below the head."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    kernels: list[Kernel] = []
    for row in csv.DictReader(lines):
        if not (row.get("ID") or "").strip():
            continue  # the units
        counters: dict[str, float] = {}
        for name, value in row.items():
            try:
                counters[name] = float((value or "").replace(",", ""))
            except ValueError:
                continue
        kernels.append(Kernel(workload, (row.get("Kernel Name") or "?").split("(")[0], counters))
    return kernels


def command_of(ncu: str, program: Sequence[str], log: Path) -> list[str]:
    """The command that profiles a program."""
    command = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
    command += [part for section in SECTIONS for part in ("--section", section)]
    command += ["--metrics", ",".join(EXTRA), "--log-file", str(log), *program]
    return command


def profile(workloads: Sequence[Workload], arch: str, jobs: int, output: Path) -> list[Kernel]:
    """Profiles the workloads one after another; writes OUTPUT.json and OUTPUT.md."""
    ncu, start = shutil.which("ncu"), time.perf_counter()
    if ncu is None:
        raise UserError("ncu is not on PATH; Nsight Compute is needed to read counters.")
    facts = facts_of_this_run(arch)
    kernels: list[Kernel] = []
    said: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(jobs) as pool:
        tasks = [Task(workload, Variant(), arch) for workload in workloads]
        pending = [pool.submit(build, task) for task in tasks]
        caller = compile_program(CALLER, arch, Path(folder))
        for future in pending:
            built = future.result()
            name = built.task.workload.name
            found, error = _profile_one(ncu, built, caller, Path(folder))
            kernels += found
            if error:
                said[name] = error
            print(f"{time.perf_counter() - start:.0f} s: {name}", flush=True)
            write(kernels, said, facts, output)
    return kernels


def _profile_one(ncu: str, built: Build, caller: Path, folder: Path) -> tuple[list[Kernel], str]:
    """The kernels of one workload, or why there are none."""
    if built.error is not None:
        return [], built.error
    log = folder / "ncu.csv"
    log.unlink(missing_ok=True)
    command = command_of(ncu, call_command(caller, built, 1), log)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return [], f"ncu did not end in {SECONDS:.0f} s"
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    kernels = parse(text, built.task.workload.name)
    if kernels:
        return kernels, ""
    lines = [*text.splitlines(), *done.stdout.splitlines(), *done.stderr.splitlines()]
    return [], next((line for line in lines if "ERROR" in line), "ncu printed no kernel")[:300]


def write(
    kernels: Sequence[Kernel], said: dict[str, str], facts: dict[str, str], output: Path
) -> None:
    """Writes OUTPUT.json and OUTPUT.md."""
    content = {"facts": facts, "kernels": [asdict(kernel) for kernel in kernels], "said": said}
    pages.write(output, content, page(kernels, said, facts))


def page(kernels: Sequence[Kernel], said: dict[str, str], facts: dict[str, str]) -> list[str]:
    """The table of the counters and a reason for each kernel."""
    units = (*(f"{unit}:" for unit in UNITS), "warps:")
    return [
        *pages.head("Counters of the workloads' kernels", facts),
        "One call of each workload under Nsight Compute: each kernel alone, from flushed caches,",
        "so its time is not that in `h200.md`. Percent of the peak of each unit; warps are of the",
        "most that a multiprocessor holds.",
        "",
        *pages.table(("workload", "kernel", "µs:", *units, "warps wait for"), map(_row, kernels)),
        "",
        *(f"- {kernel.workload}, {kernel.name}: {reason(kernel)}." for kernel in kernels),
        *(f"- {name}: {text}" for name, text in said.items()),
    ]


def _row(kernel: Kernel) -> list[str]:
    shares = [kernel.share(unit) for unit in UNITS] + [kernel.counters.get(WARPS)]
    cells = ["" if share is None else f"{share:.0f}" for share in shares]
    waits = ", ".join(f"{wait} {share:.0f} %" for wait, share in kernel.waits[:3])
    microseconds = "" if kernel.microseconds is None else f"{kernel.microseconds:.2f}"
    return [kernel.workload, kernel.name, microseconds, *cells, waits]
