"""``--pack-blocks``: blocks of one warp are launched several at a time."""

from __future__ import annotations

import math

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from mugraph.dialects import sched
from mugraph.dialects.functions import mugraphs_in
from mugraph.dialects.kn.overlap import launches_of
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.sched.programs import is_task
from mugraph.passes.costs.residency import packed_blocks
from mugraph.passes.each import TargetPass
from mugraph.passes.targets import Target


def can_pack(launch: sched.LaunchOp) -> bool:
    """Analysis: whether blocks of a kernel are one warp each, which waits for no other."""
    kernel = launch.resolve()
    alone = not any(isinstance(op, sched.CustomOp) for op in kernel.walk()) and not is_task(launch)
    is_warp = kernel.threads == WARP and kernel.is_plain()
    return is_warp and alone and kernel.smem_bytes is not None


def pack_blocks(kernel: sched.KernelOp, target: Target) -> None:
    """Rewrite: lets blocks of a kernel be launched together, if there are enough of them."""
    together = packed_blocks(math.prod(kernel.grid_dim), kernel.threads, target)
    if together > 1:
        kernel.packed = IntegerAttr(together, i64)


class PackBlocksPass(TargetPass):
    """Launches blocks of one warp several at a time.

    Such warps are independent, and a multiprocessor starts a block of several warps as fast as a
    block of one. Afterwards there are still more blocks than multiprocessors. Kernels that share a
    launch, or have roles or bulk copies, stay unchanged.
    Pre-condition: ``--join-launches``.

    Before: ``sched.kernel @norm ... grid [3727, 1, 1] block [32, 1, 1] smem 384``

    After: ``sched.kernel @norm ... grid [3727, 1, 1] block [32, 1, 1] packed 4 smem 384``
    """

    name = "pack-blocks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites the kernels of the module."""
        target = self.target
        kernels: dict[sched.KernelOp, bool] = {}
        for function in mugraphs_in(op):
            for launch in launches_of(function.body.block.ops):
                for each in launch:
                    if isinstance(each, sched.LaunchOp):
                        kernel = each.resolve()
                        packs = len(launch) == 1 and can_pack(each)
                        kernels[kernel] = kernels.get(kernel, True) and packs
        for kernel, packs in kernels.items():
            if packs:
                pack_blocks(kernel, target)
