"""The comparison of plans with the seeds' rules still runs on what the passes make today."""

from __future__ import annotations

import re

import pytest

from benchmarks.planning import EXAMPLES, measure
from benchmarks.planning_report import report
from benchmarks.schedule_times import choice_row, random_tasks
from mugraph.dialects.kn import Phase
from mugraph.reading import make_context, read_module


def test_an_example_is_planned_and_compared() -> None:
    module = read_module(str(EXAMPLES / "lora.mlir"), make_context())
    result = measure(module, "lora 0", "sm_90a")
    # Fewer barriers than one between successive depths; no plan beats its certified bound.
    assert 0 < result.barriers < result.seed_barriers
    assert 0 < result.peak_bound <= result.peak
    assert result.level_peak > 0
    assert "| lora | 1 | 1 / 0 / 0 |" in report([result], [], [], [])


@pytest.mark.parametrize("loop", [False, True])
def test_random_tasks_have_a_schedule(loop: bool) -> None:
    graph = random_tasks(10, 0, loop=loop)
    assert sum(task.phase is Phase.LOOP for task in graph.tasks) == (7 if loop else 0)
    assert re.match(r"\| 10 \| (loop|straight) \|.*\| 2 of 2 \| 0% \|", choice_row(10, loop, 2))
