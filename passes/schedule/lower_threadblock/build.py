"""Rewrite: from a threadblock graph and the choices made for it to a ``sched.kernel``.

The operators stand in order, in the phases before, in and after the loop; no barriers stand between
them yet.  Either a role of its own loads, through channels of one stage
(:mod:`~mugraph.passes.schedule.pipeline_loads.feeds`), or all threads copy each tile where it is
needed; ``--pipeline-loads`` lets loads run ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Attribute, Block, Operation, SSAValue

from mugraph.dialects import sched, tb
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.locations import inherit_location
from mugraph.dialects.ragged import ragged_dims
from mugraph.dialects.sched.kernel import WARP
from mugraph.dialects.sched.warpgroup import is_of_warpgroups
from mugraph.dialects.tensor_types import (
    element_type_of,
    resolved_layout_of,
    shape_of,
)
from mugraph.passes.schedule.barriers.channel_steps import place_channel_steps
from mugraph.passes.schedule.lower_threadblock.builder import Choices, KernelBuilder
from mugraph.passes.schedule.lower_threadblock.bulk_loads import comes_in_bulk, layouts_of_load
from mugraph.passes.schedule.lower_threadblock.channels import (
    are_numbers_of_products,
    are_numbers_of_results,
    are_numbers_of_rows,
)
from mugraph.passes.schedule.lower_threadblock.levels import Levels, loads_of_rings
from mugraph.passes.schedule.lower_threadblock.operators import schedule_operator
from mugraph.passes.schedule.lower_threadblock.warpgroups import is_read_by_warpgroups
from mugraph.passes.schedule.pipeline_loads.feeds import (
    CONSUMERS,
    Feed,
    Load,
    make_feed,
    producer_role,
)

Tensors = Mapping[SSAValue, SSAValue]
"""The arguments of the kernel for those of the graph's body."""


def load_of(builder: KernelBuilder, op: tb.InputOp, tensors: Tensors) -> sched.CopyOp:
    """The copy of one input by all threads, of its first tile where that comes before the loop.

    With channels threads copy what only the operators behind the loop need.
    """
    copy = op.resolved_copy()
    with builder.made_for(op):
        buffer = builder.allocate(op.result)
        tile = view_of(builder, op, tensors)
    partition = builder.copy_partition(copy, copy.element_bytes)
    within = [entry.dim for entry in ragged_dims(op.bounds())]
    is_late = builder.choices.channels
    iteration = None if builder.moves(op) or is_late else 0
    load = sched.CopyOp(tile, buffer, partition, iteration=iteration, within=within)
    inherit_location([load], op)
    return load


def view_of(builder: KernelBuilder, op: tb.InputOp, tensors: Tensors) -> SSAValue:
    """The view of the tensor that an input loads a tile of."""
    through = None if op.through is None else tensors[op.through]
    held = builder.graph.held_lengths
    arguments = [*tensors.values()]
    ends = {dim: arguments[held[number].argument] for dim, number in op.ends.items()}
    return builder.tile(tensors[op.dtensor], op.resolved_copy(), through, ends, op.windows)


def lower_kernel(
    graph: CustomizedOp, levels: Levels, choices: Choices, symbol: str
) -> sched.KernelOp:
    """All operators of a threadblock graph, with no barriers yet."""
    builder = KernelBuilder(graph, choices)
    body = Block(arg_types=_argument_types(graph))
    for argument, original in zip(body.args, (*graph.body.block.args, *graph.results), strict=True):
        argument.name_hint = original.name_hint
    inputs: dict[SSAValue, SSAValue] = dict(zip(graph.body.block.args, body.args, strict=False))
    builder.tensors.update(inputs)
    builder.outputs.update(zip(graph.results, body.args[len(graph.inputs) :], strict=True))

    feeds: list[Feed] = []
    looped: list[Operation] = []
    late: list[Operation] = []
    if choices.channels:
        by_groups = any(is_of_warpgroups(layout.atom) for layout in choices.warp_layouts.values())
        of_results = [
            op
            for op in levels.inputs
            if are_numbers_of_results(op, levels) and (by_groups or not comes_in_bulk(op))
        ]
        of_products = [op for op in levels.inputs if are_numbers_of_products(op, builder.threads)]
        of_rows = [op for op in levels.inputs if op not in of_results and are_numbers_of_rows(op)]
        by_threads = (*of_results, *of_products, *of_rows)
        by_bulk = [op for op in levels.inputs if op not in by_threads]
        loads = {op: make_bulk_load(builder, op, inputs) for op in by_bulk}
        builder.prologue += [load_of(builder, op, inputs) for op in of_rows]
        late += [load_of(builder, op, inputs) for op in of_results]
        looped += [load_of(builder, op, inputs) for op in of_products]
        of_rings = [[op for op in ring if op in loads] for ring in loads_of_rings(levels)]
        rings = [[loads.pop(op) for op in ring] for ring in of_rings if ring]
        feeds = [make_feed(ring, moves=True) for ring in rings]
        feeds += [make_feed([load], moves=False) for load in loads.values()]
    else:
        for op in levels.inputs:
            place = looped if builder.moves(op) else builder.prologue
            place.append(load_of(builder, op, inputs))
    looped += lowered(builder, [op for level in levels.body for op in level])
    late += lowered(builder, [op for level in levels.after for op in level])

    phases = [
        sched.PrologueOp(Block(builder.prologue)),
        sched.ForloopOp(graph.forloop_range, Block(looped)),
        sched.EpilogueOp(Block([*builder.write_back, *late])),
    ]
    threads = graph.block_dim
    if choices.channels:
        body.add_ops(with_producer(builder, phases, feeds))
        threads = (graph.threads + WARP, 1, 1)
    else:
        body.add_ops([*builder.top, *phases])
    kernel = sched.KernelOp(
        symbol, len(graph.inputs), graph.grid_dim, threads, body, graph.forloop_range
    )
    for tile in builder.top:
        if isinstance(tile, sched.LocalTileOp):
            inherit_location([use.operation for use in tile.result.uses], tile)
    kernel.interleaved = graph.interleaved
    kernel.hold(graph.held_lengths)
    kernel.location = graph.location
    place_channel_steps(kernel)
    return kernel


def make_bulk_load(builder: KernelBuilder, op: tb.InputOp, tensors: Tensors) -> Load:
    """The view and the buffer of one input."""
    boxes = is_read_by_warpgroups(op, builder.choices.warp_layouts)
    with builder.made_for(op):
        buffer = builder.allocate(op.result, layout=layouts_of_load(op, boxes=boxes)[0])
        tile = view_of(builder, op, tensors)
    return tile, buffer


def with_producer(
    builder: KernelBuilder, phases: Sequence[Operation], feeds: Sequence[Feed]
) -> list[Operation]:
    """A kernel's body whose threads compute in these phases, with a role before them that loads."""
    fragments = [op for op in builder.top if isinstance(op, sched.EmptyOp)]
    shared = [op for op in builder.top if not isinstance(op, sched.EmptyOp)]
    consumers = sched.RoleOp(CONSUMERS, builder.threads // WARP, Block([*fragments, *phases]))
    return [
        *shared,
        *(feed.channel for feed in feeds),
        sched.BarrierOp(),
        consumers,
        producer_role(feeds, builder.graph.forloop_range),
    ]


def lowered(builder: KernelBuilder, operators: Sequence[Operation]) -> list[Operation]:
    """What the operators of a phase become."""
    written: list[Operation] = []
    for op in operators:
        builder.here = []
        with builder.made_for(op):
            schedule_operator(op, builder)
        inherit_location(builder.here, op)
        written += builder.here
    return written


def _argument_types(graph: CustomizedOp) -> list[Attribute]:
    return [
        sched.GlobalType.of(
            shape_of(value.type),
            element_type_of(value.type),
            LayoutAttr(resolved_layout_of(value)),
        )
        for value in (*graph.body.block.args, *graph.results)
    ]
