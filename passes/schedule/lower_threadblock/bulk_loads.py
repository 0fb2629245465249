"""Which inputs bulk copies can bring, and in which blocks."""

from __future__ import annotations

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
    strides_of,
)
from mugraph.passes.schedule.analysis.remarks import Obstacle
from mugraph.passes.schedule.lower_threadblock.extents import name_said
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
