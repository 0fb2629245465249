"""Heads that share keys and values read them where they are.

Grouped-query attention repeats each head of the keys for several heads of the queries.  With one
query a head, the products with the repeated keys are those of a matrix that has such queries as its
rows: nothing is repeated, and a tile of keys is read once for all of them.  With several, heads are
numbered by their group and their place in it: then the keys are broadcast along the places, which
is a matter of indices, and no copy.

A batch, groups and places in them take all axes of a grid, and leave none for rows.  Then each head
may have a copy of its keys: such a copy is small beside the scores, which are no tensor so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from mugraph.dialects import kn
from mugraph.dialects.linear_forms import LinearForm
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

    def numbered(self, shape: Sequence[int], *, in_rows: bool) -> tuple[int, ...]:
        """The extents of a tensor (..., heads, rows, columns) of which a head has two numbers.

        (..., groups, repeats, rows, columns), or (..., groups, repeats, columns) where heads are
        ``in_rows`` and have one each; of what all heads share (..., 1, 1, rows, columns).
        """
        *leading, heads, rows, columns = shape
        numbers = (self.groups, self.repeats) if heads > 1 else (1, 1)
        return (*leading, *numbers, columns) if in_rows else (*leading, *numbers, rows, columns)


def _matrices_transposed(rank: int) -> tuple[int, ...]:
    """The order of dimensions in which the last two change places."""
    return (*range(rank - 2), rank - 1, rank - 2)


def repeated_operand(value: SSAValue) -> Repeated | None:
    """Analysis: a reshaped broadcast of heads, transposed or not; ``None`` for all else."""
    op, is_transposed = value.owner, False
    if isinstance(op, kn.TransposeOp):
        if op.order != _matrices_transposed(len(op.order)):
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


def _is_alike_for_heads(mask: kn.MaskOp) -> bool:
    """Whether a mask of (..., heads, rows, columns) keeps the same of each head."""
    heads = len(shape_of(mask.result.type)) - 3
    is_free = not any(form.coefficients[heads] for form in mask.forms())
    return is_free and heads not in mask.dims_of_lengths


def _mask_like(mask: kn.MaskOp, matrix: SSAValue) -> kn.MaskOp:
    """The same mask of a matrix whose heads have several numbers, perhaps."""
    rank = len(shape_of(mask.result.type))
    heads, more = rank - 3, len(shape_of(matrix.type)) - rank
    forms = [
        LinearForm(
            (*form.coefficients[:heads], *(0,) * more, *form.coefficients[heads:]), form.constant
        )
        for form in mask.forms()
    ]
    per = [dim + more if dim > heads else dim for dim in mask.dims_of_lengths]
    lengths = list(mask.lengths)
    return kn.MaskOp(matrix, forms, mask.constant, None, lengths, mask.largest, per)


@dataclass
class JoinHeads(RewritePattern):
    """Products of heads with matrices that several of them share.

    A row times such a matrix is one product of that many rows; several rows a head are multiplied
    by a broadcast of the matrix.
    """

    joined: dict[SSAValue, Repeated] = field(default_factory=dict[SSAValue, Repeated])
    """Reshapes that give such products, or what is computed of them, the extents they had."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: kn.MatmulOp, rewriter: PatternRewriter, /) -> None:
        """Rewrites products whose right operand is repeated, and perhaps masked."""
        mask = op.rhs.owner if isinstance(op.rhs.owner, kn.MaskOp) else None
        found = repeated_operand(op.rhs if mask is None else mask.input)
        if found is None or not kn.may_be_row_major(op.result):
            return
        if mask is not None and not _is_alike_for_heads(mask):
            return
        in_rows = shape_of(op.lhs.type)[-2] == 1
        wide = found.numbered(shape_of(op.lhs.type), in_rows=in_rows)
        rows = kn.ReshapeOp(op.lhs, _typed(op.lhs, wide))
        new: list[Operation] = [rows]
        matrix, rank = found.source, len(wide)
        if in_rows:
            *leading, own, depth = shape_of(matrix.type)
            new.append(kn.ReshapeOp(matrix, _typed(matrix, (*leading[:-1], own, depth))))
            matrix = new[-1].results[0]
        if found.is_transposed:
            new.append(kn.TransposeOp(matrix, _matrices_transposed(rank)))
            matrix = new[-1].results[0]
        if not in_rows:
            each = (*wide[:-2], *shape_of(matrix.type)[-2:])
            new.append(kn.BroadcastOp(matrix, _typed(matrix, each)))
            matrix = new[-1].results[0]
        if mask is not None:
            new.append(_mask_like(mask, matrix))
            matrix = new[-1].results[0]
        type_ = _typed(op.result, found.numbered(shape_of(op.result.type), in_rows=in_rows))
        compute = None if op.compute is None else op.compute.data
        precision = None if op.precision is None else op.precision.data
        product = kn.MatmulOp(rows.result, matrix, type_, compute, precision)
        apart = kn.ReshapeOp(product.result, op.result.type)
        self.joined[apart.result] = found
        rewriter.replace(op, [*new, product, apart])


@dataclass
class KeepJoined(RewritePattern):
    """What is computed of such products, element by element or along rows, stays as they are."""

    joined: dict[SSAValue, Repeated]

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: kn.ElementwiseOp | kn.ReductionOp, rewriter: PatternRewriter, /
    ) -> None:
        """Rewrites where an operand is a reshape of joined heads."""
        heads = next((self.joined[each] for each in op.operands if each in self.joined), None)
        shape = shape_of(op.result.type)
        count = 1 if heads is None else heads.groups * heads.repeats
        if heads is None or not kn.may_be_row_major(op.result) or shape[-3] != count:
            return
        if isinstance(op, kn.ReductionOp) and op.reduced_dim != len(shape) - 1:
            return
        in_rows = shape[-2] == 1

        def reshaped(value: SSAValue) -> SSAValue:
            if value in self.joined and isinstance(value.owner, kn.ReshapeOp):
                return value.owner.input
            wanted = heads.numbered(shape_of(value.type), in_rows=in_rows)
            if shape_of(value.type) == wanted:
                return value
            seen = kn.ReshapeOp(value, _typed(value, wanted))
            rewriter.insert(seen, InsertPoint.before(op))
            return seen.result

        type_ = _typed(op.result, heads.numbered(shape, in_rows=in_rows))
        operands = [reshaped(each) for each in op.operands]
        if isinstance(op, kn.ReductionOp):
            along = len(shape_of(type_)) - 1
            new = kn.ReductionOp(operands[0], along, type_, op.combination)
        else:
            new = op.clone(dict(zip(op.operands, operands, strict=True)))
            rewriter.replace_value_with_new_type(new.results[0], type_)
        apart = kn.ReshapeOp(new.results[0], op.result.type)
        self.joined[apart.result] = heads
        rewriter.replace(op, [new, apart])


@dataclass
class RepeatHeads(RewritePattern):
    """Products of heads with copies of the matrices that several of them share, one for each."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: kn.MatmulOp, rewriter: PatternRewriter, /) -> None:
        """Rewrites products whose right operand is repeated for heads of several rows."""
        found = repeated_operand(op.rhs)
        if found is None or shape_of(op.lhs.type)[-2] == 1:
            return
        *leading, groups, _, rows, columns = shape_of(found.source.type)
        each = _typed(found.source, (*leading, groups, found.repeats, rows, columns))
        heads = _typed(found.source, (*leading, groups * found.repeats, rows, columns))
        broadcast = kn.BroadcastOp(found.source, each)
        copy = kn.CopyOp(broadcast.result, each)
        new: list[Operation] = [broadcast, copy, kn.ReshapeOp(copy.result, heads)]
        if found.is_transposed:
            order = _matrices_transposed(len(shape_of(heads)))
            new.append(kn.TransposeOp(new[-1].results[0], order))
        rewriter.insert(new, InsertPoint.before(op))
        rewriter.replace_uses_with_if(op.rhs, new[-1].results[0], lambda use: use.operation is op)


def repeat_heads(function: FuncOp) -> None:
    """Gives each of several heads a copy of the matrix that they share, if they have many rows."""
    PatternRewriteWalker(RepeatHeads(), apply_recursively=False).rewrite_region(function.body)


def join_heads(function: FuncOp) -> None:
    """Makes products of heads that share their matrix read it once, or where it is."""
    products = JoinHeads()
    patterns = GreedyRewritePatternApplier(
        [products, KeepJoined(products.joined)], dce_enabled=True
    )
    PatternRewriteWalker(patterns).rewrite_region(function.body)
