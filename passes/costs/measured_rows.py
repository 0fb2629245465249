"""What few rows of 16 bits take by a matrix.

Fitted to products of 16 to 128 rows by 1,024 to 4,096 columns behind another kernel, each in one to
eight parts, on an H200 (``benchmarks/results/parts_of_rows_h200.md``).
"""

from __future__ import annotations

import math

from mugraph.dialects.programming_model import GROUP_ROWS
from mugraph.passes.costs.few_rows import FACTORS, LONE_BULK_BYTES_A_CYCLE
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.memory import BULK_BYTES_A_CYCLE, COPY_ROW_BYTES
from mugraph.passes.targets import Target

TIMED_ROWS = (16, 32, 64, 96, 128)
INSTRUCTION_ROWS = 16
TYPES, ELEMENT_BYTES = frozenset(("f16", "bf16")), 2
"""Of both matrices."""
AT_END_NS = 400.0
"""What a kernel that adds up parts takes besides where it is launched at the end of a producer's
kernel, so that nothing of its launch is hidden."""
MANY_ROWS, ROWS_OF_A_TILE = 64, 32
"""Rows, also those of a tile, of which parts by threads that load take as much: 64 x 4096 x 1024 in
four took 9.3 us behind a gate so, and 8.05 by a warp group."""


def timed_rows(rows: int) -> int:
    """Rows that were timed and fill instructions of warp groups as these do; 0 where none did."""
    filled = math.ceil(rows / INSTRUCTION_ROWS) * INSTRUCTION_ROWS
    alike = rows == filled or filled % GROUP_ROWS == 0
    return filled if alike and filled in TIMED_ROWS else 0


def measured_rows(shape: KernelShape) -> int:
    """Timed rows of a kernel that is one such product, in several iterations; 0 for others."""
    products = shape.loop.products
    looped = [load for load in shape.loads if load.looped]
    if len(products) != 1 or len(looped) != FACTORS or shape.iterations == 1:
        return 0
    if shape.loop.chained or shape.loop.converts or products[0].element not in TYPES:
        return 0
    rows, _, depth = products[0].sizes
    whole = depth * shape.iterations * shape.parts * ELEMENT_BYTES
    tile = rows * depth * ELEMENT_BYTES
    of_rows = [load for load in looped if load.bytes == tile and not load.has_columns]
    least = min((load.tensor_bytes for load in of_rows), default=0)
    if not whole:  # of the product only its instructions are known
        return 0
    count, rest = divmod(least, whole)
    return 0 if rest else timed_rows(count)


def overlap_of_parts(shape: KernelShape, target: Target) -> float | None:
    """Nanoseconds less that the kernel takes which adds up parts; ``None`` where none was timed."""
    rows = measured_rows(shape)
    if not rows:
        return None
    many = rows >= MANY_ROWS and shape.loop.products[0].sizes[0] >= ROWS_OF_A_TILE
    return -AT_END_NS if many or shape.prefers_bulk(target) else None


def copies_of_groups(shape: KernelShape, target: Target) -> float | None:
    """Cycles of a multiprocessor that loads for warp groups; ``None`` where it was not measured.

    Short rows of a tile take no longer than others, and few multiprocessors each load more: 64 x
    8192 x 2048 took 16.6 us behind a gate by 64 blocks of 32 columns, and 25 were estimated.  Rows
    of whole 64 bytes were timed; 56 x 6144 x 4096 took 19.3 us by 128 blocks of 48 columns, and
    16.2 by 96 of 64.
    """
    if not shape.loop.runs_ahead(shape.threads, target) or not measured_rows(shape):
        return None
    if any(load.row_bytes % COPY_ROW_BYTES for load in shape.loads if load.looped):
        return None
    idle = max(target.multiprocessors / shape.blocks, 1.0)
    rate = min(BULK_BYTES_A_CYCLE * idle, LONE_BULK_BYTES_A_CYCLE)
    return (shape.turns * shape.loop_bytes + shape.loading.first_bytes) / rate
