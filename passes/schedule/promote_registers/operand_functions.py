"""Right matrices that are made of narrower elements, one by one, are made as they are loaded.

A weight of 8 bits that becomes one of 16 before it is multiplied need not go through shared memory
a second time: the threads that multiply it load it as it is stored, and convert it in registers.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.element_types import rounds_for_good
from mugraph.dialects.elementwise import Epilogue, ScalarFunction
from mugraph.dialects.interfaces import HasBufferEffects
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import element_bytes_of, element_type_of, shape_of

MOST_WARPS = 2
"""Warps that may load, and convert, the same elements."""


def load_through(kernel: sched.KernelOp) -> bool:
    """Lets products load their right matrices through functions; whether any does."""
    products = [op for op in kernel.body.walk() if isinstance(op, sched.MmaOp)]
    return sum(_load_through(op) for op in products) > 0


def _load_through(product: sched.MmaOp) -> bool:
    """Rewrites one product; whether it was."""
    accumulator = product.accumulator.type
    mma = accumulator.tiled_mma if isinstance(accumulator, sched.TileType) else None
    if mma is None or product.through is not None or mma_atom(mma.atom).is_scalar:
        return False
    if mma.thr_layout[0] > MOST_WARPS:
        return False
    matrix: SSAValue = product.rhs
    functions: tuple[ScalarFunction, ...] = ()
    made: list[sched.MapOp] = []
    reader: Operation = product
    while (step := _written_for(matrix, reader, product)) is not None:
        own = () if step.function.data.name == "identity" else (step.function.data,)
        functions = (*own, *epilogue_of(step).functions, *functions)
        made.append(step)
        matrix, reader = step.sources[0], step
    if not made or element_bytes_of(matrix.type) >= element_bytes_of(product.rhs.type):
        return False
    new = sched.MmaOp(
        product.lhs,
        matrix,
        product.accumulator,
        (product.ldmatrix[0], False),
        None if product.at is None else product.start,
        Epilogue(functions),
    )
    Rewriter.replace_op(product, new)
    for step in made:
        buffer = step.destination.owner
        Rewriter.erase_op(step)
        assert isinstance(buffer, sched.AllocOp)
        Rewriter.erase_op(buffer)
    return True


def _written_for(value: SSAValue, reader: Operation, product: sched.MmaOp) -> sched.MapOp | None:
    """The function of one buffer that writes another for one reader; ``None`` where none does."""
    if not isinstance(value.owner, sched.AllocOp):
        return None
    others = [use.operation for use in value.uses if use.operation is not reader]
    if len(others) != 1 or not isinstance(step := others[0], sched.MapOp):
        return None
    if step.destination is not value or len(step.sources) != 1 or epilogue_of(step).accumulates:
        return None
    (source,) = step.sources
    if step.parent_block() is not product.parent_block():
        return None
    if not isinstance(source.owner, sched.AllocOp) or shape_of(source.type) != shape_of(value.type):
        return None
    if reader is not product and rounds_for_good(
        element_type_of(value.type), [element_type_of(source.type)]
    ):
        return None
    return None if _is_written_between(source, step, product) else step


def _is_written_between(value: SSAValue, first: Operation, last: Operation) -> bool:
    """Whether an operator between two of a block writes a value."""
    op = first.next_op
    while op is not None and op is not last:
        if isinstance(op, HasBufferEffects) and value in op.buffers_written():
            return True
        op = op.next_op
    return op is None


__all__ = ["load_through"]
