"""Choices of the schedule: pure functions of sizes, with no IR in them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mugraph.passes.targets import Target

MMA_M, MMA_N, MMA_K = 16, 8, 16
"""The extents of one tensor-core instruction, SM80_16x8x16."""
MMA_ATOM = "SM80_16x8x16_F32F16F16F32_TN"
"""f16 operands, fp32 accumulation; also runs on Hopper and later."""
ACCUMULATOR_REGISTERS = 192
"""Registers a thread may spend on accumulators, of the 255 it has (seed 000)."""
MIN_STAGES, MAX_STAGES = 2, 8
"""Bounds on the copies of a pipelined buffer."""


@dataclass(frozen=True)
class WarpLayout:
    """How the warps of a block share a matrix product: ``m`` by ``n`` of them."""

    m: int
    n: int

    def tiles(self, rows: int, columns: int) -> tuple[int, int]:
        """How many instruction tiles each warp has along m and along n."""
        return (
            math.ceil(rows / (MMA_M * self.m)),
            math.ceil(columns / (MMA_N * self.n)),
        )

    def accumulators_per_thread(self, rows: int, columns: int) -> int:
        """fp32 registers a thread needs for the accumulator; 4 an instruction tile."""
        tiles_m, tiles_n = self.tiles(rows, columns)
        return tiles_m * tiles_n * 4


def warp_layouts(warps: int) -> Iterator[WarpLayout]:
    """Every arrangement of at most ``warps`` warps in a rectangle."""
    for m in range(1, warps + 1):
        for n in range(1, warps // m + 1):
            yield WarpLayout(m, n)


def choose_warp_layout(rows: int, columns: int, depth: int, warps: int) -> WarpLayout:
    """The arrangement with the fewest instructions in sequence, then the least data loaded.

    Instructions in sequence are those of one warp; the data are the fragments of both operands
    that all warps together load from shared memory.  Source: seed 000 "How to Decide thr_layout".
    """

    def cost(layout: WarpLayout) -> tuple[int, int, int]:
        tiles_m, tiles_n = layout.tiles(rows, columns)
        steps = math.ceil(depth / MMA_K)
        volume = layout.m * layout.n * (tiles_m * MMA_M + tiles_n * MMA_N) * MMA_K * steps
        return tiles_m * tiles_n * steps, volume, layout.m

    return min(warp_layouts(warps), key=cost)


def choose_stages(
    tile_bytes: int, blocks: int, iterations: int, shared_bytes: int, target: Target
) -> int:
    """The fewest copies of the pipelined buffers that cover the latency of device memory.

    ``tile_bytes`` are loaded an iteration by each of ``blocks`` blocks; ``shared_bytes`` is what
    one block needs with a single stage.  Between 2 and 8, but never more than there are
    iterations; 1 where nothing is loaded in the loop.
    """
    if tile_bytes == 0 or iterations == 1:
        return 1
    resident = max(1, min(blocks // target.multiprocessors, _blocks_that_fit(shared_bytes, target)))
    needed = target.bytes_in_flight_per_multiprocessor()
    ahead = math.ceil(needed / (tile_bytes * resident))
    return min(max(ahead + 1, MIN_STAGES), MAX_STAGES, iterations)


def _blocks_that_fit(shared_bytes: int, target: Target) -> int:
    if shared_bytes == 0:
        return target.max_blocks_per_multiprocessor
    return max(1, target.shared_memory_per_multiprocessor // shared_bytes)
