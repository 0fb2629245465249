"""What a block computes, on buffers and fragments, in destination-passing style.

Every operator computes in fp32, applies its epilogue, and rounds once to the element type of its
destination; an epilogue that ends in ``accum`` adds to the destination where others overwrite it.
"""

from mugraph.dialects.sched.distribution import verify_distribution
from mugraph.dialects.sched.elementwise import ElementwiseOp, FillOp
from mugraph.dialects.sched.product import MmaOp
from mugraph.dialects.sched.reduction import (
    Combiner,
    CombinerAttr,
    Grouping,
    GroupingAttr,
    ReduceOp,
)
from mugraph.dialects.sched.store import AccumulateOp, StoreOp
from mugraph.dialects.tb.operators import epilogue_of

__all__ = [
    "AccumulateOp",
    "Combiner",
    "CombinerAttr",
    "ElementwiseOp",
    "FillOp",
    "Grouping",
    "GroupingAttr",
    "MmaOp",
    "ReduceOp",
    "StoreOp",
    "epilogue_of",
    "verify_distribution",
]
