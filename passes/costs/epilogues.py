"""Cycles of what follows the loop of a persistent kernel, beside those of the loop.

While the warps of a block are in an epilogue the tensor cores wait, unless other warps multiply
meanwhile (``--ping-pong``).  The numbers are fitted to what two kernels on an H200 took
at several depths of their products (``benchmarks/results/h200_ping_pong.md``).
"""

from __future__ import annotations

from typing import NamedTuple

from mugraph.passes.targets import Target

FIXED_CYCLES = 1000.0
"""The end of the last product, two barriers, and the first product of the next tile."""
VALUE_CYCLES, FUNCTION_CYCLES = 1.25, 10.0
"""What a warp takes to write one value a thread, and for a function of it."""
SPECIAL_CYCLES = 8.75
"""What it takes for a value's instruction of a special function unit.

With it products of five layers, and a gated one of depth 512, have ping-pong where that is faster:
3000 x 3072 x 768 with a bias takes 24.0 us on an H200 with one role, 25.8 with two.
"""
LEAST_SHARE = 1 / 12
"""From which share of the loop on roles of one warp group in turn were faster.

They have smaller tiles, and load more for each result.
"""


class EpilogueTime(NamedTuple):
    """Cycles of the loop and of the epilogue of one block of the grid, both about."""

    loop: float
    epilogue: float

    @property
    def is_long(self) -> bool:
        """Whether it pays that other warps multiply meanwhile."""
        return self.epilogue >= LEAST_SHARE * self.loop


def epilogue_cycles(of_a_warp: float, warps: int, target: Target) -> float:
    """Cycles of an epilogue that takes each of so many warps so long by itself."""
    return FIXED_CYCLES + of_a_warp * warps / target.schedulers_per_multiprocessor
