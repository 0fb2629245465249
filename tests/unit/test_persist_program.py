"""Persistent kernels: the bits of the launches, and counters that are off are reported."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulated_programs import check_emulated_later
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import PassFailedException

import mugraph.build as mi
from mugraph.codegen.cuda import print_module
from mugraph.dialects.plan import Plan, PlanAttr
from mugraph.dialects.sched import KernelOp, LaunchOp
from mugraph.dialects.sched.programs import Blocks, Task, is_task, persistent_programs
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.program import persist_program
from mugraph.passes.program.persist_program import PersistProgramPass
from mugraph.passes.schedule.check_hazards import CheckHazardsPass
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import CudaProgram, only_function, signature_of
from mugraph.runtime.execute import CudaModule

WIDTH, HIDDEN, ROWS, BLOCKS = 128, 192, 5, 3


def chain() -> mi.KernelGraph:
    """A row of a table through two gated MLPs with norms and residuals, and into a cache."""
    graph = mi.new_kernel_graph("chain")
    table = graph.new_input((ROWS, WIDTH), dtype=mi.bfloat16)
    at = graph.new_input((1,), dtype=mi.int64)
    cache = graph.new_input((ROWS, WIDTH), dtype=mi.bfloat16)
    x = mi.gather(table, at)
    for _ in range(2):
        gate, up, down = (
            graph.new_input(shape, dtype=mi.bfloat16, constant=True)
            for shape in ((HIDDEN, WIDTH), (HIDDEN, WIDTH), (WIDTH, HIDDEN))
        )
        n = mi.cast(
            mi.cast(x, mi.float32) * mi.rsqrt(mi.mean(mi.square(mi.cast(x, mi.float32)), 1)),
            mi.bfloat16,
        )
        h = mi.silu(graph.matmul(n, mi.transpose(gate))) * graph.matmul(n, mi.transpose(up))
        x = x + graph.matmul(h, mi.transpose(down))
    graph.mark_output(mi.scatter(x, cache, at + at, dim=0))
    return graph


@cache
def scheduled() -> str:
    """The chain as launches."""
    module = chain().module()
    plan = Plan(loads="tma", preferred=("loads",))
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(make_context(), module)
    return str(module)


def program(blocks: int = BLOCKS) -> tuple[ModuleOp, list[Operation]]:
    """The chain as one persistent kernel, and its operators."""
    module = parse_text(make_context(), scheduled(), "chain")
    PersistProgramPass(blocks=blocks).apply(make_context(), module)
    return module, [op for op in module.walk() if is_task(op)]


def test_tasks_compute_the_bits_of_the_launches() -> None:
    """Three blocks, which take several tasks of each operator; and others if none waits."""
    alone = parse_text(make_context(), scheduled(), "chain")
    together, ops = program()
    (found,) = persistent_programs(only_function(together).body.block.ops)
    assert (
        found.ops == tuple(ops)
        and len(found.kernels) < len(ops) - 2
        and found.blocks.blocks == BLOCKS
    )
    source = print_module(together)
    assert "tb::Channel" in source and source.count("mugraph::launch") == 1
    hasty = re.sub(r"task\.wait\w*\(.*?\);", "", source)
    # The emulator does not know here which tensors are constant, and may be loaded early.
    launched = print_module(alone).replace("mugraph::overlapping(stream)", "stream")
    signature = signature_of(only_function(together))
    rng = np.random.default_rng(5)
    shapes = [(ROWS, WIDTH)] * 2 + [(HIDDEN, WIDTH), (HIDDEN, WIDTH), (WIDTH, HIDDEN)] * 2
    given = [(rng.standard_normal(s) / 8).astype(ml_dtypes.bfloat16) for s in shapes]
    given.insert(1, np.array([2], np.int64))
    right: list[bytes] = []

    def run(kernels: CudaModule) -> bytes:
        (result,) = kernels.run(given)
        return result.tobytes()

    def check_launched(kernels: CudaModule) -> None:
        right.append(run(kernels))
        assert np.isfinite(np.frombuffer(right[0], ml_dtypes.bfloat16).astype(np.float64)).all()

    def check_together(kernels: CudaModule) -> None:
        assert run(kernels) == right[0] and run(kernels) == right[0]  # counters begin at 0 again

    def check_hasty(kernels: CudaModule) -> None:
        assert run(kernels) != right[0]

    check_emulated_later(CudaProgram(launched, signature, "sm_90a"), check_launched)
    check_emulated_later(CudaProgram(source, signature, "sm_90a"), check_together)
    check_emulated_later(CudaProgram(hasty, signature, "sm_90a"), check_hasty)


def hazards(change: Callable[[Sequence[Operation]], None]) -> str:
    """What ``--check-hazards`` says of a program that was changed."""
    module, ops = program()
    change(ops)
    with pytest.raises(PassFailedException) as failed:
        CheckHazardsPass().apply(make_context(), module)
    return str(failed.value)


def test_a_program_has_no_hazards() -> None:
    for blocks in (1, 2, 7, 0):
        CheckHazardsPass().apply(make_context(), program(blocks)[0])


def with_counts(op: Operation, more: int) -> None:
    """Lets an operator wait for counts that are larger by so much."""
    task = task_of(op)
    task._replace(awaits=[(step, count + more) for step, count in task.awaits]).set(op)


def task_of(op: Operation) -> Task:
    """What an operator says of its tasks."""
    task = Task.of(op)
    assert task is not None
    return task


@pytest.mark.parametrize("number", [2, 4, -1])
def test_a_count_that_is_too_small_is_a_race(number: int) -> None:
    said = hazards(lambda ops: with_counts(ops[number], -1))
    assert "read after write" in said and "without waiting for all" in said


@pytest.mark.parametrize("number", [2, 4, -1])
def test_a_count_that_is_too_large_is_waited_for_for_ever(number: int) -> None:
    said = hazards(lambda ops: with_counts(ops[number], 1))
    assert "deadlock" in said and "waits for ever until" in said


def test_memory_that_is_used_again_is_waited_for() -> None:
    """The last launch needs only what is in front of it, but writes where others have read."""

    def wait_for_nothing(ops: Sequence[Operation]) -> None:
        task_of(ops[4])._replace(awaits=[]).set(ops[4])

    assert "write after" in hazards(wait_for_nothing)


def test_counters_share_no_memory_with_tensors() -> None:
    def move(ops: Sequence[Operation]) -> None:
        Blocks(BLOCKS, 1, 0).set(ops[0])

    assert "over the counters of the persistent kernel" in hazards(move)


def test_counters_lie_in_the_workspace() -> None:
    def move(ops: Sequence[Operation]) -> None:
        Blocks(BLOCKS, 1, 1 << 20).set(ops[0])

    assert "of a workspace of" in hazards(move)


def test_an_operator_that_waits_for_a_later_one_is_refused() -> None:
    def wait_for_itself(ops: Sequence[Operation]) -> None:
        task_of(ops[1])._replace(awaits=[(1, 1)]).set(ops[1])

    assert "expected one in front of it" in hazards(wait_for_itself)


def with_plans(**parts: Any) -> tuple[ModuleOp, list[KernelOp]]:
    """The chain as launches, of kernels whose plans say this, and the kernels."""
    module = parse_text(make_context(), scheduled(), "chain")
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    for kernel in kernels:
        kernel.plan = PlanAttr(replace(kernel.decided, **parts))
    return module, kernels


@pytest.mark.parametrize(("tasks", "everywhere", "found"), [
    (None, True, True), (None, False, False), (True, False, True), (False, True, False),
])  # fmt: skip
def test_a_plan_says_which_kernels_are_tasks(
    tasks: bool | None, everywhere: bool, found: bool
) -> None:
    module, _ = with_plans(tasks=tasks)
    PersistProgramPass(everywhere=everywhere).apply(make_context(), module)
    launches = [op for op in module.walk() if isinstance(op, LaunchOp)]
    assert all(is_task(launch) == found for launch in launches)


def test_what_no_plan_says_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches that wait for each other lose less, unless tasks lost nothing."""
    for step, found in ((persist_program.STEP_NS, False), (0.0, True)):
        monkeypatch.setattr(persist_program, "STEP_NS", step)
        monkeypatch.setattr(persist_program, "START_NS", 0.0)
        module, _ = with_plans(tasks=None)
        PersistProgramPass(everywhere=False).apply(make_context(), module)
        assert any(map(is_task, module.walk())) == found


def test_tasks_that_cannot_be_are_refused() -> None:
    module, kernels = with_plans(tasks=True)
    kernels[0].cluster = DenseArrayBase.from_list(i64, [2, 1, 1])
    with pytest.raises(PassFailedException, match="cannot have tasks = true: its blocks run in cl"):
        PersistProgramPass().apply(make_context(), module)
    kernels[0].plan = PlanAttr(Plan(tasks=True, preferred=("tasks",)))
    PersistProgramPass().apply(make_context(), module)
    of_kernel = {op.resolve(): is_task(op) for op in module.walk() if isinstance(op, LaunchOp)}
    assert not of_kernel[kernels[0]]
