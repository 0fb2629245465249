"""The threadblock-graph dialect: what one block computes on tiles in shared memory.

Operators stand in the body of a ``kn.customized``.  Values are tiles (:class:`STensorType`); there
is no memory and no order but data flow.  Operators of the loop body run once an iteration,
accumulators combine over the iterations, operators after them run once, after the loop.
"""

from xdsl.ir import Dialect

from mugraph.dialects.elementwise import EpilogueAttr, ScalarFunctionAttr
from mugraph.dialects.tb.accumulate import (
    AccumulatorKind,
    AccumulatorKindAttr,
    AccumulatorOp,
    ForloopAccumOp,
    ForloopAccumSumToDimxContiguousOp,
    ForloopAccumSumToDimxOp,
    ForloopAccumSumToDimxStridedOp,
)
from mugraph.dialects.tb.compute import (
    AddOp,
    AnyReductionOp,
    BinaryOp,
    DivOp,
    ElementwiseOp,
    ExpOp,
    Groups,
    MatmulOp,
    MulOp,
    MulScalarOp,
    ReductionOp,
    ReductionToDimxContiguousOp,
    ReductionToDimxStridedOp,
    RmsNormOp,
    SiluOp,
    SqrtOp,
    SquareOp,
    SubOp,
    UnaryOp,
    epilogue_of,
)
from mugraph.dialects.tb.memory import NOT_SPLIT, InputOp, OutputOp, enclosing_graph
from mugraph.dialects.tb.types import STensorType

Tb = Dialect(
    "tb",
    [
        InputOp,
        OutputOp,
        MatmulOp,
        ExpOp,
        SiluOp,
        SquareOp,
        SqrtOp,
        MulScalarOp,
        AddOp,
        SubOp,
        MulOp,
        DivOp,
        RmsNormOp,
        ReductionOp,
        ReductionToDimxStridedOp,
        ReductionToDimxContiguousOp,
        ForloopAccumOp,
        ForloopAccumSumToDimxStridedOp,
        ForloopAccumSumToDimxContiguousOp,
    ],
    [STensorType, EpilogueAttr, ScalarFunctionAttr, AccumulatorKindAttr],
)

__all__ = [
    "NOT_SPLIT",
    "AccumulatorKind",
    "AccumulatorKindAttr",
    "AccumulatorOp",
    "AddOp",
    "AnyReductionOp",
    "BinaryOp",
    "DivOp",
    "ElementwiseOp",
    "EpilogueAttr",
    "ExpOp",
    "ForloopAccumOp",
    "ForloopAccumSumToDimxContiguousOp",
    "ForloopAccumSumToDimxOp",
    "ForloopAccumSumToDimxStridedOp",
    "Groups",
    "InputOp",
    "MatmulOp",
    "MulOp",
    "MulScalarOp",
    "OutputOp",
    "ReductionOp",
    "ReductionToDimxContiguousOp",
    "ReductionToDimxStridedOp",
    "RmsNormOp",
    "STensorType",
    "ScalarFunctionAttr",
    "SiluOp",
    "SqrtOp",
    "SquareOp",
    "SubOp",
    "Tb",
    "UnaryOp",
    "enclosing_graph",
    "epilogue_of",
]
