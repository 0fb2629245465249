"""NVIDIA H100 SXM, 80 GB: the multiprocessors of an H200, and another memory.

Source: the H100 data sheet (memory bandwidth); everything else is that of the H200, which has the
same multiprocessors.  No constant is fitted to an H100: of 27 drawn shapes that ran on one, the
best peer's time over ours is 1.17 in the mean and 0.95 at least
(``benchmarks/results/shapes_h100_seed18.md``).
"""

from __future__ import annotations

from dataclasses import replace

from mugraph.passes.targets import h200

TARGET = replace(h200.TARGET, name="h100", memory_bytes_per_ns=3350.0)
