"""What a loop takes that is divided over blocks, with the kernel that combines their sums."""

from __future__ import annotations

import math
from typing import NamedTuple

from mugraph.passes.costs.few_rows import LATE_NS, has_lone_groups, is_of_few_rows
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.kernels import OVERLAP_NS, estimate
from mugraph.passes.costs.measured_rows import overlap_of_parts
from mugraph.passes.mugraph.plan.bounds import PART_BYTES
from mugraph.passes.mugraph.plan.clusters import (
    ATTENTION_COMBINED_NS,
    COMBINED_NS,
    may_combine_in_clusters,
)
from mugraph.passes.mugraph.plan.combination import NO_WORK, combination_time
from mugraph.passes.mugraph.plan.dimension_tiles import passes_products_on
from mugraph.passes.mugraph.plan.shape import TiledKernel, shape_under
from mugraph.passes.mugraph.plan.tile_choice import TileChoice
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.partition import Partition
from mugraph.passes.targets import Target

PART_NS = 60.0
"""What each further part of a sum that blocks divide costs besides: the kernel that adds the parts
up loads one after another.  Parts of chains, such as attention, have none of that: no pair that was
timed decides it for them.

Chosen by ``python -m benchmarks.programs.pairs`` from programs with and without a fusion.  Plans of
single products on an H200 say about the same: 64 x 1280 x 1280 took 5.6 us in four parts and 4.1
whole, 37 x 768 x 3072 6.3 in eight parts and 5.2 in four.
"""


class Division(NamedTuple):
    """A loop divided over blocks: the kernel that has the loop, and one that combines its sums."""

    whole: TiledKernel
    split: int = 1
    saved: float = 0.0
    """Nanoseconds less that the combining kernel takes where clusters run both."""

    def shape(self, threads: int) -> KernelShape:
        """The kernel that has the loop, with so many threads, as if it combined the sums itself."""
        return self.whole.shape.divided(self.split)._replace(threads=threads)

    def time(self, first: KernelShape, target: Target) -> float | None:
        """Nanoseconds of both kernels, the first of a :meth:`shape`; ``None`` where none fits."""
        if self.split == 1:
            return estimate(first, target)
        sums, whole = self.whole.sums, self.whole.shape
        first = first._replace(after=NO_WORK, stored_bytes=sums * PART_BYTES)
        time = estimate(first, target)
        results = whole.blocks, sums, self.split, whole.stored_bytes, self.parallel
        second = combination_time(*results, target, whole.after, self.whole.shared_sums)
        if time is None or second is None:
            return None
        parts = 0.0 if whole.loop.chained else PART_NS * (self.split - 1)
        return time + second - _overlap_ns(first, target) - self.saved + parts

    @property
    def parallel(self) -> int:
        """Over how many blocks the kernel that combines the sums may divide a tile at most."""
        partition, model = self.whole.partition, self.whole.model
        dimensions = model.space.dimensions
        return math.prod(partition.tile(each, dimensions[each].extent) for each in model.parallel)


def _overlap_ns(first: KernelShape, target: Target) -> float:
    """Nanoseconds less that the kernel takes which adds up the sums of the first one.

    Where few rows of f8 wait for memory it starts at the end: an early start only makes them wait.
    """
    if has_lone_groups(first, target):
        return -LATE_NS
    if is_of_few_rows(first, target):
        return 0.0
    measured = overlap_of_parts(first, target)
    return OVERLAP_NS if measured is None else measured


def saved_in_clusters(space: TileSpace, partition: Partition, split: int, target: Target) -> float:
    """Nanoseconds that are saved where clusters combine the parts of a partition.

    Blocks must have one place each along what they cut, so that the parts of a tile lie in one.
    """
    blocks = split * math.prod(partition.grid)
    cut = [number for number, each in enumerate(partition.cuts) if each.axes]
    if any(partition.tile(number, space.dimensions[number].extent) > 1 for number in cut):
        return 0.0
    if not may_combine_in_clusters(space.graph, blocks, split, target):
        return 0.0
    return ATTENTION_COMBINED_NS if passes_products_on(space) else COMBINED_NS


def added_by_measurement(space: TileSpace, choice: TileChoice, target: Target) -> float:
    """Nanoseconds that parts of few rows take longer than those of kernels that were not timed."""
    if choice.split == 1:
        return 0.0
    shape = shape_under(space, choice.partition).divided(choice.split)
    shape = shape._replace(threads=math.prod(choice.partition.block))
    measured = overlap_of_parts(shape, target)
    return 0.0 if measured is None else OVERLAP_NS - measured
