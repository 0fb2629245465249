"""The operators of a kernel as tasks, between which a schedule puts barriers."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.interfaces import HasBufferEffects
from mugraph.dialects.kn import Phase
from mugraph.dialects.sched.domain import fewest_iterations
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.schedule.barriers.dependences import (
    TaskOperations,
    kernel_graph,
    swizzled_twins,
)

PHASES: dict[type[Operation], Phase] = {
    sched.PrologueOp: Phase.BEFORE,
    sched.ForloopOp: Phase.LOOP,
    sched.EpilogueOp: Phase.AFTER,
}
"""The phases of the threads that compute."""


def tasks_of(kernel: sched.KernelOp) -> Iterator[TaskOperations]:
    """The operators of a kernel, those that stay together in one task."""
    for op in sched.computing_block(kernel).ops:
        phase = PHASES.get(type(op))
        if phase is None:
            continue
        inner = list(op.regions[0].block.ops)
        if phase is Phase.BEFORE:
            yield TaskOperations("the prologue", phase, inner)
        else:
            yield from _tasks(inner, phase)


def separate_prologue(kernel: sched.KernelOp) -> None:
    """Puts a barrier before an operator of the prologue where it depends on other threads.

    Its operators run once, in the order of the text, in which no schedule has fewer barriers.  What
    blocks without an iteration read behind the loop waits for the prologue alone.
    """
    for phase in sched.computing_block(kernel).ops:
        if isinstance(phase, sched.PrologueOp) and not fewest_iterations(kernel):
            phase.body.block.add_op(sched.BarrierOp())
        if isinstance(phase, sched.PrologueOp) and _computes(phase):
            operators = list(phase.body.block.ops)
            tasks = [TaskOperations(op_label(op), Phase.BEFORE, [op]) for op in operators]
            graph = kernel_graph(kernel, tasks, swizzled_twins(kernel))
            earlier: dict[int, set[int]] = {}
            for dependence in graph.dependences:
                if dependence.crosses:
                    earlier.setdefault(dependence.after, set()).add(dependence.before)
            since = 0
            for position, op in enumerate(operators):
                if any(other >= since for other in earlier.get(position, ())):
                    phase.body.block.insert_op_before(sched.BarrierOp(), op)
                    since = position


def _computes(phase: sched.PrologueOp) -> bool:
    """Whether a prologue has other operators than loads, fills and waits."""
    return any(
        isinstance(op, HasBufferEffects) and not (_is_load(op) or isinstance(op, sched.FillOp))
        for op in phase.body.block.ops
    )


def _is_load(op: Operation) -> bool:
    brings = isinstance(op, sched.CopyOp) and isinstance(op.source.type, sched.GlobalType)
    return brings or isinstance(op, sched.CommitOp)


def _tasks(operations: list[Operation], phase: Phase) -> Iterator[TaskOperations]:
    position = 0
    while position < len(operations):
        end = position + 1
        op = operations[position]
        latest = None
        name = op_label(op)
        if isinstance(op, sched.WaitOp):
            name, latest = "the wait for an iteration's tiles", 0
        elif _is_load(op):
            end = _end_of_loads(operations, position)
            name, latest = "the loads of an iteration", 1
        else:
            end = _end_of_product(operations, position)
            name = op_label(operations[end - 1])
        yield TaskOperations(name, phase, operations[position:end], latest)
        position = end


def _end_of_loads(operations: list[Operation], position: int) -> int:
    """Copies from device memory in a row, and the commit and the wait that follow them."""
    while position < len(operations) and _is_load(operations[position]):
        position += 1
    if position < len(operations) and isinstance(operations[position], sched.WaitOp):
        position += 1
    return position


def _goes_with_product(op: Operation) -> bool:
    """Whether an operator computes a product, stores it or adds it to a sum."""
    adds = isinstance(op, sched.MapOp) and op.is_sum_of_fragments
    return adds or isinstance(op, sched.MmaOp | sched.StoreOp)


def _end_of_product(operations: list[Operation], position: int) -> int:
    """Declarations with what follows them, and a product with what fills and stores it."""
    end = position
    declared: list[Operation] = []
    while end < len(operations) and isinstance(operations[end], sched.EmptyOp):
        declared.append(operations[end])
        end += 1
    if end == len(operations):
        return end
    products = [op for op in declared if op.results[0].type.tiled_mma is not None]  # pyright: ignore
    end += 1
    while (
        end < len(operations)
        and products
        and _goes_with_product(operations[end])
        and any(sched.registers_of(value).owner in products for value in operations[end].operands)
    ):
        end += 1
    return end
