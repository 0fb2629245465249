"""A partition that ``--plan`` may choose, and what it is estimated to take."""

from __future__ import annotations

import math
from typing import NamedTuple

from mugraph.passes.mugraph.retile.partition import Partition
from mugraph.passes.targets import Target

NEARLY_ALL = 0.95
"""The part of the multiprocessors that should have a block: memory delivers more to more of them
than the estimate knows (``benchmarks/results/h200_plans.md``)."""


class TileChoice(NamedTuple):
    """A partition, over how many blocks its loop is divided, and nanoseconds."""

    partition: Partition
    split: int
    time: float
    loop_bytes: int
    """What an iteration loads."""

    def keeps_busy(self, target: Target) -> bool:
        """Whether nearly all multiprocessors have a block."""
        blocks = math.prod(self.partition.grid) * self.split
        return blocks >= NEARLY_ALL * target.multiprocessors
