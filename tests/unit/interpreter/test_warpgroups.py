"""Products of warp groups give the same numbers at every level, also those behind the program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mugraph.passes.transpile import transpile_pipeline
from mugraph.runtime.interpreter import run_function
from mugraph.tools.modules import make_context, read_module

GRAPH = Path(__file__).resolve().parents[2] / "filecheck/passes/Inputs/warpgroup-gemm.mlir"


@pytest.mark.parametrize("level", ["logical", "address"])
def test_a_product_by_warp_groups_is_right(level: str) -> None:
    """Through TMA rings, descriptors, one product in flight, and stores by quads."""
    context = make_context()
    module = read_module(str(GRAPH), context)
    for step in transpile_pipeline("sm_90a", pipeline="channels"):
        step.apply(context, module)
    assert "sched.warpgroup_mma async" in str(module)
    random = np.random.default_rng(0)
    a = random.standard_normal((256, 512)).astype(np.float16)
    b = (random.standard_normal((512, 256)) / 16).astype(np.float16)
    (result,) = run_function(module, None, [a, b], level=level)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    error = np.linalg.norm(result.astype(np.float64) - expected) / np.linalg.norm(expected)
    assert error < 5e-4
