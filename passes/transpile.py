"""``--transpile``: all steps from a µGraph to a schedule that is ready to be printed."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline

from mugraph.passes.decompose_threadblock import DecomposeThreadblockPass
from mugraph.passes.fuse_threadblock import FuseThreadblockPass
from mugraph.passes.plan_dtensor_memory import PlanDTensorMemoryPass
from mugraph.passes.plan_stensor_memory import PlanSTensorMemoryPass
from mugraph.passes.plan_swizzle import PlanSwizzlePass
from mugraph.passes.resolve_layout import ResolveLayoutPass
from mugraph.passes.schedule_threadblock import ScheduleThreadblockPass
from mugraph.passes.targets import DEFAULT_TARGET


def _verify(previous: ModulePass | None, module: ModuleOp, following: ModulePass | None) -> None:
    module.verify()


def transpile_pipeline(arch: str = DEFAULT_TARGET) -> tuple[ModulePass, ...]:
    """The passes of ``--transpile`` in order, for other pipelines to take parts of."""
    return (
        DecomposeThreadblockPass(),
        FuseThreadblockPass(),
        ResolveLayoutPass(),
        PlanDTensorMemoryPass(),
        ScheduleThreadblockPass(arch=arch),
        PlanSwizzlePass(),
        PlanSTensorMemoryPass(arch=arch),
    )


@dataclass(frozen=True)
class TranspilePass(ModulePass):
    """Runs every step from a µGraph to a planned schedule, verifying the IR after each.

    ``arch`` is the GPU: ``sm_80``, ``sm_90a`` or ``sm_100a``.  Print the result with ``-t cuda``.
    """

    name = "transpile"

    arch: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs the pipeline on the module."""
        PassPipeline(transpile_pipeline(self.arch), callback=_verify).apply(ctx, op)
