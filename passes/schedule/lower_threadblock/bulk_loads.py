"""Loads by a warp of their own: which inputs bulk copies can bring, the producer, and its channels.

With a role for the loads the threads that compute find their tiles by waiting at a channel: no
barrier of theirs stands between a load and its readers, nor between these and the next load.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from mugraph.dialects import tb
from mugraph.dialects.bulk import (
    BulkCopyError,
    mapped_tensor,
    require_boxes,
    require_no_windows,
    tile_layouts,
)
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.launch_extents import MAX_THREADS
from mugraph.dialects.sched.kernel import WARP
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)
from mugraph.passes.schedule.analysis.remarks import Obstacle
from mugraph.passes.schedule.lower_threadblock.extents import name_said
from mugraph.passes.schedule.lower_threadblock.levels import Levels
from mugraph.passes.targets import Target


def layouts_of_load(op: tb.InputOp, *, boxes: bool = False) -> list[AnyLayout]:
    """The layouts that bulk copies can give an input's tile, the one to start from first.

    ``boxes``: also several boxes side by side.  Raises :class:`BulkCopyError` where they cannot
    bring it.
    """
    copy = op.resolved_copy()
    graph = op.parent_op()
    assert isinstance(graph, CustomizedOp)
    if any(name_said(graph, number) is None for number in op.ends.values()):
        raise BulkCopyError(
            "a number in device memory says where it ends, and bulk copies write zeros only behind "
            "the end that their tensor map has"
        )
    require_no_windows(op.windows)
    tensor = mapped_tensor(op, strides_of(resolved_layout_of(op.dtensor)), copy.tile)
    require_boxes(copy.slicing, copy.alignment)
    # What cuts a tile in parts finds them by one stride a dimension.
    may_be_nested = all(not isinstance(use.operation, tb.MovingOp) for use in op.result.uses)
    found = tile_layouts(
        tensor.shape, tensor.strides, copy.tile, copy.element_bytes, boxes=boxes or may_be_nested
    )
    return found if boxes else sorted(found, key=lambda layout: base_layout(layout).depth > 1)


def comes_in_bulk(op: tb.InputOp) -> bool:
    """Whether bulk copies can bring an input."""
    try:
        layouts_of_load(op)
    except BulkCopyError:
        return False
    return True


def are_numbers_of_results(op: tb.InputOp, levels: Levels) -> bool:
    """Whether an input has numbers of rows or columns, or one, for operators behind the loop alone.

    Such as scales, or a bias.  The threads that compute can load them when they need them.
    """
    if op.loop_dim >= 0 or op.through is not None or op.windows is not None or op.ends:
        return False
    late = {reader for level in levels.after for reader in level}
    readers = [use.operation for use in op.result.uses]
    return all(
        reader in late
        and isinstance(reader, tb.ElementwiseOp)
        and math.prod(shape_of(reader.results[0].type)) > math.prod(shape_of(op.result.type))
        for reader in readers
    )


def block_obstacles(threads: int, target: Target) -> Iterator[Obstacle]:
    """Why a block of so many threads, without a producer, has no channels; nothing where it may."""
    if target.bulk_bytes_in_flight is None:
        yield Obstacle(f"{target.arch} has no bulk copies", "choose a later architecture")
    if threads % WARP:
        whole = -(-threads // WARP) * WARP
        yield Obstacle(
            f"its block of {threads} threads is not made of whole warps",
            f"give it whole warps (plan <block = [{whole}]>)",
        )
    if threads + WARP > MAX_THREADS:
        yield Obstacle(
            f"its block of {threads} threads leaves no room for a producer",
            f"leave a warp to it (plan <block = [{MAX_THREADS // 2}]>)",
        )


def loop_obstacles(*, moves: bool, iterations: int) -> Iterator[Obstacle]:
    """Why channels gain nothing in a loop; ``moves``: whether it loads a tile an iteration."""
    mend = "cut what it loads by a for-loop (plan <forloop = ...>)"
    if not moves:
        yield Obstacle("nothing is loaded in its loop", mend)
    if iterations == 1:
        yield Obstacle("its loop has one iteration", mend)


def obstacles(graph: CustomizedOp, levels: Levels, target: Target) -> list[str]:
    """Why the loads of a graph cannot go through channels: a sentence each; none where they can."""
    found = [obstacle.reason for obstacle in block_obstacles(graph.threads, target)]
    if not levels.inputs:
        found.append("it loads nothing")
    for op in levels.inputs:
        if are_numbers_of_results(op, levels):
            continue
        try:
            layouts_of_load(op)
        except BulkCopyError as error:
            found.append(f"{value_label(op.dtensor)}: {error}")
    return found


def uses_channels(graph: CustomizedOp, levels: Levels, target: Target) -> list[str]:
    """Why a graph is not scheduled with channels; nothing where it is.

    A plan that says ``loads = tma`` has them wherever they can be.
    """
    loads = graph.decided.loads
    if loads == "cp_async":
        return ["its plan says loads = cp_async"]
    found = obstacles(graph, levels, target)
    if loads is None:
        moves = any(op.loop_dim >= 0 for op in levels.inputs)
        missing = loop_obstacles(moves=moves, iterations=graph.forloop_range)
        found += [obstacle.reason for obstacle in missing]
    return found
