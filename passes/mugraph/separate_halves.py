"""``--separate-halves``: what rotates halves of heads keeps each of them in tiles of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.functions import mugraphs_of
from mugraph.dialects.interfaces import AdaptsToTiles, HasTileIndices, IndexKind
from mugraph.dialects.kn import CustomizedOp, ViewOp
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.named_extents import buckets_of
from mugraph.dialects.tensor_types import (
    element_type_of,
    layout_of,
    row_major_strides,
    shape_of,
)
from mugraph.dialects.windows import Mode, Windows
from mugraph.passes.each import TargetPass
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.mugraph.plan.early import brings_mostly_weights, has_weights, weights_of
from mugraph.passes.targets import Target


def is_of_halves(op: Operation) -> TypeGuard[tb.SplitOp | tb.ConcatOp]:
    """Analysis: whether an operator splits a tile into two halves of its last dimension, or joins
    two such halves to one."""
    if not isinstance(op, tb.SplitOp | tb.ConcatOp):
        return False
    whole, parts = whole_and_parts(op)
    extents = [shape_of(part.type)[-1] for part in parts]
    last = len(shape_of(whole.type)) - 1
    return op.moved_dim == last and len(extents) == 2 and extents[0] == extents[1]


def whole_and_parts(op: tb.SplitOp | tb.ConcatOp) -> tuple[SSAValue, tuple[SSAValue, ...]]:
    """The tile that an operator takes apart or puts together, and its parts."""
    if isinstance(op, tb.SplitOp):
        return op.input, tuple(op.parts)
    return op.result, tuple(op.inputs)


def row_major(shape: Sequence[int]) -> Layout:
    """The layout of a tensor without gaps."""
    return Layout(tuple(shape), row_major_strides(shape))


def says_where_tiles_lie(op: Operation) -> bool:
    """Analysis: whether an operator has extents or places of its tiles beside their types."""
    return isinstance(op, AdaptsToTiles | tb.MaskOp)


def halved_with(value: SSAValue, op: Operation) -> list[SSAValue] | None:
    """Analysis: which tiles of an operator must be halved along their last dimension with one.

    ``None`` where the operator cannot take halves of it.
    """
    last = len(shape_of(value.type)) - 1
    if is_of_halves(op):
        return [] if whole_and_parts(op)[0] is value else None
    if isinstance(op, tb.InputOp):
        plain = op.through is None and op.windows is None and not op.ends
        return [] if plain and last not in (*op.map_, op.loop_dim) else None
    if isinstance(op, tb.OutputOp):
        shape = op.dtensor_type.get_shape()
        row = last > 0 and shape[last - 1] == 1 and layout_of(op.dtensor_type) == row_major(shape)
        free = last not in (*op.map_, op.loop_dim) and not op.ends and op.through is None
        return [] if row and free else None
    if not isinstance(op, HasTileIndices) or len(op.results) != 1 or says_where_tiles_lie(op):
        return None
    along = [index for index in op.tile_indices() if (value, last) in op.places(index)]
    if len(along) != 1 or along[0].kind is not IndexKind.PARALLEL:
        return None
    places = op.places(along[0])
    at_end = all(dim == len(shape_of(other.type)) - 1 for other, dim in places)
    return [other for other, _ in places] if at_end else None


def halved_in(graph: CustomizedOp) -> set[SSAValue] | None:
    """Analysis: the tiles of a kernel that must be halved where it takes halves apart.

    ``None`` where it takes none, or something needs a whole one.
    """
    pairs = [whole_and_parts(op) for op in graph.body.block.ops if is_of_halves(op)]
    todo = [whole for whole, _ in pairs]
    parts = {part for _, halves in pairs for part in halves}
    found: set[SSAValue] = set()
    while todo:
        value = todo.pop()
        if value in found:
            continue
        found.add(value)
        owner = value.owner
        assert isinstance(owner, Operation)  # as tiles of operators are
        for op in (owner, *(use.operation for use in value.uses)):
            more = halved_with(value, op)
            if more is None:
                return None
            todo += more
    same = len({shape_of(value.type)[-1] for value in found}) == 1
    return found if same and not found & parts else None


def half_of(type_: Attribute) -> tb.STensorType:
    """The type of half a tile."""
    *others, last = shape_of(type_)
    return tb.STensorType((*others, last // 2), element_type_of(type_))


@dataclass
class Separation:
    """Rewrite: the body of a kernel with two tiles in place of each that is halved."""

    halved: set[SSAValue]
    body: Block
    made: dict[SSAValue, tuple[SSAValue, ...]] = field(
        default_factory=dict[SSAValue, tuple[SSAValue, ...]]
    )
    types: list[TensorType[Attribute]] = field(default_factory=list[TensorType[Attribute]])
    """Of the results."""

    def add(self, op: Operation) -> None:
        """The operator, once or for each half."""
        if is_of_halves(op):
            whole, parts = whole_and_parts(op)
            if isinstance(op, tb.SplitOp):
                self.made.update((p, (h,)) for p, h in zip(parts, self.made[whole], strict=True))
            else:
                self.made[whole] = tuple(self.made[part][0] for part in parts)
        elif isinstance(op, tb.OutputOp):
            self.store(op)
        elif self.halved.isdisjoint((*op.operands, *op.results)):
            self.copy(op, 0)
        else:
            copies = [self.half(op, number) for number in range(2)]
            for result, *halves in zip(op.results, *(each.results for each in copies), strict=True):
                self.made[result] = tuple(halves)

    def copy(self, op: Operation, number: int) -> Operation:
        """A copy that reads the halves of this number."""
        values = {
            each: self.made[each][min(number, len(self.made[each]) - 1)] for each in op.operands
        }
        copy = op.clone(values)
        self.body.add_op(copy)
        self.made.update((old, (new,)) for old, new in zip(op.results, copy.results, strict=True))
        return copy

    def half(self, op: Operation, number: int) -> Operation:
        """A copy that computes the half of this number."""
        if isinstance(op, tb.InputOp):
            argument = self.made[op.dtensor][0]
            windows = half_windows(shape_of(argument.type), number)
            type_ = half_of(op.result.type)
            copy = tb.InputOp(argument, op.map_, op.loop_dim, type_, windows=windows)
            copy.result.name_hint = op.result.name_hint
            self.body.add_op(copy)
            return copy
        copy = self.copy(op, number)
        for result in copy.results:
            Rewriter.replace_value_with_new_type(result, half_of(result.type))
        return copy

    def store(self, op: tb.OutputOp) -> None:
        """The output; of halves one above the other, in the place of the one row."""
        tiles, type_ = self.made[op.stensor], op.dtensor_type
        (tile, *_) = tiles
        if len(tiles) > 1:
            *others, row, last = shape_of(tile.type)
            whole = tb.STensorType((*others, 2 * row, last), element_type_of(tile.type))
            joined = tb.ConcatOp(tiles, len(others), whole)
            self.body.add_op(joined)
            tile = joined.result
            *outer, row, last = type_.get_shape()
            shape = (*outer, 2 * row, last // 2)
            layout = LayoutAttr(row_major(shape))
            type_ = TensorType(type_.get_element_type(), shape, layout)
        self.types.append(type_)
        through = None if op.through is None else self.made[op.through][0]
        self.body.add_op(tb.OutputOp(tile, op.map_, type_, op.loop_dim, op.ends, through))


def half_windows(shape: tuple[int, ...], number: int) -> Windows:
    """The first or the second half of a tensor along its last dimension."""
    *others, last = shape
    modes = [(Mode(extent, dim, 1),) for dim, extent in enumerate((*others, last // 2))]
    return Windows(tuple(modes), (*(0 for _ in others), number * last // 2))


def separate_halves(graph: CustomizedOp, halved: set[SSAValue]) -> None:
    """Rewrite: lets a kernel keep the two halves of each of these tiles apart."""
    old = graph.body.block
    body = Block(arg_types=[argument.type for argument in old.args])
    separation = Separation(halved, body)
    for argument, own in zip(old.args, body.args, strict=True):
        own.name_hint = argument.name_hint
        separation.made[argument] = (own,)
    for op in old.ops:
        separation.add(op)
    new = CustomizedOp(
        graph.inputs, separation.types, graph.grid_dim, graph.block_dim, graph.forloop_range, body,
        graph.decided, graph.held_lengths,
    )  # fmt: skip
    new.interleaved = graph.interleaved
    results: list[SSAValue] = []
    views: list[Operation] = []
    for made, was in zip(new.outputs, graph.outputs, strict=True):
        if made.type != was.type:
            views.append(view := ViewOp(made, was.type))
            results.append(view.result)
        else:
            results.append(made)
    Rewriter.replace_op(graph, [new, *views], results)


def should_separate(graph: CustomizedOp, target: Target) -> bool:
    """Choice: whether blocks of parts of heads could have all their weights before they wait.

    Those of whole heads could not: halves of all multiprocessors together have room for the
    weights, as ``holds_weights`` of :mod:`~mugraph.passes.mugraph.plan.early` asks for, and the
    kernel's blocks have none.
    """
    if not (has_weights(graph) and brings_mostly_weights(graph)) or graph.decided.cuts():
        return False
    if not target.has_programmatic_launch:
        return False
    room, blocks = target.shared_memory_per_block, math.prod(graph.grid_dim)
    most = target.shared_memory_per_multiprocessor // 2 * target.multiprocessors
    needed = room * blocks < weights_of(graph) <= most
    return graph.decided.tiles is None and needed


class SeparateHalvesPass(TargetPass):
    """Lets kernels with a rotary embedding cut the halves of a head.

    A rotary embedding takes the two halves of a head apart, so a block needs whole heads. The pass
    turns each tile of whole heads into two tiles, one for each half: tensors are loaded as windows,
    and operators are applied to each half. In the result, which has one row, the halves lie one
    after the other, in the same memory. The pass changes programs with weights, on GPUs with PDL,
    if blocks of whole heads have no room for all their weights and blocks of parts of halves do:
    ``--plan`` then leaves the depth undivided, so no kernel adds up parts. If an operator needs
    whole heads, such as a norm or a mask, the kernel stays unchanged.

    Before: ``%s = tb.forloop_accum none %m``, ``%a, %b = tb.split %s dim 2``

    After: ``%a = tb.forloop_accum none %m1``, ``%b = tb.forloop_accum none %m2``
    """

    name = "separate-halves"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites the kernels of the module."""
        target = self.target
        for function in mugraphs_of(op):
            for bucket in buckets_of(op, function):
                for graph in custom_kernels(bucket):
                    halved = halved_in(graph) if should_separate(graph, target) else None
                    if halved:
                        separate_halves(graph, halved)
