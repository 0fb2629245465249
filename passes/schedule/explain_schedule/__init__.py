"""``--explain-schedule``: the regions of a schedule, and what each of its barriers is for."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import sched
from mugraph.dialects.interfaces import HasBufferEffects
from mugraph.dialects.kn import Phase
from mugraph.dialects.tensor_types import op_label, value_label
from mugraph.passes.each import TargetPass
from mugraph.passes.schedule.barriers.dependences import TaskOperations, kernel_graph
from mugraph.passes.schedule.barriers.fewest import FewestBarriers, Witness, fewest_barriers
from mugraph.passes.schedule.barriers.model import Barriers, Dependence, Graph, peak_load
from mugraph.passes.schedule.barriers.tasks import PHASES
from mugraph.passes.schedule.explain_schedule.products import product_lines
from mugraph.passes.schedule.pipeline_loads.rings import feeds_of
from mugraph.passes.targets import Target

_PLACES = {
    Phase.BEFORE: "before the loop",
    Phase.LOOP: "in the loop",
    Phase.AFTER: "after the loop",
}


@dataclass(frozen=True)
class ScheduledKernel:
    """A kernel as its text has it: one task an operator, its region, and all barriers."""

    kernel: sched.KernelOp
    graph: Graph
    regions: tuple[int, ...]
    barriers: Barriers
    settled: int = 0
    """Barriers of the prologue behind which it goes on: they stay where they are."""


def read_schedule(kernel: sched.KernelOp) -> ScheduledKernel:
    """The tasks and regions of a scheduled kernel; raises ``AccessError`` as its operators do."""
    tasks: list[TaskOperations] = []
    regions: list[int] = []
    counts = {Phase.BEFORE: 0, Phase.LOOP: 0, Phase.AFTER: 0}
    region = settled = 0
    for part in sched.computing_block(kernel).ops:
        phase = PHASES.get(type(part))
        if phase is None:
            continue
        steps = [op for op in part.regions[0].block.ops if not isinstance(op, sched.YieldOp)]
        last = steps[-1] if steps else None
        for op in steps:
            if isinstance(op, sched.BarrierOp) and phase is Phase.BEFORE and op is not last:
                tasks.append(TaskOperations(_describe(op), phase, [op]))
                regions.append(region)
                settled += 1
            elif isinstance(op, sched.BarrierOp):
                region += 1
                counts[phase] += 1
            elif not isinstance(op, sched.EmptyOp | sched.ChannelStepOp):
                starts = isinstance(op, sched.WaitOp) and op is part.regions[0].block.first_op
                latest = 0 if starts else None
                tasks.append(TaskOperations(_describe(op), phase, [op], latest))
                regions.append(region)
    barriers = Barriers(counts[Phase.BEFORE], counts[Phase.LOOP], counts[Phase.AFTER])
    graph = kernel_graph(kernel, tasks)
    return ScheduledKernel(kernel, graph, tuple(regions), barriers, settled)


def _describe(op: Operation) -> str:
    if not op.operands or not isinstance(op, HasBufferEffects):
        return op_label(op)
    return f"'{op.name}' to {value_label(op.operands[-1])}"


def barrier_between(dependence: Dependence, schedule: ScheduledKernel) -> int | None:
    """The barrier, counted through the text from 0, that alone stands between two tasks.

    ``None`` where none or several do.
    """
    before = schedule.regions[dependence.before]
    after = schedule.regions[dependence.after]
    passed = after - before + dependence.distance * schedule.barriers.loop
    if passed != 1:
        return None
    _, last = schedule.barriers.range_of(Phase.LOOP)
    looped = schedule.graph.tasks[dependence.before].phase is Phase.LOOP
    if dependence.distance and looped and before == last:
        return schedule.barriers.before
    return before


def reasons(schedule: ScheduledKernel) -> dict[int, list[Dependence]]:
    """For each barrier the crossing dependences that no other barrier separates, each once."""
    found: dict[int, list[Dependence]] = {}
    for dependence in schedule.graph.active_dependences:
        if dependence.crosses:
            barrier = barrier_between(dependence, schedule)
            if barrier is not None:
                found.setdefault(barrier, []).append(dependence)
    return found


def _sentence(dependence: Dependence, graph: Graph) -> str:
    before = graph.tasks[dependence.before].name
    after = graph.tasks[dependence.after].name
    far = f", {dependence.distance} iteration{'s' if dependence.distance > 1 else ''} later"
    return f"{dependence.why}: {before}, then {after}{far if dependence.distance else ''}"


def _bound_lines(fewest: FewestBarriers, graph: Graph) -> Iterator[str]:
    def chain(witness: Witness) -> str:
        names = [graph.tasks[witness.dependences[0].before].name]
        for dependence in witness.dependences:
            arrow = "=>" if dependence.crosses else "->"
            names.append(f"{arrow} {graph.tasks[dependence.after].name}")
        return " ".join(names)

    if fewest.loop is not None:
        span = fewest.loop.iterations
        rounds = "each iteration" if span == 1 else f"every {span} iterations"
        yield (
            f"  the loop needs {fewest.loop.bound} an iteration, as {rounds} must pass "
            f"{fewest.loop.crossings} crossings: {chain(fewest.loop)}"
        )
    if fewest.straight is not None:
        yield (
            f"  what follows the loop needs {fewest.straight.crossings}: {chain(fewest.straight)}"
        )


def _channel_lines(kernel: sched.KernelOp) -> Iterator[str]:
    """A line for each channel: what goes through it, how far ahead."""
    for op in kernel.body.block.ops:
        if isinstance(op, sched.ChannelOp):
            names = ", ".join(value_label(value) for value in op.buffers)
            stages = f" in {op.stage_count} stages of" if op.stage_count > 1 else ","
            yield (
                f"  the producer warp loads {names}{stages} {op.stage_payload()} bytes; "
                "readers wait at mbarriers, not at barriers of the block"
            )


def _is_kept(channel: sched.ChannelOp) -> bool:
    """Whether products that run behind the program read a ring's stages an iteration longer."""
    readers = [use.operation for value in channel.buffers for use in value.uses]
    return any(isinstance(op, sched.WarpgroupMmaOp) and op.is_async for op in readers) and any(
        isinstance(step, sched.ReleaseOp) and step.ahead_of < 0 for step in channel.steps()
    )


def _ring_lines(kernel: sched.KernelOp, target: Target) -> Iterator[str]:
    """How the stages of each ring are used, and the bytes that are on their way together."""
    rings = [feed for feed in feeds_of(kernel) if feed.moves]
    on_their_way = 0
    for ring in rings:
        kept = int(_is_kept(ring.channel))
        ahead = ring.stages - 1 - kept
        on_their_way += ahead * ring.channel.stage_payload()
        names = ", ".join(value_label(value) for value in ring.channel.buffers)
        behind = ", one kept by a product in flight" if kept else ""
        yield f"  stages of {names}: one is read{behind}, {ahead} are filled ahead"
    if rings:
        blocks = kernel.resident_blocks or 1
        shared = f"{blocks} blocks that share it" if blocks > 1 else "the only block on it"
        yield (
            f"  {blocks * on_their_way} bytes are in flight to each multiprocessor, for {shared}; "
            f"{target.arch} needs {target.bulk_bytes_in_flight} to keep its memory busy"
        )


def explain(kernel: sched.KernelOp, target: Target) -> list[str]:
    """The lines of the explanation of one kernel, made for a target."""
    schedule = read_schedule(kernel)
    graph, barriers = schedule.graph, schedule.barriers
    fewest = fewest_barriers(graph)
    executed = barriers.executed(graph.iterations)
    lines = [
        f"{op_label(kernel)}: a thread passes {executed} barriers: {barriers.before} before the "
        f"loop, {barriers.loop} in each of {graph.iterations} iterations, {barriers.after} after "
        f"it; the fewest possible are {fewest.executed}"
        + (f"; the prologue passes {schedule.settled} more" if schedule.settled else ""),
        *_bound_lines(fewest, graph),
        f"  the fullest region holds {peak_load(graph, barriers, schedule.regions)} bytes of "
        "shared memory",
        *_channel_lines(kernel),
        *_ring_lines(kernel, target),
        *product_lines(kernel, target),
    ]
    why = reasons(schedule)
    for region in range(barriers.regions):
        if region:
            lines.append(f"  barrier {region}, {_place_of_barrier(region, barriers)}, for")
            causes = [_sentence(cause, graph) for cause in why.get(region - 1, [])]
            shared = "memory that is used again, or dependences that other barriers separate too"
            lines += [f"    {cause}" for cause in dict.fromkeys(causes or [shared])]
        lines.append(f"  region {region}")
        tasks = [
            f"    {_PLACES[task.phase]}: {task.name}"
            for task, place in zip(graph.tasks, schedule.regions, strict=True)
            if place == region
        ]
        lines += dict.fromkeys(tasks)
    return lines


def _place_of_barrier(region: int, barriers: Barriers) -> str:
    if region <= barriers.before:
        return _PLACES[Phase.BEFORE]
    if region <= barriers.before + barriers.loop:
        return _PLACES[Phase.LOOP]
    return _PLACES[Phase.AFTER]


def _kernels(module: ModuleOp) -> Sequence[sched.KernelOp]:
    return [op for op in module.walk() if isinstance(op, sched.KernelOp)]


class ExplainSchedulePass(TargetPass):
    """Prints the regions of each schedule to stderr, with the reason for every barrier.

    For each kernel it prints how many barriers a thread passes, the fewest possible, and the chains
    of dependences that need them (``=>`` crosses threads, ``->`` does not); the bytes alive in the
    fullest region; with a producer warp, the use of each ring's stages, and the bytes in flight
    beside those that ``arch`` should have; for products of few rows, the estimates for single warps
    and for warp groups with swapped operands. Then it prints the operators region by region, and
    for each barrier the dependences that only this barrier separates.  Changes nothing.
    Pre-condition: ``--pipeline-loads``.
    """

    name = "explain-schedule"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Prints a paragraph for each kernel."""
        target = self.target
        kernels = _kernels(op)
        if not kernels:
            raise PassFailedException(
                "--explain-schedule: the module has no 'sched.kernel'; run --lower-threadblock"
            )
        for kernel in kernels:
            try:
                lines = explain(kernel, target)
            except sched.AccessError as error:
                raise PassFailedException(f"--{self.name}: {op_label(kernel)}: {error}") from error
            print("\n".join(lines), file=sys.stderr)
