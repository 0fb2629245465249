"""The comparison of one role with ping-pong of two."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.h200 import ping_pong
from benchmarks.h200.pipelines import OURS, TRY, flat_passes
from benchmarks.h200.records import Record, System
from benchmarks.h200.report import in_order
from mugraph.dialects import sched
from mugraph.reading import make_context, read_module


def test_both_structures_come_from_one_graph() -> None:
    warps: list[list[int]] = []
    with ping_pong.gated_products() as workloads:
        workload = workloads[0]
        for pipeline in (workload.pipeline, ping_pong.variants()[0].pipeline):
            context = make_context()
            module = read_module(str(workload.path), context)
            for step in flat_passes(pipeline, "sm_90a"):
                step.apply(context, module)
            kernel = next(op for op in module.walk() if isinstance(op, sched.KernelOp))
            warps.append([role.warp_count for role in sched.roles_of(kernel)])
    assert warps == [[8, 4], [4, 4, 4]]


def test_a_line_has_the_times_and_the_ratio_to_one_role() -> None:
    record = Record("gemm_silu_mul_k512", {"gpu": "GPU"}, 10, 44.7)
    record.systems = {
        OURS: System(OURS, "right", 80.0),
        f"{TRY}ping-pong": System(f"{TRY}ping-pong", "right", 60.0),
    }
    text = ping_pong.markdown({record.workload: record})
    assert "| gemm_silu_mul_k512 | 44.70 | 80.00 | 60.00 | 0.75 |" in text
    known = replace(record, workload="lora")
    assert in_order({"b": record, "a": known}) == [known, record]
