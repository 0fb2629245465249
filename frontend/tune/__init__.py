"""Measures plans of kernels on the GPU at hand, and keeps the fastest (``docs/tuning.md``).

``mg-tune`` and ``mugraph.compile(graph, tune=True)`` are made of :func:`tune_program`.
"""

from typing import TYPE_CHECKING

from mugraph.when_used import imported_when_used

if TYPE_CHECKING:
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

_KERNELS = {"TunedKernel", "tunable_kernels"}

# Processes that build and measure import what they are asked for.
__getattr__ = imported_when_used(
    __name__, {name: "kernels" if name in _KERNELS else "programs" for name in __all__}
)
