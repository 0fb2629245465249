"""``--transpile``: all steps from a µGraph to a schedule that is ready to be printed."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.passes import ModulePass

from mugraph.passes.check_hazards import CheckHazardsPass
from mugraph.passes.decompose_threadblock import DecomposeThreadblockPass
from mugraph.passes.fuse_threadblock import FuseThreadblockPass
from mugraph.passes.insert_copies import InsertCopiesPass
from mugraph.passes.mask_ragged import MaskRaggedPass
from mugraph.passes.online_softmax import OnlineSoftmaxPass
from mugraph.passes.plan_dtensor_memory import PlanDTensorMemoryPass
from mugraph.passes.plan_stensor_memory import PlanSTensorMemoryPass
from mugraph.passes.plan_swizzle import PlanSwizzlePass
from mugraph.passes.resolve_layout import ResolveLayoutPass
from mugraph.passes.schedule_threadblock import ScheduleThreadblockPass
from mugraph.passes.sequence import SequencePass
from mugraph.passes.targets import DEFAULT_TARGET


def transpile_pipeline(
    arch: str = DEFAULT_TARGET, *, check_hazards: bool = True, online_softmax: bool = False
) -> tuple[ModulePass, ...]:
    """The passes of ``--transpile`` in order, for other pipelines to take parts of."""
    steps: tuple[ModulePass, ...] = (
        *((OnlineSoftmaxPass(),) if online_softmax else ()),
        InsertCopiesPass(),
        DecomposeThreadblockPass(),
        MaskRaggedPass(),
        FuseThreadblockPass(),
        ResolveLayoutPass(arch=arch),
        PlanDTensorMemoryPass(),
        ScheduleThreadblockPass(arch=arch),
        PlanSwizzlePass(),
        PlanSTensorMemoryPass(arch=arch),
    )
    return (*steps, CheckHazardsPass()) if check_hazards else steps


@dataclass(frozen=True)
class TranspilePass(SequencePass):
    """Runs every step from a µGraph to a planned schedule, verifying the IR after each.

    ``arch`` is the GPU: ``sm_80``, ``sm_90a`` or ``sm_100a``.  Print the result with ``-t cuda``.
    The last step, ``--check-hazards``, proves that the schedule has no races;
    ``check-hazards=false`` leaves it out.  ``online-softmax=true`` runs ``--online-softmax`` first.
    """

    name = "transpile"

    arch: str = DEFAULT_TARGET
    check_hazards: bool = True
    online_softmax: bool = False

    def passes(self) -> tuple[ModulePass, ...]:
        """The steps."""
        return transpile_pipeline(
            self.arch, check_hazards=self.check_hazards, online_softmax=self.online_softmax
        )
