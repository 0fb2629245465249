"""Measures plans of kernels on the GPU at hand, and keeps the fastest (``docs/tuning.md``).

``mg-tune`` and ``mugraph.compile(graph, tune=True)`` are made of :func:`tune_program`.
"""

from mugraph.tune.kernels import TunedKernel, tunable_kernels
from mugraph.tune.programs import (
    CANDIDATES,
    SECONDS,
    Options,
    database_path,
    gpu_here,
    tune_kernels,
    tune_program,
)

__all__ = [
    "CANDIDATES",
    "SECONDS",
    "Options",
    "TunedKernel",
    "database_path",
    "gpu_here",
    "tunable_kernels",
    "tune_kernels",
    "tune_program",
]
