"""The linear-schedule dialect: what a block does, in order, on buffers it owns.

Buffers in device, shared or tensor memory are places that operators read and write; tiles in
registers are values.  Nothing is implicit: stages, copies, waits and barriers are operators, and
types say where every element lives.
"""

from mugraph.dialects.definition import dialect_of
from mugraph.dialects.sched.accesses import (
    AccessError,
    AccessKind,
    HasThreadAccesses,
    Proxy,
    StageReference,
    ThreadAccess,
    start_bytes,
)
from mugraph.dialects.sched.bulk_copy import (
    BulkCopyOp,
    BulkWaitOp,
    ClusterBarrierOp,
    ProxyFenceOp,
)
from mugraph.dialects.sched.channel import (
    AcquireOp,
    ChannelOp,
    ChannelStepOp,
    ChannelType,
    ConsumeOp,
    ProduceOp,
    PublishOp,
    ReleaseOp,
)
from mugraph.dialects.sched.compute import computes_on_product, is_of_product
from mugraph.dialects.sched.copy_groups import CommitOp, WaitOp
from mugraph.dialects.sched.custom import CustomOp
from mugraph.dialects.sched.elementwise import FillOp, MapOp, RenewOp
from mugraph.dialects.sched.fragments import LoadOp
from mugraph.dialects.sched.grid import GridLaunchOp, GridWaitOp
from mugraph.dialects.sched.kernel import ArrivingRow
from mugraph.dialects.sched.launch import ClusterTensor, LaunchOp, launches_by_kernel
from mugraph.dialects.sched.local_tile import LocalTileOp, tile_of_named_rows
from mugraph.dialects.sched.mask import MaskOp
from mugraph.dialects.sched.move import MoveOp
from mugraph.dialects.sched.order_barrier import (
    OrderArriveOp,
    OrderBarrierOp,
    OrderBarrierType,
    OrderStepOp,
    OrderWaitOp,
)
from mugraph.dialects.sched.prefetch import PrefetchOp, run_of
from mugraph.dialects.sched.product import MmaOp
from mugraph.dialects.sched.reduction import (
    Combiner,
    CombinerAttr,
    Grouping,
    GroupingAttr,
    ReduceOp,
)
from mugraph.dialects.sched.role import (
    RoleOp,
    enclosing_role,
    enclosing_threads,
    ping_pong_roles,
    roles_of,
)
from mugraph.dialects.sched.store import StoreOp
from mugraph.dialects.sched.structure import (
    AllocOp,
    EmptyOp,
    EpilogueOp,
    ForloopOp,
    KernelOp,
    PhaseOp,
    PrologueOp,
    computing_block,
    enclosing_kernel,
    enclosing_loop,
)
from mugraph.dialects.sched.tile_values import (
    CarriesTiles,
    WritesTiles,
    YieldOp,
    arrangement_in,
    is_tile,
    registers_of,
)
from mugraph.dialects.sched.transfer import BarrierOp, CopyOp
from mugraph.dialects.sched.types import (
    GlobalType,
    LinearPartitionAttr,
    SharedType,
    SliceAttr,
    TensorMemoryType,
    TileType,
    TokenType,
)
from mugraph.dialects.sched.warpgroup import WarpgroupMmaOp, warpgroup_products
from mugraph.dialects.sched.warpgroup_wait import WarpgroupWaitOp

Sched = dialect_of("sched", vars())

__all__ = [
    "AccessError",
    "AccessKind",
    "AcquireOp",
    "AllocOp",
    "ArrivingRow",
    "BarrierOp",
    "BulkCopyOp",
    "BulkWaitOp",
    "CarriesTiles",
    "ChannelOp",
    "ChannelStepOp",
    "ChannelType",
    "ClusterBarrierOp",
    "ClusterTensor",
    "Combiner",
    "CombinerAttr",
    "CommitOp",
    "ConsumeOp",
    "CopyOp",
    "CustomOp",
    "EmptyOp",
    "EpilogueOp",
    "FillOp",
    "ForloopOp",
    "GlobalType",
    "GridLaunchOp",
    "GridWaitOp",
    "Grouping",
    "GroupingAttr",
    "HasThreadAccesses",
    "KernelOp",
    "LaunchOp",
    "LinearPartitionAttr",
    "LoadOp",
    "LocalTileOp",
    "MapOp",
    "MaskOp",
    "MmaOp",
    "MoveOp",
    "OrderArriveOp",
    "OrderBarrierOp",
    "OrderBarrierType",
    "OrderStepOp",
    "OrderWaitOp",
    "PhaseOp",
    "PrefetchOp",
    "ProduceOp",
    "PrologueOp",
    "Proxy",
    "ProxyFenceOp",
    "PublishOp",
    "ReduceOp",
    "ReleaseOp",
    "RenewOp",
    "RoleOp",
    "Sched",
    "SharedType",
    "SliceAttr",
    "StageReference",
    "StoreOp",
    "TensorMemoryType",
    "ThreadAccess",
    "TileType",
    "TokenType",
    "WaitOp",
    "WarpgroupMmaOp",
    "WarpgroupWaitOp",
    "WritesTiles",
    "YieldOp",
    "arrangement_in",
    "computes_on_product",
    "computing_block",
    "enclosing_kernel",
    "enclosing_loop",
    "enclosing_role",
    "enclosing_threads",
    "is_of_product",
    "is_tile",
    "launches_by_kernel",
    "ping_pong_roles",
    "registers_of",
    "roles_of",
    "run_of",
    "start_bytes",
    "tile_of_named_rows",
    "warpgroup_products",
]
