"""``--decompose-threadblock``: composite operators become the operators they are made of.

Source: Mirage's ``src/transpiler/transpile.cc``; intermediate sums are kept in fp32, where Mirage
keeps them in the storage type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import singledispatch
from typing import NamedTuple

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.elementwise import EpilogueAttr
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.kn.separate_phases import separate_phases
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tb.graph_bounds import bounds_of_graph
from mugraph.dialects.tb.ragged import moving_dims
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.each import GraphPass


def _fp32_tile(shape: Sequence[int]) -> tb.STensorType:
    return tb.STensorType(shape, f32)


def _sum_tile(value: SSAValue) -> tb.STensorType:
    """A tile of sums: i32 of integers, which is exact, fp32 of everything else."""
    type_ = element_type_of(value.type)
    return tb.STensorType(shape_of(value.type), type_ if is_integer(type_) else f32)


def _last(value: SSAValue) -> int:
    return len(shape_of(value.type)) - 1


def _elements_of_last(
    op: Operation, tile: SSAValue, whole: int, *, over_iterations: bool
) -> int | None:
    """How many elements a mean over the last dimension is taken of: ``whole``, if none is missing.

    ``None`` where that is not the same number in all blocks, in all iterations that a mean is
    taken in, or in all rows: over the iterations, those that are missing in some have fewer.
    """
    block = op.parent_block()
    *others, bound = bounds_of_graph(block)[tile] if block is not None else (None,)
    if over_iterations and moving_dims(tuple(others)):
        return None
    if bound is None:
        return whole
    if math.prod(bound.blocks) > 1 or (bound.moves and not over_iterations):
        return None
    return bound.of_block((0,) * len(bound.blocks))


def _ones(tile: SSAValue) -> list[Operation]:
    """1 for each element of a tile, whatever it is: in integers NaN is 0 and infinity finite.

    Sums of it count the elements that exist, since those that do not are masked.
    """
    type_ = _fp32_tile(shape_of(tile.type))
    whole = tb.CastOp(tile, tb.STensorType(shape_of(tile.type), i32))
    number = tb.CastOp(whole.result, type_)
    zero = tb.MulScalarOp(number.result, type_, (0.0,))
    return [whole, number, zero, tb.AddScalarOp(zero.result, type_, (1.0,))]


class _Count(NamedTuple):
    """What a sum over the last dimension is divided by, and the operators that find it out."""

    number: int | SSAValue
    operators: Sequence[Operation] = ()


def _count_of_last(
    op: Operation, tile: SSAValue, iterations: int, *, over_iterations: bool
) -> _Count:
    """The number of elements of a mean, which blocks count themselves where it differs."""
    dim = _last(tile)
    shape = shape_of(tile.type)
    times = iterations if over_iterations else 1
    known = _elements_of_last(op, tile, shape[-1] * times, over_iterations=over_iterations)
    if known is not None:
        return _Count(known)
    counted = _ones(tile)
    if over_iterations:
        ones = counted[-1].results[0]
        counted.append(tb.ForloopAccumOp(tb.AccumulatorKind.NONE, ones, _fp32_tile(shape)))
    counted.append(tb.ReductionOp(counted[-1].results[0], dim, _fp32_tile((*shape[:-1], 1))))
    return _Count(counted[-1].results[0], counted)


def _mean(total: SSAValue, count: _Count, result_type: tb.STensorType) -> list[Operation]:
    """The sum over the last dimension / count of a tile of sums."""
    dim = _last(total)
    shape = (*shape_of(total.type)[:dim], 1)
    summed = tb.ReductionOp(total, dim, _fp32_tile(shape))
    if isinstance(count.number, int):
        return [summed, tb.MulScalarOp(summed.result, result_type, (1.0 / count.number,))]
    return [*count.operators, summed, tb.DivOp(summed.result, count.number, result_type)]


def _mean_square_root(
    sum_of_squares: SSAValue, count: _Count, result_type: tb.STensorType, epsilon: float = 0.0
) -> list[Operation]:
    """sqrt(sum over the last dimension / count + epsilon) of a tile of sums of squares."""
    scalars = _fp32_tile((*shape_of(sum_of_squares.type)[:-1], 1))
    parts = _mean(sum_of_squares, count, scalars)
    if epsilon:
        parts.append(tb.AddScalarOp(parts[-1].results[0], scalars, (epsilon,)))
    return [*parts, tb.SqrtOp(parts[-1].results[0], result_type)]


@singledispatch
def decompose(op: Operation, iterations: int) -> list[Operation]:
    """The operators that an operator is made of; none where it stays as it is.

    ``iterations`` is the for-loop's range.  A composite operator registers a function of its own.
    """
    return []


@decompose.register
def _(op: tb.RmsNormOp, iterations: int) -> list[Operation]:
    """x / sqrt(mean of x² over the last dimension + epsilon), times the weight."""
    shape = shape_of(op.input.type)
    square = tb.SquareOp(op.input, _fp32_tile(shape))
    scalars = _fp32_tile((*shape[:-1], 1))
    count = _count_of_last(op, op.input, iterations, over_iterations=False)
    norm = _mean_square_root(square.result, count, scalars, op.epsilon_value)
    quotient_type = op.result.type if op.weight is None else _fp32_tile(shape)
    quotient = tb.DivOp(op.input, norm[-1].results[0], quotient_type)
    parts = [square, *norm, quotient]
    if op.weight is not None:
        parts.append(tb.MulOp(quotient.result, op.weight, op.result.type))
    return parts


def _matrices(value: SSAValue) -> tuple[list[Operation], list[SSAValue]]:
    """Cuts a tile of several matrices: the operators that do it, and the matrices in order."""
    cuts: list[Operation] = []
    pieces = [value]
    for dim in range(len(shape_of(value.type)) - 2):
        whole = pieces
        pieces = list[SSAValue]()
        for piece in whole:
            shape = shape_of(piece.type)
            if shape[dim] == 1:
                pieces.append(piece)
                continue
            single = tb.STensorType(
                (*shape[:dim], 1, *shape[dim + 1 :]), element_type_of(piece.type)
            )
            cut = tb.SplitOp(piece, dim, [single] * shape[dim])
            cuts.append(cut)
            pieces += cut.parts
    return cuts, pieces


def _stacked(matrices: Sequence[SSAValue], type_: tb.STensorType) -> list[Operation]:
    """Puts matrices into one tile of several, the last leading dimension first."""
    parts: list[Operation] = []
    pieces = list(matrices)
    shape = type_.get_shape()
    for dim in reversed(range(len(shape) - 2)):
        count = shape[dim]
        if count == 1:
            continue
        groups = [pieces[at : at + count] for at in range(0, len(pieces), count)]
        pieces = list[SSAValue]()
        for group in groups:
            extents = (*shape_of(group[0].type)[:dim], count, *shape[dim + 1 :])
            joined = tb.ConcatOp(group, dim, tb.STensorType(extents, type_.element_type))
            parts.append(joined)
            pieces.append(joined.result)
    return parts


@decompose.register
def _(op: tb.MatmulOp, iterations: int) -> list[Operation]:
    """One product for each pair of matrices."""
    *lead, rows, columns = shape_of(op.result.type)
    if math.prod(lead) == 1 or op.sliced is not None:
        return []
    cut_lhs, lhs = _matrices(op.lhs)
    cut_rhs, rhs = (cut_lhs, lhs) if op.lhs is op.rhs else _matrices(op.rhs)
    one = tb.STensorType((*[1] * len(lead), rows, columns), element_type_of(op.result.type))
    epilogue = tb.epilogue_of(op)
    products = [tb.MatmulOp(left, right, one) for left, right in zip(lhs, rhs, strict=True)]
    for product in products:
        product.epilogue = EpilogueAttr(epilogue) if epilogue else None
        product.precision = op.precision
    cuts = [*cut_lhs, *([] if cut_rhs is cut_lhs else cut_rhs)]
    stacked = _stacked([product.result for product in products], op.result.type)
    return [*cuts, *products, *stacked]


@decompose.register
def _(op: tb.ConcatThenMatmulOp, iterations: int) -> list[Operation]:
    """Two products and their sum."""
    type_ = _fp32_tile(shape_of(op.result.type))
    products = [tb.MatmulOp(lhs, rhs, type_) for lhs, rhs in op.products()]
    one, two = (product.result for product in products)
    return [*products, tb.AddOp(one, two, op.result.type)]


@decompose.register
def _(op: tb.ForloopAccumOp, iterations: int) -> list[Operation]:
    """A plain accumulator, and what reduces its sum after the loop.

    Two products that are added up are accumulated apart, and added after the loop.
    """
    shape = shape_of(op.input.type)
    dim = _last(op.input)
    source = op.input.owner
    if (
        op.kind.data is tb.AccumulatorKind.NONE
        and isinstance(source, tb.ConcatThenMatmulOp)
        and op.input.has_one_use()
    ):
        type_ = _fp32_tile(shape)
        products = [tb.MatmulOp(lhs, rhs, type_) for lhs, rhs in source.products()]
        totals = [
            tb.ForloopAccumOp(tb.AccumulatorKind.NONE, product.result, type_)
            for product in products
        ]
        one, two = (total.result for total in totals)
        return [*products, *totals, tb.AddOp(one, two, op.result.type)]
    if op.kind.data in (tb.AccumulatorKind.NONE, tb.AccumulatorKind.MAX):
        return []
    if op.kind.data is tb.AccumulatorKind.SUM:
        total = tb.ForloopAccumOp(tb.AccumulatorKind.NONE, op.input, _sum_tile(op.input))
        return [total, tb.ReductionOp(total.result, dim, op.result.type)]
    if op.kind.data is tb.AccumulatorKind.MEAN:
        total = tb.ForloopAccumOp(tb.AccumulatorKind.NONE, op.input, _fp32_tile(shape))
        count = _count_of_last(op, op.input, iterations, over_iterations=True)
        return [total, *_mean(total.result, count, op.result.type)]
    square = tb.SquareOp(op.input, _fp32_tile(shape))
    total = tb.ForloopAccumOp(tb.AccumulatorKind.NONE, square.result, _fp32_tile(shape))
    count = _count_of_last(op, op.input, iterations, over_iterations=True)
    norm = _mean_square_root(total.result, count, op.result.type)
    return [square, total, *norm]


@decompose.register
def _(op: tb.ForloopAccumRescaleOp, iterations: int) -> list[Operation]:
    """A rescaled accumulator of all elements, and what reduces it after the loop.

    Where a factor is that of a whole row the row is summed first, which leaves less to rescale.
    """
    if op.kind.data is tb.RescaledKind.NONE:
        return []
    shape = shape_of(op.input.type)
    if shape_of(op.rescale.type)[-1] == 1:
        row = tb.ReductionOp(op.input, _last(op.input), _fp32_tile((*shape[:-1], 1)))
        none = tb.RescaledKind.NONE
        return [row, tb.ForloopAccumRescaleOp(none, row.result, op.rescale, op.result.type)]
    tile = _fp32_tile(shape)
    total = tb.ForloopAccumRescaleOp(tb.RescaledKind.NONE, op.input, op.rescale, tile)
    return [total, tb.ReductionOp(total.result, _last(op.input), op.result.type)]


@decompose.register
def _(op: tb.ForloopAccumSumToDimxStridedOp, iterations: int) -> list[Operation]:
    """A plain accumulator and a strided reduction after the loop."""
    tile = _sum_tile(op.input)
    total = tb.ForloopAccumOp(tb.AccumulatorKind.NONE, op.input, tile)
    return [total, tb.ReductionToDimxStridedOp(total.result, _last(op.input), op.result.type)]


@decompose.register
def _(op: tb.ForloopAccumSumToDimxContiguousOp, iterations: int) -> list[Operation]:
    """A plain accumulator and a contiguous reduction after the loop."""
    tile = _sum_tile(op.input)
    total = tb.ForloopAccumOp(tb.AccumulatorKind.NONE, op.input, tile)
    return [total, tb.ReductionToDimxContiguousOp(total.result, _last(op.input), op.result.type)]


def leave_out_sum_of_one(op: tb.ReductionOp) -> None:
    """A sum of one element is that element, perhaps of another type, if it always exists."""
    if shape_of(op.input.type)[op.reduced_dim] != 1 or tb.epilogue_of(op):
        return
    block = op.parent_block()
    if block is None or bounds_of_graph(block)[op.input][op.reduced_dim] is not None:
        return
    if op.input.type == op.result.type:
        op.result.replace_all_uses_with(op.input)
        Rewriter.erase_op(op)
    else:
        Rewriter.replace_op(op, tb.CastOp(op.input, op.result.type))


def _joins(value: SSAValue, dim: int) -> tuple[SSAValue, SSAValue] | None:
    """The two tiles that a value puts one after the other along a dimension, used nowhere else."""
    owner = value.owner
    if not isinstance(owner, tb.ConcatOp) or not value.has_one_use():
        return None
    if owner.joined_dim != dim or len(owner.inputs) != 2:
        return None
    return owner.inputs[0], owner.inputs[1]


def use_concat_then_matmul(op: tb.MatmulOp) -> None:
    """Makes one operator of a product of two tiles that were put together, where cuts agree."""
    lhs, rhs = _joins(op.lhs, _last(op.lhs)), _joins(op.rhs, _last(op.rhs) - 1)
    if lhs is None or rhs is None or tb.epilogue_of(op) or op.precision is not None:
        return
    if is_integer(element_type_of(op.lhs.type)):
        return
    if shape_of(lhs[0].type)[-1] != shape_of(rhs[0].type)[-2]:
        return
    joined = [op.lhs.owner, op.rhs.owner]
    combined = tb.ConcatThenMatmulOp([*lhs, *rhs], op.result.type)
    combined.result.name_hint = op.result.name_hint
    Rewriter.replace_op(op, combined)
    for concat in joined:
        if isinstance(concat, tb.ConcatOp):
            Rewriter.erase_op(concat)


def decompose_threadblock(graph: CustomizedOp) -> None:
    """Replaces every composite operator of a threadblock graph."""
    separate_phases(graph)
    for op in tuple(graph.body.block.ops):
        if isinstance(op, tb.MatmulOp):
            use_concat_then_matmul(op)
        elif isinstance(op, tb.ReductionOp):
            leave_out_sum_of_one(op)
    pending = list(graph.body.block.ops)
    for op in pending:
        parts = decompose(op, graph.forloop_range)
        if parts:
            hint = op.results[0].name_hint
            Rewriter.replace_op(op, parts, [parts[-1].results[0]])
            parts[-1].results[0].name_hint = hint
            # A part may be made of parts itself.
            pending += parts


class DecomposeThreadblockPass(GraphPass):
    """Writes norms and reducing accumulators with squares, sums and plain accumulators.

    A product of tiles of several matrices becomes one product a pair, of parts that are cut out;
    a product of tiles that are put together along what is summed over becomes two products that
    are added up, and nothing is put together.  What operators after a loop of one iteration use of
    its body is accumulated.

    A mean is divided by the number of elements that exist.  Where that is not the same in all
    blocks, in all rows, or in all iterations of a norm, each block counts its own by summing 1 for
    each.

    Sums between the parts are fp32, or i32 of integers.  A reduction over the last dimension moves
    behind the loop, so that iterations need no communication between threads.

    Before::

        %r = tb.forloop_accum rms %x : !tb.stensor<16x128xf16> -> !tb.stensor<16x1xf16>

    After, for 32 iterations::

        %0 = tb.square %x : !tb.stensor<16x128xf16> -> !tb.stensor<16x128xf32>
        %1 = tb.forloop_accum none %0 : ...
        %2 = tb.reduction %1 dim 1 : ...
        %3 = tb.mul_scalar %2 by 2.44140625e-04 : ...
        %r = tb.sqrt %3 : !tb.stensor<16x1xf32> -> !tb.stensor<16x1xf16>
    """

    name = "decompose-threadblock"

    def run(self, graph: CustomizedOp) -> None:
        """Decomposes in a threadblock graph."""
        decompose_threadblock(graph)
