"""Kernels whose blocks run some iterations of their loop: what they compute, and their hazards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import AffineSetAttr, ModuleOp
from xdsl.parser import Parser

from mugraph.dialects import sched
from mugraph.dialects.linear_forms import LinearForm, set_of
from mugraph.dialects.spans import Span, span_of
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.schedule.analysis.hazards import counts_of, find_hazards
from mugraph.passes.schedule.plan_stensor_memory import PlanSTensorMemoryPass
from mugraph.reading import make_context
from mugraph.runtime.interpreter import run_function

SUMS = (Path(__file__).parents[1] / "filecheck/dialects/sched/domain.mlir").read_text()


def planned(text: str) -> ModuleOp:
    module = Parser(make_context(), text).parse_module()
    module.verify()
    PlanSTensorMemoryPass().apply(make_context(), module)
    return module


def kernel_of(module: ModuleOp) -> sched.KernelOp:
    return next(op for op in module.body.block.ops if isinstance(op, sched.KernelOp))


@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(-4, 4), st.integers(-30, 30)), max_size=3),
    st.integers(0, 9),
    st.integers(1, 12),
)
def test_spans_are_the_iterations_that_conditions_leave(
    rows: list[tuple[int, int, int]], block: int, iterations: int
) -> None:
    """Conditions that do not move with the iteration leave all of them."""
    forms = [LinearForm((of_block, 0, 0, step), constant) for of_block, step, constant in rows]
    kept = [
        it
        for it in range(iterations)
        if all(
            of_block * block + step * it + constant >= 0
            for of_block, step, constant in rows
            if step
        )
    ]
    span = span_of(forms, (block, 0, 0), iterations)
    if kept:
        assert span == Span(kept[0], len(kept))
    else:
        assert span.count == 1 and 0 <= span.first < iterations


@pytest.mark.parametrize("level", ["logical", "address"])
def test_blocks_add_up_their_tiles(level: str) -> None:
    """Block b tiles b - 1 to 2 b + 1."""
    x = np.random.default_rng(0).integers(-9, 9, (64, 64)).astype(np.float32)
    (result,) = run_function(planned(SUMS), "f", [x], level=level)
    tiles = x.reshape(4, 16, 8, 8)
    expected = [tiles[b, :, max(b - 1, 0) : 2 * b + 2].sum(axis=1) for b in range(4)]
    np.testing.assert_array_equal(result, np.concatenate(expected))


def test_blocks_of_every_count_are_checked() -> None:
    kernel = kernel_of(planned(SUMS))
    assert counts_of(kernel) == [2, 4, 5, 6]
    assert find_hazards(kernel) == []


TENSOR = "!sched.global<64x16xf32, (64,16):(16,1)>"
TILE = "!sched.global<16x16xf32, (16,16):(16,1)>"
BUFFER = "!sched.shared<16x16xf32, (16,16):(16,1)>"
BY = "by <32, vector 4, order [1, 0]>"
COPIED = f"""
sched.kernel @copied inputs 1 grid [4, 1, 1] block [32, 1, 1] smem 1024 forloop 2 {{
^bb0(%x: {TENSOR}, %o: {TENSOR}):
  %t = sched.alloc offset 0 : {BUFFER}
  %from = sched.local_tile %x map [0, -1, -1] : {TENSOR} -> {TILE}
  %to = sched.local_tile %o map [0, -1, -1] : {TENSOR} -> {TILE}
  sched.prologue {{
    sched.copy %from to %t {BY} iteration 1 : {TILE} to {BUFFER}
  }}
  sched.forloop 2 {{
    sched.barrier
  }}
  sched.epilogue {{
    sched.copy %t to %to {BY} : {BUFFER} to {TILE}
  }}
}}
"""


def test_a_hazard_of_short_loops_alone_is_found() -> None:
    """What is loaded for iteration 1 is not there in a block that has none."""
    kernel = kernel_of(Parser(make_context(), COPIED).parse_module())
    assert find_hazards(kernel) == []
    kernel.domain = AffineSetAttr(set_of([LinearForm((1, 0, 0, -1))], 4))
    kernel.verify()
    assert [finding.kind for finding in find_hazards(kernel)] == [HazardKind.NEVER_WRITTEN]
