"""Who executes a kernel: what records it, or numpy, which has the same methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mugraph.cute.errors import KernelError
from mugraph.dialects.cute.machines import current_machine

if TYPE_CHECKING:
    from mugraph.cute.recorder import Recorder


def kernel_machine(what: str) -> Recorder:
    """The machine that executes a kernel now.  Raises KernelError outside of kernels."""
    machine = current_machine()
    if machine is None:
        raise KernelError(f"'{what}' has a meaning only in a kernel that is launched or recorded")
    return cast("Recorder", machine)
