"""How long epilogues are taken to be, against what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.h200 import experiments
from benchmarks.h200.pipelines import flat_passes
from mugraph.dialects import sched
from mugraph.passes.schedule.analysis.epilogues import epilogue_time
from mugraph.passes.schedule.check_hazards import CheckHazardsPass
from mugraph.passes.targets import target_named
from mugraph.reading import make_context, read_module

FASTER_IN_TURN = {256: True, 512: True, 1024: True, 2048: True, 4096: False}
"""By depth, on an H200: ``benchmarks/results/h200_ping_pong.md``."""


@pytest.mark.parametrize("depth", experiments.DEPTHS)
def test_ping_pong_is_said_to_pay_where_they_did(depth: int, tmp_path: Path) -> None:
    cases = [workload for workload, _ in experiments.long_epilogues(tmp_path)]
    workload = cases[experiments.DEPTHS.index(depth)]
    context = make_context()
    module = read_module(str(workload.path), context)
    for step in flat_passes(workload.pipeline, "sm_90a"):
        if not isinstance(step, CheckHazardsPass):
            step.apply(context, module)
    kernel = next(op for op in module.walk() if isinstance(op, sched.KernelOp))
    time = epilogue_time(kernel, target_named("sm_90a"))
    assert time is not None
    assert time.loop == depth / experiments.STEP * 1024
    assert time.is_long == FASTER_IN_TURN[depth]
