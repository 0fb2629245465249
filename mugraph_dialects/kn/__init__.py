"""The kernel-graph dialect: whole-GPU kernels on DTensors, in ordinary functions.

DTensors are builtin tensors with a ``#cute.layout`` as encoding, so that ``func.func`` and any
xDSL pipeline can hold them.  Arguments and results of the function are the µGraph's inputs and
outputs; a layout written in the signature is the user's and stays.
"""

from xdsl.ir import Dialect

from mugraph.dialects.kn.collective import AllReduceOp
from mugraph.dialects.kn.compute import (
    BINARY_OPERATORS,
    ELEMENTWISE_OPERATORS,
    UNARY_OPERATORS,
    AddOp,
    AddScalarOp,
    BinaryOp,
    CastOp,
    ClampOp,
    Computation,
    ComputationAttr,
    DivOp,
    ElementwiseOp,
    ExpOp,
    GeluOp,
    LogOp,
    MatmulOp,
    MaxOp,
    MulOp,
    MulScalarOp,
    PowOp,
    ReluOp,
    SigmoidOp,
    SiluOp,
    SqrtOp,
    SquareOp,
    SubOp,
    UnaryOp,
)
from mugraph.dialects.kn.customized import CustomizedOp
from mugraph.dialects.kn.kernel import KernelOp, MovesElements
from mugraph.dialects.kn.phases import (
    Phase,
    accumulates,
    is_loop_invariant_input,
    loop_invariant_tiles,
    phases_of,
    used_after_the_loop,
)
from mugraph.dialects.kn.rearrange import ChunkOp, ConcatOp, CopyOp, PartsOp, SplitOp
from mugraph.dialects.kn.reduce import ReductionOp, RmsNormOp
from mugraph.dialects.kn.view import ViewOp
from mugraph.dialects.kn.workspace import NOT_IN_WORKSPACE, WorkspaceOp
from mugraph.dialects.plan import Plan, PlanAttr

Kn = Dialect(
    "kn",
    [
        MatmulOp,
        *ELEMENTWISE_OPERATORS,
        CastOp,
        ReductionOp,
        RmsNormOp,
        CopyOp,
        ConcatOp,
        SplitOp,
        ChunkOp,
        ViewOp,
        AllReduceOp,
        CustomizedOp,
    ],
    [ComputationAttr, PlanAttr],
)

__all__ = [
    "BINARY_OPERATORS",
    "ELEMENTWISE_OPERATORS",
    "NOT_IN_WORKSPACE",
    "UNARY_OPERATORS",
    "AddOp",
    "AddScalarOp",
    "AllReduceOp",
    "BinaryOp",
    "CastOp",
    "ChunkOp",
    "ClampOp",
    "Computation",
    "ComputationAttr",
    "ConcatOp",
    "CopyOp",
    "CustomizedOp",
    "DivOp",
    "ElementwiseOp",
    "ExpOp",
    "GeluOp",
    "KernelOp",
    "Kn",
    "LogOp",
    "MatmulOp",
    "MaxOp",
    "MovesElements",
    "MulOp",
    "MulScalarOp",
    "PartsOp",
    "Phase",
    "Plan",
    "PlanAttr",
    "PowOp",
    "ReductionOp",
    "ReluOp",
    "RmsNormOp",
    "SigmoidOp",
    "SiluOp",
    "SplitOp",
    "SqrtOp",
    "SquareOp",
    "SubOp",
    "UnaryOp",
    "ViewOp",
    "WorkspaceOp",
    "accumulates",
    "is_loop_invariant_input",
    "loop_invariant_tiles",
    "phases_of",
    "used_after_the_loop",
]
