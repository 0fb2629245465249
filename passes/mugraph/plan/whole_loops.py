"""Loops of products that stay whole in tiles that are no candidates otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mugraph.dialects.programming_model import GROUP_ROWS
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.measured_rows import timed_rows
from mugraph.passes.mugraph.plan.limits import ALIKE_NS
from mugraph.passes.mugraph.plan.shape import shape_under
from mugraph.passes.mugraph.plan.tile_choice import TileChoice
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.partition import Partition, partition_of
from mugraph.passes.targets import Target


def may_stay_whole(space: TileSpace, fastest: TileChoice, target: Target) -> bool:
    """Whether warp groups have few rows of a product in tiles that are the fastest of few grids.

    A graph without a loop gets one in its own grid alone; all others have one here.
    """
    old = partition_of(space)
    few_grids = old.forloop == 1 and not old.looped()
    if len(space.products) != 1 or (fastest.split == 1 and not few_grids):
        return False
    shape = shape_under(space, fastest.partition)
    return has_rows_of_groups(space, fastest.partition, shape, target)


def has_rows_of_groups(
    space: TileSpace, partition: Partition, shape: KernelShape, target: Target
) -> bool:
    """Whether warp groups multiply few rows, as many at a time as their instructions have."""
    number = space.numbers[space.products[0].results[0]][-2]
    if number is None:
        return False
    extent = space.dimensions[number].extent
    whole = timed_rows(extent) > 0 and partition.tile(number, extent) % GROUP_ROWS == 0
    return whole and shape.loop.runs_ahead(shape.threads, target)


def whole_loop(whole: Sequence[TileChoice], fastest: TileChoice) -> TileChoice | None:
    """Of the tiles of a loop that stays whole the fastest, of few blocks; ``None`` if too slow."""
    least = min((choice.time for choice in whole), default=math.inf)
    if least > fastest.time + ALIKE_NS:
        return None
    alike = [choice for choice in whole if choice.time <= least + ALIKE_NS]
    return min(alike, key=lambda choice: (math.prod(choice.partition.grid), choice.time))
