"""Index expressions in C++."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineDimExpr,
    AffineExpr,
)

from mugraph.codegen.cuda.cpp import CodegenError
from mugraph.dialects import sched, te
from mugraph.dialects.te.indices import index_text as te_index_text
from mugraph.dialects.te.indices import range_of as te_range_of
from mugraph.dialects.te.indices import terms_of
from mugraph.dialects.te.sizes import size_of

INT_MAX = 2**31 - 1


def range_of(expression: AffineExpr, operands: Sequence[SSAValue]) -> tuple[int, int]:
    """Bounds of an expression, by those of the loops."""
    return te_range_of(expression, operands, variable_range)


def variable_range(value: SSAValue) -> tuple[int, int]:
    """Bounds of a variable."""
    owner = value.owner
    if isinstance(owner, te.ApplyOp):
        return range_of(owner.expression, list(owner.indices))
    if isinstance(owner, te.IndexOfOp):
        return 0, owner.below - 1
    if (size := size_of(value)) is not None:
        return 0, size.largest
    loop = owner if isinstance(owner, Operation) else owner.parent_op()
    if isinstance(loop, sched.CustomOp):
        return 0, loop.thread_count - 1
    if not isinstance(loop, te.LoopOp):
        raise CodegenError("an index is no variable of a loop; run --te-map")
    return 0, loop.iterations - 1


def split_multiples(
    expression: AffineExpr, operands: Sequence[SSAValue], period: int
) -> tuple[AffineExpr, AffineExpr, list[SSAValue]]:
    """An expression as a sum of two, the second of multiples of a period, and their operands."""
    found = list(operands)
    rest = multiple = AffineExpr.constant(0)
    for term, factor in terms_of(expression):
        parts = [(term, factor)]
        if factor % period and isinstance(term, AffineDimExpr):
            parts = _opened(term, factor, found, period) or parts
        for part, by in parts:
            if by % period:
                rest += part * by
            else:
                multiple += part * by
    return rest, multiple, found


def _opened(
    term: AffineDimExpr, factor: int, operands: list[SSAValue], period: int
) -> list[tuple[AffineExpr, int]] | None:
    """The terms of a ``te.apply``, if multiples of the period are among them."""
    owner = operands[term.position].owner
    if not isinstance(owner, te.ApplyOp):
        return None
    parts = terms_of(owner.expression, factor)
    if all(by % period for _, by in parts):
        return None
    dimensions: list[AffineExpr] = []
    for index in owner.indices:
        if index not in operands:
            operands.append(index)
        dimensions.append(AffineExpr.dimension(operands.index(index)))
    return [(part.replace_dims_and_symbols(dimensions, []), by) for part, by in parts]


def index_text(
    expression: AffineExpr, operands: Sequence[SSAValue], name: Callable[[SSAValue], str]
) -> str:
    """An expression in C++, of ``int``, or of ``int64_t`` where that is too narrow."""
    low, high = range_of(expression, operands)
    is_wide = low < -INT_MAX or high > INT_MAX
    names = [f"int64_t({name(one)})" if is_wide else name(one) for one in operands]

    def call(one: AffineBinaryOpExpr, text: Callable[[AffineExpr], str]) -> str | None:
        """C++ divides towards zero."""
        if one.kind in (AffineBinaryOpKind.Add, AffineBinaryOpKind.Mul):
            return None
        negative = range_of(one.lhs, operands)[0] < 0
        if one.kind is AffineBinaryOpKind.CeilDiv or (negative and is_wide):
            raise CodegenError("the CUDA target cannot print this index: divide by floor")
        function = "floor_div" if one.kind is AffineBinaryOpKind.FloorDiv else "floor_mod"
        return f"mugraph::te::{function}({text(one.lhs)}, {text(one.rhs)})" if negative else None

    return te_index_text(expression, names, ("/", "%"), call=call)
