"""``--transpile``: all steps from a µGraph to a schedule that is ready to be printed."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.passes import ModulePass

from mugraph.dialects.plan import Loads, Plan
from mugraph.dialects.plan import Stores as KeptStores
from mugraph.passes.alternate_consumers import AlternateConsumersPass, Pass
from mugraph.passes.bulk_stores import BulkStoresPass, Stores
from mugraph.passes.check_hazards import CheckHazardsPass
from mugraph.passes.cluster_blocks import ClusterBlocksPass
from mugraph.passes.decompose_threadblock import DecomposeThreadblockPass
from mugraph.passes.fuse_threadblock import FuseThreadblockPass
from mugraph.passes.insert_copies import InsertCopiesPass
from mugraph.passes.mask_ragged import MaskRaggedPass
from mugraph.passes.merge_products import MergeProductsPass
from mugraph.passes.online_softmax import OnlineSoftmaxPass
from mugraph.passes.overlap_launches import OverlapLaunchesPass, Start
from mugraph.passes.persist_blocks import PersistBlocksPass
from mugraph.passes.pipeline_products import PipelineProductsPass
from mugraph.passes.plan import PlanPass
from mugraph.passes.plan_dtensor_memory import PlanDTensorMemoryPass
from mugraph.passes.plan_stensor_memory import PlanSTensorMemoryPass
from mugraph.passes.plan_swizzle import PlanSwizzlePass
from mugraph.passes.promote_registers import PromoteRegistersPass
from mugraph.passes.resolve_layout import (
    DEFAULT_COST_MODEL,
    DEFAULT_SOLVER,
    CostModelName,
    ResolveLayoutPass,
    SolverName,
)
from mugraph.passes.retile import RetilePass
from mugraph.passes.schedule_threadblock import ScheduleThreadblockPass
from mugraph.passes.schedule_threadblock.channels import Pipeline, Publish
from mugraph.passes.schedule_threadblock.plan import Objective
from mugraph.passes.schedule_threadblock.small_products import SmallM
from mugraph.passes.sequence import SequencePass
from mugraph.passes.share_registers import ShareRegistersPass
from mugraph.passes.targets import DEFAULT_TARGET
from mugraph.passes.use_warpgroups import UseWarpgroupsPass

_LOADS: dict[str, Loads] = {"channels": "tma", "async-copies": "cp_async"}
_SWAPS = {"mma": False, "swap": True}
_STORES: dict[str, KeptStores] = {"all": "tma", "none": "threads"}
"""What options say, as parts of a plan."""


def _plan_pass(arch: str, asked: Plan) -> PlanPass:
    """``--plan`` with what options ask for."""
    return asked.over(PlanPass(arch=arch))


def transpile_pipeline(
    arch: str = DEFAULT_TARGET,
    *,
    plan: bool = False,
    check_hazards: bool = True,
    online_softmax: bool = False,
    cost_model: CostModelName = DEFAULT_COST_MODEL,
    solver: SolverName = DEFAULT_SOLVER,
    objective: str = Objective.BARRIERS_FIRST.value,
    pipeline: str = Pipeline.AUTO.value,
    promote_registers: bool = True,
    use_warpgroups: bool = True,
    overlap_launches: bool = True,
    overlap_start: str = Start.LATE.value,
    overlap_exclusive: bool = False,
    boxes: bool = True,
    share_registers: bool = True,
    bytes_in_flight: int = 0,
    stages: tuple[int, ...] = (),
    publish: str = Publish.LAST.value,
    stores: str = Stores.AUTO.value,
    merge_products: bool = True,
    persist_blocks: bool = True,
    cluster: int = 1,
    turns: int = 1,
    pass_turn: str = Pass.ISSUED.value,
    small_m: str = SmallM.AUTO.value,
) -> tuple[ModulePass, ...]:
    """The passes of ``--transpile`` in order, for other pipelines to take parts of."""
    asked = Plan(
        loads=_LOADS.get(pipeline),
        stages=stages or None,
        swap_ab=_SWAPS.get(small_m),
        ping_pong=None if turns == 1 else turns,
        stores=_STORES.get(stores),
        pdl=None if overlap_launches else "none",
    )
    steps: tuple[ModulePass, ...] = (
        *((_plan_pass(arch, asked), RetilePass(arch=arch)) if plan else ()),
        *((OnlineSoftmaxPass(notes=online_softmax),) if plan or online_softmax else ()),
        InsertCopiesPass(),
        DecomposeThreadblockPass(),
        MaskRaggedPass(),
        FuseThreadblockPass(),
        ResolveLayoutPass(cost_model, arch, solver=solver),
        PlanDTensorMemoryPass(),
        ScheduleThreadblockPass(
            arch,
            objective,
            pipeline,
            bytes_in_flight=bytes_in_flight,
            stages=stages,
            publish=publish,
            small_m=small_m,
        ),
        *((PromoteRegistersPass(arch, objective),) if promote_registers else ()),
        *(
            (UseWarpgroupsPass(arch, bytes_in_flight, stages),)
            if promote_registers and use_warpgroups
            else ()
        ),
        *((MergeProductsPass(),) if merge_products else ()),
        PipelineProductsPass(arch),
        *((PersistBlocksPass(arch),) if persist_blocks else ()),
        BulkStoresPass(arch, stores),
        *(
            (AlternateConsumersPass(arch, turns, pass_turn),)
            if plan or turns != 1 or pass_turn != Pass.ISSUED.value
            else ()
        ),
        *((ClusterBlocksPass(arch, cluster),) if cluster != 1 else ()),
        *(
            (OverlapLaunchesPass(arch, overlap_start, overlap_exclusive),)
            if overlap_launches
            else ()
        ),
        PlanSwizzlePass(boxes),
        PlanSTensorMemoryPass(arch=arch),
        *((ShareRegistersPass(arch),) if share_registers else ()),
    )
    return (*steps, CheckHazardsPass()) if check_hazards else steps


def planned_then_scheduled(
    arch: str = DEFAULT_TARGET,
) -> tuple[tuple[ModulePass, ...], tuple[ModulePass, ...]]:
    """The passes of ``--transpile`` in two parts: up to the layouts and places of device tensors.

    After the first part a function's signature is final; the second makes the kernels for ``arch``.
    """
    steps = transpile_pipeline(arch)
    start = next(i for i, step in enumerate(steps) if isinstance(step, ScheduleThreadblockPass))
    return steps[:start], steps[start:]


@dataclass(frozen=True)
class TranspilePass(SequencePass):
    """Runs every step from a µGraph to a planned schedule, verifying the IR after each.

    ``arch`` is the GPU: ``sm_80``, ``sm_90a`` or ``sm_100a``.  Print the result with ``-t cuda``.
    The last step, ``--check-hazards``, proves that the schedule has no races;
    ``check-hazards=false`` leaves it out.  ``online-softmax=true`` runs ``--online-softmax`` first.
    ``plan=true`` plans kernels first: ``--plan`` decides what their plans leave free, ``--retile``
    cuts them so, and ``--online-softmax`` keeps running maxima.  Options for all kernels say what
    plans leave free.
    ``promote-registers=false`` leaves out ``--promote-registers``, ``use-warpgroups=false``
    ``--use-warpgroups``.
    ``cost-model`` and ``solver`` are those of ``--resolve-layout``, ``objective``, ``pipeline``,
    ``bytes-in-flight``, ``stages``, ``publish`` and ``small-m`` those of
    ``--schedule-threadblock``.
    ``overlap-launches=false`` leaves out ``--overlap-launches``: each kernel starts when the one
    before it has ended.  ``overlap-start`` and ``overlap-exclusive`` are its ``start`` and
    ``exclusive``.  ``boxes`` is that of
    ``--plan-swizzle``.  ``share-registers=false`` leaves out ``--share-registers``.
    ``stores`` is that of ``--bulk-stores``.  ``merge-products=false`` leaves out
    ``--merge-products``, ``persist-blocks=false`` ``--persist-blocks``.
    ``cluster=2`` runs ``--cluster-blocks`` for clusters of so many blocks, ``turns=2``
    ``--alternate-consumers`` for so many roles, with its ``pass-turn``.
    """

    name = "transpile"

    arch: str = DEFAULT_TARGET
    plan: bool = False
    check_hazards: bool = True
    online_softmax: bool = False
    cost_model: CostModelName = DEFAULT_COST_MODEL
    solver: SolverName = DEFAULT_SOLVER
    objective: str = Objective.BARRIERS_FIRST.value
    pipeline: str = Pipeline.AUTO.value
    promote_registers: bool = True
    use_warpgroups: bool = True
    overlap_launches: bool = True
    overlap_start: str = Start.LATE.value
    overlap_exclusive: bool = False
    boxes: bool = True
    share_registers: bool = True
    bytes_in_flight: int = 0
    stages: tuple[int, ...] = ()
    publish: str = Publish.LAST.value
    stores: str = Stores.AUTO.value
    merge_products: bool = True
    persist_blocks: bool = True
    cluster: int = 1
    turns: int = 1
    pass_turn: str = Pass.ISSUED.value
    small_m: str = SmallM.AUTO.value

    def passes(self) -> tuple[ModulePass, ...]:
        """The steps."""
        return transpile_pipeline(
            self.arch,
            plan=self.plan,
            check_hazards=self.check_hazards,
            online_softmax=self.online_softmax,
            cost_model=self.cost_model,
            solver=self.solver,
            objective=self.objective,
            pipeline=self.pipeline,
            promote_registers=self.promote_registers,
            use_warpgroups=self.use_warpgroups,
            overlap_launches=self.overlap_launches,
            overlap_start=self.overlap_start,
            overlap_exclusive=self.overlap_exclusive,
            boxes=self.boxes,
            share_registers=self.share_registers,
            bytes_in_flight=self.bytes_in_flight,
            stages=self.stages,
            publish=self.publish,
            stores=self.stores,
            merge_products=self.merge_products,
            persist_blocks=self.persist_blocks,
            cluster=self.cluster,
            turns=self.turns,
            pass_turn=self.pass_turn,
            small_m=self.small_m,
        )
