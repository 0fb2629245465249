"""The threadblock-graph dialect: what one block computes on tiles in shared memory.

Operators stand in the body of a ``kn.customized``.  Values are tiles (:class:`STensorType`); there
is no memory and no order but data flow.  Operators of the loop body run once an iteration,
accumulators combine over the iterations, operators after them run once, after the loop.

Every operator computes in fp32 and rounds once, to the element type of its result.  An operator
with an epilogue applies it to each element before that rounding.  Operands of different types are
joined by ``tb.cast``; which types may meet is said in :mod:`mugraph.dialects.element_types`.
"""

from mugraph.dialects.definition import dialect_of
from mugraph.dialects.elementwise import EpilogueAttr, ScalarFunctionAttr
from mugraph.dialects.precision import Precision, PrecisionAttr
from mugraph.dialects.ragged import RaggedAttr
from mugraph.dialects.tb.accumulate import (
    AccumulatorKind,
    AccumulatorKindAttr,
    AccumulatorOp,
    ForloopAccumOp,
    ForloopAccumRescaleOp,
    ForloopAccumSumToDimxContiguousOp,
    ForloopAccumSumToDimxOp,
    ForloopAccumSumToDimxStridedOp,
    RescaledKind,
    RescaledKindAttr,
)
from mugraph.dialects.tb.carry import CarriedOp, CarryOp
from mugraph.dialects.tb.custom import CustomOp
from mugraph.dialects.tb.elementwise import (
    BINARY_OPERATORS,
    ELEMENTWISE_OPERATORS,
    UNARY_OPERATORS,
    AddOp,
    AddScalarOp,
    BinaryOp,
    CastOp,
    DivOp,
    ElementwiseOp,
    ExpOp,
    MulOp,
    MulScalarOp,
    SqrtOp,
    SquareOp,
    SubOp,
    UnaryOp,
    elementwise,
)
from mugraph.dialects.tb.mask import MaskOp
from mugraph.dialects.tb.memory import InputOp, OutputOp
from mugraph.dialects.tb.moves import NOT_SPLIT, enclosing_graph, forms_in_tiles
from mugraph.dialects.tb.norm import RmsNormOp
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tb.product import ConcatThenMatmulOp, MatmulOp
from mugraph.dialects.tb.rearrange import ConcatOp, MovingOp, SplitOp
from mugraph.dialects.tb.reduction import (
    AnyReductionOp,
    Groups,
    ReductionMaxOp,
    ReductionOp,
    ReductionToDimxContiguousOp,
    ReductionToDimxStridedOp,
)
from mugraph.dialects.tb.types import STensorType

Tb = dialect_of("tb", vars())

__all__ = [
    "BINARY_OPERATORS",
    "ELEMENTWISE_OPERATORS",
    "NOT_SPLIT",
    "UNARY_OPERATORS",
    "AccumulatorKind",
    "AccumulatorKindAttr",
    "AccumulatorOp",
    "AddOp",
    "AddScalarOp",
    "AnyReductionOp",
    "BinaryOp",
    "CarriedOp",
    "CarryOp",
    "CastOp",
    "ConcatOp",
    "ConcatThenMatmulOp",
    "CustomOp",
    "DivOp",
    "ElementwiseOp",
    "EpilogueAttr",
    "ExpOp",
    "ForloopAccumOp",
    "ForloopAccumRescaleOp",
    "ForloopAccumSumToDimxContiguousOp",
    "ForloopAccumSumToDimxOp",
    "ForloopAccumSumToDimxStridedOp",
    "Groups",
    "InputOp",
    "MaskOp",
    "MatmulOp",
    "MovingOp",
    "MulOp",
    "MulScalarOp",
    "OutputOp",
    "Precision",
    "PrecisionAttr",
    "RaggedAttr",
    "ReductionMaxOp",
    "ReductionOp",
    "ReductionToDimxContiguousOp",
    "ReductionToDimxStridedOp",
    "RescaledKind",
    "RescaledKindAttr",
    "RmsNormOp",
    "STensorType",
    "ScalarFunctionAttr",
    "SplitOp",
    "SqrtOp",
    "SquareOp",
    "SubOp",
    "Tb",
    "UnaryOp",
    "elementwise",
    "enclosing_graph",
    "epilogue_of",
    "forms_in_tiles",
]
