"""What few rows of 16 bits take by a matrix.

Fitted to products of 16 to 128 rows by 1,024 to 4,096 columns behind another kernel, each in one to
eight parts, on an H200 (``benchmarks/results/parts_of_rows_h200.md``).
"""

from __future__ import annotations

from mugraph.passes.costs.few_rows import FACTORS, LONE_BULK_BYTES_A_CYCLE
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.memory import BULK_BYTES_A_CYCLE
from mugraph.passes.targets import Target

FEWEST, MOST = 16, 128
"""Rows that were timed."""
TYPES, ELEMENT_BYTES = frozenset(("f16", "bf16")), 2
"""Of both matrices."""
AT_END_NS, LATE_OVERLAP_NS = 400.0, 600.0
"""What a kernel that adds up parts takes besides where it is launched at the end of a producer's
kernel, so that nothing of its launch is hidden; and what is hidden behind copies of threads."""


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
    return FEWEST * whole <= min(tensors, default=0) <= MOST * whole


def overlap_of_parts(shape: KernelShape, target: Target) -> float | None:
    """Nanoseconds less that the kernel takes which adds up such a kernel's parts."""
    if not is_of_measured_rows(shape):
        return None
    return -AT_END_NS if shape.prefers_bulk(target) else LATE_OVERLAP_NS


def copies_of_groups(shape: KernelShape, target: Target) -> float | None:
    """Cycles of a multiprocessor that loads for warp groups; ``None`` where it was not measured.

    Short rows of a tile take no longer than others, and few multiprocessors each load more: 64 x
    2048 x 8192 took 14 us behind a gate by 64 blocks of 32 columns, 61 bytes a cycle.
    """
    if not shape.loop.runs_ahead(shape.threads, target) or not is_of_measured_rows(shape):
        return None
    idle = max(target.multiprocessors / shape.blocks, 1.0)
    rate = min(BULK_BYTES_A_CYCLE * idle, LONE_BULK_BYTES_A_CYCLE)
    return (shape.turns * shape.loop_bytes + shape.loading.first_bytes) / rate
