"""Remarks about loads: why they are no bulk copies, and why too few are on their way."""

from __future__ import annotations

import math
from collections.abc import Iterator

from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.bulk import (
    CHUNK_BYTES,
    BulkCopyError,
    mapped_tensor,
    require_boxes,
    require_no_windows,
    tile_layouts,
)
from mugraph.dialects.sched.structure import loop_iterations
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    resolved_layout_of,
    shape_of,
    strides_of,
)
from mugraph.passes.schedule.analysis.remarks import Kind, Obstacle, Remark
from mugraph.passes.schedule.lower_threadblock.bulk_loads import block_obstacles, loop_obstacles
from mugraph.passes.schedule.remarks.scheduled import Scheduled


def load_remarks(scheduled: Scheduled) -> Iterator[Remark]:
    """Why tiles come to shared memory by copies of all threads, where the target has others."""
    if scheduled.target.bulk_bytes_in_flight is None:
        return
    tiles: dict[sched.LocalTileOp, SSAValue] = {
        op.source.owner: op.destination
        for op in scheduled.kernel.body.walk()
        if isinstance(op, sched.CopyOp)
        and isinstance(op.source.owner, sched.LocalTileOp)
        and isinstance(op.destination.type, sched.SharedType)
    }
    if not tiles:
        return
    labels = {tile: scheduled.label(tile.source) for tile in tiles}
    every = list(dict.fromkeys(labels.values()))
    of_tiles = {
        labels[tile]: why
        for tile, buffer in tiles.items()
        if (why := _tile_obstacle(scheduled, tile, buffer)) is not None
    }
    for label, why in of_tiles.items():
        others = ", ".join(other for other in every if other != label)
        so_are = f", and with it {others}," if others else ""
        lost = f"{label}{so_are} is loaded by cp.async and not by TMA"
        yield scheduled.remark(Kind.TMA, lost, why, label)
    if not of_tiles:
        verb = "is" if len(every) == 1 else "are"
        lost = f"{', '.join(every)} {verb} loaded by cp.async and not by TMA"
        yield scheduled.remark(Kind.TMA, lost, _kernel_obstacle(scheduled, list(tiles)))


def _tile_obstacle(
    scheduled: Scheduled, tile: sched.LocalTileOp, buffer: SSAValue
) -> Obstacle | None:
    """Why bulk copies cannot bring a tile."""
    tensor = scheduled.tensor(tile.result)
    # What cuts a buffer in parts finds them by one stride a dimension.
    may_be_nested = all(not isinstance(use.operation, sched.MoveOp) for use in buffer.uses)
    try:
        require_no_windows(tile.windows)
        extents = shape_of(tile.result.type)
        mapped = mapped_tensor(tile, strides_of(resolved_layout_of(tensor)), extents)
        require_boxes(tile.slicing(), scheduled.alignment(tensor))
        tile_layouts(
            mapped.shape,
            mapped.strides,
            extents,
            element_bytes_of(tensor.type),
            boxes=may_be_nested,
        )
    except BulkCopyError as error:
        mend = error.mend
        if error.pads and error.dimension is not None:
            mend = f"pad its dimension {error.dimension} to {_padded(tile, error.dimension)}"
        return Obstacle(str(error), mend, error.dimension)
    return None


def _padded(tile: sched.LocalTileOp, dim: int) -> int:
    """The least extent of a tensor along a dimension that gives whole tiles, of rows of chunks."""
    shape = shape_of(tile.source.type)
    split = tile.slicing().split(dim)
    step = math.prod(split.blocks) * split.iterations
    if strides_of(resolved_layout_of(tile.source))[dim] == 1:
        step *= CHUNK_BYTES // element_bytes_of(tile.source.type)
    return -(-shape[dim] // step) * step


def _kernel_obstacle(scheduled: Scheduled, tiles: list[sched.LocalTileOp]) -> Obstacle:
    """Why a kernel has no producer, where bulk copies could bring all its tiles."""
    kernel = scheduled.kernel
    moves = any(tile.loop_dim >= 0 for tile in tiles)
    asked = Obstacle(
        "loads = cp_async was planned, or shared memory has no room for a ring",
        "write loads = tma in its plan",
    )
    found = (
        *block_obstacles(kernel.threads, scheduled.target),
        *loop_obstacles(moves=moves, iterations=loop_iterations(kernel)),
        asked,
    )
    return found[0]


def stage_remarks(scheduled: Scheduled) -> Iterator[Remark]:
    """Whether shared memory is why too few bytes are on their way to a multiprocessor."""
    kernel, target = scheduled.kernel, scheduled.target
    buffers: dict[sched.AllocOp, bool] = {}
    for op in kernel.body.walk():
        is_bulk = isinstance(op, sched.BulkCopyOp) and op.is_load
        if not is_bulk and not (isinstance(op, sched.CopyOp) and op.is_async):
            continue
        source, destination = op.operands[0].owner, op.operands[1].owner
        if isinstance(source, sched.LocalTileOp) and source.loop_dim >= 0:
            assert isinstance(destination, sched.AllocOp)
            buffers[destination] = is_bulk
    stages = min((buffer.stage_count for buffer in buffers), default=0)
    if not buffers or kernel.smem_bytes is None or stages >= loop_iterations(kernel):
        return
    wanted = target.bytes_in_flight_per_multiprocessor()
    if all(buffers.values()) and target.bulk_bytes_in_flight is not None:
        wanted = target.bulk_bytes_in_flight
    resident = kernel.resident_blocks or 1
    resident = min(resident, math.ceil(math.prod(kernel.grid_dim) / target.multiprocessors))
    ahead = sum((buffer.stage_count - 1) * buffer.stage_bytes() for buffer in buffers)
    one_more = sum(buffer.stage_bytes() for buffer in buffers)
    room = min(
        target.shared_memory_per_block,
        target.shared_memory_per_multiprocessor // resident
        - target.reserved_shared_memory_per_block,
    )
    if ahead * resident >= wanted or kernel.smem_bytes + one_more <= room:
        return
    yield scheduled.remark(
        Kind.STAGES,
        f"its loop keeps {ahead * resident} bytes on their way to a multiprocessor, in {stages} "
        f"stage{'s' if stages > 1 else ''}, and not {math.ceil(wanted)}",
        Obstacle(
            f"one more of {one_more} bytes does not fit beside {kernel.smem_bytes} of the {room} "
            "bytes that a block can have",
            f"load smaller tiles (plan <forloop = {2 * loop_iterations(kernel)}>)",
        ),
    )
