"""What mugraph adds to xDSL: the table behind the ``xdsl.universe`` entry point.

Each entry is a name and where its object lives, written ``module:object``.  Nothing is imported
until xDSL asks for that very dialect, pass or target, so that starting ``xdsl-opt`` or ``mg-opt``
costs the same whether they are used or not.  To add one, add a line.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from xdsl.universe import Universe

DIALECTS = {
    "cute": "mugraph.dialects.cute.dialect:CuteDialect",
    "kn": "mugraph.dialects.kn:Kn",
    "tb": "mugraph.dialects.tb:Tb",
    "sched": "mugraph.dialects.sched:Sched",
    "te": "mugraph.dialects.te:Te",
}

# In the order in which `--transpile` runs them, `transpile` itself last.
PASSES = {
    "convert-linalg-to-kn": "mugraph.passes.program.convert_linalg_to_kn:ConvertLinalgToKnPass",
    "load-operators": "mugraph.texpr.load_operators:LoadOperatorsPass",
    "name-extents": "mugraph.passes.program.name_extents:NameExtentsPass",
    "choose-buckets": "mugraph.passes.program.choose_buckets:ChooseBucketsPass",
    "bucket-extents": "mugraph.passes.program.bucket_extents:BucketExtentsPass",
    "partition": "mugraph.passes.program.partition:PartitionPass",
    "overlap-collectives": "mugraph.passes.program.overlap:OverlapCollectivesPass",
    "use-peers": "mugraph.passes.program.use_peers:UsePeersPass",
    "contiguous-collectives": (
        "mugraph.passes.program.contiguous_collectives:ContiguousCollectivesPass"
    ),
    "expand-mesh": "mugraph.passes.program.expand_mesh:ExpandMeshPass",
    "fold-leading": "mugraph.passes.program.fold_leading:FoldLeadingPass",
    "chunk-scans": "mugraph.passes.program.chunk_scans:ChunkScansPass",
    "read-windows": "mugraph.passes.program.read_windows:ReadWindowsPass",
    "pad-rows": "mugraph.passes.program.pad_rows:PadRowsPass",
    "unfold-modes": "mugraph.passes.program.unfold_modes:UnfoldModesPass",
    "decompose-program": "mugraph.passes.program.decompose_program:DecomposeProgramPass",
    "expand-custom": "mugraph.passes.mugraph.expand_custom:ExpandCustomPass",
    "insert-copies": "mugraph.passes.mugraph.insert_copies:InsertCopiesPass",
    "use-plans": "mugraph.passes.mugraph.known_plans:UsePlansPass",
    "plan": "mugraph.passes.mugraph.plan:PlanPass",
    "retile": "mugraph.passes.mugraph.retile:RetilePass",
    "online-softmax": "mugraph.passes.mugraph.online_softmax:OnlineSoftmaxPass",
    "decompose-threadblock": (
        "mugraph.passes.mugraph.decompose_threadblock:DecomposeThreadblockPass"
    ),
    "end-loads": "mugraph.passes.mugraph.end_loads:EndLoadsPass",
    "factor-products": "mugraph.passes.mugraph.factor_products:FactorProductsPass",
    "f16-products": "mugraph.passes.mugraph.f16_products:F16ProductsPass",
    "slice-products": "mugraph.passes.mugraph.slice_products:SliceProductsPass",
    "mask-ragged": "mugraph.passes.mugraph.mask_ragged:MaskRaggedPass",
    "fuse-kernels": "mugraph.passes.program.fuse_kernels:FuseKernelsPass",
    "fuse-threadblock": "mugraph.passes.mugraph.fuse_threadblock:FuseThreadblockPass",
    "resolve-layout": "mugraph.passes.mugraph.resolve_layout:ResolveLayoutPass",
    "plan-dtensor-memory": "mugraph.passes.program.plan_dtensor_memory:PlanDTensorMemoryPass",
    "lower-threadblock": "mugraph.passes.schedule.lower_threadblock:LowerThreadblockPass",
    "share-loops": "mugraph.passes.schedule.share_loops:ShareLoopsPass",
    "share-kernels": "mugraph.passes.schedule.share_kernels:ShareKernelsPass",
    "promote-registers": "mugraph.passes.schedule.promote_registers:PromoteRegistersPass",
    "use-warpgroups": "mugraph.passes.schedule.use_warpgroups:UseWarpgroupsPass",
    "pipeline-loads": "mugraph.passes.schedule.pipeline_loads:PipelineLoadsPass",
    "merge-products": "mugraph.passes.schedule.merge_products:MergeProductsPass",
    "pipeline-products": "mugraph.passes.schedule.pipeline_products:PipelineProductsPass",
    "persist-blocks": "mugraph.passes.schedule.persist_blocks:PersistBlocksPass",
    "bulk-stores": "mugraph.passes.schedule.bulk_stores:BulkStoresPass",
    "ping-pong": "mugraph.passes.schedule.ping_pong:PingPongPass",
    "lower-rings": "mugraph.passes.schedule.lower_rings:LowerRingsPass",
    "prefetch-tables": "mugraph.passes.schedule.prefetch_tables:PrefetchTablesPass",
    "wait-apart": "mugraph.passes.schedule.wait_apart:WaitApartPass",
    "programmatic-launch": "mugraph.passes.schedule.programmatic_launch:ProgrammaticLaunchPass",
    "explain-partition": "mugraph.passes.program.partition.explain:ExplainPartitionPass",
    "explain-fusion": "mugraph.passes.program.fuse_kernels.explain:ExplainFusionPass",
    "explain-layout": "mugraph.passes.mugraph.resolve_layout:ExplainLayoutPass",
    "explain-schedule": ("mugraph.passes.schedule.explain_schedule:ExplainSchedulePass"),
    "plan-swizzle": "mugraph.passes.schedule.plan_swizzle:PlanSwizzlePass",
    "explain-swizzle": "mugraph.passes.schedule.plan_swizzle:ExplainSwizzlePass",
    "plan-stensor-memory": "mugraph.passes.schedule.plan_stensor_memory:PlanSTensorMemoryPass",
    "set-register-budgets": "mugraph.passes.schedule.set_register_budgets:SetRegisterBudgetsPass",
    "unroll-products": "mugraph.passes.schedule.unroll_products:UnrollProductsPass",
    "join-launches": "mugraph.passes.program.join_launches:JoinLaunchesPass",
    "combine-in-clusters": "mugraph.passes.program.combine_in_clusters:CombineInClustersPass",
    "combine-in-last-blocks": (
        "mugraph.passes.program.combine_in_last_blocks:CombineInLastBlocksPass"
    ),
    "load-tables-early": "mugraph.passes.program.load_tables_early:LoadTablesEarlyPass",
    "store-named-rows": "mugraph.passes.program.store_named_rows:StoreNamedRowsPass",
    "store-rows": "mugraph.passes.program.store_rows:StoreRowsPass",
    "pack-blocks": "mugraph.passes.schedule.pack_blocks:PackBlocksPass",
    "separate-halves": "mugraph.passes.mugraph.separate_halves:SeparateHalvesPass",
    "settled-loads": "mugraph.passes.schedule.settled_loads:SettledLoadsPass",
    "spread-blocks": "mugraph.passes.schedule.spread_blocks:SpreadBlocksPass",
    "persist-program": "mugraph.passes.program.persist_program:PersistProgramPass",
    "check-hazards": "mugraph.passes.schedule.check_hazards:CheckHazardsPass",
    "print-hazards": "mugraph.passes.schedule.check_hazards:PrintHazardsPass",
    "remarks": "mugraph.passes.schedule.remarks:RemarksPass",
    "report-memory-access": "mugraph.passes.schedule.report_memory_access:ReportMemoryAccessPass",
    "te-check": "mugraph.passes.texpr.te_check:TeCheckPass",
    "te-inline": "mugraph.passes.texpr.te_inline:TeInlinePass",
    "te-map": "mugraph.passes.texpr.te_map:TeMapPass",
    "te-check-handover": "mugraph.passes.texpr.te_check_handover:TeCheckHandOverPass",
    "te-check-mapping": "mugraph.passes.texpr.te_check_mapping:TeCheckMappingPass",
    "te-promote": "mugraph.passes.texpr.te_promote:TePromotePass",
    "te-vectorize": "mugraph.passes.texpr.te_vectorize:TeVectorizePass",
    "te-prefetch": "mugraph.passes.texpr.te_prefetch:TePrefetchPass",
    "te-sync": "mugraph.passes.texpr.te_sync:TeSyncPass",
    "te-cut-grid": "mugraph.passes.texpr.te_cut_grid:TeCutGridPass",
    "te-lower": "mugraph.passes.texpr.te_lower:TeLowerPass",
    "transpile": "mugraph.passes.transpile:TranspilePass",
}

TARGETS = {
    "cuda": "mugraph.codegen.cuda:CudaTarget",
    "te": "mugraph.texpr.printer:TexprTarget",
}


def _lazily(place: str) -> Callable[[], Any]:
    """A function of no arguments that imports and returns the object at ``module:object``."""
    module, _, name = place.partition(":")

    def load() -> Any:
        return getattr(import_module(module), name)

    return load


MUGRAPH_UNIVERSE = Universe(
    all_dialects={name: _lazily(place) for name, place in DIALECTS.items()},
    all_passes={name: _lazily(place) for name, place in PASSES.items()},
    all_targets={name: _lazily(place) for name, place in TARGETS.items()},
)
