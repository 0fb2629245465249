"""The GPUs that mugraph compiles for, a file each.

Code asks a :class:`Target` for a number, never for the name of an architecture.  A new GPU is a new
file beside ``h200.py`` and its name in :data:`TARGETS` (``docs/targets.md``).
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.utils.exceptions import PassFailedException

from mugraph.passes.targets import a100, b200, h100, h200
from mugraph.passes.targets.target import FMA, MMA, WGMMA, Target

TARGETS: dict[str, Target] = {
    module.TARGET.name: module.TARGET for module in (a100, h200, h100, b200)
}
"""By name; of several GPUs of one architecture the first is its default."""


def default_targets() -> Mapping[str, Target]:
    """The default target of each architecture: the first in :data:`TARGETS`."""
    found: dict[str, Target] = {}
    for target in TARGETS.values():
        found.setdefault(target.arch, target)
    return found


DEFAULT_TARGET = "sm_90a"


def target_named(name: str) -> Target:
    """The target of a GPU (``h100``), or the default one of an architecture (``sm_90a``).

    Raises ``PassFailedException`` listing what is known.
    """
    found = TARGETS.get(name) or default_targets().get(name)
    if found is None:
        known = ", ".join(f"{target.name} ({target.arch})" for target in TARGETS.values())
        raise PassFailedException(
            f"unknown architecture '{name}'; known are {known}: write for instance "
            f'arch="{DEFAULT_TARGET}"'
        )
    return found


def gpu_named(device: str) -> str:
    """What a GPU is called where something is kept for it: its target's name, if it has one.

    ``device`` is the driver's name of it, such as ``NVIDIA H100 80GB HBM3``.
    """
    words = device.lower().replace("-", " ").split()
    return next((name for name in TARGETS if name in words), device)


def architecture_named(name: str) -> str:
    """What nvcc compiles for: the architecture of a GPU that has a name, else what was given."""
    return TARGETS[name].arch if name in TARGETS else name


__all__ = [
    "DEFAULT_TARGET",
    "FMA",
    "MMA",
    "TARGETS",
    "WGMMA",
    "Target",
    "architecture_named",
    "default_targets",
    "gpu_named",
    "target_named",
]
