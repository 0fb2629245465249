"""Who executes what is done in a kernel: what records it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mugraph.cute.errors import KernelError
from mugraph.cute.indices import Numeric
from mugraph.dialects.cute.machines import current_machine

if TYPE_CHECKING:
    from mugraph.cute.recorder import Recorder


def kernel_machine(what: str) -> Recorder:
    """The machine that executes a kernel now.  Raises KernelError outside of kernels."""
    machine = current_machine()
    if machine is None:
        raise KernelError(f"'{what}' has a meaning only in a kernel that is launched or recorded")
    return cast("Recorder", machine)


def number_of_groups(what: str, groups: Numeric) -> int:
    """How many groups may be under way.  Raises KernelError where that is no number."""
    if not isinstance(groups, int) or groups < 0:
        raise KernelError(f"{what}: {groups} groups cannot be under way")
    return groups
