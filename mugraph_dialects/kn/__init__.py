"""The kernel-graph dialect: whole-GPU kernels on DTensors, in ordinary functions.

DTensors are builtin tensors with a ``#cute.layout`` as encoding, so that ``func.func`` and any
xDSL pipeline can hold them.  Arguments and results of the function are the µGraph's inputs and
outputs; a layout written in the signature is the user's and stays.
"""

from xdsl.ir import Dialect

from mugraph.dialects.kn.compute import (
    AddOp,
    BinaryOp,
    Computation,
    ComputationAttr,
    DivOp,
    ElementwiseOp,
    ExpOp,
    KernelOp,
    MatmulOp,
    MulOp,
    MulScalarOp,
    SiluOp,
    SqrtOp,
    SquareOp,
    UnaryOp,
)
from mugraph.dialects.kn.customized import CustomizedOp
from mugraph.dialects.kn.phases import Phase, accumulates, is_loop_invariant_input, phases_of
from mugraph.dialects.kn.workspace import NOT_IN_WORKSPACE, WorkspaceOp

Kn = Dialect(
    "kn",
    [
        MatmulOp,
        ExpOp,
        SiluOp,
        SquareOp,
        SqrtOp,
        MulScalarOp,
        AddOp,
        MulOp,
        DivOp,
        CustomizedOp,
    ],
    [ComputationAttr],
)

__all__ = [
    "NOT_IN_WORKSPACE",
    "AddOp",
    "BinaryOp",
    "Computation",
    "ComputationAttr",
    "CustomizedOp",
    "DivOp",
    "ElementwiseOp",
    "ExpOp",
    "KernelOp",
    "Kn",
    "MatmulOp",
    "MulOp",
    "MulScalarOp",
    "Phase",
    "SiluOp",
    "SqrtOp",
    "SquareOp",
    "UnaryOp",
    "WorkspaceOp",
    "accumulates",
    "is_loop_invariant_input",
    "phases_of",
]
