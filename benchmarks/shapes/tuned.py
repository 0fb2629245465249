"""The kernels of drawn shapes tuned, one shape after another, as ``mg-tune`` does it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.shapes.draw import Shape
from mugraph.errors import UserError
from mugraph.reading import make_context
from mugraph.tune import Options, gpu_here, tune_program
from mugraph.tune.children import Children


@dataclass(frozen=True)
class Settings:
    """What to tune, and how long."""

    shapes: Sequence[Shape]
    arch: str
    jobs: int
    limit: float
    """Seconds after which no further shape is begun."""
    seconds: float
    """For a kernel, about."""


def tune(settings: Settings, database: Path) -> bool:
    """Tunes what the database does not know; whether all shapes were begun.

    What is found is written when it is found.  Raises ``UserError`` where there is no GPU.
    """
    gpu, start = gpu_here(), time.perf_counter()
    if gpu is None:
        raise UserError("there is no NVIDIA GPU here to measure plans on.")
    options = Options(database, gpu, seconds=settings.seconds, jobs=settings.jobs)
    with Children(settings.jobs) as builders:
        for shape in settings.shapes:
            spent = time.perf_counter() - start
            if spent > settings.limit:
                print(f"time is up; {shape.name} and what follows is not begun", flush=True)
                return False
            try:
                entries = tune_program(
                    shape.module(), make_context(), settings.arch, options, builders=builders
                )
            except Exception as error:  # the others go on
                lines = [*str(error).strip().splitlines(), ""]
                print(
                    f"{spent:6.1f} s  {shape.name}: {type(error).__name__}: {lines[0]}", flush=True
                )
                continue
            times = ", ".join(f"{one.before:.2f} -> {one.microseconds:.2f} µs" for one in entries)
            print(f"{spent:6.1f} s  {shape.name}: {times or 'nothing to tune'}", flush=True)
    return True
