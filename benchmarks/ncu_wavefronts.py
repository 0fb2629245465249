"""Predicted wavefronts and sectors of some kernels against what Nsight Compute counts.

    python -m benchmarks.ncu_wavefronts [--output RESULT.md] [--only NAME ...]

Needs a GPU, nvcc and ``ncu``.  The kernels of ``wavefront_cases.py`` are compiled and run once
without the profiler, then once more under it; counters that this GPU or this version of ``ncu``
does not have are left out and named.  Prints a table of all counters, and one line for each that
differs.  Exit status 0 if all wavefronts and sectors agree, 1 if some differ, 2 if nothing could be
measured.  Some counters count more than what is predicted, see ``Row.also_counts``; they are
printed and decide nothing.

``--predict`` prints the predictions only, and needs no GPU.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException

from benchmarks.h200.counters import parse
from benchmarks.pages import table
from benchmarks.wavefront_cases import Case, all_cases
from mugraph.dialects import sched
from mugraph.dialects.plan import Plan
from mugraph.dialects.sched.accesses import AccessKind
from mugraph.dialects.sched.mappings import IDLE
from mugraph.dialects.tensor_types import shape_of
from mugraph.errors import UserError
from mugraph.passes.memory.memory_access import (
    AccessCost,
    access_cost,
    thread_accesses,
)
from mugraph.passes.schedule.plan_stensor_memory import PlanSTensorMemoryPass
from mugraph.passes.sequence import verifying
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context
from mugraph.runtime.cuda import CudaProgram, generate_cuda
from mugraph.runtime.toolchain import device_architecture

DEFAULT_ARCH = "sm_90a"


@dataclass(frozen=True)
class Row:
    """A predicted quantity, and the counters that measure it: the first one there is counts.

    ``also_counts`` says what else those counters count; such a row decides nothing.
    """

    name: str
    counters: tuple[str, ...]
    also_counts: str = ""


MOVING_NOTHING = "instructions that move nothing"
OTHER_STORES = "traffic that is not of the store instructions"


def _sass(name: str) -> tuple[str, ...]:
    return (
        f"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{name}.sum",
        f"sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{name}.sum",
    )


ROWS = (
    Row("lds instructions", ("smsp__inst_executed_op_shared_ld.sum",), MOVING_NOTHING),
    Row("lds wavefronts", _sass("ld")),
    Row("ldmatrix instructions", ("smsp__inst_executed_op_ldsm.sum",), MOVING_NOTHING),
    Row("ldmatrix wavefronts", _sass("ldsm")),
    Row("load wavefronts", ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",)),
    Row("sts instructions", ("smsp__inst_executed_op_shared_st.sum",), MOVING_NOTHING),
    Row("sts wavefronts", _sass("st")),
    Row(
        "store wavefronts", ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",), OTHER_STORES
    ),
    Row("cp.async instructions", ("smsp__inst_executed_op_ldgsts.sum",), MOVING_NOTHING),
    Row(
        "cp.async wavefronts",
        (*_sass("ldgsts"), "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"),
    ),
    Row("ldg instructions", ("smsp__inst_executed_op_global_ld.sum",), MOVING_NOTHING),
    Row("ldg sectors", ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",)),
    Row("stg instructions", ("smsp__inst_executed_op_global_st.sum",), MOVING_NOTHING),
    Row("stg sectors", ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",)),
    Row(
        "cp.async sectors, past L1",
        (
            "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_bypass.sum",
            "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_bypass.sum",
        ),
    ),
    Row(
        "cp.async sectors, through L1",
        (
            "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum",
            "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum",
        ),
    ),
)
# For explanations only: never compared.
EXTRA_COUNTERS = (
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",
)


def planned_module(case: Case, arch: str) -> ModuleOp:
    """The case as a schedule with planned memory."""
    context = make_context()
    module = Parser(context, case.text, case.name).parse_module()
    if any(isinstance(op, sched.KernelOp) for op in module.walk()):
        PlanSTensorMemoryPass(arch=arch).apply(context, module)
    else:
        # What warp groups read does not pass the units whose counters are compared.
        plan = Plan(tiles="written", loads="cp_async", swap_ab=False)
        verifying(transpile_pipeline(arch, plan)).apply(context, module)
    module.verify()
    return module


_CLASSES = {
    "ldmatrix": "ldmatrix",
    "cp.async": "cp.async",
    "ld.shared": "lds",
    "st.shared": "sts",
    "ld.global": "ldg",
    "st.global": "stg",
}


def instruction_class(cost: AccessCost) -> str:
    """The name under which ``ROWS`` count an access."""
    instruction = cost.access.instruction
    return next(name for prefix, name in _CLASSES.items() if instruction.startswith(prefix))


def predict(kernel: sched.KernelOp) -> Counter[str]:
    """What one launch of a kernel is predicted to count, by the names of ``ROWS``."""
    counts = Counter[str]()
    for access in thread_accesses(kernel):
        cost = access_cost(without_repeated_loads(access), kernel)
        name = instruction_class(cost)
        if not access.in_device_memory:
            counts[f"{name} wavefronts"] += cost.per_launch
            total = {"lds": "load", "ldmatrix": "load", "sts": "store"}.get(name)
            if total is not None:
                counts[f"{total} wavefronts"] += cost.per_launch
            counts[f"{name} instructions"] += cost.instructions * cost.executions
            continue
        if name == "cp.async":
            side = "past" if access.access_bytes == 16 else "through"
            counts[f"cp.async sectors, {side} L1"] += cost.per_launch
            counts["ldg sectors"] += cost.per_launch
            continue
        counts[f"{name} sectors"] += cost.per_launch
        counts[f"{name} instructions"] += cost.instructions * cost.executions
    return counts


def without_repeated_loads(access: sched.ThreadAccess) -> sched.ThreadAccess:
    """The access without the loads that the compiler leaves away.

    An element-wise operation reads several vectors of each thread before it writes the first one
    of them.  Where a broadcast operand makes those loads the same, the compiler keeps one.
    """
    operation = access.operation
    partition = operation.linear if isinstance(operation, sched.MapOp) else None
    if (
        not isinstance(operation, sched.MapOp)
        or partition is None
        or access.kind is AccessKind.WRITE
    ):
        return access
    vectors = partition.values_per_thread(shape_of(operation.destination.type)) // partition.vector
    batch = 2 if partition.vector >= 8 else 4
    if isinstance(operation.destination.type, sched.TileType):
        batch = vectors  # nothing is written between them
    loads_a_batch = batch * (access.instructions // vectors)
    offsets = access.offsets.copy()
    for row in range(access.instructions):
        first = row - row % loads_a_batch
        if (access.offsets[first:row] == access.offsets[row]).all(axis=1).any():
            offsets[row] = IDLE
    return replace(access, offsets=offsets)


def predictions(cases: Sequence[Case], arch: str) -> dict[str, Counter[str]]:
    """The prediction for every kernel, by its name."""
    result: dict[str, Counter[str]] = {}
    for case in cases:
        for op in planned_module(case, arch).walk():
            if isinstance(op, sched.KernelOp):
                result[op.sym_name.data] = predict(op)
    return result


def run_cases(cases: Sequence[Case], arch: str) -> None:
    """Compiles and runs every case once on random inputs."""
    random = np.random.default_rng(7)
    programs = [generate_cuda(planned_module(case, arch), make_context(), arch) for case in cases]
    with ThreadPoolExecutor(os.cpu_count()) as compilers:
        list(compilers.map(CudaProgram.compile, programs))
    for case, program in zip(cases, programs, strict=True):
        loaded = program.load()
        inputs = [
            random.uniform(-1.0, 1.0, spec.shape).astype(spec.dtype)
            for spec in program.signature.inputs
        ]
        loaded.run(inputs)
        print(f"ran {case.name}", flush=True)


def profile(command: Sequence[str], counters: Sequence[str]) -> dict[str, dict[str, float]]:
    """Runs ``command`` under ncu: counters by kernel name; raises ``UserError`` saying why not.

    Counters that ncu does not know are dropped, as it names them.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        raise UserError("ncu is not on PATH; Nsight Compute is needed to measure.")
    wanted, said = list(counters), ""
    while wanted:
        measured, said = _measure(ncu, command, wanted)
        if measured:
            return measured
        unknown = {name for name in wanted if _is_refused(name, said)}
        if not unknown:
            # No word about which one it was: go on with those that every version has.
            unknown = {name for name in wanted if "sass" in name or "ldgsts" in name}
        if not unknown:
            break
        print("left out, as ncu refuses them: " + ", ".join(sorted(unknown)), file=sys.stderr)
        wanted = [name for name in wanted if name not in unknown]
    raise UserError(f"ncu measured nothing; it said:\n{said[-3000:]}")


def _measure(
    ncu: str, command: Sequence[str], counters: Sequence[str]
) -> tuple[dict[str, dict[str, float]], str]:
    """One run of ncu: the counters by kernel name, and all that it said."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        arguments = [ncu, "--csv", "--page", "raw", "--print-units", "base"]
        arguments += ["--clock-control", "none", "--log-file", str(log)]
        arguments += ["--metrics", ",".join(counters), *command]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=540)
        text = log.read_text(encoding="utf-8") if log.exists() else ""
    return parse_csv(text), "\n".join([text, done.stdout, done.stderr])


def _is_refused(counter: str, said: str) -> bool:
    """Whether a line that ncu prints as an error or warning names the counter."""
    name = re.compile(rf"(?<!\w){re.escape(counter.removesuffix('.sum'))}(?!\w)")
    return any(
        name.search(line) is not None
        for line in said.splitlines()
        if line.startswith(("==ERROR==", "==WARNING=="))
    )


def parse_csv(text: str) -> dict[str, dict[str, float]]:
    """The counters of every kernel in ncu's raw page; the first launch of each counts."""
    result: dict[str, dict[str, float]] = {}
    for kernel in parse(text, ""):
        values = {name: value for name, value in kernel.counters.items() if "__" in name}
        if values:
            result.setdefault(kernel.name, values)
    return result


def measurement(kernel: str, measured: dict[str, dict[str, float]]) -> dict[str, float]:
    """The counters of the kernel of that name, however ncu spells its signature."""
    for name, values in measured.items():
        if re.search(rf"(^|\W){re.escape(kernel)}(\W|$)", name):
            return values
    return {}


@dataclass(frozen=True)
class Comparison:
    """One counter of one kernel; ``measured`` is ``None`` where there is no such counter."""

    kernel: str
    row: Row
    predicted: int
    measured: int | None

    @property
    def agrees(self) -> bool:
        """Whether the two are equal, or there is nothing to compare."""
        return self.measured is None or self.measured == self.predicted


def compare(
    predicted: dict[str, Counter[str]], measured: dict[str, dict[str, float]]
) -> list[Comparison]:
    """Every row of every kernel that was predicted or measured not to be zero."""
    result: list[Comparison] = []
    for kernel, counts in predicted.items():
        values = measurement(kernel, measured)
        for row in ROWS:
            found = [values[counter] for counter in row.counters if counter in values]
            value = int(found[0]) if found else None
            if counts[row.name] or value:
                result.append(Comparison(kernel, row, counts[row.name], value))
    return result


def as_table(comparisons: Sequence[Comparison], cases: Sequence[Case]) -> str:
    """A Markdown table, differences marked."""
    about = {case.name: case.about for case in cases}
    rows: list[tuple[object, ...]] = []
    previous = ""
    for comparison in comparisons:
        kernel = comparison.kernel
        if kernel != previous:
            rows.append((f"**{kernel}**", about.get(kernel), None, None, None))
            previous = kernel
        measured = "-" if comparison.measured is None else str(comparison.measured)
        counts_more = comparison.row.also_counts
        mark = "" if comparison.agrees else "(counts more)" if counts_more else "differs"
        rows.append((None, comparison.row.name, comparison.predicted, measured, mark))
    columns = ("kernel", "counter", "predicted:", "measured:", "")
    return "\n".join(table(columns, rows)) + "\n"


def summary(comparisons: Sequence[Comparison]) -> str:
    """How many of each counter agree, and every difference that decides."""
    lines: list[str] = []
    for row in ROWS:
        own = [c for c in comparisons if c.row is row]
        compared = [c for c in own if c.measured is not None]
        agreeing = sum(c.agrees for c in compared)
        missing = "" if compared or not own else ", not measured: no such counter here"
        more = f"; the counter also counts {row.also_counts}" if row.also_counts else ""
        lines.append(f"{row.name}: {agreeing} of {len(compared)} agree{missing}{more}")
    for c in comparisons:
        if not c.agrees and not c.row.also_counts:
            lines.append(f"  {c.kernel}, {c.row.name}: {c.predicted} predicted, {c.measured}")
    return "\n".join(lines) + "\n"


def verdict(comparisons: Sequence[Comparison]) -> int:
    """The exit status: 0 if all wavefronts and sectors agree, 1 if not, 2 if none was measured."""
    compared = [c for c in comparisons if not c.row.also_counts and c.measured is not None]
    if not compared:
        return 2
    return 0 if all(c.agrees for c in compared) else 1


def main() -> int:
    """Runs the comparison; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, help="write the table to this Markdown file")
    parser.add_argument("--only", nargs="+", help="names of cases; all by default")
    parser.add_argument("--arch", help="architecture to compile for; that of the GPU by default")
    parser.add_argument("--predict", action="store_true", help="predict only; needs no GPU")
    parser.add_argument("--run", action="store_true", help="run the kernels only")
    arguments = parser.parse_args()
    cases = [case for case in all_cases() if not arguments.only or case.name in arguments.only]
    arch: str = arguments.arch or device_architecture() or DEFAULT_ARCH
    if not cases:
        print("no such case; there are: " + ", ".join(case.name for case in all_cases()))
        return 2
    try:
        if arguments.run:
            run_cases(cases, arch)
            return 0
        predicted = predictions(cases, arch)
        if arguments.predict:
            print(as_table(compare(predicted, {}), cases))
            return 0
        command = [sys.executable, str(Path(__file__).resolve()), "--run", "--arch", arch]
        command += ["--only", *(case.name for case in cases)]
        # Compiles everything before the profiler is there, and shows that the kernels run.
        done = subprocess.run(command, timeout=900)
        if done.returncode != 0:
            print("the kernels could not be run; see above", file=sys.stderr)
            return 2
        counters = [counter for row in ROWS for counter in row.counters]
        measured = profile(command, [*counters, *EXTRA_COUNTERS])
    except (UserError, DiagnosticException) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    comparisons = compare(predicted, measured)
    missing = [kernel for kernel in predicted if not measurement(kernel, measured)]
    table = as_table(comparisons, cases)
    print(table)
    print(summary(comparisons))
    if missing:
        print("not among what ncu profiled: " + ", ".join(missing))
    if arguments.output is not None:
        arguments.output.write_text(table + "\n```\n" + summary(comparisons) + "```\n")
    return verdict(comparisons)


if __name__ == "__main__":
    sys.exit(main())
