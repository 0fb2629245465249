"""The passes of ``--transpile`` for kernels that stay as their µGraphs are cut.

Tests of how a given kernel is compiled take these; whoever tests plans takes ``--transpile``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, UnitAttr, i64
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from mugraph.dialects import sched
from mugraph.dialects.plan import Plan
from mugraph.dialects.sched.role import roles_of
from mugraph.passes.schedule.persist_blocks import PersistBlocksPass
from mugraph.passes.schedule.programmatic_launch import ProgrammaticLaunchPass
from mugraph.passes.transpile import transpile_pipeline

AS_WRITTEN = Plan(tiles="written", online_softmax=False)
"""The plan of a kernel that stays as it is cut."""

IN_REGISTERS = ("promote-registers", "use-warpgroups")
"""The passes that keep tiles in registers."""


@dataclass(frozen=True)
class ClusterPass(ModulePass):
    """Makes clusters of ``size`` blocks in a row, which bring the tiles that all load to all.

    No pass chooses clusters; kernels that have some are executed, checked and printed.
    """

    name = "cluster"

    size: int

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.body.block.ops:
            if isinstance(kernel, sched.KernelOp):
                make_cluster(kernel, self.size)


def make_cluster(kernel: sched.KernelOp, size: int) -> None:
    """Makes clusters of so many blocks in a row in a kernel whose producer loads common tiles."""
    (axis,) = kernel.axes_in_runs(size)
    copies = [
        op
        for op in kernel.walk()
        if isinstance(op, sched.BulkCopyOp)
        and isinstance(op.tile.owner, sched.LocalTileOp)
        and op.is_load
        and op.tile.owner.map_[axis] < 0
    ]
    assert copies and all(len(op.bulk_tile().starts) % size == 0 for op in copies)
    kernel.cluster = DenseArrayBase.from_list(i64, [size, 1, 1])
    if kernel.persistent_blocks is not None:
        kernel.persistent = IntegerAttr(kernel.persistent_blocks // size * size, i64)
    for copy in copies:
        copy.multicast = UnitAttr()
    roles = roles_of(kernel)
    Rewriter.insert_op(sched.ClusterBarrierOp(), InsertPoint.before(roles[0]))
    for role in roles:
        role.body.block.add_op(sched.ClusterBarrierOp())


def passes_as_written(
    arch: str = "sm_90a",
    *,
    check_hazards: bool = True,
    blocks: int = 0,
    cluster: int = 1,
    without: tuple[str, ...] = (),
    **parts: Any,
) -> tuple[ModulePass, ...]:
    """The passes for kernels whose plans say ``parts`` and that they stay as they are cut.

    ``blocks`` is the option of ``--persist-blocks``, ``cluster`` the blocks of a cluster, and
    ``without`` names passes that are left out.
    """
    steps: list[ModulePass] = []
    for step in transpile_pipeline(arch, replace(AS_WRITTEN, **parts), check_hazards=check_hazards):
        if step.name in without:
            continue
        if isinstance(step, ProgrammaticLaunchPass) and cluster > 1:
            steps.append(ClusterPass(cluster))
        steps.append(replace(step, blocks=blocks) if isinstance(step, PersistBlocksPass) else step)
    return tuple(steps)


__all__ = ["AS_WRITTEN", "IN_REGISTERS", "ClusterPass", "make_cluster", "passes_as_written"]
