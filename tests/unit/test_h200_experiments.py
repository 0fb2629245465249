"""Workloads in several ways: what is compiled, and the table of what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.h200.experiments import EXPERIMENTS, STAGES, page, ring_stages, variants
from benchmarks.h200.pipelines import OURS, TRY, flat_passes
from benchmarks.h200.records import SAME_AS, Record, System
from benchmarks.h200.report import in_order
from mugraph.dialects import sched
from mugraph.passes.mugraph.plan import PlanPass
from mugraph.reading import make_context, read_module


def test_both_structures_come_from_one_graph(tmp_path: Path) -> None:
    warps: list[list[int]] = []
    workload, ways = next(EXPERIMENTS["ping-pong"].cases(tmp_path))
    for pipeline in (workload.pipeline, variants(ways)[0].pipeline):
        context = make_context()
        module = read_module(str(workload.path), context)
        for step in flat_passes(pipeline, "sm_90a"):
            step.apply(context, module)
        kernel = next(op for op in module.walk() if isinstance(op, sched.KernelOp))
        warps.append([role.warp_count for role in sched.roles_of(kernel)])
    assert warps == [[8, 4], [4, 4, 4]]


def test_pipelines_with_other_stages(tmp_path: Path) -> None:
    _, ways = next(ring_stages(tmp_path))
    found = variants(ways)
    assert len(found) == len(STAGES)
    plan, *_ = found[0].passes("sm_90a")
    assert isinstance(plan, PlanPass)
    assert (plan.stages, plan.preferred) == ((2,), ("stages",))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_case_has_a_file_and_a_name_of_its_own(name: str, tmp_path: Path) -> None:
    cases = list(EXPERIMENTS[name].cases(tmp_path))
    assert len({workload.name for workload, _ in cases}) == len(cases)
    for workload, ways in cases:
        read_module(str(workload.path), make_context())
        for pipeline in (workload.pipeline, *(one.pipeline for one in variants(ways))):
            assert flat_passes(pipeline, "sm_90a")


def test_a_line_has_the_times_and_the_stages() -> None:
    def system(name: str, time: float, stages: int) -> System:
        progress = [f"2 roles, fills of stages 32 of {stages}: all 9 steps end"]
        return System(name, "right", time, progress=progress)

    same = System(f"{TRY}swap", f"{SAME_AS}{OURS}")
    record = Record("rms_8", {"gpu": "GPU"}, 10, 11.9)
    for one in (system(OURS, 16.0, 4), system(f"{TRY}mma", 20.0, 2), same):
        record.add(one)
    text = "\n".join(page(EXPERIMENTS["small-m"], {record.workload: record}))
    assert "| workload | floor | chosen | mma | swap |" in text
    assert "| rms_8 | 11.90 | 16.00 (4) | 20.00 (2) | the same |" in text
    assert "| over the fastest |  | 1.000 | 1.250 | 1.000 |" in text


def test_records_are_in_the_order_of_the_workloads() -> None:
    record = Record("gemm_silu_mul_k512", {"gpu": "GPU"}, 10, 44.7)
    known = replace(record, workload="lora")
    assert in_order({"b": record, "a": known}) == [known, record]
