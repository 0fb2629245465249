"""The threadblock-graph dialect: what one block computes on tiles in shared memory.

Operators stand in the body of a ``kn.customized``.  Values are tiles (:class:`STensorType`); there
is no memory and no order but data flow.  Operators of the loop body run once an iteration,
accumulators combine over the iterations, operators after them run once, after the loop.
"""

from xdsl.ir import Dialect

from mugraph.dialects.elementwise import EpilogueAttr, ScalarFunctionAttr
from mugraph.dialects.precision import Precision, PrecisionAttr
from mugraph.dialects.ragged import RaggedAttr
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
    BINARY_OPERATORS,
    ELEMENTWISE_OPERATORS,
    UNARY_OPERATORS,
    AddOp,
    AnyReductionOp,
    BinaryOp,
    CastOp,
    ClampOp,
    DivOp,
    ElementwiseOp,
    ExpOp,
    GeluOp,
    Groups,
    LogOp,
    MatmulOp,
    MulOp,
    MulScalarOp,
    PowOp,
    ReductionOp,
    ReductionToDimxContiguousOp,
    ReductionToDimxStridedOp,
    ReluOp,
    RmsNormOp,
    SigmoidOp,
    SiluOp,
    SqrtOp,
    SquareOp,
    SubOp,
    UnaryOp,
    epilogue_of,
)
from mugraph.dialects.tb.mask import MaskOp
from mugraph.dialects.tb.memory import NOT_SPLIT, InputOp, OutputOp, enclosing_graph
from mugraph.dialects.tb.types import STensorType

Tb = Dialect(
    "tb",
    [
        InputOp,
        OutputOp,
        MatmulOp,
        *ELEMENTWISE_OPERATORS,
        CastOp,
        MaskOp,
        RmsNormOp,
        ReductionOp,
        ReductionToDimxStridedOp,
        ReductionToDimxContiguousOp,
        ForloopAccumOp,
        ForloopAccumSumToDimxStridedOp,
        ForloopAccumSumToDimxContiguousOp,
    ],
    [STensorType, EpilogueAttr, ScalarFunctionAttr, AccumulatorKindAttr, PrecisionAttr, RaggedAttr],
)

__all__ = [
    "BINARY_OPERATORS",
    "ELEMENTWISE_OPERATORS",
    "NOT_SPLIT",
    "UNARY_OPERATORS",
    "AccumulatorKind",
    "AccumulatorKindAttr",
    "AccumulatorOp",
    "AddOp",
    "AnyReductionOp",
    "BinaryOp",
    "CastOp",
    "ClampOp",
    "DivOp",
    "ElementwiseOp",
    "EpilogueAttr",
    "ExpOp",
    "ForloopAccumOp",
    "ForloopAccumSumToDimxContiguousOp",
    "ForloopAccumSumToDimxOp",
    "ForloopAccumSumToDimxStridedOp",
    "GeluOp",
    "Groups",
    "InputOp",
    "LogOp",
    "MaskOp",
    "MatmulOp",
    "MulOp",
    "MulScalarOp",
    "OutputOp",
    "PowOp",
    "Precision",
    "PrecisionAttr",
    "RaggedAttr",
    "ReductionOp",
    "ReductionToDimxContiguousOp",
    "ReductionToDimxStridedOp",
    "ReluOp",
    "RmsNormOp",
    "STensorType",
    "ScalarFunctionAttr",
    "SigmoidOp",
    "SiluOp",
    "SqrtOp",
    "SquareOp",
    "SubOp",
    "Tb",
    "UnaryOp",
    "enclosing_graph",
    "epilogue_of",
]
