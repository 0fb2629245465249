"""What several things take that happen side by side."""

from __future__ import annotations

IN_A_KERNEL, IN_AN_ITERATION = 10.7, 6.0
"""How little they are in each other's way: the power in which their times are added.

The larger, the closer they come to taking what the longest of them takes.  What bounds a whole
kernel (``benchmarks/results/retile_model_h200.md``); and the products, copies and stages of one
iteration, fitted to ``benchmarks/results/h200_small_m.md``: with the power of kernels differences
of the two ways there are wrong by 1.02 µs instead of 0.88.
"""


def side_by_side(*times: float, power: float) -> float:
    """What they take together: a little more than the longest of them."""
    return sum(time**power for time in times) ** (1 / power)
