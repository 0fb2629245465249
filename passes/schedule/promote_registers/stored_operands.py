"""Matrices that products load as they are stored, and not as something else wrote them again.

A weight of 8 bits that becomes one of 16 before it is multiplied need not go through shared memory
a second time: the threads that multiply it load it as it is stored, and convert it in registers.
Neither need a left matrix that is one of several in a buffer.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.element_types import rounds_for_good
from mugraph.dialects.elementwise import Epilogue, ScalarFunction
from mugraph.dialects.interfaces import writers_of, written_by
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.compute_accesses import operand_of_warps, operand_runs
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import element_bytes_of, element_type_of, shape_of

MOST_WARPS = 2
"""Warps that may load, and convert, the same elements."""


def load_as_stored(kernel: sched.KernelOp) -> bool:
    """Lets products load matrices through functions, or where they lie; whether any does."""
    found = [
        load(op)
        for load in (_load_through, _load_in_place)
        for op in list(kernel.body.walk())
        if isinstance(op, sched.MmaOp)
    ]
    return any(found)


def _load_in_place(product: sched.MmaOp) -> bool:
    """Lets a left matrix stay one of several, of products that load the right one through
    functions; whether it does."""
    buffer = product.lhs.owner
    if not isinstance(buffer, sched.AllocOp) or product.through is None or product.lhs_start:
        return False
    others = [use.operation for use in product.lhs.uses if use.operation is not product]
    if len(others) != 1 or not isinstance(cut := others[0], sched.MoveOp):
        return False
    part, whole = shape_of(product.lhs.type), shape_of(cut.source.type)
    lead = whole[:1] if product.is_sliced else (1,)
    one = (*lead, *[1] * (len(whole) - 3), *whole[-2:])
    is_one = cut.destination is product.lhs and len(whole) > 2 and part == one
    is_beside = cut.parent_block() is product.parent_block()
    if not is_one or not is_beside or _is_written_between(cut.source, cut, product):
        return False
    new = sched.MmaOp(
        cut.source,
        product.rhs,
        product.accumulator,
        product.ldmatrix,
        None if product.at is None else product.start,
        product.through.data,
        cut.start,
    )
    mma, atom = product.tiled_mma, product.atom
    if mma is None or atom is None or not (product.ldmatrix[0] or atom.reads_runs):
        return False
    matrix, apart = new.matrices()[0], new.strides_of_slices()[0]
    operand = operand_of_warps(True, matrix, atom, mma, apart)
    if atom.reads_runs:
        if not operand_runs(cut.source, True, matrix, atom, mma, apart).has_runs():
            return False
    elif not operand.has_aligned_lines():
        return False  # each warp would load it element by element
    Rewriter.replace_op(product, new)
    Rewriter.erase_op(cut)
    Rewriter.erase_op(buffer)
    return True


def _load_through(product: sched.MmaOp) -> bool:
    """Rewrites one product; whether it was."""
    mma, atom = product.tiled_mma, product.atom
    if mma is None or atom is None or product.through is not None or atom.is_scalar:
        return False
    if mma.thr_layout[0] > MOST_WARPS:
        return False
    matrix: SSAValue = product.rhs
    functions: tuple[ScalarFunction, ...] = ()
    while (step := _written_for(matrix, product)) is not None:
        own = () if step.function.data.name == "identity" else (step.function.data,)
        functions = (*own, *epilogue_of(step).functions, *functions)
        (matrix,) = step.sources
    if element_bytes_of(matrix.type) >= element_bytes_of(product.rhs.type):
        return False
    made = product.rhs
    new = sched.MmaOp(
        product.lhs,
        matrix,
        product.accumulator,
        (product.ldmatrix[0], False),
        None if product.at is None else product.start,
        Epilogue(functions),
    )
    Rewriter.replace_op(product, new)
    _erase_unread(made)
    return True


def _erase_unread(value: SSAValue) -> None:
    """Erases a buffer that nothing reads, and what was written only for it."""
    uses = list(value.uses)
    if len(uses) != 1 or not isinstance(step := uses[0].operation, sched.MapOp):
        return
    buffer, sources = value.owner, list(step.sources)
    Rewriter.erase_op(step)
    assert isinstance(buffer, sched.AllocOp)
    Rewriter.erase_op(buffer)
    for source in sources:
        if isinstance(source.owner, sched.AllocOp) and _writer(source) is not None:
            _erase_unread(source)


def _writer(value: SSAValue) -> sched.MapOp | None:
    """The element-wise operator that alone writes a buffer; ``None`` where others do."""
    writers = writers_of(value)
    only = writers[0] if len(writers) == 1 else None
    return only if isinstance(only, sched.MapOp) else None


def _written_for(value: SSAValue, product: sched.MmaOp) -> sched.MapOp | None:
    """The function of one buffer that a matrix is, or is made of; ``None`` where there is none."""
    if not isinstance(value.owner, sched.AllocOp):
        return None
    step = _writer(value)
    if step is None or len(step.sources) != 1 or epilogue_of(step).accumulates:
        return None
    (source,) = step.sources
    if step.parent_block() is not product.parent_block():
        return None
    if not isinstance(source.owner, sched.AllocOp) or shape_of(source.type) != shape_of(value.type):
        return None
    source_type, type_ = (element_type_of(each.type) for each in (source, value))
    if value is not product.rhs and rounds_for_good(type_, [source_type]):
        return None
    return None if _is_written_between(source, step, product) else step


def _is_written_between(value: SSAValue, first: Operation, last: Operation) -> bool:
    """Whether an operator between two of a block writes a value."""
    op = first.next_op
    while op is not None and op is not last:
        if value in written_by(op):
            return True
        op = op.next_op
    return op is None
