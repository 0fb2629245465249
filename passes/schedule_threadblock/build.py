"""Rewrite: from a threadblock graph and the choices made for it to a ``sched.kernel``.

The loop is software pipelined.  With S stages the prologue loads the tiles of the first S - 1
iterations; each iteration waits for its own tiles, passes one barrier, which also tells that all
threads have left the previous iteration, and starts the loads of the iteration S - 1 ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, Block, Operation, SSAValue

from mugraph.dialects import sched, tb
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.sched.transfer import ASYNC_BYTES
from mugraph.dialects.tensor_types import element_type_of, resolved_layout_of, shape_of
from mugraph.passes.schedule_threadblock.builder import Choices, KernelBuilder
from mugraph.passes.schedule_threadblock.levels import Levels
from mugraph.passes.schedule_threadblock.operators import schedule_operator


@dataclass(frozen=True)
class Load:
    """The copy of one input, for any iteration."""

    tile: SSAValue
    buffer: SSAValue
    partition: LinearPartition
    is_async: bool
    moves: bool

    def at(self, iteration: int) -> sched.CopyOp:
        """The copy before the loop, of the tile of a given iteration."""
        return sched.CopyOp(
            self.tile,
            self.buffer,
            self.partition,
            asynchronous=self.is_async,
            iteration=iteration,
        )

    def ahead(self, distance: int) -> sched.CopyOp:
        """The copy in the loop, of the tile ``distance`` iterations ahead."""
        return sched.CopyOp(
            self.tile, self.buffer, self.partition, asynchronous=self.is_async, ahead=distance
        )


def make_load(builder: KernelBuilder, op: tb.InputOp, argument: SSAValue, stages: int) -> Load:
    """The view, the buffer and the copy of one input."""
    copy = op.resolved_copy()
    moves = op.loop_dim >= 0
    buffer = builder.allocate(op.result, stages if moves else 1)
    partition = builder.copy_partition(copy, copy.element_bytes)
    is_async = partition.vector * copy.element_bytes in ASYNC_BYTES
    return Load(builder.tile(argument, copy), buffer, partition, is_async, moves)


def build_kernel(
    graph: CustomizedOp, levels: Levels, choices: Choices, symbol: str
) -> sched.KernelOp:
    """The linear schedule of a threadblock graph."""
    builder = KernelBuilder(graph, choices)
    body = Block(arg_types=_argument_types(graph))
    for argument, original in zip(body.args, (*graph.body.block.args, *graph.results), strict=True):
        argument.name_hint = original.name_hint
    inputs: dict[SSAValue, SSAValue] = dict(zip(graph.body.block.args, body.args, strict=False))
    builder.outputs.update(zip(graph.results, body.args[len(graph.inputs) :], strict=True))

    loads = [make_load(builder, op, inputs[op.dtensor], choices.stages) for op in levels.inputs]
    loop = write_loads(builder, loads)
    write_levels(builder, loop, levels.body)
    epilogue: list[Operation] = [sched.BarrierOp(), *builder.write_back]
    if builder.write_back and levels.after:
        epilogue.append(sched.BarrierOp())
    write_levels(builder, epilogue, levels.after)

    body.add_ops(builder.top)
    body.add_op(sched.PrologueOp(Block(builder.prologue)))
    body.add_op(sched.ForloopOp(graph.forloop_range, Block(loop)))
    body.add_op(sched.EpilogueOp(Block(epilogue)))
    return sched.KernelOp(
        symbol, len(graph.inputs), graph.grid_dim, graph.block_dim, body, graph.forloop_range
    )


def write_loads(builder: KernelBuilder, loads: Sequence[Load]) -> list[Operation]:
    """Writes the loads before the loop; returns the start of the loop, up to its computation."""
    iterations, stages = builder.graph.forloop_range, builder.choices.stages
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

    if moving and stages == 1 and iterations > 1:
        loads_now = [load.ahead(0) for load in moving]
        return [
            sched.BarrierOp(),
            *loads_now,
            sched.CommitOp(),
            sched.WaitOp(0),
            sched.BarrierOp(),
        ]
    start: list[Operation] = [sched.WaitOp(max(distance - 1, 0)), sched.BarrierOp()]
    if moving and stages < iterations:
        start.extend(load.ahead(distance) for load in moving)
    if distance > 0:
        # One group an iteration, also where nothing is left to load: the wait counts groups.
        start.append(sched.CommitOp())
    return start


def write_levels(
    builder: KernelBuilder, phase: list[Operation], levels: Sequence[Sequence[Operation]]
) -> None:
    """Writes the operators of a phase, one barrier between successive depths."""
    builder.here = phase
    for depth, level in enumerate(levels):
        if depth:
            phase.append(sched.BarrierOp())
        for op in level:
            schedule_operator(op, builder)


def _argument_types(graph: CustomizedOp) -> list[Attribute]:
    return [
        sched.GlobalType.of(
            shape_of(value.type),
            element_type_of(value.type),
            LayoutAttr(resolved_layout_of(value)),
        )
        for value in (*graph.body.block.args, *graph.results)
    ]
