"""Results that leave in halves through one buffer, with bytes at their addresses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from schedules import passes_as_written
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from mugraph.dialects import sched
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.schedule.analysis.hazards import find_hazards
from mugraph.reading import make_context, read_module
from mugraph.runtime.interpreter import execute_by_address, run_function
from mugraph.runtime.interpreter.address_level import Landing

GRAPH = Path(__file__).parents[2] / "filecheck/passes/Inputs/wide-gemm.mlir"


@pytest.fixture(scope="module")
def module() -> ModuleOp:
    context = make_context()
    module = read_module(str(GRAPH), context)
    steps = passes_as_written("sm_90a", loads="tma", check_hazards=False, stages=(5,), blocks=2)
    for step in steps:
        step.apply(context, module)
    return module


@pytest.mark.parametrize("landing", Landing)
def test_both_levels_agree(module: ModuleOp, landing: Landing) -> None:
    random = np.random.default_rng(5)
    inputs = [
        random.integers(-2, 3, extents).astype(np.float16) for extents in ((64, 448), (448, 768))
    ]
    expected = inputs[0].astype(np.float64) @ inputs[1].astype(np.float64)
    (logical,) = run_function(module, None, inputs, "storage")
    run = execute_by_address(module, None, inputs, order="reversed", landing=landing)
    np.testing.assert_array_equal(logical, expected)
    np.testing.assert_array_equal(run.outputs[0], expected)


def test_each_half_waits_until_the_one_before_has_been_read(module: ModuleOp) -> None:
    kernel = next(op for op in module.walk() if isinstance(op, sched.KernelOp))
    assert find_hazards(kernel) == []
    waits = len([op for op in kernel.walk() if isinstance(op, sched.BulkWaitOp)])
    assert waits == 3
    for number in range(waits):
        changed = module.clone()
        kernel = next(op for op in changed.walk() if isinstance(op, sched.KernelOp))
        removed = [op for op in kernel.walk() if isinstance(op, sched.BulkWaitOp)][number]
        Rewriter.erase_op(removed)
        assert HazardKind.IN_FLIGHT in {finding.kind for finding in find_hazards(kernel)}
