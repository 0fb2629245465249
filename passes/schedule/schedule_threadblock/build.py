"""Rewrite: from a threadblock graph and the choices made for it to a ``sched.kernel``.

The loop is software pipelined.  Either a role of its own loads, through channels
(:mod:`~mugraph.passes.schedule.schedule_threadblock.channels`), or all threads do: with S stages
the prologue then loads the tiles of the first S - 1 iterations; each iteration waits for its own
tiles and starts the loads of the iteration S - 1 ahead, at the latest behind its first barrier.

A kernel is written in two steps.  The draft has all operators but no barriers, and says which of
them stay together; a schedule then gives each of these tasks its region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, Block, Operation, SSAValue

from mugraph.dialects import sched, tb
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.kn import CustomizedOp, Phase
from mugraph.dialects.locations import inherit_location
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.ragged import ragged_dims
from mugraph.dialects.sched.kernel import WARP
from mugraph.dialects.sched.transfer import ASYNC_BYTES
from mugraph.dialects.tensor_types import (
    element_type_of,
    op_label,
    resolved_layout_of,
    shape_of,
)
from mugraph.passes.schedule.schedule_threadblock.builder import Choices, KernelBuilder
from mugraph.passes.schedule.schedule_threadblock.channels import (
    CONSUMERS,
    BulkLoad,
    layouts_of_load,
    make_feeds,
    place_channel_steps,
    producer_role,
)
from mugraph.passes.schedule.schedule_threadblock.levels import Levels, loads_of_rings
from mugraph.passes.schedule.schedule_threadblock.model import Barriers
from mugraph.passes.schedule.schedule_threadblock.operators import schedule_operator
from mugraph.passes.schedule.schedule_threadblock.tasks import TaskOperations
from mugraph.passes.schedule.schedule_threadblock.warpgroups import is_read_by_warpgroups


@dataclass(frozen=True)
class Load:
    """The copy of one input, for any iteration."""

    tile: SSAValue
    buffer: SSAValue
    partition: LinearPartition
    is_async: bool
    moves: bool
    within: Sequence[int]

    def at(self, iteration: int) -> sched.CopyOp:
        """The copy before the loop, of the tile of a given iteration."""
        return sched.CopyOp(
            self.tile,
            self.buffer,
            self.partition,
            asynchronous=self.is_async,
            iteration=iteration,
            within=self.within,
        )

    def ahead(self, distance: int) -> sched.CopyOp:
        """The copy in the loop, of the tile ``distance`` iterations ahead."""
        return sched.CopyOp(
            self.tile,
            self.buffer,
            self.partition,
            asynchronous=self.is_async,
            ahead=distance,
            within=self.within,
        )


@dataclass(frozen=True)
class Draft:
    """A kernel without barriers, and the groups of operators that a schedule moves as one."""

    kernel: sched.KernelOp
    tasks: tuple[TaskOperations, ...]


def make_load(builder: KernelBuilder, op: tb.InputOp, argument: SSAValue, stages: int) -> Load:
    """The view, the buffer and the copy of one input."""
    copy = op.resolved_copy()
    moves = op.loop_dim >= 0
    with builder.made_for(op):
        buffer = builder.allocate(op.result, stages if moves else 1)
        tile = builder.tile(argument, copy)
    partition = builder.copy_partition(copy, copy.element_bytes)
    is_async = partition.vector * copy.element_bytes in ASYNC_BYTES
    within = [entry.dim for entry in ragged_dims(op.bounds())]
    return Load(tile, buffer, partition, is_async, moves, within)


def draft_kernel(graph: CustomizedOp, levels: Levels, choices: Choices, symbol: str) -> Draft:
    """All operators of a threadblock graph's schedule, with no barriers yet."""
    builder = KernelBuilder(graph, choices)
    body = Block(arg_types=_argument_types(graph))
    for argument, original in zip(body.args, (*graph.body.block.args, *graph.results), strict=True):
        argument.name_hint = original.name_hint
    inputs: dict[SSAValue, SSAValue] = dict(zip(graph.body.block.args, body.args, strict=False))
    builder.outputs.update(zip(graph.results, body.args[len(graph.inputs) :], strict=True))

    bulk_loads: list[BulkLoad] = []
    looped: list[TaskOperations] = []
    if choices.channels:
        rings = {op: ring for ring, loads in enumerate(loads_of_rings(levels)) for op in loads}
        bulk_loads = [
            make_bulk_load(builder, op, inputs[op.dtensor], rings.get(op)) for op in levels.inputs
        ]
    else:
        loads = [
            make_load(builder, op, inputs[op.dtensor], choices.stages[0]) for op in levels.inputs
        ]
        looped = loading_tasks(builder, loads)
    looped += operator_tasks(builder, Phase.LOOP, [op for level in levels.body for op in level])
    stores = [TaskOperations(op_label(store), Phase.AFTER, [store]) for store in builder.write_back]
    late = [
        *stores,
        *operator_tasks(builder, Phase.AFTER, [op for level in levels.after for op in level]),
    ]
    prologue = TaskOperations("the prologue", Phase.BEFORE, builder.prologue)

    phases = [
        sched.PrologueOp(Block(builder.prologue)),
        sched.ForloopOp(graph.forloop_range, Block(_operations(looped))),
        sched.EpilogueOp(Block(_operations(late))),
    ]
    threads = graph.block_dim
    if choices.channels:
        body.add_ops(with_producer(builder, phases, bulk_loads))
        threads = (graph.threads + WARP, 1, 1)
    else:
        body.add_ops([*builder.top, *phases])
    kernel = sched.KernelOp(
        symbol, len(graph.inputs), graph.grid_dim, threads, body, graph.forloop_range
    )
    for tile in builder.top:
        if isinstance(tile, sched.TileOp):
            inherit_location([use.operation for use in tile.result.uses], tile)
    kernel.location = graph.location
    return Draft(kernel, (prologue, *looped, *late))


def make_bulk_load(
    builder: KernelBuilder, op: tb.InputOp, argument: SSAValue, ring: int | None
) -> BulkLoad:
    """The view, the buffer and the bulk copy of one input, with the ring that it goes through."""
    stages = 1 if ring is None else builder.choices.stages[ring]
    boxes = is_read_by_warpgroups(op, builder.choices.warp_layouts)
    with builder.made_for(op):
        buffer = builder.allocate(op.result, stages, layout=layouts_of_load(op, boxes=boxes)[0])
        tile = builder.tile(argument, op.resolved_copy())
    return BulkLoad(tile, buffer, ring)


def with_producer(
    builder: KernelBuilder, phases: Sequence[Operation], loads: Sequence[BulkLoad]
) -> list[Operation]:
    """A kernel's body whose threads compute in these phases, with a role before them that loads."""
    fragments = [op for op in builder.top if isinstance(op, sched.FragmentOp)]
    shared = [op for op in builder.top if not isinstance(op, sched.FragmentOp)]
    feeds = make_feeds(loads, builder.choices.stages)
    consumers = sched.RoleOp(CONSUMERS, builder.threads // WARP, Block([*fragments, *phases]))
    return [
        *shared,
        *(feed.channel for feed in feeds),
        sched.BarrierOp(),
        consumers,
        producer_role(feeds, builder.graph.forloop_range),
    ]


def loading_tasks(builder: KernelBuilder, loads: Sequence[Load]) -> list[TaskOperations]:
    """Writes the loads before the loop; returns the tasks of those in it, and of the wait."""
    iterations, stages = builder.graph.forloop_range, builder.choices.stages[0]
    kept = [load for load in loads if not load.moves]
    moving = [load for load in loads if load.moves]
    # With as many stages as iterations everything is loaded before the loop.
    distance = iterations if stages == iterations else stages - 1
    builder.prologue.extend(load.at(0) for load in kept)
    for iteration in range(distance):
        builder.prologue.extend(load.at(iteration) for load in moving)
        builder.prologue.append(sched.CommitOp())
    if distance == 0 and kept:
        builder.prologue.append(sched.CommitOp())

    name = "the loads of an iteration"
    if moving and stages == 1 and iterations > 1:
        now: list[Operation] = [load.ahead(0) for load in moving]
        now += [sched.CommitOp(), sched.WaitOp(0)]
        return [TaskOperations(name, Phase.LOOP, now, latest=1)]
    wait = sched.WaitOp(max(distance - 1, 0))
    tasks = [TaskOperations("the wait for an iteration's tiles", Phase.LOOP, [wait], latest=0)]
    ahead: list[Operation] = []
    if moving and stages < iterations:
        ahead += [load.ahead(distance) for load in moving]
    if distance > 0 and iterations > 1:
        # One group an iteration, also where nothing is left to load: the wait counts groups.
        ahead.append(sched.CommitOp())
    if ahead:
        tasks.append(TaskOperations(name, Phase.LOOP, ahead, latest=1))
    return tasks


def operator_tasks(
    builder: KernelBuilder, phase: Phase, operators: Sequence[Operation]
) -> list[TaskOperations]:
    """What the operators of a phase become, mostly one task each; none for nothing."""
    tasks: list[TaskOperations] = []
    for op in operators:
        builder.here, builder.earlier = [], []
        with builder.made_for(op):
            schedule_operator(op, builder)
        for operations in (*builder.earlier, builder.here):
            if operations:
                inherit_location(operations, op)
                tasks.append(TaskOperations(op_label(op), phase, operations))
    return tasks


def arrange(draft: Draft, barriers: Barriers, regions: Sequence[int]) -> sched.KernelOp:
    """The draft's kernel with every task in its region and barriers between the regions.

    The draft is used up.
    """
    for phase_op in sched.computing_block(draft.kernel).ops:
        if isinstance(phase_op, sched.PrologueOp | sched.ForloopOp | sched.EpilogueOp):
            phase = _phase_of(phase_op)
            block = phase_op.body.block
            for op in tuple(block.ops):
                op.detach()
            first, last = barriers.range_of(phase)
            for region in range(first, last + 1):
                if region > first:
                    block.add_op(sched.BarrierOp())
                for task, place in zip(draft.tasks, regions, strict=True):
                    if task.phase is phase and place == region:
                        block.add_ops(task.operations)
    place_channel_steps(draft.kernel)
    return draft.kernel


def _phase_of(op: Operation) -> Phase:
    if isinstance(op, sched.PrologueOp):
        return Phase.BEFORE
    return Phase.LOOP if isinstance(op, sched.ForloopOp) else Phase.AFTER


def _operations(tasks: Sequence[TaskOperations]) -> list[Operation]:
    return [op for task in tasks for op in task.operations]


def _argument_types(graph: CustomizedOp) -> list[Attribute]:
    return [
        sched.GlobalType.of(
            shape_of(value.type),
            element_type_of(value.type),
            LayoutAttr(resolved_layout_of(value)),
        )
        for value in (*graph.body.block.args, *graph.results)
    ]
