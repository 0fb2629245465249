"""How few launches the search reaches where only launches count.

A program may take more kernels than the fewest that were written down for it: because the estimate
says that these are faster, or because the search cannot make fewer.  This says which.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager

from xdsl.ir import Operation

from mugraph.dialects.kn import CustomizedOp
from mugraph.passes.program.fuse_kernels import fusion
from mugraph.passes.targets import Target

LAUNCH_NS = 1e6
"""What a kernel takes besides: longer than all kernels of a program together are estimated to."""


@contextmanager
def only_launches_count() -> Generator[None]:
    """Lets ``--fuse-kernels`` take fewest kernels, and of as few those of least estimated time."""
    of_kernel, as_written = fusion.time_of_kernel, fusion.time_as_written

    def time_of_kernel(graph: CustomizedOp, target: Target, most: float = math.inf) -> float:
        return LAUNCH_NS + of_kernel(graph, target, most - LAUNCH_NS)

    def time_as_written(op: Operation, target: Target) -> float:
        time = as_written(op, target)
        return LAUNCH_NS + time if time else 0.0

    fusion.time_of_kernel, fusion.time_as_written = time_of_kernel, time_as_written
    try:
        yield
    finally:
        fusion.time_of_kernel, fusion.time_as_written = of_kernel, as_written
