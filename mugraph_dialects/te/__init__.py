"""The tensor-expression dialect: nested parallel and sequential loops over explicit buffers.

A function (``func.func``) takes buffers; a parameter with the attribute ``te.result`` is written
by it and holds nothing before.  Indices are quasi-affine in the variables of the loops around;
numbers are computed by ``arith`` and ``math``.  See ``docs/texpr.md`` for what programs mean, and
for the ``.te`` syntax.
"""

from mugraph.dialects.definition import dialect_of
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.te.accesses import (
    DISTINCT,
    AccessKind,
    AccessOp,
    AtomicOp,
    BindOp,
    Combination,
    CombinationAttr,
    CombiningOp,
    HasTouches,
    NewOp,
    RedOp,
    Touch,
    ViewOp,
    accesses_in,
    touches_in,
    touches_of,
)
from mugraph.dialects.te.asynchronous import (
    AsyncCopy,
    CommitOp,
    CopyAsyncOp,
    CopyAsyncOrZeroOp,
    WaitOp,
)
from mugraph.dialects.te.bulk import (
    BulkCommitOp,
    BulkCopyOp,
    BulkLoadOp,
    BulkStoreOp,
    BulkWaitOp,
    ProxyFenceOp,
)
from mugraph.dialects.te.calls import AsmOp, CallOp, Direction
from mugraph.dialects.te.conditions import WhenOp
from mugraph.dialects.te.functions import (
    RESULT,
    input_parameters,
    is_result,
    is_texpr,
    is_written,
    parameter_names,
    written_parameters,
)
from mugraph.dialects.te.iterations import IterationOp
from mugraph.dialects.te.loops import Conditional, IfOp, LoopOp, ParOp, SeqOp, enclosing_loops
from mugraph.dialects.te.mapped import (
    MAX_THREADS,
    AllReduceOp,
    ApplyOp,
    BarrierOp,
    KernelOp,
    Scope,
    ScopeAttr,
    StepOp,
    ThreadsOp,
)
from mugraph.dialects.te.mbarriers import (
    MbarrierAddressOp,
    MbarrierArriveOp,
    MbarrierFenceOp,
    MbarrierInitOp,
    MbarrierOp,
    MbarriersType,
    MbarrierWaitOp,
    NamedBarrierOp,
    NewMbarriersOp,
)
from mugraph.dialects.te.sections import SectionOp
from mugraph.dialects.te.types import ELEMENT_TYPES, BufferType, Level, Space
from mugraph.dialects.te.values import AnchorOp, IndexOfOp, IndexValueOp
from mugraph.dialects.te.vectors import LoadOp, StoreOp, VectorOp
from mugraph.dialects.te.warpgroup import (
    WarpgroupCommitOp,
    WarpgroupFenceOp,
    WarpgroupMmaOp,
    WarpgroupWaitOp,
)

Te = dialect_of("te", vars())

__all__ = [
    "DISTINCT",
    "ELEMENT_TYPES",
    "MAX_THREADS",
    "RESULT",
    "WARP",
    "AccessKind",
    "AccessOp",
    "AllReduceOp",
    "AnchorOp",
    "ApplyOp",
    "AsmOp",
    "AsyncCopy",
    "AtomicOp",
    "BarrierOp",
    "BindOp",
    "BufferType",
    "BulkCommitOp",
    "BulkCopyOp",
    "BulkLoadOp",
    "BulkStoreOp",
    "BulkWaitOp",
    "CallOp",
    "Combination",
    "CombinationAttr",
    "CombiningOp",
    "CommitOp",
    "Conditional",
    "CopyAsyncOp",
    "CopyAsyncOrZeroOp",
    "Direction",
    "HasTouches",
    "IfOp",
    "IndexOfOp",
    "IndexValueOp",
    "IterationOp",
    "KernelOp",
    "Level",
    "LoadOp",
    "LoopOp",
    "MbarrierAddressOp",
    "MbarrierArriveOp",
    "MbarrierFenceOp",
    "MbarrierInitOp",
    "MbarrierOp",
    "MbarrierWaitOp",
    "MbarriersType",
    "NamedBarrierOp",
    "NewMbarriersOp",
    "NewOp",
    "ParOp",
    "ProxyFenceOp",
    "RedOp",
    "Scope",
    "ScopeAttr",
    "SectionOp",
    "SeqOp",
    "Space",
    "StepOp",
    "StoreOp",
    "Te",
    "ThreadsOp",
    "Touch",
    "VectorOp",
    "ViewOp",
    "WaitOp",
    "WarpgroupCommitOp",
    "WarpgroupFenceOp",
    "WarpgroupMmaOp",
    "WarpgroupWaitOp",
    "WhenOp",
    "accesses_in",
    "enclosing_loops",
    "input_parameters",
    "is_result",
    "is_texpr",
    "is_written",
    "parameter_names",
    "touches_in",
    "touches_of",
    "written_parameters",
]
