"""What a block computes, on buffers and fragments, in destination-passing style.

Every operator computes in fp32, applies its epilogue, and rounds once to the element type of its
destination; an epilogue that ends in ``accum`` adds to the destination where others overwrite it.
"""

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.sched.elementwise import MapOp
from mugraph.dialects.sched.reduction import ReduceOp
from mugraph.dialects.sched.types import TileType


def is_of_product(value: SSAValue) -> bool:
    """Whether a value is the fragment of a product, or a slice of one."""
    return isinstance(value.type, TileType) and value.type.arrangement is not None


def computes_on_product(op: Operation) -> bool:
    """Whether an operator computes on what threads hold of a product, in registers alone.

    Adding one product to another does not count: that is what products themselves do.
    """
    if not isinstance(op, MapOp | ReduceOp):
        return False
    return is_of_product(op.destination) and not (isinstance(op, MapOp) and op.is_sum_of_fragments)
