"""What few rows of 16 bits take by a matrix.

Fitted to products of 16 to 128 rows by 1,024 to 4,096 columns behind another kernel, each in one to
eight parts, on an H200 (``benchmarks/results/parts_of_rows_h200.md``).
"""

from __future__ import annotations

import math

from mugraph.passes.costs.few_rows import FACTORS
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.memory import BULK_BYTES_A_CYCLE, BULK_ROW_BYTES
from mugraph.passes.targets import Target

TIMED_ROWS = (16, 32, 64, 96, 128)
TYPES, ELEMENT_BYTES = frozenset(("f16", "bf16")), 2
"""Of both matrices."""
AT_END_NS, LATE_OVERLAP_NS, ROWS_OF_THREADS = 400.0, 600.0, 32
"""What a kernel that adds up parts takes besides where it is launched at the end of a producer's
kernel, so that nothing of its launch is hidden; and what is hidden behind copies of threads, where
they bring tiles of so many rows at most.  Of 64 rows they take longer than is estimated: 64 x 4096
x 1024 in four parts took 9.3 us behind a gate by 256 threads, and 8.05 by a warp group."""
LONE_BYTES_A_CYCLE = 50.0
"""What bulk copies bring to a multiprocessor at most, however few others load."""
WARP_TURN_CYCLES = 100.0
"""What an iteration takes longer than is estimated where single warps read what bulk copies bring:
64 x 2048 x 2048 whole in tiles of 16 rows took 8.5 us behind a gate, and 7.2 by warp groups."""
SHORT_ROW_BYTES = 64
"""Shorter rows of a tile take as long: 64 x 2048 x 2048 whole took 5.5 us in tiles of 16 columns
and 5.9 of 32 where weights are stored [columns, depth], and 0.25 more and not less where rows of a
tile are columns."""


def is_of_measured_rows(shape: KernelShape) -> bool:
    """Whether a kernel is one such product, of two matrices in several iterations."""
    products = shape.loop.products
    looped = [load for load in shape.loads if load.looped]
    if len(products) != 1 or len(looped) != FACTORS or shape.iterations == 1:
        return False
    if shape.loop.chained or shape.loop.converts or products[0].element not in TYPES:
        return False
    rows, _, depth = products[0].sizes
    whole = depth * shape.iterations * shape.parts * ELEMENT_BYTES
    tensors = [load.tensor_bytes for load in looped if load.bytes == rows * depth * ELEMENT_BYTES]
    return min(tensors, default=0) in [timed * whole for timed in TIMED_ROWS]


def overlap_of_parts(shape: KernelShape, target: Target) -> float | None:
    """Nanoseconds less that the kernel takes which adds up such a kernel's parts."""
    if not is_of_measured_rows(shape):
        return None
    of_threads = shape.loop.products[0].sizes[0] <= ROWS_OF_THREADS
    of_threads &= not shape.prefers_bulk(target)
    return LATE_OVERLAP_NS if of_threads else -AT_END_NS


def copies_of_groups(shape: KernelShape, target: Target) -> float | None:
    """Cycles of a multiprocessor that loads for warp groups; ``None`` where it was not measured.

    Few multiprocessors each load more than all of them do.
    """
    if not shape.loop.runs_ahead(shape.threads, target) or not is_of_measured_rows(shape):
        return None
    idle = max(target.multiprocessors / shape.blocks, 1.0)
    rate = min(BULK_BYTES_A_CYCLE * idle, LONE_BYTES_A_CYCLE)
    loaded = 0.0
    for load in shape.loads:
        part = math.gcd(load.row_bytes, BULK_ROW_BYTES)
        short = max(SHORT_ROW_BYTES / part, 1.0)
        loaded += (shape.turns if load.looped else 1) * load.bytes * short
    return loaded / rate
