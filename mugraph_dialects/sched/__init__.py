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
from mugraph.dialects.sched.compute import (
    AccumulateOp,
    ElementwiseOp,
    FillOp,
    Grouping,
    GroupingAttr,
    MmaOp,
    ReduceOp,
    StoreOp,
)
from mugraph.dialects.sched.mask import MaskOp
from mugraph.dialects.sched.roles import (
    AcquireOp,
    BulkCopyOp,
    ChannelOp,
    ChannelType,
    ConsumeOp,
    PublishOp,
    ReleaseOp,
    RoleOp,
)
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
from mugraph.dialects.sched.transfer import BarrierOp, CommitOp, CopyOp, WaitOp
from mugraph.dialects.sched.types import (
    FragmentType,
    GlobalType,
    LinearPartitionAttr,
    SharedType,
    TensorMemoryType,
)

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
        BarrierOp,
        FillOp,
        ElementwiseOp,
        ReduceOp,
        MaskOp,
        MmaOp,
        StoreOp,
        AccumulateOp,
        ChannelOp,
        AcquireOp,
        PublishOp,
        ConsumeOp,
        ReleaseOp,
        BulkCopyOp,
        RoleOp,
    ],
    [
        GlobalType,
        SharedType,
        TensorMemoryType,
        FragmentType,
        ChannelType,
        LinearPartitionAttr,
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
    "ChannelOp",
    "ChannelType",
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
    "PhaseOp",
    "PrologueOp",
    "Proxy",
    "PublishOp",
    "ReduceOp",
    "ReleaseOp",
    "RoleOp",
    "Sched",
    "SharedType",
    "StageReference",
    "StoreOp",
    "TensorMemoryType",
    "ThreadAccess",
    "TileOp",
    "WaitOp",
    "enclosing_kernel",
    "enclosing_loop",
    "start_bytes",
]
