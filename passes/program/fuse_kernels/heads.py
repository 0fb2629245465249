"""Heads that share keys and values are rows of one product.

Grouped-query attention repeats each head of the keys for several heads of the queries.  With one
query a head, the products with the repeated keys are those of a matrix that has such queries as its
rows: nothing is repeated, and a tile of keys is read once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from mugraph.dialects import kn
from mugraph.dialects.tensor_types import (
    element_type_of,
    layout_of,
    shape_of,
)


class Repeated(NamedTuple):
    """A right operand whose last leading dimension repeats each place of another tensor."""

    source: SSAValue
    """The tensor, with an extent of 1 where it is repeated."""
    is_transposed: bool
    """Whether the operand has the source's last two dimensions in the other order."""
    groups: int
    repeats: int


def repeated_operand(value: SSAValue) -> Repeated | None:
    """Analysis: a reshaped broadcast of heads, transposed or not; ``None`` for all else."""
    op, is_transposed = value.owner, False
    if isinstance(op, kn.TransposeOp):
        rank = len(op.order)
        if op.order != (*range(rank - 2), rank - 1, rank - 2):
            return None
        op, is_transposed = op.input.owner, True
    if not isinstance(op, kn.ReshapeOp) or not isinstance(op.input.owner, kn.BroadcastOp):
        return None
    source = op.input.owner.input
    if any(layout_of(each.type) for each in (value, op.result, op.input)):
        return None
    own, wide, joined = (shape_of(each.type) for each in (source, op.input, op.result))
    if len(wide) != len(joined) + 1 or len(wide) < 4:
        return None
    *leading, groups, repeats, rows, columns = wide
    if own != (*leading, groups, 1, rows, columns):
        return None
    if joined != (*leading, groups * repeats, rows, columns):
        return None
    return Repeated(source, is_transposed, groups, repeats)


def _typed(value: SSAValue, shape: tuple[int, ...]) -> TensorType[Attribute]:
    return TensorType(element_type_of(value.type), shape)


@dataclass
class JoinHeads(RewritePattern):
    """A row times a matrix that is the same for several heads is one of that many rows."""

    joined: dict[SSAValue, Repeated] = field(default_factory=dict[SSAValue, Repeated])
    """Reshapes that give such products, or what is computed of them, the extents they had."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: kn.MatmulOp, rewriter: PatternRewriter, /) -> None:
        """Rewrites products of one row a head."""
        found = repeated_operand(op.rhs)
        if found is None or shape_of(op.lhs.type)[-2] != 1 or not kn.may_be_row_major(op.result):
            return
        *leading, _, depth, columns = shape_of(op.rhs.type)
        grouped = (*leading, found.groups)
        rows = kn.ReshapeOp(op.lhs, _typed(op.lhs, (*grouped, found.repeats, depth)))
        own = shape_of(found.source.type)[-2:]
        matrix = kn.ReshapeOp(found.source, _typed(op.rhs, (*grouped, *own)))
        new: list[kn.ReshapeOp | kn.TransposeOp | kn.MatmulOp] = [rows, matrix]
        if found.is_transposed:
            rank = len(grouped) + 2
            new.append(kn.TransposeOp(matrix.result, (*range(rank - 2), rank - 1, rank - 2)))
        type_ = _typed(op.result, (*grouped, found.repeats, columns))
        compute = None if op.compute is None else op.compute.data
        precision = None if op.precision is None else op.precision.data
        product = kn.MatmulOp(rows.result, new[-1].result, type_, compute, precision)
        apart = kn.ReshapeOp(product.result, op.result.type)
        self.joined[apart.result] = found
        rewriter.replace(op, [*new, product, apart])


@dataclass
class KeepJoined(RewritePattern):
    """What is computed of joined heads, element by element or along rows, is computed of them."""

    joined: dict[SSAValue, Repeated]

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: kn.ElementwiseOp | kn.ReductionOp, rewriter: PatternRewriter, /
    ) -> None:
        """Rewrites where an operand is a reshape of joined heads."""
        heads = next((self.joined[each] for each in op.operands if each in self.joined), None)
        shape = shape_of(op.result.type)
        count = 1 if heads is None else heads.groups * heads.repeats
        if heads is None or not kn.may_be_row_major(op.result) or shape[-3:-1] != (count, 1):
            return
        if isinstance(op, kn.ReductionOp) and op.reduced_dim != len(shape) - 1:
            return

        def together(value: SSAValue) -> tuple[int, ...]:
            *leading, own, _, last = shape_of(value.type)
            inner = (heads.groups, heads.repeats) if own > 1 else (1, 1)
            return (*leading, *inner, last)

        def reshaped(value: SSAValue) -> SSAValue:
            if value in self.joined and isinstance(value.owner, kn.ReshapeOp):
                return value.owner.input
            if shape_of(value.type) == together(value):
                return value
            seen = kn.ReshapeOp(value, _typed(value, together(value)))
            rewriter.insert(seen, InsertPoint.before(op))
            return seen.result

        type_ = _typed(op.result, together(op.result))
        operands = [reshaped(each) for each in op.operands]
        if isinstance(op, kn.ReductionOp):
            new = kn.ReductionOp(operands[0], op.reduced_dim, type_, op.combination)
        else:
            new = op.clone(dict(zip(op.operands, operands, strict=True)))
            rewriter.replace_value_with_new_type(new.results[0], type_)
        apart = kn.ReshapeOp(new.results[0], op.result.type)
        self.joined[apart.result] = heads
        rewriter.replace(op, [new, apart])


def join_heads(function: FuncOp) -> None:
    """Makes products of heads that share their matrix one product each."""
    products = JoinHeads()
    patterns = GreedyRewritePatternApplier(
        [products, KeepJoined(products.joined)], dce_enabled=True
    )
    PatternRewriteWalker(patterns).rewrite_region(function.body)
