"""``--use-warpgroups``: products that single warps were given are multiplied by warp groups."""

from __future__ import annotations

from mugraph.dialects import sched
from mugraph.passes.each import TargetPass, UnplannedKernelPass
from mugraph.passes.schedule.tile_values import tiles_by_registers
from mugraph.passes.schedule.use_warpgroups.chains import (
    Chain,
    find_chains,
    is_faster,
    multiply_by_groups,
    products_of_groups,
    use_warpgroups,
)
from mugraph.passes.schedule.use_warpgroups.narrow import convert_by_groups


class UseWarpgroupsPass(TargetPass, UnplannedKernelPass):
    """Multiplies chains of products in registers by warp groups, where that takes fewer cycles.

    Likewise products whose right matrix is converted as threads load it.

    In kernels whose tiles come through channels, all ``sched.mma`` of a role become
    ``sched.warpgroup_mma``: with the left matrix in shared memory, or in registers where a chain
    left it there.  Their accumulators get the type of the new instruction, which holds them as the
    old one did; maps, reductions of rows and stores stay.  An estimate of the tensor cores' cycles,
    and of the reads of shared memory, decides.

    Pre-condition: ``--promote-registers``.
    """

    name = "use-warpgroups"

    def run(self, kernel: sched.KernelOp) -> None:
        """Changes a kernel where the target has such products."""
        target = self.target
        if target.multiplies_in_warpgroups and any(products_of_groups(kernel)):
            with tiles_by_registers(kernel):
                multiply_by_groups(kernel, target)
                convert_by_groups(kernel, target)


__all__ = [
    "Chain",
    "UseWarpgroupsPass",
    "find_chains",
    "is_faster",
    "multiply_by_groups",
    "use_warpgroups",
]
