"""How long epilogues are taken to be, against what was measured."""

from __future__ import annotations

import pytest
from xdsl.passes import PassPipeline

from benchmarks.h200.pipelines import flat_passes
from benchmarks.h200.workloads import WORKLOADS
from mugraph.dialects import sched
from mugraph.passes.schedule.analysis.epilogues import epilogue_time
from mugraph.passes.schedule.check_hazards import CheckHazardsPass
from mugraph.passes.targets import target_named
from mugraph.reading import make_context, parse_text

FASTER_IN_TURN = {256: True, 512: True, 1024: True, 2048: True, 4096: False}
"""By depth, on an H200: ``benchmarks/results/h200_ping_pong.md``."""
STEP = 64
"""How much of the depth an iteration of the loop takes."""
TOGETHER = "grid=32,32 block=256 pdl=none ping-pong=1"
IN_TURN = "grid=64,32 block=128 pdl=none ping-pong=2"


def gated_products(depth: int, parts: str) -> sched.KernelOp:
    """The schedule of silu(X·W1) * (X·W2), all 4096 but the depth, by parts of a plan."""
    text = WORKLOADS["gemm_silu_mul_k512"].path.read_text(encoding="utf-8")
    text = text.replace("512", str(depth)).replace("forloop 8", f"forloop {depth // STEP}")
    module, context = parse_text(make_context(), text, "gated"), make_context()
    steps = flat_passes(f"plan{{{parts}}},transpile", "sm_90a")
    steps = [step for step in steps if not isinstance(step, CheckHazardsPass)]
    PassPipeline(tuple(steps)).apply(context, module)
    return next(op for op in module.walk() if isinstance(op, sched.KernelOp))


@pytest.mark.parametrize("depth", FASTER_IN_TURN)
def test_ping_pong_is_said_to_pay_where_they_did(depth: int) -> None:
    time = epilogue_time(gated_products(depth, TOGETHER), target_named("sm_90a"))
    assert time is not None
    assert time.loop == depth / STEP * 1024
    assert time.is_long == FASTER_IN_TURN[depth]


@pytest.mark.parametrize(("parts", "warps"), [(TOGETHER, [8, 4]), (IN_TURN, [4, 4, 4])])
def test_both_structures_come_from_one_graph(parts: str, warps: list[int]) -> None:
    roles = sched.roles_of(gated_products(256, parts))
    assert [role.warp_count for role in roles] == warps
