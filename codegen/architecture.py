"""Architectures as nvcc names them, and which devices run what is compiled for one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mugraph.errors import UserError


@dataclass(frozen=True)
class Architecture:
    """An architecture by its name, such as ``sm_90a``; raises ``UserError`` for other names.

    A name that ends in ``a`` also has the instructions of that one architecture, so that its code
    and its PTX run on no other.  PTX of the others is compiled by the driver of any newer device.
    """

    name: str

    def __post_init__(self) -> None:
        if re.fullmatch(r"sm_\d{2,3}a?", self.name) is None:
            raise UserError(
                f"'{self.name}' is no architecture; expected one such as sm_80 or sm_90a."
            )

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability, major and minor."""
        digits = self.name.removeprefix("sm_").removesuffix("a")
        return int(digits[:-1]), int(digits[-1])

    @property
    def is_exact(self) -> bool:
        """Whether its code runs on that capability only, and not on newer ones."""
        return self.name.endswith("a")

    @property
    def devices(self) -> str:
        """The compute capabilities that its code runs on, in words."""
        major, minor = self.capability
        return f"{major}.{minor} only" if self.is_exact else f"{major}.{minor} and newer"

    def runs_on(self, device: Architecture) -> bool:
        """Whether what is compiled for this architecture, with its PTX, runs on a device."""
        if self.is_exact:
            return self.capability == device.capability
        return self.capability <= device.capability

    def compiler_flags(self, *, with_ptx: bool = True) -> tuple[str, str]:
        """What makes nvcc compile for it: a cubin, and PTX for newer devices where there can be.

        ``-arch=sm_90a`` is something else: it also compiles for ``compute_90``, which lacks the
        instructions of warp groups.
        """
        virtual = self.name.replace("sm_", "compute_")
        code = self.name if self.is_exact or not with_ptx else f"[{self.name},{virtual}]"
        return "-gencode", f"arch={virtual},code={code}"


def choose_architecture(device: str, known: Sequence[str]) -> str:
    """The architecture to compile for: the device's own, or the newest whose code it runs.

    Raises ``UserError`` where mugraph compiles for none that fits.
    """
    fitting = [each for each in map(Architecture, known) if each.runs_on(Architecture(device))]
    if not fitting:
        raise UserError(
            f"this GPU is of architecture {device}; mugraph compiles for {', '.join(known)}."
        )
    return max(fitting, key=lambda each: (each.is_exact, each.capability)).name
