"""What few rows of f8 take beside a matrix of weights that bulk copies bring to warp groups.

Blocks that have a multiprocessor each load the same rows at about the same time: what the chip
brings to all of them together does not bound them, but device memory and what each takes.  Fitted
to fifteen kernels of 64 and 128 rows on an H200 (``benchmarks/results/narrow_h200.md``); the
estimate is 0.95 to 1.10 of what they took.
"""

from __future__ import annotations

from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.memory import LOADED_AGAIN, device_ns
from mugraph.passes.costs.overlap import side_by_side
from mugraph.passes.targets import Target

FEW_ROWS_OF_F8 = 128
"""Rows that were timed."""
LONE_BULK_BYTES_A_CYCLE = 56.0
"""What bulk copies bring to a multiprocessor at most, however few others load: 64 and 128 rows by
4096 x 14336 took 19.0 and 26.4 us by 64 blocks, each of which loads 1.84 and 2.75 MB."""
DEVICE_SHARE = 0.87
"""The part of its peak that device memory delivers to such kernels.  It is 0.93 for a kernel of
many blocks that only reads."""
BESIDE_EACH_OTHER = 5.0
"""How little copies, products and device memory are in each other's way, as ``IN_A_KERNEL``."""


def is_of_few_rows(shape: KernelShape, target: Target) -> bool:
    """Whether a kernel is one such product, which waits for device memory."""
    products = shape.loop.products
    if len(products) != 1:
        return False
    (product,) = products
    few = product.is_f8 and product.promoted and product.sizes[0] <= FEW_ROWS_OF_F8
    waits = shape.product_ns(target) < device_ns(shape.loading.tensor_bytes, target)
    return few and waits and shape.loop.runs_ahead(shape.threads, target)


def has_lone_blocks(shape: KernelShape, target: Target) -> bool:
    """Whether each block of it has a multiprocessor alone."""
    return shape.blocks <= target.multiprocessors


def memory_of_few_rows(shape: KernelShape, moved_bytes: float, target: Target) -> float:
    """Nanoseconds of device memory for so many bytes, and for what a second block loads.

    128 rows by 6144 x 4096 took 11.9 us where two blocks load each column, and 10.6 where one does.
    """
    again = device_ns(shape.loaded_again, target)
    moved = side_by_side(device_ns(moved_bytes, target), again, power=LOADED_AGAIN)
    return moved / DEVICE_SHARE


def bound_of_lone_blocks(
    shape: KernelShape, from_memory: float, in_turn: float, target: Target
) -> float:
    """Nanoseconds between the first bytes and the last sums.

    ``from_memory`` is what device memory takes, and ``in_turn`` what iterations do one after
    another.
    """
    loaded = shape.turns * shape.loop_bytes + shape.loading.first_bytes
    copies = loaded / (LONE_BULK_BYTES_A_CYCLE * target.clock_ghz)
    return side_by_side(from_memory, copies, in_turn, power=BESIDE_EACH_OTHER)
