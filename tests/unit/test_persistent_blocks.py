"""Persistent blocks: what the checker says where a step is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from schedules import passes_as_written
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from mugraph.dialects import sched
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.schedule.analysis.hazards import find_hazards
from mugraph.reading import make_context, read_module

GRAPH = Path(__file__).resolve().parents[1] / "filecheck/passes/Inputs/warpgroup-gemm.mlir"


@pytest.fixture(scope="module", params=[4, 3])
def module(request: pytest.FixtureRequest) -> ModuleOp:
    """With four stages, which divide the eight iterations, and with three."""
    context = make_context()
    module = read_module(str(GRAPH), context)
    steps = passes_as_written(
        "sm_90a", loads="tma", check_hazards=False, stages=(request.param,), blocks=3
    )
    for step in steps:
        step.apply(context, module)
    return module


def kinds_without(module: ModuleOp, chosen: Callable[[Operation], bool]) -> set[HazardKind]:
    """The hazards of the kernel once the first operator that is chosen is left out."""
    changed = module.clone()
    kernel = next(op for op in changed.walk() if isinstance(op, sched.KernelOp))
    assert kernel.persistent_blocks == 3
    removed = next((op for op in kernel.walk() if chosen(op)), None)
    if removed is not None:
        Rewriter.erase_op(removed)
    return {finding.kind for finding in find_hazards(kernel)}


def test_blocks_go_on_without_hazards(module: ModuleOp) -> None:
    assert kinds_without(module, lambda _: False) == set()


def test_a_stage_that_is_never_released_stops_the_next_block(module: ModuleOp) -> None:
    kinds = kinds_without(
        module, lambda op: isinstance(op, sched.ReleaseOp) and op.fixed_iteration is not None
    )
    assert HazardKind.DEADLOCK in kinds or HazardKind.PROTOCOL in kinds


def test_a_fill_must_wait_for_the_block_before(module: ModuleOp) -> None:
    kinds = kinds_without(
        module, lambda op: isinstance(op, sched.AcquireOp) and op.fixed_iteration == 0
    )
    assert kinds & {HazardKind.PROTOCOL, HazardKind.IN_FLIGHT, HazardKind.WRITE_AFTER_READ}


def test_a_result_is_written_once_the_one_before_has_been_read(module: ModuleOp) -> None:
    kinds = kinds_without(module, lambda op: isinstance(op, sched.BulkWaitOp))
    assert HazardKind.IN_FLIGHT in kinds
