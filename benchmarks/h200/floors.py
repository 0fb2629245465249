"""Floors: what bytes and operations take at the ceilings that were measured on an H200."""

from __future__ import annotations

from mugraph.passes.targets import TARGETS, Target

COPY_BYTES_PER_MICROSECOND = 4.24e6
"""Device-to-device copy, read and written bytes."""

FLOP_PER_MICROSECOND = 768e6
"""cuBLAS's fp16 GEMM at 4096³."""

H200 = TARGETS["h200"]


def floor_microseconds(total_bytes: int, flop: int, gpu: Target = H200) -> float:
    """What the bytes need at the speed of a copy, or the operations at that of cuBLAS.

    Both were measured on an H200; on another GPU a copy is as much slower as its memory, and the
    multiplications take as much longer as it has fewer of them a second.
    """
    memory = gpu.memory_bytes_per_ns / H200.memory_bytes_per_ns
    products = _multiplications(gpu) / _multiplications(H200)
    return max(
        total_bytes / (COPY_BYTES_PER_MICROSECOND * memory),
        flop / (FLOP_PER_MICROSECOND * products),
    )


def _multiplications(gpu: Target) -> float:
    """Multiply-adds of f16 a nanosecond by the fastest instruction."""
    fastest = max(of_types.get("f16", 0) for of_types in gpu.macs_a_cycle.values())
    return fastest * gpu.multiprocessors * gpu.clock_ghz
