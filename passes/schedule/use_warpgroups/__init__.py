"""``--use-warpgroups``: products that single warps were given are multiplied by warp groups."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mugraph.dialects.sched.kernel import unplanned_kernels
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
from mugraph.passes.targets import DEFAULT_TARGET, target_named


@dataclass(frozen=True)
class UseWarpgroupsPass(ModulePass):
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

    arch: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Changes every kernel of the module where the target has such products."""
        target = target_named(self.arch)
        for kernel in unplanned_kernels(op):
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
