"""The blocks that a call launches, as expressions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mugraph.dialects import sched
from mugraph.dialects.launch_extents import GridCut


def grid_extents(
    kernel: sched.KernelOp, arguments: Sequence[str], cuts: Sequence[GridCut] | None = None
) -> list[str]:
    """The extents of a kernel's grid, of which the values of its arguments may cut off a part.

    Those of a call cut it, or ``cuts``: a kernel also knows what device memory holds.
    """
    extents = [str(blocks) for blocks in kernel.grid_dim]
    for cut in kernel.cuts_by_call if cuts is None else cuts:
        # Whole clusters.
        together = kernel.cluster_blocks
        step = cut.step * together
        blocks = f"({arguments[cut.argument]} + {step - 1}) / {step}" if step > 1 else ""
        blocks = blocks or arguments[cut.argument]
        extents[cut.axis] = f"{blocks} * {together}" if together > 1 else blocks
    return extents


def total_blocks(extents: Sequence[str]) -> str:
    """How many blocks a grid of such extents has."""
    if all(extent.isdigit() for extent in extents):
        return str(math.prod(map(int, extents)))
    return " * ".join(f"({extent})" for extent in extents)


def launched_grid(kernel: sched.KernelOp, arguments: Sequence[str]) -> list[str]:
    """The blocks that are launched along x, y and z."""
    if kernel.packed is not None:
        x, *others = grid_extents(kernel, arguments)
        together = kernel.packed_blocks
        packed = str(-(-int(x) // together)) if x.isdigit() else ""
        return [packed or f"({x} + {together - 1}) / {together}", *others]
    if not kernel.cuts_by_call:
        return [str(blocks) for blocks in kernel.launched_grid]
    if kernel.persistent_blocks is None:
        return grid_extents(kernel, arguments)
    total = total_blocks(grid_extents(kernel, arguments))
    return [f"std::min<int64_t>({kernel.persistent_blocks}, {total})", "1", "1"]
