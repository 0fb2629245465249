"""Moves transposes and parts of tensors to where they cost nothing: to what a program is given.

A transpose of what an operator alone computes for it is that operator on transposed operands, up to
the arguments of the function, of which a transpose is a layout.  So are extents of 1 that are put
in or left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint
from xdsl.transforms.common_subexpression_elimination import cse

from mugraph.dialects import kn
from mugraph.dialects.constant import is_constant
from mugraph.dialects.cute import Layout
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import (
    element_type_of,
    layout_of,
    resolved_layout_of,
    row_major_strides,
    shape_of,
    strides_of,
)

Permute = Callable[[SSAValue, Sequence[int]], SSAValue]
"""A value with its dimensions in another order."""


@singledispatch
def transposed(op: Operation, order: Sequence[int], permute: Permute) -> Operation | None:
    """The operator whose result is ``op``'s with its dimensions in another order.

    ``None`` where no operator on transposed operands is; those that have one register a function.
    """
    return None


@transposed.register
def _(op: kn.ElementwiseOp, order: Sequence[int], permute: Permute) -> Operation | None:
    operands = [permute(operand, order) for operand in op.operands]
    new = op.clone(dict(zip(op.operands, operands, strict=True)))
    Rewriter.replace_value_with_new_type(new.result, _permuted_type(op.result, order))
    return new


@transposed.register
def _(op: kn.ReductionOp, order: Sequence[int], permute: Permute) -> Operation | None:
    dim = list(order).index(op.reduced_dim)
    type_ = _permuted_type(op.result, order)
    return kn.ReductionOp(permute(op.input, order), dim, type_, op.combination)


@transposed.register
def _(op: kn.MatmulOp, order: Sequence[int], permute: Permute) -> Operation | None:
    rank = len(order)
    rows, columns = rank - 2, rank - 1
    if {*order[rows:]} != {rows, columns}:
        return None
    factors = [permute(factor, order) for factor in (op.lhs, op.rhs)]
    lhs, rhs = factors if order[columns] == columns else reversed(factors)
    precision = None if op.precision is None else op.precision.data
    compute = None if op.compute is None else op.compute.data
    return kn.MatmulOp(lhs, rhs, _permuted_type(op.result, order), compute, precision)


@transposed.register
def _(op: kn.GatherOp, order: Sequence[int], permute: Permute) -> Operation | None:
    numbers = len(order) - op.row_rank
    if list(order[:numbers]) != list(range(numbers)):
        return None
    # Dimension 0 of the table is what the numbers' dimensions are of the result.
    table = permute(op.table, [0, *(dim - numbers + 1 for dim in order[numbers:])])
    return kn.GatherOp(table, op.rows, _permuted_type(op.result, order))


@transposed.register
def _(op: kn.ReshapeOp, order: Sequence[int], permute: Permute) -> Operation | None:
    runs = _joined_dims(shape_of(op.input.type), shape_of(op.result.type))
    if runs is None or max(map(len, runs), default=0) < 2:
        return None
    if layout_of(op.input.type) is not None:
        return None
    first = [dim for dim, extent in enumerate(shape_of(op.input.type)) if extent == 1]
    dims = [*first, *(dim for place in order for dim in runs[place])]
    return kn.ReshapeOp(permute(op.input, dims), _permuted_type(op.result, order))


def _joined_dims(own: Sequence[int], wanted: Sequence[int]) -> list[list[int]] | None:
    """The dimensions that each new one joins, but for those of one element.

    ``None`` where one is split.
    """
    ours, theirs = (
        [dim for dim, extent in enumerate(shape) if extent > 1] for shape in (own, wanted)
    )
    runs: list[list[int]] = [[] for _ in wanted]
    for joined, new in kn.regrouped([own[dim] for dim in ours], [wanted[dim] for dim in theirs]):
        if len(new) > 1:
            return None
        runs[theirs[new[0]]] = [ours[dim] for dim in joined]
    return runs


def _permuted_type(value: SSAValue, order: Sequence[int]) -> TensorType[Attribute]:
    shape = shape_of(value.type)
    return TensorType(element_type_of(value.type), [shape[dim] for dim in order])


class HoistTranspose(RewritePattern):
    """A transpose of an operator's result becomes the operator on transposed operands."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: kn.TransposeOp, rewriter: PatternRewriter, /) -> None:
        """Rewrites where nothing else uses the result, and no layout is written."""
        source, order = op.input.owner, op.order
        if list(order) == sorted(order) and op.input.type == op.result.type:
            rewriter.replace(op, [], [op.input])
            return
        if layout_of(op.result.type) is not None or layout_of(op.input.type) is not None:
            return
        if isinstance(source, kn.TransposeOp):
            both = [source.order[dim] for dim in order]
            rewriter.replace(op, kn.TransposeOp(source.input, both))
            return
        if not isinstance(source, Operation) or not op.input.has_one_use():
            return

        def permute(value: SSAValue, dims: Sequence[int]) -> SSAValue:
            turned = kn.TransposeOp(value, dims)
            rewriter.insert(turned, InsertPoint.before(op))
            return turned.result

        new = transposed(source, order, permute)
        if new is not None:
            rewriter.replace(op, new)


class HoistReshape(RewritePattern):
    """Extents of 1 that are put in or left out are so of the operands of a function already."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: kn.ReshapeOp, rewriter: PatternRewriter, /) -> None:
        """Rewrites where nothing else uses the result of the function, and no layout is written."""
        source = op.input.owner
        if layout_of(op.result.type) is not None or not op.input.has_one_use():
            return
        kept = _kept_dims(shape_of(op.input.type), shape_of(op.result.type))
        if kept is None or not isinstance(source, kn.ElementwiseOp):
            return
        operands: list[SSAValue] = []
        for value in source.operands:
            own = shape_of(value.type)
            extents = [1 if dim is None else own[dim] for dim in kept]
            seen = kn.ReshapeOp(value, TensorType(element_type_of(value.type), extents))
            rewriter.insert(seen, InsertPoint.before(op))
            operands.append(seen.result)
        new = source.clone(dict(zip(source.operands, operands, strict=True)))
        Rewriter.replace_value_with_new_type(new.result, op.result.type)
        rewriter.replace(op, new)


class CancelReshapes(RewritePattern):
    """What is computed element by element between views that cancel is computed without them."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: kn.ReshapeOp, rewriter: PatternRewriter, /) -> None:
        """Rewrites where all operands were views of tensors with the shape that the result has."""
        source = op.input.owner
        if layout_of(op.result.type) is not None or not op.input.has_one_use():
            return
        if not isinstance(source, kn.ElementwiseOp):
            return
        before = {value: _before_reshape(value, op.result) for value in source.operands}
        operands = {value: own for value, own in before.items() if own is not None}
        if len(operands) < len(before):
            return
        new = source.clone(operands)
        Rewriter.replace_value_with_new_type(new.result, op.result.type)
        rewriter.replace(op, new)


def _before_reshape(value: SSAValue, like: SSAValue) -> SSAValue | None:
    """The tensor of a shape that a value is another view of."""
    op = value.owner
    if not isinstance(op, kn.ReshapeOp) or layout_of(op.input.type) is not None:
        return None
    return op.input if shape_of(op.input.type) == shape_of(like.type) else None


def _kept_dims(own: Sequence[int], wanted: Sequence[int]) -> list[int | None] | None:
    """For each new dimension the old one that it is, ``None`` for one of extent 1.

    ``None`` where others change, too.
    """
    long = [dim for dim, extent in enumerate(own) if extent > 1]
    if [own[dim] for dim in long] != [extent for extent in wanted if extent > 1]:
        return None
    left = iter(long)
    return [next(left) if extent > 1 else None for extent in wanted]


def _laid_out(value: SSAValue) -> SSAValue:
    """A tensor with a layout in its type that is no copy: of a transpose that of its operand."""
    op = value.owner
    if layout_of(value.type) is not None or not isinstance(op, kn.TransposeOp):
        return kn.lay_out_row_major(value)
    layout, shape = layout_of(op.input.type), shape_of(op.input.type)
    strides = row_major_strides(shape) if layout is None else strides_of(layout)
    own = tuple(strides[dim] for dim in op.order)
    return kn.lay_out(value, Layout(shape_of(value.type), own))


class ViewFirstPart(RewritePattern):
    """The part of a tensor that starts where it starts is a view of its memory."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: kn.SliceOp, rewriter: PatternRewriter, /) -> None:
        """Rewrites where no layout is written, and the part is not a result of the function."""
        is_stored = any(isinstance(use.operation, ReturnOp) for use in op.result.uses)
        is_first = not any(any(start) for _, _, start in op.moves())
        if not is_first or is_stored or layout_of(op.result.type) is not None:
            return
        whole = _laid_out(op.input)
        strides = strides_of(resolved_layout_of(whole))
        # Also where custom kernels read the part.
        part = kn.lay_out(op.result, Layout(shape_of(op.result.type), strides))
        rewriter.replace(op, kn.ViewOp(whole, part.type))


def _lay_out_weights(function: FuncOp) -> None:
    """Writes the layouts of transposed weights, which kernels read where they lie, in their types.

    Estimates then know which elements are neighbours in memory.  What is a result stays as it is.
    """
    for op in function.body.block.ops:
        is_weight = isinstance(op, kn.TransposeOp) and is_constant(op.input)
        if is_weight and not any(isinstance(use.operation, ReturnOp) for use in op.results[0].uses):
            _laid_out(op.results[0])


def hoist_views(function: FuncOp) -> None:
    """Moves the transposes of a function up to its arguments, and drops copies that are views."""
    patterns: list[RewritePattern] = [
        HoistTranspose(),
        HoistReshape(),
        CancelReshapes(),
        ViewFirstPart(),
    ]
    PatternRewriteWalker(GreedyRewritePatternApplier(patterns)).rewrite_region(function.body)
    cse(function.body)
    _lay_out_weights(function)
    function.update_function_type()
