"""The comparison of plans with the seeds' rules still runs on what the passes make today."""

from __future__ import annotations

from benchmarks.planning import EXAMPLES, measure
from benchmarks.planning_report import report
from mugraph.dialects.sched.kernel import LINE_BYTES
from mugraph.tools.modules import make_context, read_module


def test_an_example_is_planned_and_compared() -> None:
    module = read_module(str(EXAMPLES / "lora.mlir"), make_context())
    result = measure(module, "lora 0", "sm_90a")
    # Fewer barriers than one between successive depths; no plan beats its certified bound.
    assert 0 < result.barriers < result.seed_barriers
    assert 0 < result.peak_bound <= result.peak
    # The seeds' schedule has no channels, whose mbarriers take a line.
    assert 0 < result.no_more_peak <= result.level_peak + LINE_BYTES
    assert "| lora | 1 | 1 / 0 / 0 |" in report([result], [], [], [])
