"""Roles that take blocks of the grid in turn: what each has of its own, and who shares what."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from mugraph.dialects import sched
from mugraph.passes.analysis.memory_access import memory_access_costs
from mugraph.passes.persist_blocks import PersistBlocksPass
from mugraph.passes.transpile import transpile_pipeline
from mugraph.tools.modules import make_context, read_module

GRAPH = Path(__file__).resolve().parents[1] / "filecheck/passes/Inputs/warpgroup-alone.mlir"


@pytest.fixture(scope="module")
def module() -> ModuleOp:
    context = make_context()
    module = read_module(str(GRAPH), context)
    for step in transpile_pipeline("sm_90a", pipeline="channels", check_hazards=False, turns=3):
        step = PersistBlocksPass(blocks=2) if isinstance(step, PersistBlocksPass) else step
        step.apply(context, module)
    module.verify()
    return module


def kernel_of(module: ModuleOp) -> sched.KernelOp:
    return next(op for op in module.walk() if isinstance(op, sched.KernelOp))


def test_roles_have_turns_sums_and_results_of_their_own(module: ModuleOp) -> None:
    kernel = kernel_of(module)
    roles = sched.roles_in_turn(kernel)
    assert [role.turn_number for role in roles] == [0, 1, 2]
    stores = [op for role in roles for op in role.walk() if isinstance(op, sched.StoreOp)]
    assert len({op.source for op in stores}) == len({op.destination for op in stores}) == 3
    products = [op for op in kernel.walk() if isinstance(op, sched.WarpgroupMmaOp)]
    assert len({op.lhs for op in products}) == 1


def test_one_role_releases_a_stage_and_passes_a_turn(module: ModuleOp) -> None:
    kernel = kernel_of(module)
    channel = next(op for op in kernel.walk() if isinstance(op, sched.ChannelOp))
    order = next(op for op in kernel.walk() if isinstance(op, sched.TurnsOp))
    assert len(channel.releasing_roles()) == 3
    assert channel.releasing_warps() == order.passing_warps() == 4
    assert order.barrier_bytes() == 24


def test_mbarriers_lie_side_by_side_behind_the_buffers(module: ModuleOp) -> None:
    kernel = kernel_of(module)
    channel = next(op for op in kernel.walk() if isinstance(op, sched.ChannelOp))
    order = next(op for op in kernel.walk() if isinstance(op, sched.TurnsOp))
    assert channel.byte_offset is not None
    assert order.byte_offset == channel.byte_offset + channel.barrier_bytes()
    ends = [
        op.byte_offset + op.total_bytes()
        for op in kernel.walk()
        if isinstance(op, sched.AllocOp) and op.byte_offset is not None
    ]
    assert max(ends) <= channel.byte_offset


def test_all_roles_that_compute_share_what_the_producer_leaves(module: ModuleOp) -> None:
    kernel = kernel_of(module)
    registers = [role.registers_or(0) for role in sched.roles_of(kernel)]
    assert registers[0] == registers[1] == registers[2] > kernel.registers_at_start > registers[3]


def test_what_is_moved_for_a_block_of_the_grid_is_counted_once(module: ModuleOp) -> None:
    stores = [
        cost
        for cost in memory_access_costs(kernel_of(module))
        if isinstance(cost.access.operation, sched.StoreOp)
    ]
    assert len(stores) == 1


@pytest.mark.parametrize(
    ("turns", "reason"),
    [(7, "has no room for the results of 7"), (9, "a block has 1184 threads, more than 1024")],
)
def test_a_kernel_that_does_not_fit_stays_as_it_is(
    turns: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    context = make_context()
    module = read_module(str(GRAPH), context)
    for step in transpile_pipeline("sm_90a", pipeline="channels", check_hazards=False, turns=turns):
        step = PersistBlocksPass(blocks=2) if isinstance(step, PersistBlocksPass) else step
        step.apply(context, module)
    assert not sched.roles_in_turn(kernel_of(module))
    assert reason in capsys.readouterr().err
