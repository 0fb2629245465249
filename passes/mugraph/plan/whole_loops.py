"""Loops of products that stay whole, though the estimate says that parts are faster."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mugraph.dialects.programming_model import GROUP_ROWS
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.mugraph.plan.early import has_weights
from mugraph.passes.mugraph.plan.limits import ALIKE_NS
from mugraph.passes.mugraph.plan.shape import shape_under
from mugraph.passes.mugraph.plan.tile_choice import TileChoice
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.partition import Partition
from mugraph.passes.targets import Target

PARTS_NS = 2300.0
"""What parts of sums of 64 rows cost more than is estimated, beside loops that stay whole.

In a gated attention output of 64 rows a product of 2048 x 2048 whose loop is divided over four
blocks is estimated to take 5.9 us, and 7.9 whole with 32 columns a block; the programs took 9.7 and
8.4 on an H200, and 9.3 with two parts (``benchmarks/results/h200_fused_programs.md``).  64 x 1280 x
1280, estimated at 4.5 and 5.9, took 5.6 and 4.1.
"""


def may_stay_whole(space: TileSpace, fastest: TileChoice, target: Target) -> bool:
    """Whether a warp group has all rows of a product, whose loop the fastest tiles divide.

    No kernel of the program loads weights before it waits: that was not measured.
    """
    if fastest.split == 1 or len(space.products) != 1 or has_weights(space.graph):
        return False
    shape = shape_under(space, fastest.partition)
    return has_all_rows(space, fastest.partition, shape, target)


def has_all_rows(
    space: TileSpace, partition: Partition, shape: KernelShape, target: Target
) -> bool:
    """Whether a warp group multiplies all rows of the product, as many as its instructions have."""
    number = space.numbers[space.products[0].results[0]][-2]
    if number is None or space.dimensions[number].extent != GROUP_ROWS:
        return False
    rows = partition.tile(number, GROUP_ROWS)
    return rows == GROUP_ROWS and shape.loop.runs_ahead(shape.threads, target)


def whole_loop(whole: Sequence[TileChoice], fastest: TileChoice) -> TileChoice | None:
    """Of the tiles of a loop that stays whole the fastest, of few blocks; ``None`` if too slow."""
    least = min((choice.time for choice in whole), default=math.inf)
    if least > fastest.time + PARTS_NS:
        return None
    alike = [choice for choice in whole if choice.time <= least + ALIKE_NS]
    return min(alike, key=lambda choice: (math.prod(choice.partition.grid), choice.time))
