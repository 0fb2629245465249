"""Pre-defined kernels that may be launched while the kernel before them still runs."""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation

OVERLAPS = "kn.overlaps"
"""The attribute of such an operator once ``--programmatic-launch`` has decided so."""


class CanOverlap(Operation, ABC):
    """A kernel of the runtime that itself waits for the kernels before it in its stream.

    Its launch then need not.  cuBLAS's kernels do not say.
    """

    @property
    def overlaps(self) -> bool:
        """Whether the kernel may start before the one in front of it has ended."""
        return OVERLAPS in self.attributes

    def set_overlaps(self) -> None:
        """Lets it."""
        self.attributes[OVERLAPS] = UnitAttr()
