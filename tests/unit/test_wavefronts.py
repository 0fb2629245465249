"""Wavefronts and sectors of whole kernels: beside what an H200 counted, and what hands count."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from unit.wavefront_cases import Case, all_cases, elementwise, rows
from xdsl.parser import Parser

from mugraph.dialects import sched
from mugraph.dialects.sched.accesses import AccessKind
from mugraph.dialects.sched.mappings import IDLE
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.memory.memory_access import access_cost, thread_accesses
from mugraph.passes.schedule.plan_stensor_memory import PlanSTensorMemoryPass
from mugraph.reading import make_context

MEASURED = Path(__file__).parents[2] / "benchmarks/results/wavefronts_h200.md"
CASES = {case.name: case for case in all_cases()}
CLASSES = {
    "ldmatrix": "ldmatrix",
    "cp.async": "cp.async",
    "ld.shared": "lds",
    "st.shared": "sts",
    "ld.global": "ldg",
    "st.global": "stg",
}
TOTALS = {"lds": "load", "ldmatrix": "load", "sts": "store"}


def predicted(case: Case) -> Counter[str]:
    """What a launch is predicted to count, by the names that the page of results has."""
    context = make_context()
    module = Parser(context, case.text, case.name).parse_module()
    PlanSTensorMemoryPass(arch="sm_90a").apply(context, module)
    module.verify()
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    counts = Counter[str]()
    for access in thread_accesses(kernel):
        cost = access_cost(without_repeated_loads(access), kernel)
        instruction = access.instruction
        name = next(name for start, name in CLASSES.items() if instruction.startswith(start))
        if not access.in_device_memory:
            counts[f"{name} wavefronts"] += cost.per_launch
            if name in TOTALS:
                counts[f"{TOTALS[name]} wavefronts"] += cost.per_launch
        elif name == "cp.async":
            side = "past" if access.access_bytes == 16 else "through"
            counts[f"cp.async sectors, {side} L1"] += cost.per_launch
            counts["ldg sectors"] += cost.per_launch
            continue
        else:
            counts[f"{name} sectors"] += cost.per_launch
        counts[f"{name} instructions"] += cost.instructions * cost.executions
    return counts


def without_repeated_loads(access: sched.ThreadAccess) -> sched.ThreadAccess:
    """The access without the loads that the compiler leaves away.

    An element-wise operation reads several vectors of each thread before it writes the first one
    of them.  Where a broadcast operand makes those loads the same, the compiler keeps one.
    """
    operation = access.operation
    if not isinstance(operation, sched.MapOp) or access.kind is AccessKind.WRITE:
        return access
    partition = operation.linear
    assert partition is not None
    vectors = partition.values_per_thread(shape_of(operation.destination.type)) // partition.vector
    loads_a_batch = (2 if partition.vector >= 8 else 4) * (access.instructions // vectors)
    offsets = access.offsets.copy()
    for row in range(access.instructions):
        first = row - row % loads_a_batch
        if (access.offsets[first:row] == access.offsets[row]).all(axis=1).any():
            offsets[row] = IDLE
    return replace(access, offsets=offsets)


def measured() -> dict[str, dict[str, int]]:
    """Counters of each kernel of the page, but for those that count more than is predicted."""
    found: dict[str, dict[str, int]] = {}
    kernel = ""
    for line in MEASURED.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if head := re.fullmatch(r"\*\*(\w+)\*\*", cells[0]):
            kernel = head[1]
        elif kernel and len(cells) == 5 and cells[4] != "(counts more)":
            found.setdefault(kernel, {})[cells[1]] = int(cells[3])
    return found


@pytest.mark.parametrize("name", CASES)
def test_kernels_count_what_an_h200_counted(name: str) -> None:
    counts, of_gpu = predicted(CASES[name]), measured()[name]
    assert {"load wavefronts", "ldg sectors", "stg sectors"} <= of_gpu.keys()
    assert {row: counts[row] for row in of_gpu} == of_gpu


# Two blocks each, patterns as `about` says; numbers counted by hand.
@pytest.mark.parametrize(
    ("name", "row", "count"),
    [
        ("scalar_plain", "lds wavefronts", 2 * 32 * 64 // 32),
        ("scalar_conflicts", "lds wavefronts", 2 * 32 * 64),
        ("scalar_conflicts", "stg sectors", 2 * 32 * 64),
        ("scalar_padded", "lds wavefronts", 2 * 32 * 64 // 32),
        ("half_columns", "lds wavefronts", 2 * 64 * 64),
        ("ldmatrix_plain", "ldmatrix wavefronts", 8 * 2 * (2 + 2) * 64 * 64 // 64),
        ("ldmatrix_swizzled", "ldmatrix wavefronts", 2 * (2 + 2) * 64 * 64 // 64),
        ("async_far_rows", "cp.async wavefronts", 2 * 2 * 64 * 32 // 64),
        ("async_16_bytes", "cp.async sectors, past L1", 2 * 64 * 64 // 16),
        ("async_16_bytes", "ldg sectors", 2 * 64 * 64 // 16),
        ("async_conflicts", "cp.async sectors, past L1", 2 * 256),
        # Two vectors a thread, of one column: the second load of the broadcast row goes.
        ("broadcast_halves", "lds instructions", 2 * 4 * (2 + 1 + 16)),
        ("broadcast_halves", "lds wavefronts", 2 * 4 * (2 * 4 + 4 + 16)),
    ],
)
def test_predictions(name: str, row: str, count: int) -> None:
    assert predicted(CASES[name])[row] == count


def test_repeated_loads_go_only_before_a_write() -> None:
    # Four vectors a thread in the second case: two batches, each of which loads the row once.
    for height, loads in ((16, 1), (32, 2)):
        case = elementwise(
            "rows_of_one", "", [rows(height, 128), rows(1, 128)],
            rows(height, 128), "128, vector 8, order [1, 0]",
        )  # fmt: skip
        assert predicted(case)["lds instructions"] == 2 * 4 * (height // 8 + loads + height)
