"""The kernels of drawn shapes tuned, several shapes at a time, as ``mg-tune`` does it.

The plans of some shapes are built while those of another one are measured.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commands import sentence
from benchmarks.shapes.draw import Shape
from mugraph.errors import UserError
from mugraph.reading import make_context
from mugraph.tune import Options, gpu_here, tune_program
from mugraph.tune.children import Children

AT_ONCE = 8
"""Shapes of which plans are built or measured."""
SHORTEST = 10.0
"""Seconds that are left to a shape at least."""


@dataclass(frozen=True)
class Settings:
    """What to tune, and how long."""

    shapes: Sequence[Shape]
    arch: str
    jobs: int
    limit: float
    """Seconds after which no further shape is begun, and what is begun comes to an end."""
    seconds: float
    """For a kernel, about."""
    candidates: int


def tune(settings: Settings, database: Path) -> bool:
    """Tunes what the database does not know; whether all shapes were begun.

    What is found is written when it is found.  Raises ``UserError`` where there is no GPU.
    """
    gpu, start = gpu_here(), time.perf_counter()
    if gpu is None:
        raise UserError("there is no NVIDIA GPU here to measure plans on.")

    def tune_shape(shape: Shape) -> bool:
        spent = time.perf_counter() - start
        if spent > settings.limit:
            return False
        seconds = min(settings.seconds, max(settings.limit - spent, SHORTEST))
        options = Options(database, gpu, settings.candidates, seconds, settings.jobs)
        try:
            entries = tune_program(
                shape.module(), make_context(), settings.arch, options, builders=builders
            )
            times = [f"{one.before:.2f} -> {one.microseconds:.2f} µs" for one in entries]
            said = ", ".join(times) or "nothing to tune"
        except Exception as error:  # the others go on
            said = sentence(error)
        print(f"{time.perf_counter() - start:6.1f} s  {shape.name}: {said}", flush=True)
        return True

    at_once = min(AT_ONCE, settings.jobs)
    with Children(settings.jobs, at_once) as builders, ThreadPoolExecutor(at_once) as pool:
        begun = [*pool.map(tune_shape, settings.shapes)]
    if left := begun.count(False):
        print(f"time is up; {left} shapes are not begun", flush=True)
    return not left
