"""Schedules of random µGraphs and of the examples: right, and without a barrier too many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from schedules import IN_REGISTERS, passes_as_written
from thorough import inputs
from xdsl.dialects.builtin import ModuleOp

from fuzz.properties import parse
from fuzz.search import WELL_FORMED, draw_case
from mugraph.dialects.sched import KernelOp
from mugraph.passes.memory.lifetimes import buffer_lifetimes
from mugraph.passes.schedule.analysis.hazards import (
    hazards_of_program,
    read_program,
    unneeded_barriers,
)
from mugraph.passes.schedule.barriers.fewest import fewest_barriers
from mugraph.passes.schedule.barriers.model import lifetimes
from mugraph.passes.schedule.explain_schedule import read_schedule
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context, read_module

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.mlir"))
SEED = 6


def scheduled(module: ModuleOp) -> Iterator[KernelOp]:
    """The planned kernels of a µGraph's module, as ``--lower-threadblock`` arranges them."""
    steps = passes_as_written(loads="cp_async", without=IN_REGISTERS, check_hazards=False)
    verifying(steps).apply(make_context(), module)
    return (op for op in module.walk() if isinstance(op, KernelOp))


def require_right_and_minimal(kernel: KernelOp) -> None:
    """No hazards, no barrier to spare, no fewer possible, and lifetimes as the choice saw them."""
    program = read_program(kernel)
    assert not hazards_of_program(program)
    assert not unneeded_barriers(program)
    schedule = read_schedule(kernel)
    graph, barriers = schedule.graph, schedule.barriers
    executed = barriers.executed(graph.iterations)
    assert executed == fewest_barriers(graph).executed
    modelled = lifetimes(graph, barriers, schedule.regions)
    found = [(life.first, life.last) for life in buffer_lifetimes(kernel).values()]
    assert sorted(life for life in modelled if life is not None) == sorted(found)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    for kernel in scheduled(read_module(str(path), make_context())):
        require_right_and_minimal(kernel)


@pytest.mark.parametrize("number", range(inputs(8, 40)))
def test_drawn_mugraph(number: int) -> None:
    drawn = draw_case(WELL_FORMED, SEED, number)
    if drawn is not None:
        for kernel in scheduled(parse(drawn.text)):
            require_right_and_minimal(kernel)


X = "tensor<48x6xf16, #cute.layout<(48,6):(1,48)>>"
S, E, R = (f"!tb.stensor<{type_}>" for type_ in ("48x1xf16", "48x1xf32", "6x1xf16"))
INVARIANT = f"""
func.func @f(%x: {X}) -> tensor<12x3xf16> {{
  %o = kn.customized %x grid [2, 1, 3] block [256, 1, 1] forloop 2 {{
  ^bb0(%dx: {X}):
    %s = tb.input %dx imap [1, 1, 1] : {X} -> {S}
    %e = tb.reduction_to_dimx_strided %s dim 1 then [mul_scalar(0.5)] : {S} -> {E}
    %r = tb.reduction_to_dimx_contiguous %e dim 0 : {E} -> {R}
    %a = tb.forloop_accum none %r : {R} -> {R}
    tb.output %a omap [0, -1, 1] : {R} -> tensor<12x3xf16>
  }} : ({X}) -> tensor<12x3xf16>
  func.return %o : tensor<12x3xf16>
}}
"""


def test_a_barrier_before_the_loop_serves_what_follows() -> None:
    module = parse(INVARIANT)
    steps = passes_as_written(loads="cp_async", check_hazards=False)
    verifying(steps).apply(make_context(), module)
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    program = read_program(kernel)
    assert not hazards_of_program(program)
    assert not unneeded_barriers(program)
