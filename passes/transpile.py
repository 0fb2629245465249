"""``--transpile``: all steps from a µGraph to a schedule that is ready to be printed."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.passes import ModulePass

from mugraph.dialects.plan import Plan
from mugraph.passes.mugraph.decompose_threadblock import DecomposeThreadblockPass
from mugraph.passes.mugraph.end_loads import EndLoadsPass
from mugraph.passes.mugraph.expand_custom import ExpandCustomPass
from mugraph.passes.mugraph.f16_products import F16ProductsPass
from mugraph.passes.mugraph.factor_products import FactorProductsPass
from mugraph.passes.mugraph.fuse_threadblock import FuseThreadblockPass
from mugraph.passes.mugraph.insert_copies import InsertCopiesPass
from mugraph.passes.mugraph.mask_ragged import MaskRaggedPass
from mugraph.passes.mugraph.online_softmax import OnlineSoftmaxPass
from mugraph.passes.mugraph.plan import PlanPass
from mugraph.passes.mugraph.resolve_layout import ResolveLayoutPass
from mugraph.passes.mugraph.retile import RetilePass
from mugraph.passes.mugraph.separate_halves import SeparateHalvesPass
from mugraph.passes.mugraph.slice_products import SliceProductsPass
from mugraph.passes.program.bucket_extents import BucketExtentsPass
from mugraph.passes.program.combine_in_clusters import CombineInClustersPass
from mugraph.passes.program.combine_in_last_blocks import CombineInLastBlocksPass
from mugraph.passes.program.decompose_program import DecomposeProgramPass
from mugraph.passes.program.join_launches import JoinLaunchesPass
from mugraph.passes.program.load_tables_early import LoadTablesEarlyPass
from mugraph.passes.program.pad_rows import PadRowsPass
from mugraph.passes.program.persist_program import PersistProgramPass
from mugraph.passes.program.plan_dtensor_memory import PlanDTensorMemoryPass
from mugraph.passes.program.read_windows import ReadWindowsPass
from mugraph.passes.program.store_named_rows import StoreNamedRowsPass
from mugraph.passes.program.store_rows import StoreRowsPass
from mugraph.passes.program.unfold_modes import UnfoldModesPass
from mugraph.passes.schedule.bulk_stores import BulkStoresPass
from mugraph.passes.schedule.check_hazards import CheckHazardsPass
from mugraph.passes.schedule.lower_rings import LowerRingsPass
from mugraph.passes.schedule.lower_threadblock import LowerThreadblockPass
from mugraph.passes.schedule.merge_products import MergeProductsPass
from mugraph.passes.schedule.pack_blocks import PackBlocksPass
from mugraph.passes.schedule.persist_blocks import PersistBlocksPass
from mugraph.passes.schedule.ping_pong import PingPongPass
from mugraph.passes.schedule.pipeline_loads import PipelineLoadsPass
from mugraph.passes.schedule.pipeline_products import PipelineProductsPass
from mugraph.passes.schedule.plan_stensor_memory import PlanSTensorMemoryPass
from mugraph.passes.schedule.plan_swizzle import PlanSwizzlePass
from mugraph.passes.schedule.prefetch_tables import PrefetchTablesPass
from mugraph.passes.schedule.programmatic_launch import ProgrammaticLaunchPass
from mugraph.passes.schedule.promote_registers import PromoteRegistersPass
from mugraph.passes.schedule.set_register_budgets import SetRegisterBudgetsPass
from mugraph.passes.schedule.settled_loads import SettledLoadsPass
from mugraph.passes.schedule.share_kernels import ShareKernelsPass
from mugraph.passes.schedule.share_loops import ShareLoopsPass
from mugraph.passes.schedule.spread_blocks import SpreadBlocksPass
from mugraph.passes.schedule.unroll_products import UnrollProductsPass
from mugraph.passes.schedule.use_warpgroups import UseWarpgroupsPass
from mugraph.passes.schedule.wait_apart import WaitApartPass
from mugraph.passes.sequence import SequencePass
from mugraph.passes.targets import DEFAULT_TARGET

LEVEL_ENDS = (PlanDTensorMemoryPass, PersistProgramPass)
"""What these leave is verified where users compile: the µGraphs, and their finished schedules.

Tests verify after each pass.
"""


def transpile_pipeline(
    arch: str = DEFAULT_TARGET, plan: Plan | None = None, *, check_hazards: bool = True
) -> tuple[ModulePass, ...]:
    """The passes of ``--transpile`` in order, for other pipelines to take parts of.

    ``plan`` is written into every kernel, where its own plan leaves a part free.
    """
    steps: tuple[ModulePass, ...] = (
        UnfoldModesPass(),
        ReadWindowsPass(arch),
        BucketExtentsPass(),
        DecomposeProgramPass(),
        ExpandCustomPass(),
        EndLoadsPass(),
        FactorProductsPass(),
        PadRowsPass(arch),
        SeparateHalvesPass(arch),
        (plan or Plan()).over(PlanPass(arch=arch, notes=False)),
        RetilePass(),
        # The same for kernels that were made beside others.
        PlanPass(arch=arch, notes=False),
        RetilePass(),
        SliceProductsPass(),
        StoreNamedRowsPass(arch, everywhere=False),
        OnlineSoftmaxPass(notes=False),
        F16ProductsPass(),
        InsertCopiesPass(),
        DecomposeThreadblockPass(),
        MaskRaggedPass(),
        FuseThreadblockPass(),
        ResolveLayoutPass(arch=arch),
        PlanDTensorMemoryPass(),
        LowerThreadblockPass(arch),
        ShareKernelsPass(),
        PromoteRegistersPass(arch),
        UseWarpgroupsPass(arch),
        PipelineLoadsPass(arch),
        MergeProductsPass(),
        PipelineProductsPass(arch),
        PersistBlocksPass(arch),
        BulkStoresPass(arch),
        PingPongPass(arch),
        PlanSwizzlePass(),
        LowerRingsPass(),
        ProgrammaticLaunchPass(arch),
        PrefetchTablesPass(arch),
        WaitApartPass(),
        PlanSTensorMemoryPass(arch=arch),
        ShareLoopsPass(arch),
        SetRegisterBudgetsPass(arch),
        UnrollProductsPass(arch),
        JoinLaunchesPass(arch),
        PersistProgramPass(arch, everywhere=False),
        StoreRowsPass(),
        LoadTablesEarlyPass(),
        CombineInClustersPass(arch),
        CombineInLastBlocksPass(arch),
        SettledLoadsPass(arch),
        SpreadBlocksPass(arch),
        PackBlocksPass(arch),
    )
    return (*steps, CheckHazardsPass()) if check_hazards else steps


@dataclass(frozen=True)
class TranspilePass(SequencePass):
    """Runs every step from a µGraph to a planned schedule, verifying the IR where a level ends.

    ``arch`` is the GPU: ``sm_80``, ``sm_90a`` or ``sm_100a``.  Print the result with ``-t cuda``.
    Kernels are planned first: ``--plan`` decides what their plans leave free, ``--retile`` cuts
    them so, and ``--online-softmax`` keeps running maxima.  What is written in the plan of a kernel
    is kept, or refused with a sentence; ``plan <tiles = written>`` keeps how it is cut.
    The last step, ``--check-hazards``, proves that the schedule has no races;
    ``check-hazards=false`` leaves it out.
    """

    name = "transpile"
    verified_after = LEVEL_ENDS

    arch: str = DEFAULT_TARGET
    check_hazards: bool = True

    def passes(self) -> tuple[ModulePass, ...]:
        """The steps."""
        return transpile_pipeline(self.arch, check_hazards=self.check_hazards)
