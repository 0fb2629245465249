"""Scales of a right matrix's rows are applied to the columns of a left one that is in registers."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import BoolAttr, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr, ScalarFunction
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.schedule.lower_threadblock.operators import suits_ldmatrix
from mugraph.passes.schedule.promote_registers.mma_analysis import Uses, operators_of

RECIPROCAL = ScalarFunction("reciprocal")


@dataclass(frozen=True)
class ScaledProduct:
    """A product of a rounded fragment and rows that are scaled first."""

    round: sched.MapOp
    scale: sched.MapOp
    product: sched.MmaOp


def find_scaled_products(kernel: sched.KernelOp) -> list[ScaledProduct]:
    """Products whose right matrix is another one with each row scaled, made for them only."""
    uses = Uses.of(operators_of(kernel))
    found: list[ScaledProduct] = []
    for op in operators_of(kernel):
        if not isinstance(op, sched.MmaOp) or not op.lhs_in_registers:
            continue
        scale, rounding = _only(uses, op.rhs, op), _only(uses, op.lhs, op)
        if not isinstance(scale, sched.MapOp) or not isinstance(rounding, sched.MapOp):
            continue
        if scale.parent_op() is not op.parent_op() or rounding.parent_op() is not op.parent_op():
            continue
        if rounding.function.data.name != "identity" or epilogue_of(rounding):
            continue
        if _scales_rows(scale, op):
            found.append(ScaledProduct(rounding, scale, op))
    return found


def _only(uses: Uses, value: SSAValue, reader: Operation) -> Operation | None:
    """The only operator that writes a value which only ``reader`` reads."""
    writers = uses.writers.get(value, [])
    if uses.readers.get(value) != [reader] or len(writers) != 1:
        return None
    return writers[0]


def _scales_rows(op: sched.MapOp, product: sched.MmaOp) -> bool:
    """Whether an operator divides or multiplies each row of a matrix by a number."""
    if op.function.data.name not in ("div", "mul") or epilogue_of(op):
        return False
    matrix, factors = op.sources
    shape = shape_of(matrix.type)
    accumulator = product.accumulator.type
    if not isinstance(accumulator, sched.TileType) or accumulator.tiled_mma is None:
        return False
    in_memory = all(isinstance(source.type, sched.SharedType) for source in op.sources)
    if not in_memory or matrix.type.element_type != product.rhs.type.element_type:  # pyright: ignore
        return False
    return shape == shape_of(op.destination.type) and shape_of(factors.type) == (*shape[:-1], 1)


def scale_columns(kernel: sched.KernelOp) -> None:
    """Multiplies what is rounded for a product by the scales of the right matrix's rows.

    Before: ``elementwise div %v, %r to %n``, ``map identity %p to %l``, ``mma %l, %n``.  After:
    ``load %r to %c then [reciprocal]``, ``map mul %p, %c to %l``, ``mma %l, %v``.  The
    right matrix is then read as it came, and never written.
    """
    for match in find_scaled_products(kernel):
        matrix, factors = match.scale.sources
        left = match.product.lhs.type
        assert isinstance(left, sched.TileType) and left.tiled_mma is not None
        mma = left.tiled_mma
        shape = left.get_shape()
        along = sched.SliceAttr.of(mma, len(shape) - 2)
        type_ = sched.TileType.of((*shape[:-2], 1, shape[-1]), f32, along)
        columns = sched.EmptyOp(type_)
        columns.result.name_hint = factors.name_hint
        divides = match.scale.function.data.name == "div"
        inverted = divides and _inverts_where_written(kernel, factors, match.scale)
        epilogue = Epilogue((RECIPROCAL,)) if divides and not inverted else None
        (source,) = match.round.sources
        scaled = sched.MapOp(
            ScalarFunction("mul"), [source, columns.result], match.round.destination
        )
        load = sched.LoadOp(factors, columns.result, epilogue)
        # Late: the numbers are on their way while scores are computed.
        Rewriter.insert_op([columns, load], InsertPoint.before(match.product))
        Rewriter.insert_op(scaled, InsertPoint.before(match.product))
        Rewriter.erase_op(match.round)
        match.product.operands[1] = matrix
        uses_ldmatrix = suits_ldmatrix(matrix, mma_atom(mma.atom), -2)
        match.product.ldmatrix_rhs = BoolAttr.from_bool(uses_ldmatrix)
        scaled_matrix = match.scale.destination
        Rewriter.erase_op(match.scale)
        if isinstance(scaled_matrix.owner, Operation):
            Rewriter.erase_op(scaled_matrix.owner)


def _inverts_where_written(kernel: sched.KernelOp, factors: SSAValue, reader: sched.MapOp) -> bool:
    """Lets a reduction that only ``reader`` reads write its reciprocal; whether it does."""
    writer = _only(Uses.of(operators_of(kernel)), factors, reader)
    if not isinstance(writer, sched.ReduceOp) or epilogue_of(writer).accumulates:
        return False
    if writer.difference is not None:
        return False
    writer.epilogue = EpilogueAttr(epilogue_of(writer).then(RECIPROCAL))
    return True
