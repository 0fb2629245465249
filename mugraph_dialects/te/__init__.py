"""The tensor-expression dialect: nested parallel and sequential loops over explicit buffers.

A function (``func.func``) takes buffers; a parameter with the attribute ``te.result`` is written
by it and holds nothing before.  Indices are quasi-affine in the variables of the loops around;
numbers are computed by ``arith`` and ``math``.  See ``docs/texpr.md`` for what programs mean, and
for the ``.te`` syntax.
"""

from xdsl.ir import Dialect

from mugraph.dialects.programming_model import WARP
from mugraph.dialects.te.accesses import (
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
from mugraph.dialects.te.asynchronous import CommitOp, CopyAsyncOp, WaitOp
from mugraph.dialects.te.calls import AsmOp, CallOp, Direction
from mugraph.dialects.te.functions import (
    RESULT,
    input_parameters,
    is_result,
    is_texpr,
    written_parameters,
)
from mugraph.dialects.te.iterations import IterationOp
from mugraph.dialects.te.loops import IfOp, LoopOp, ParOp, SeqOp, enclosing_loops
from mugraph.dialects.te.mapped import (
    MAX_THREADS,
    AllReduceOp,
    ApplyOp,
    BarrierOp,
    KernelOp,
    LoadOp,
    Scope,
    ScopeAttr,
    StepOp,
    StoreOp,
    ThreadsOp,
    VectorOp,
)
from mugraph.dialects.te.sections import SectionOp
from mugraph.dialects.te.types import ELEMENT_TYPES, BufferType, Level, Space
from mugraph.dialects.te.values import AnchorOp, IndexValueOp

Te = Dialect(
    "te",
    [
        ParOp,
        SeqOp,
        IfOp,
        NewOp,
        ViewOp,
        BindOp,
        RedOp,
        AtomicOp,
        SectionOp,
        AnchorOp,
        IndexValueOp,
        CallOp,
        AsmOp,
        KernelOp,
        ThreadsOp,
        StepOp,
        BarrierOp,
        ApplyOp,
        AllReduceOp,
        LoadOp,
        StoreOp,
        IterationOp,
        CopyAsyncOp,
        CommitOp,
        WaitOp,
    ],
    [BufferType, CombinationAttr, ScopeAttr],
)

__all__ = [
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
    "AtomicOp",
    "BarrierOp",
    "BindOp",
    "BufferType",
    "CallOp",
    "Combination",
    "CombiningOp",
    "CommitOp",
    "CopyAsyncOp",
    "Direction",
    "HasTouches",
    "IfOp",
    "IndexValueOp",
    "IterationOp",
    "KernelOp",
    "Level",
    "LoadOp",
    "LoopOp",
    "NewOp",
    "ParOp",
    "RedOp",
    "Scope",
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
    "accesses_in",
    "enclosing_loops",
    "input_parameters",
    "is_result",
    "is_texpr",
    "touches_in",
    "touches_of",
    "written_parameters",
]
