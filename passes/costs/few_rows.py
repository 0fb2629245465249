"""What few rows of f8 take beside a matrix of weights.

Blocks of warp groups that have a multiprocessor each load the same rows at about the same time:
what the chip brings to all of them together does not bound them, but device memory and what each
takes.  Fitted to fourteen such kernels of 64 and 128 rows on an H200
(``benchmarks/results/narrow_h200.md``); the estimate is 0.92 to 1.08 of what they took.
"""

from __future__ import annotations

import math

from mugraph.dialects.programming_model import GROUP_THREADS
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.memory import CACHE_FACTOR, LOADED_AGAIN, device_ns
from mugraph.passes.costs.overlap import side_by_side
from mugraph.passes.targets import Target

TIMED_ROWS = (16, 64, 128)
"""Rows that were timed.  Of one row memory delivers more."""
FACTORS = 2
"""Tiles that an iteration loads: rows and weights; scales of blocks beside them were not timed."""
SHORTEST_NS = 4500.0
"""Of device memory: 6144 x 4096 is the smallest matrix that was timed, and takes 5,200."""
LONE_BULK_BYTES_A_CYCLE = 56.0
"""What bulk copies bring to a multiprocessor at most, however few others load: 64 and 128 rows by
4096 x 14336 took 19.0 and 26.4 us by 64 blocks, each of which loads 1.84 and 2.75 MB."""
DEVICE_SHARE = 0.87
"""The part of its peak that device memory delivers to such kernels.  It is 0.93 for a kernel of
many blocks that only reads."""
MANY_WARPS = 1.03
"""How much longer more than four single warps take, each of which converts all rows: 16 rows by
14336 x 4096 took 17.8 us by eight and 16.7 by four, by 8192 x 8192 19.6 and 19.3."""
LATE_NS = 500.0
"""What a loop that is not divided takes less: the next kernel is launched while its sums leave
(``reads_weights_once`` of ``passes/mugraph/plan/loading.py``), 0.5 to 0.8 us of six products."""
ROUNDING = 1e-6
"""Of a quotient that is whole, or less than the next whole number by a good part."""
BESIDE_EACH_OTHER = 5.0
"""How little copies, products and device memory are in each other's way, as ``IN_A_KERNEL``."""


def is_of_few_rows(shape: KernelShape, target: Target) -> bool:
    """Whether a kernel is one such product, which waits for device memory."""
    products = shape.loop.products
    looped = [load for load in shape.loads if load.looped]
    alone = len(products) == 1 and len(looped) == FACTORS
    if not alone or not products[0].is_f8:
        return False
    memory = device_ns(shape.loading.tensor_bytes, target)
    long = memory > max(shape.product_ns(target), SHORTEST_NS)
    return long and round(_rows_of(shape)) in TIMED_ROWS


def _rows_of(shape: KernelShape) -> float:
    """Rows that all blocks multiply, of a kernel that loads two matrices in tiles."""
    tiles = [load.tensor_bytes / load.bytes for load in shape.loads if load.looped]
    # Each matrix has so many along the depth, and each block one for each of its iterations; the
    # last block along the rows may have fewer.
    iterations = shape.parts * shape.iterations
    parts = math.ceil(math.prod(tiles) * shape.parts / shape.blocks / iterations**2 - ROUNDING)
    return shape.loop.products[0].sizes[0] * min(tiles) / (parts * iterations)


def has_lone_groups(shape: KernelShape, target: Target) -> bool:
    """Whether each block of it has a multiprocessor alone, and its warp groups promote sums."""
    alone = shape.blocks <= target.multiprocessors and is_of_few_rows(shape, target)
    promoted = alone and shape.loop.products[0].promoted
    return promoted and shape.loop.runs_ahead(shape.threads, target)


def memory_of_few_rows(shape: KernelShape, moved_bytes: float, target: Target) -> float:
    """Nanoseconds of device memory for so many bytes, and for what a second block loads.

    That comes from the cache, and of lone groups not soon enough: 128 rows by 6144 x 4096 took 11.9
    us where two blocks load each column, and 10.6 where one does.
    """
    again = device_ns(shape.loaded_again, target)
    again /= 1.0 if has_lone_groups(shape, target) else CACHE_FACTOR
    moved = side_by_side(device_ns(moved_bytes, target), again, power=LOADED_AGAIN)
    by_groups = shape.loop.suits_groups(shape.threads, target)
    many = not by_groups and shape.threads > GROUP_THREADS
    return moved / DEVICE_SHARE * (MANY_WARPS if many else 1.0)


def bound_of_lone_groups(
    shape: KernelShape, from_memory: float, in_turn: float, target: Target
) -> float:
    """Nanoseconds between the first bytes and the last sums.

    ``from_memory`` is what device memory takes, and ``in_turn`` what iterations do one after
    another.
    """
    loaded = shape.turns * shape.loop_bytes + shape.loading.first_bytes
    copies = loaded / (LONE_BULK_BYTES_A_CYCLE * target.clock_ghz)
    return side_by_side(from_memory, copies, in_turn, power=BESIDE_EACH_OTHER)
