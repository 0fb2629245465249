"""What loads and stores take of device memory, of copies and of shared memory."""

from __future__ import annotations

import math

from mugraph.dialects.programming_model import VECTOR_BYTES
from mugraph.passes.targets import Target

COPY_BYTES_A_CYCLE, BULK_BYTES_A_CYCLE = 36.0, 45.6
"""What a multiprocessor loads at most, by 16-byte copies of threads and by bulk copies.

Fitted to measured repartitions (``benchmarks/results/retile_model_h200.md``).
"""
BULK_ROW_BYTES, COPY_ROW_BYTES = 128, 64
"""Bytes of a row that a bulk copy moves at a time, and that copies of threads should have."""
CACHE_FACTOR = 2.4
"""What all multiprocessors load together, in parts of what device memory delivers at most.

Tiles that many blocks load come from the second-level cache, but on the same way: for 8192 x 5120 x
1280 two consumers in turn, whose tiles are 128 x 128, took 173 us on an H200, 10.2 TB/s.  With 2.0
tiles of 128 x 256 were chosen, which took 194.
"""
LOADED_AGAIN = 1.5
"""The power in which the times of two kinds of loads are added, as
:data:`~mugraph.passes.costs.overlap.IN_A_KERNEL`: of what several blocks load, and of what comes
from device memory.  10 x 8192 x 3584 took 18.8 us on an H200 where two blocks load all weights and
16.4 where one does, 128 x 3072 x 8192 25.8 and 22.3."""
TURN_NS = 400.0
"""From the release of a stage to the arrival of the first bytes that take its place.

Shorter than ``Target.memory_latency_ns``: it is what one ring waits for, not the latency at which
the memory delivers all it can.  Fitted to ``benchmarks/results/h200_small_m.md``.
"""
CACHED_FLIGHT, MOSTLY_NEW = 2, 0.6
"""How many more bytes a block that has a multiprocessor alone should have on their way where most
of them are in the cache, and which part of them is not, at most.

More bytes from device memory cost time (``benchmarks/results/h200_stages.md``).  From the cache 512
x 2048 x 1408 took 8.39 us on an H200 with five stages and 7.30 with eight, 256 x 6400 x 1600 13.5
with four and 12.3 with six, 157 x 14336 x 4096, of which 0.45 is new, 42.2 with three and 39.2 with
four.
"""
BOX_WAVEFRONTS = 32
"""What one more box of a bulk copy costs, next to the wavefronts of shared memory that it saves.

One thread issues the boxes, and the stage is full only once the last of them has landed.  Measured
on an H200: a linear layer of 8 rows, 3584 x 4096 weights stored [N, K], takes 18.8 us where rows of
256 bytes are one plain box, and 9.0 where they are two swizzled ones, which save 112 and 224
wavefronts a tile (7 rows, 4096 x 12288: 50.6 and 27.6).
"""
SHIFTED = 3.0
"""How much longer threads take to load vectors that start anywhere; not fitted."""
FEWEST_ASYNC_BYTES = 4
"""What an asynchronous copy of a thread moves at least."""
MATRIX_ROWS = 8
"""Rows of a matrix that a warp reads at a time."""
DEVICE_INSTRUCTION = 4
"""What an instruction to device memory counts in sectors, beside its own.

It is the lines of 128 bytes that the widest one asks for; chosen, not fitted.
"""


def copy_cycles(tile_bytes: int, row_bytes: int, *, bulk: bool) -> float:
    """Cycles of a multiprocessor that loads a tile.

    Each part of a row takes as long as a whole one.  Parts are as long as the rows of a swizzle
    that divide the tile's rows.
    """
    part = math.gcd(row_bytes, BULK_ROW_BYTES)
    if bulk:
        return tile_bytes * BULK_ROW_BYTES / part / BULK_BYTES_A_CYCLE
    return tile_bytes * max(COPY_ROW_BYTES / part, 1.0) / COPY_BYTES_A_CYCLE


def uneven_factor(alignment: int) -> float:
    """How much longer threads take to load rows that start at multiples of so many bytes.

    Of 4 or 8 bytes a copy moves no more; what starts anywhere is loaded in two chunks and shifted.
    """
    if alignment >= VECTOR_BYTES:
        return 1.0
    return SHIFTED if alignment < FEWEST_ASYNC_BYTES else VECTOR_BYTES / alignment


def row_cycles(tile_bytes: int, row_bytes: int) -> float:
    """Cycles in which warps read a tile that bulk copies bring, beyond those of one of short rows.

    A swizzle takes :data:`BULK_ROW_BYTES` of a row.  A longer one is boxes side by side, each of
    which has a price, or rows in the same banks: where that is less ``--plan-swizzle`` leaves them
    so.  Threads can write any swizzle: a product of one row by 12288 x 4096 weights takes 24.5 us
    on an H200 in tiles of 16 rows of 512 bytes that they copy, 26.9 in boxes, and 51.6 in rows of
    the same banks.
    """
    boxes = row_bytes // BULK_ROW_BYTES
    if boxes < 2:
        return 0.0
    together = min(tile_bytes // row_bytes, MATRIX_ROWS)
    wavefronts = tile_bytes / BULK_ROW_BYTES * (together - 1)
    return min(wavefronts, (boxes - 1) * BOX_WAVEFRONTS)


def arrival_cycles(tile_bytes: int, blocks: int, target: Target) -> float:
    """Cycles in which bulk copies bring a tile to each of so many blocks, one a multiprocessor.

    At the rate of device memory, which the blocks share, or of one multiprocessor.
    """
    busy = min(blocks, target.multiprocessors)
    from_memory = target.memory_bytes_per_ns / busy / target.clock_ghz
    return tile_bytes / min(from_memory, BULK_BYTES_A_CYCLE)


def shared_cycles(moved_bytes: float, target: Target) -> float:
    """Cycles of a multiprocessor's shared memory for so many bytes, without conflicts."""
    return moved_bytes / target.shared_bytes_a_cycle


def bytes_in_flight(new: float, blocks: int, resident: int, target: Target) -> int:
    """Bytes that bulk copies should have on their way to a multiprocessor.

    ``new`` is the part of what ``blocks`` load that none has loaded before; ``resident`` of them
    share the multiprocessor.  Persistent blocks need the room for results beside their rings.
    """
    cached = resident == 1 and blocks <= target.multiprocessors and new <= MOSTLY_NEW
    return (target.bulk_bytes_in_flight or 0) * (CACHED_FLIGHT if cached else 1)


def device_ns(moved_bytes: float, target: Target) -> float:
    """Nanoseconds of device memory for so many bytes."""
    return moved_bytes / target.memory_bytes_per_ns


def issue_cycles(instructions: float, target: Target) -> float:
    """Cycles in which a multiprocessor issues so many instructions of warps."""
    return instructions / target.schedulers_per_multiprocessor
