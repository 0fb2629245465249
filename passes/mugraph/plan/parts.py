"""Which tiles leave room for the parts of a plan that are written.

What a kernel can have shows only when it is scheduled; what of it depends on tiles is asked here,
so that tiles are chosen that can have it.
"""

from __future__ import annotations

import math

from mugraph.dialects import tb
from mugraph.dialects.element_types import operand_names
from mugraph.dialects.plan import Plan
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.kernels import can_alternate
from mugraph.passes.mugraph.plan.operators import matrices_of
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.partition import Partition, tile_shape_of
from mugraph.passes.schedule.lower_threadblock.small_products import is_small, swap_obstacle
from mugraph.passes.targets import Target


def can_have(
    space: TileSpace, partition: Partition, shape: KernelShape, plan: Plan, target: Target
) -> bool:
    """Whether a kernel of these tiles can have what its plan says, as far as tiles decide that."""
    ping_pong = (plan.ping_pong or 1) > 1
    return (
        (plan.stages is None or has_room(shape, max(plan.stages), target))
        and (not (plan.persistent or ping_pong) or can_persist(shape, target))
        and (not ping_pong or can_alternate(shape, target))
        and (not plan.swap_ab or can_swap(space, partition, shape))
    )


def has_room(shape: KernelShape, stages: int, target: Target) -> bool:
    """Whether a loop is as long, and the tiles of so many iterations fit a block."""
    room = target.shared_memory_per_block - shape.fixed_bytes(target.warp_size)
    return stages <= shape.iterations and stages * shape.loop_bytes <= room


def can_persist(shape: KernelShape, target: Target) -> bool:
    """Whether blocks of warp groups can take several work tiles each."""
    by_groups = shape.loop.runs_ahead(shape.threads, target)
    return by_groups and shape.blocks > target.multiprocessors


def can_swap(space: TileSpace, partition: Partition, shape: KernelShape) -> bool:
    """Whether warp groups can compute all products that they need a swap for, or are small.

    They do so with swapped operands, which a producer loads.
    """
    found = False
    for op in space.products:
        for lhs, rhs in matrices_of(op):
            *leading, rows, depth = tile_shape_of(space, partition, lhs)
            columns = tile_shape_of(space, partition, rhs)[-1]
            if not is_small(rows):
                continue
            types = operand_names(lhs, rhs)
            loaded = all(isinstance(value.owner, tb.InputOp) for value in (lhs, rhs))
            obstacle = swap_obstacle(rows, columns, depth, types, shape.threads)
            if not loaded or math.prod(leading) > 1 or obstacle is not None:
                return False
            found = True
    return found and shape.iterations > 1
