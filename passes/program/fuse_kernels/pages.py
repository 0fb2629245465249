"""Loops over what rows that are looked up make together walk along the rows: pages of a cache.

A program gathers the pages of a sequence, and sees them side by side: ``[batch, pages, heads, page,
d]`` becomes ``[batch, heads, pages * page, d]``.  A kernel whose loop walks along ``pages * page``
is written anew with both as dimensions of their own, a page an iteration.  What it loads is then
what is gathered, which it can read where it lies
(:mod:`~mugraph.passes.program.fuse_kernels.rows`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AffineSetAttr, IntegerAttr, TensorType, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import kn, tb
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.linear_forms import LinearForm, forms_of, set_of
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import (
    element_type_of,
    layout_of,
    resolved_layout_of,
    shape_of,
    strides_of,
)
from mugraph.passes.mugraph.retile.dimensions import find_dimensions

SHORTEST_PAGE = 16
"""Elements of a page, which is the loop's tile, along what is multiplied at least."""


Factors = tuple[tuple[int, ...], ...]
"""Of each dimension of a view the dimensions of what it is a view of, outermost first."""


def factors_of(value: SSAValue) -> tuple[kn.GatherOp, Factors] | None:
    """The rows that are looked up of which a tensor is a view, and how; ``None`` for others.

    Dimensions of one element are made of none.
    """
    op = value.owner
    if isinstance(op, kn.GatherOp):
        extents = shape_of(value.type)
        return op, tuple((dim,) if extent > 1 else () for dim, extent in enumerate(extents))
    if not isinstance(op, (kn.TransposeOp, kn.ReshapeOp)):
        return None
    found = factors_of(op.input)
    if found is None:
        return None
    gather, own = found
    if isinstance(op, kn.TransposeOp):
        return gather, tuple(own[dim] for dim in op.order)
    left, extents = [dim for dims in own for dim in dims], shape_of(gather.result.type)
    dims: list[tuple[int, ...]] = []
    for extent in shape_of(value.type):
        taken: list[int] = []
        while left and math.prod(extents[dim] for dim in taken) < extent:
            taken.append(left.pop(0))
        if math.prod(extents[dim] for dim in taken) != extent:
            return None
        dims.append(tuple(taken))
    return gather, tuple(dims)


@dataclass(frozen=True)
class Pages:
    """A dimension of rows that are looked up beside each other, and of what each has."""

    place: int
    """Where the new dimension, of pages, comes."""
    count: int
    size: int
    """Elements of a page."""


@dataclass(frozen=True)
class Paged:
    """An operand that consists of pages."""

    gather: kn.GatherOp
    factors: Factors
    joined: int
    """The dimension that is both."""
    pages: Pages


def paged(value: SSAValue) -> Paged | None:
    """A tensor as one of pages; ``None`` where it is none.

    The other numbers of pages, as those of a sequence of a batch, are its first dimensions.
    """
    found = factors_of(value)
    if found is None:
        return None
    gather, factors = found
    last = len(shape_of(gather.rows.type)) - 1
    joined = [dim for dim, own in enumerate(factors) if last in own]
    if len(joined) != 1 or any(
        len(own) > 1 for dim, own in enumerate(factors) if dim not in joined
    ):
        return None
    (dim,) = joined
    extents, own = shape_of(gather.result.type), factors[dim]
    is_page = len(own) == 2 and own[0] == last and own[1] > last
    if not is_page or extents[own[1]] < SHORTEST_PAGE or element_type_of(gather.rows.type) != i32:
        return None
    before = [each for each in factors[:last] if each]
    if dim < last or before != [(each,) for each in range(last) if extents[each] > 1]:
        return None
    return Paged(gather, factors, dim, Pages(last, extents[last], extents[own[1]]))


class _Splitting:
    """Writes a kernel anew whose loop walks along pages."""

    def __init__(self, graph: kn.CustomizedOp, operands: dict[int, Paged]) -> None:
        self.graph = graph
        self.operands = operands
        self.pages = next(iter(operands.values())).pages
        self.space = find_dimensions(graph)
        first = min(operands)
        load = inputs_of_argument(graph, first)[0]
        self.looped = self.space.numbers[load.result][load.loop_dim]
        self.point = InsertPoint.before(graph)

    def at(self, dim: int) -> int:
        """Where a dimension is once there is one more."""
        return dim if dim < self.pages.place else dim + 1

    def map_(self, map_: Sequence[int]) -> list[int]:
        """A map with one dimension more."""
        return [self.at(dim) for dim in map_]

    def shape(self, extents: Sequence[int]) -> list[int]:
        """Extents with one more, of one element."""
        return [*extents[: self.pages.place], 1, *extents[self.pages.place :]]

    def tile(self, value: SSAValue) -> tb.STensorType:
        """The type of a tile: of a page where it had some elements of the loop's."""
        extents = [
            self.pages.size if number is not None and number == self.looped else extent
            for number, extent in zip(self.space.numbers[value], shape_of(value.type), strict=True)
        ]
        return tb.STensorType(self.shape(extents), element_type_of(value.type))

    def outside(self, index: int) -> SSAValue:
        """The tensor that an operand becomes."""
        value = self.graph.inputs[index]
        if index in self.operands:
            return self.gathered(self.operands[index])
        loads = inputs_of_argument(self.graph, index)
        if not loads:
            return value  # it holds lengths
        extents = list(shape_of(value.type))
        dim = loads[0].loop_dim
        if dim < 0:
            return self.view(value, self.shape(extents))
        # Along the loop it falls into pages, too.
        split = [*extents[:dim], self.pages.count, self.pages.size, *extents[dim + 1 :]]
        order = [each for each in range(len(split)) if each != dim]
        order.insert(self.pages.place, dim)
        return self.transposed(self.view(value, split), order)

    def gathered(self, operand: Paged) -> SSAValue:
        """What is gathered, in the order of an operand's dimensions."""
        gather, place = operand.gather, self.pages.place
        rows = [own[-1] for own in operand.factors[place:] if own]
        own = len(shape_of(gather.table.type))
        moved = [dim - place for dim in rows]  # numbers have one dimension in a table
        single = [dim for dim in range(1, own) if dim not in moved]
        table = self.transposed(gather.table, [0, *single, *moved])
        extents = [shape_of(gather.result.type)[own[-1]] if own else 1 for own in operand.factors]
        table = self.view(table, [shape_of(table.type)[0], *extents[place:]])
        numbers = self.view(gather.rows, [*extents[:place], self.pages.count])
        new = kn.GatherOp(table, numbers)
        new.result.name_hint = gather.result.name_hint
        Rewriter.insert_op(new, self.point)
        return new.result

    def view(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """A tensor under other extents."""
        if list(shape_of(value.type)) == list(shape):
            return value
        op = kn.ReshapeOp(value, TensorType(element_type_of(value.type), shape))
        Rewriter.insert_op(op, self.point)
        return op.result

    def transposed(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """A tensor with its dimensions in another order."""
        if list(order) == sorted(order):
            return value
        op = kn.TransposeOp(value, order)
        Rewriter.insert_op(op, self.point)
        return op.result

    def write(self) -> None:
        """Puts the new kernel in the place of the old one."""
        graph, block = self.graph, Block()
        operands = [self.outside(index) for index in range(len(graph.inputs))]
        values: dict[SSAValue, SSAValue] = {}
        for old, operand in zip(graph.body.block.args, operands, strict=True):
            argument = block.insert_arg(operand.type, len(block.args))
            argument.name_hint = old.name_hint
            values[old] = argument
        types: list[Attribute] = []
        for op in graph.body.block.ops:
            if isinstance(op, tb.InputOp):
                dim = -1 if op.loop_dim < 0 else self.pages.place
                new = tb.InputOp(values[op.dtensor], self.map_(op.map_), dim, self.tile(op.result))
                new.result.name_hint = op.result.name_hint
                values[op.result] = new.result
            elif isinstance(op, tb.OutputOp):
                types.append(self.stored(op.dtensor))
                new = tb.OutputOp(values[op.stensor], self.map_(op.map_), types[-1])
            else:
                wanted = [self.tile(result) for result in op.results]
                new = op.clone(values)
                for result, type_ in zip(new.results, wanted, strict=True):
                    Rewriter.replace_value_with_new_type(result, type_)
                values.update(zip(op.results, new.results, strict=True))
                if isinstance(new, (tb.ReductionOp, tb.ReductionMaxOp)):
                    new.dim = IntegerAttr(self.at(new.reduced_dim), i64)
                if isinstance(op, tb.MaskOp) and isinstance(new, tb.MaskOp):
                    self.mask(op, new)
            block.add_op(new)
        kernel = kn.CustomizedOp(
            *(operands, types, graph.grid_dim, graph.block_dim, self.pages.count, block),
            *(graph.decided, graph.held_lengths),
        )
        kernel.attributes |= graph.attributes
        kernel.location = graph.location
        Rewriter.insert_op(kernel, self.point)
        for old, new_result in zip(graph.results, kernel.results, strict=True):
            back = kn.ReshapeOp(new_result, old.type)
            back.result.name_hint = old.name_hint
            Rewriter.insert_op(back, self.point)
            old.replace_all_uses_with(back.result)
        Rewriter.erase_op(graph)

    def mask(self, old: tb.MaskOp, new: tb.MaskOp) -> None:
        """Lets a mask's condition be on pages and places in them."""
        if old.condition is None:
            return
        extents, dim, place = list(old.slicing().shape), old.loop_dim, self.pages.place
        forms: list[LinearForm] = []
        for form in forms_of(old.condition.data):
            steps = list(form.coefficients)
            steps.insert(place, self.pages.size * steps[dim] if dim >= 0 else 0)
            forms.append(LinearForm(tuple(steps), form.constant))
        extents.insert(place, 1 if dim < 0 else self.pages.count)
        if dim >= 0:
            extents[self.at(dim)] = self.pages.size
        new.condition = AffineSetAttr(set_of(forms, len(extents)))
        new.cover(extents)
        new.lie(self.map_(old.map_), -1 if dim < 0 else place)

    def stored(self, result: SSAValue) -> TensorType[Attribute]:
        """The type of a result with one more dimension, of which the old one is a view."""
        shape, element = self.shape(shape_of(result.type)), element_type_of(result.type)
        if layout_of(result.type) is None:
            return TensorType(element, shape)
        strides = list(strides_of(resolved_layout_of(result)))
        strides.insert(self.pages.place, math.prod(shape))
        return TensorType(element, shape, LayoutAttr(Layout(tuple(shape), tuple(strides))))


def inputs_of_argument(graph: kn.CustomizedOp, index: int) -> list[tb.InputOp]:
    """The loads of an operand's tiles."""
    uses = [use.operation for use in graph.body.block.args[index].uses]
    return [op for op in uses if isinstance(op, tb.InputOp)]


MOVED = (
    tb.InputOp,
    tb.OutputOp,
    tb.MatmulOp,
    tb.ElementwiseOp,
    tb.ReductionOp,
    tb.ReductionMaxOp,
    tb.ForloopAccumOp,
    tb.ForloopAccumRescaleOp,
)
"""What stays the same operator on tiles of one more dimension, but for dimensions that it names."""


def operands_in_pages(graph: kn.CustomizedOp) -> dict[int, Paged]:
    """Choice: the operands along whose pages the kernel's loop shall go; none where it cannot."""
    found = {index: paged(value) for index, value in enumerate(graph.inputs)}
    operands = {index: each for index, each in found.items() if each is not None}
    if not operands or len({each.pages for each in operands.values()}) > 1:
        return {}
    rank = {len(each.factors) for each in operands.values()}
    for op in graph.body.block.ops:
        values = (*op.operands, *op.results)
        tiles = [value for value in values if isinstance(value.type, tb.STensorType)]
        if not isinstance(op, MOVED) or {len(shape_of(tile.type)) for tile in tiles} - rank:
            return {}
        if isinstance(op, tb.OutputOp) and (op.loop_dim >= 0 or op.through is not None):
            return {}
        if isinstance(op, tb.InputOp):
            arguments: list[SSAValue] = [*graph.body.block.args]
            index = arguments.index(op.dtensor)
            loads = inputs_of_argument(graph, index)
            if op.through is not None or op.windows or op.ends:
                return {}
            if any(load.loop_dim != op.loop_dim for load in loads):
                return {}
            if index in operands and op.loop_dim != operands[index].joined:
                return {}
    return operands


def walk_along_pages(function: FuncOp) -> None:
    """Lets loops along rows that are looked up go from one row to the next."""
    for graph in list(function.body.block.ops):
        if isinstance(graph, kn.CustomizedOp):
            operands = operands_in_pages(graph)
            seen = [graph.inputs[index] for index in operands]
            if operands:
                _Splitting(graph, operands).write()
            for value in dict.fromkeys(seen):
                _drop(value)


def _drop(value: SSAValue) -> None:
    """Leaves out what is gathered, and its views, where nothing uses them."""
    op = value.owner
    if isinstance(op, (kn.GatherOp, kn.TransposeOp, kn.ReshapeOp)) and not value.uses:
        source = op.operands[0]
        Rewriter.erase_op(op)
        _drop(source)
