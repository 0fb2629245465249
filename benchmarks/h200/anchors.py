"""What is known from before: Mirage's times, our goals, the GPU's ceilings.

``anchors.csv`` was measured on one H200 in November 2026 (driver 580.159, torch 2.11+cu130, nvcc
13.0.88) with the method of :mod:`.timing`; microseconds.  Mirage's are the fastest of its saved
µGraphs as its transpiler prints them for Ampere, after three bugs of its runtime were patched.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from mugraph.passes.targets import TARGETS, Target

COPY_BYTES_PER_MICROSECOND = 4.24e6
"""Device-to-device copy, read and written bytes."""

FLOP_PER_MICROSECOND = 768e6
"""cuBLAS's fp16 GEMM at 4096³."""

H200 = TARGETS["h200"]


@dataclass(frozen=True)
class Anchor:
    """What is read of the row of a workload, in microseconds."""

    floor: float | None = None
    mirage: float | None = None
    best_peer: float | None = None
    goal: float | None = None


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


def anchor_of(workload: str) -> Anchor:
    """The row of a workload; one without numbers where there is none."""
    return _anchors().get(workload, Anchor())


@cache
def _anchors() -> dict[str, Anchor]:
    names = [field.name for field in fields(Anchor)]
    with open(Path(__file__).with_name("anchors.csv"), encoding="utf-8", newline="") as stream:
        return {
            row["workload"]: Anchor(*(float(row[n]) if row[n] else None for n in names))
            for row in csv.DictReader(stream)
        }
