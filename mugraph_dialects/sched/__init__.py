"""The linear-schedule dialect: what a block does, in order, on buffers it owns.

SSA values are buffers in device, shared or tensor memory and fragments in registers; operators
write into buffers given to them.  Nothing is implicit: stages, copies, waits and barriers are
operators, and types say where every element lives.
"""

from xdsl.ir import Dialect

from mugraph.dialects.sched.accesses import (
    AccessError,
    AccessKind,
    HasThreadAccesses,
    Proxy,
    StageReference,
    ThreadAccess,
    start_bytes,
)
from mugraph.dialects.sched.bulk_copy import BulkCopyOp, BulkWaitOp, ProxyFenceOp
from mugraph.dialects.sched.channel import (
    AcquireOp,
    ChannelOp,
    ChannelStepOp,
    ChannelType,
    ConsumeOp,
    PublishOp,
    ReleaseOp,
)
from mugraph.dialects.sched.compute import (
    AccumulateOp,
    Combiner,
    CombinerAttr,
    ElementwiseOp,
    FillOp,
    Grouping,
    GroupingAttr,
    MmaOp,
    ReduceOp,
    StoreOp,
)
from mugraph.dialects.sched.kernel import (
    RoleOp,
    enclosing_role,
    enclosing_threads,
    roles_of,
)
from mugraph.dialects.sched.mask import MaskOp
from mugraph.dialects.sched.move import MoveOp
from mugraph.dialects.sched.structure import (
    AllocOp,
    EpilogueOp,
    ForloopOp,
    FragmentOp,
    KernelOp,
    LaunchOp,
    PhaseOp,
    PrologueOp,
    TileOp,
    enclosing_kernel,
    enclosing_loop,
)
from mugraph.dialects.sched.sum_parts import SumPartsOp
from mugraph.dialects.sched.transfer import BarrierOp, CommitOp, CopyOp, WaitOp
from mugraph.dialects.sched.types import (
    FragmentType,
    GlobalType,
    LinearPartitionAttr,
    SharedType,
    TensorMemoryType,
)
from mugraph.dialects.sched.warpgroup import WarpgroupMmaOp, WarpgroupWaitOp

Sched = Dialect(
    "sched",
    [
        KernelOp,
        LaunchOp,
        PrologueOp,
        ForloopOp,
        EpilogueOp,
        AllocOp,
        FragmentOp,
        TileOp,
        CopyOp,
        CommitOp,
        WaitOp,
        WarpgroupMmaOp,
        WarpgroupWaitOp,
        BarrierOp,
        FillOp,
        ElementwiseOp,
        ReduceOp,
        MaskOp,
        MoveOp,
        MmaOp,
        StoreOp,
        AccumulateOp,
        SumPartsOp,
        ChannelOp,
        AcquireOp,
        PublishOp,
        ConsumeOp,
        ReleaseOp,
        BulkCopyOp,
        ProxyFenceOp,
        BulkWaitOp,
        RoleOp,
    ],
    [
        GlobalType,
        SharedType,
        TensorMemoryType,
        FragmentType,
        ChannelType,
        LinearPartitionAttr,
        CombinerAttr,
        GroupingAttr,
    ],
)

__all__ = [
    "AccessError",
    "AccessKind",
    "AccumulateOp",
    "AcquireOp",
    "AllocOp",
    "BarrierOp",
    "BulkCopyOp",
    "BulkWaitOp",
    "ChannelOp",
    "ChannelStepOp",
    "ChannelType",
    "Combiner",
    "CombinerAttr",
    "CommitOp",
    "ConsumeOp",
    "CopyOp",
    "ElementwiseOp",
    "EpilogueOp",
    "FillOp",
    "ForloopOp",
    "FragmentOp",
    "FragmentType",
    "GlobalType",
    "Grouping",
    "GroupingAttr",
    "HasThreadAccesses",
    "KernelOp",
    "LaunchOp",
    "LinearPartitionAttr",
    "MaskOp",
    "MmaOp",
    "MoveOp",
    "PhaseOp",
    "PrologueOp",
    "Proxy",
    "ProxyFenceOp",
    "PublishOp",
    "ReduceOp",
    "ReleaseOp",
    "RoleOp",
    "Sched",
    "SharedType",
    "StageReference",
    "StoreOp",
    "SumPartsOp",
    "TensorMemoryType",
    "ThreadAccess",
    "TileOp",
    "WaitOp",
    "WarpgroupMmaOp",
    "WarpgroupWaitOp",
    "enclosing_kernel",
    "enclosing_loop",
    "enclosing_role",
    "enclosing_threads",
    "roles_of",
    "start_bytes",
]
