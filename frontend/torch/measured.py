"""How long the kernels of a program take on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mugraph.torch.operator import import_torch

RUNS = 5
"""Calls that are measured, after one that is not."""


@dataclass(frozen=True)
class Measured:
    """What runs under one name on a GPU in a call of a program."""

    name: str
    runs: int
    nanoseconds: float
    """Of all runs together."""


def measured(call: Callable[[], object]) -> tuple[Measured, ...]:
    """The kernels that a call launches, in the order of their first runs, by CUPTI.

    Kernels that overlap count fully each, so that all together may take longer than the call.
    """
    torch = import_torch()
    call()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(RUNS):
            call()
        torch.cuda.synchronize()
    found: dict[str, list[float]] = {}
    on_device = torch.autograd.DeviceType.CUDA
    events: list[Any] = [each for each in profile.events() if each.device_type == on_device]
    for event in sorted(events, key=lambda each: each.time_range.start):
        found.setdefault(event.name, []).append(event.time_range.elapsed_us() * 1000)
    return tuple(
        Measured(name, max(1, round(len(times) / RUNS)), sum(times) / RUNS)
        for name, times in found.items()
    )
