"""``--fold-leading``: leading dimensions that a program treats alike become one.

A grid has three axes, and each leading dimension of a product takes one.  Attention that is written
as (batch, heads, group, rows, columns) leaves none for rows; with batch and heads as one dimension
it is the same program, and there is one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import singledispatch

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.disjoint_set import IntDisjointSet

from mugraph.dialects import kn
from mugraph.dialects.cute import Layout
from mugraph.dialects.interfaces import HasTileIndices, IndexKind
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.maps import AXES
from mugraph.dialects.named_extents import EXTENTS, LENGTHS, argument_names, ends_of_argument
from mugraph.dialects.tensor_types import (
    element_type_of,
    layout_of,
    resolved_layout_of,
    shape_of,
    strides_of,
    with_layout,
)
from mugraph.passes.each import FunctionPass
from mugraph.passes.program.strides_of_views import strides_in_memory

Runs = Sequence[Sequence[int]]
"""For each dimension of a folded tensor those of the tensor that it is made of."""
Pair = tuple[int, int]
"""Two indices, of which the second stands right behind the first one in each tensor."""


def _dim_in(runs: Runs, dim: int) -> int:
    """The dimension of a folded tensor that a dimension has become, or a part of."""
    return next(place for place, run in enumerate(runs) if dim in run)


@singledispatch
def folded(
    op: Operation, operands: Sequence[SSAValue], type_: Attribute, runs: Runs
) -> Operation | None:
    """What computes an operator's result with its dimensions folded, of folded operands.

    ``runs`` are those of the result.  ``None`` of operators that keep the dimensions they have;
    others register a function.
    """
    return None


def _same(op: Operation, operands: Sequence[SSAValue], type_: Attribute) -> Operation:
    new = op.clone(dict(zip(op.operands, operands, strict=True)))
    Rewriter.replace_value_with_new_type(new.results[0], type_)
    return new


@folded.register(kn.ElementwiseOp)
@folded.register(kn.MatmulOp)
@folded.register(kn.BroadcastOp)
def _(op: Operation, operands: Sequence[SSAValue], type_: Attribute, runs: Runs) -> Operation:
    return _same(op, operands, type_)


@folded.register
def _(op: kn.ReductionOp, operands: Sequence[SSAValue], type_: Attribute, runs: Runs) -> Operation:
    return kn.ReductionOp(operands[0], _dim_in(runs, op.reduced_dim), type_, op.combination)


@folded.register
def _(op: kn.ScanOp, operands: Sequence[SSAValue], type_: Attribute, runs: Runs) -> Operation:
    dim, is_exclusive = _dim_in(runs, op.reduced_dim), op.is_exclusive
    return kn.ScanOp(operands[0], dim, type_, *operands[1:], exclusive=is_exclusive)


@folded.register
def _(op: kn.MaskOp, operands: Sequence[SSAValue], type_: Attribute, runs: Runs) -> Operation:
    rank = len(shape_of(op.result.type))
    forms = [
        LinearForm(
            (*(form.coefficients[run[0]] for run in runs), *form.coefficients[rank:]),
            form.constant,
        )
        for form in op.forms()
    ]
    per = [dim if dim < 0 else _dim_in(runs, dim) for dim in op.dims_of_lengths]
    return kn.MaskOp(operands[0], forms, op.constant, type_, op.lengths, op.largest, per)


@folded.register
def _(op: kn.SliceOp, operands: Sequence[SSAValue], type_: Attribute, runs: Runs) -> Operation:
    ((_, _, start),) = op.moves()
    return kn.SliceOp(operands[0], [start[run[0]] for run in runs], type_)


@folded.register
def _(op: kn.ConcatOp, operands: Sequence[SSAValue], type_: Attribute, runs: Runs) -> Operation:
    return kn.ConcatOp(operands, _dim_in(runs, op.joined_dim), type_)


@folded.register
def _(op: kn.TransposeOp, operands: Sequence[SSAValue], type_: Attribute, runs: Runs) -> Operation:
    firsts = [op.order[run[0]] for run in runs]
    order = [sorted(firsts).index(first) for first in firsts]
    return kn.TransposeOp(operands[0], order, type_)


def _takes_part(op: Operation) -> bool:
    """Whether an operator can have folded tensors."""
    return len(op.results) == 1 and folded.dispatch(type(op)) is not folded.dispatch(Operation)


def _has_too_many(op: Operation) -> bool:
    """Whether an operator is a product whose leading dimensions leave no axis for rows."""
    if not isinstance(op, kn.MatmulOp):
        return False
    return sum(extent > 1 for extent in shape_of(op.result.type)[:-2]) >= len(AXES)


def _tensors_of(op: Operation) -> list[SSAValue]:
    """The tensors that an operator folds: its result, and all operands but lengths."""
    operands = [op.input] if isinstance(op, kn.MaskOp) else op.operands
    return [*operands, op.results[0]]


@dataclass
class _Folding:
    """The indices of a program, and which of them may become one."""

    function: FuncOp
    operators: list[Operation] = field(init=False)
    """Those that take part."""
    first: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """Of each of their tensors the number of its first dimension."""
    kept: set[int] = field(default_factory=set[int])
    """Indices that some operator does not treat like others."""

    def __post_init__(self) -> None:
        self.operators = [op for op in self.function.body.block.ops if _takes_part(op)]
        count = 0
        for op in self.operators:
            for value in _tensors_of(op):
                if value not in self.first:
                    self.first[value] = count
                    count += len(shape_of(value.type))
        self.joined = IntDisjointSet(size=count)
        apart = [place for op in self.operators for place in self._join(op)]
        apart += self._with_names()
        self.kept = {self.joined[place] for place in apart}

    def _join(self, op: Operation) -> list[int]:
        """Joins the dimensions that are one index; returns those along which something happens."""
        values = _tensors_of(op)
        starts = [self.first[value] for value in values]
        shape = shape_of(op.results[0].type)
        if isinstance(op, kn.TransposeOp):
            for place, dim in enumerate(op.order):
                self.joined.union(starts[0] + dim, starts[1] + place)
            return []
        if isinstance(op, kn.BroadcastOp):
            for dim in range(len(shape)):
                self.joined.union(starts[0] + dim, starts[1] + dim)
            return []
        assert isinstance(op, HasTileIndices)  # as all others that register
        apart: list[int] = []
        numbered: set[int | None] = set()
        for index in op.tile_indices():
            sides = zip(starts, (*index.operands[: len(starts) - 1], index.result), strict=True)
            places = [start + dim for start, dim in sides if dim is not None]
            numbered.add(index.result)
            if index.kind is not IndexKind.PARALLEL or index.result is None:
                apart += places
            for place in places[1:]:
                self.joined.union(places[0], place)
        apart += [starts[-1] + dim for dim in range(len(shape)) if dim not in numbered]
        if isinstance(op, kn.MaskOp):
            apart += [starts[-1] + dim for dim in range(len(shape)) if op.depends_on(dim)]
        return apart

    def _with_names(self) -> list[int]:
        """The dimensions whose extents a call or memory says, or may say.

        What others than these operators make has such extents perhaps.
        """
        function = self.function
        if EXTENTS not in function.attributes and LENGTHS not in function.attributes:
            return []
        apart: list[int] = []
        for value, start in self.first.items():
            dims = range(len(shape_of(value.type)))
            if isinstance(value, BlockArgument):
                names = (
                    argument_names(function, value.index),
                    ends_of_argument(function, value.index),
                )
                apart += [start + dim for dim in dims if any(each[dim] for each in names)]
            elif isinstance(value.owner, Operation) and not _takes_part(value.owner):
                apart += [start + dim for dim in dims]
        return apart

    def indices(self, value: SSAValue) -> list[int]:
        """The index that each dimension of a tensor is."""
        start = self.first[value]
        return [self.joined[start + dim] for dim in range(len(shape_of(value.type)))]

    def pairs(self) -> set[Pair]:
        """The indices that become one: of products with more of them than there are axes."""
        wanted: set[Pair] = set()
        for op in self.operators:
            if not _has_too_many(op):
                continue
            own, leading = self.indices(op.results[0]), shape_of(op.results[0].type)[:-2]
            for dim, pair in enumerate(itertools.pairwise(leading)):
                if min(pair) > 1:
                    wanted.add((own[dim], own[dim + 1]))
        wanted = {pair for pair in wanted if self.kept.isdisjoint(pair)}
        return {pair for pair in wanted if all(self._goes(pair, value) for value in self.first)}

    def _goes(self, pair: Pair, value: SSAValue) -> bool:
        """Whether a tensor has both indices side by side, once, of all elements or of one, or none.

        One that is there already must have its elements at a single stride.
        """
        own = self.indices(value)
        counts = [own.count(index) for index in pair]
        if counts == [0, 0]:
            return True
        dim = own.index(pair[0]) if counts == [1, 1] else -1
        if dim < 0 or own[dim + 1 : dim + 2] != [pair[1]]:
            return False
        outer, inner = shape_of(value.type)[dim : dim + 2]
        if (outer == 1) != (inner == 1):
            return False
        owner = value.owner
        is_made = isinstance(owner, Operation) and _takes_part(owner)
        if is_made and layout_of(value.type) is None:
            return True
        strides = strides_in_memory(value)
        return strides is not None and (outer == 1 or strides[dim] == inner * strides[dim + 1])

    def runs(self, value: SSAValue, pairs: set[Pair]) -> Runs:
        """Which dimensions of a tensor become one."""
        own = self.indices(value)
        runs: list[list[int]] = []
        for dim, index in enumerate(own):
            if dim and (own[dim - 1], index) in pairs:
                runs[-1].append(dim)
            else:
                runs.append([dim])
        return runs


def _type_of(value: SSAValue, runs: Runs) -> Attribute:
    """The type of a tensor whose dimensions are folded so."""
    own = shape_of(value.type)
    shape = tuple(math.prod(own[dim] for dim in run) for run in runs)
    type_ = TensorType(element_type_of(value.type), shape)
    if layout_of(value.type) is None:
        return type_
    strides = strides_of(resolved_layout_of(value))
    return with_layout(type_, Layout(shape, tuple(strides[run[-1]] for run in runs)))


def leaves_no_axis(function: FuncOp) -> bool:
    """Whether a product of a function has more leading dimensions than a grid has axes for."""
    return any(map(_has_too_many, function.body.block.ops))


def fold_leading(function: FuncOp) -> bool:
    """Folds leading dimensions of products with too many; returns whether there are such.

    Only what is a view becomes one: no operator is added that copies.
    """
    if not leaves_no_axis(function):
        return False
    folding = _Folding(function)
    pairs = folding.pairs()
    if not pairs:
        return False
    now: dict[SSAValue, SSAValue] = {}
    """Tensors as folded ones."""

    def seen(value: SSAValue, before: Operation) -> SSAValue:
        if value not in folding.first:
            return value  # lengths
        runs = folding.runs(value, pairs)
        if len(runs) == len(shape_of(value.type)):
            return value
        if value not in now:
            view = kn.ReshapeOp(value, _type_of(value, runs))
            view.result.name_hint = value.name_hint
            Rewriter.insert_op(view, InsertPoint.before(before))
            now[value] = view.result
        return now[value]

    views: list[kn.ReshapeOp] = []
    for op in folding.operators:
        result = op.results[0]
        runs = folding.runs(result, pairs)
        if len(runs) == len(shape_of(result.type)):
            continue  # it has none of these indices
        operands = [seen(value, op) for value in op.operands]
        new = folded(op, operands, _type_of(result, runs), runs)
        assert new is not None  # it takes part
        views.append(apart := kn.ReshapeOp(new.results[0], result.type))
        new.results[0].name_hint = apart.result.name_hint = result.name_hint
        now[apart.result] = new.results[0]
        folding.first[apart.result] = folding.first[result]
        Rewriter.replace_op(op, [new, apart], [apart.result])
    for view in views:
        if view.result.first_use is None:
            Rewriter.erase_op(view)
    return True


class FoldLeadingPass(FunctionPass):
    """Makes leading dimensions of products one where there are more than a grid leaves axes for.

    A grid has three axes, and a product with three leading dimensions leaves none for its rows.
    Dimensions become one if all operators treat them alike: none reduces, cuts, joins or moves one
    without the other, no mask looks at them, and each tensor has both, one right behind the other
    in memory, or one element along both.  Operators that are made of others keep what they have:
    ``--decompose-program="kernels=true"`` comes first.  Arguments and results keep their extents;
    views lie between.  ``--fuse-kernels`` takes programs so where that takes less time.

    Before::

        %s = kn.matmul %q, %k
            : (tensor<4x2x3x512x64xf16>, tensor<4x2x3x64x512xf16>) -> tensor<4x2x3x512x512xf16>

    After::

        %0 = kn.reshape %q : tensor<4x2x3x512x64xf16> -> tensor<24x512x64xf16>
        %1 = kn.reshape %k : tensor<4x2x3x64x512xf16> -> tensor<24x64x512xf16>
        %2 = kn.matmul %0, %1
            : (tensor<24x512x64xf16>, tensor<24x64x512xf16>) -> tensor<24x512x512xf16>
        %s = kn.reshape %2 : tensor<24x512x512xf16> -> tensor<4x2x3x512x512xf16>
    """

    name = "fold-leading"

    def run(self, function: FuncOp) -> None:
        """Folds in a µGraph."""
        fold_leading(function)
