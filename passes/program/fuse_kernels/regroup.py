"""A group of operators with views among them, written on tensors whose dimensions are atoms.

All tensors of the group get as many dimensions, so that an atom has one place in what operators
number together.  A tensor has one element along an atom that it lacks.  Views are then left at the
edges of the group only, where they cost nothing::

    matmul [m, k] · [k, h * d], reshape to [m, h, d], a product with [m, 1, d]

    becomes  matmul [1, m, k] · [h, k, d], a product with [1, m, d], seen as [m, h, d]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import singledispatch

from xdsl.dialects.builtin import TensorType, f32, i32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.kn.reshape import strides_of_reshaped
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import (
    element_type_of,
    layout_of,
    op_label,
    resolved_layout_of,
    row_major_strides,
    shape_of,
    strides_of,
    value_label,
)
from mugraph.passes.program.fuse_kernels.atoms import Atom, Atoms
from mugraph.passes.program.fuse_kernels.errors import NotFusedError
from mugraph.passes.program.fuse_kernels.part import Part, block_of
from mugraph.passes.program.fuse_kernels.places import Places, Tensor, depth_of, places_of


class Regrouping:
    """Writes operators anew, on tensors whose dimensions are atoms."""

    def __init__(self, operators: Sequence[Operation], loaded: Sequence[SSAValue]) -> None:
        self.atoms = Atoms.of(operators)
        self.places = places_of(operators, self.atoms)
        taken = (-place for places in self.places.values() for place in places.values())
        # Tensors from outside keep dimensions of one element that all of them have: without views.
        fewest = min((len(shape_of(value.type)) for value in loaded), default=1)
        self.rank = max(*taken, fewest, 1)
        if any(isinstance(op, kn.MatmulOp) for op in operators):
            self.rank = max(self.rank, 2)
        self.block = block_of(loaded)
        self.arguments = dict(zip(loaded, self.block.args, strict=True))
        self.views: list[Operation] = []
        self.known: dict[Hashable, SSAValue] = {}
        """The results of views, by what they are views of, and how."""
        self.operators: list[Operation] = []
        self.values: dict[SSAValue, SSAValue] = {}
        self.types: dict[SSAValue, Attribute] = {}
        """Of results that are stored: with the layout that makes views of them those results."""

    def write(self, operators: Sequence[Operation], stored: Sequence[SSAValue]) -> Part:
        """The operators, and before and after them views."""
        for value in stored:
            type_ = self.stored_type(value)
            if self.types.setdefault(self.computed(value), type_) != type_:
                raise NotFusedError(
                    f"two views need {value_label(value)} stored in different layouts"
                )
        for op in operators:
            (result,) = op.results
            operands = [
                self.values[value] if value in self.values else self.loaded(value, op)
                for value in op.operands
            ]
            self.values[result] = rewritten(op, operands, self)
            self.values[result].name_hint = result.name_hint
        before, self.views = _used(self.views), []
        self.known.clear()
        results = [self.seen(value) for value in stored]
        self.block.add_ops([*before, *self.operators, *self.views, ReturnOp(*results)])
        made = dict.fromkeys(self.values[value] for value in stored)
        return Part(self.block, self.operators, [*made])

    def add(self, op: Operation) -> SSAValue:
        """Appends an operator; its result."""
        self.operators.append(op)
        return op.results[0]

    def places_in(self, value: SSAValue, user: Operation | None = None) -> Places:
        """The places of a tensor's atoms; of a loaded one by its user."""
        key: Tensor = (value, None if (value, None) in self.places else user)
        return self.places[key]

    def shape(self, atoms: Places) -> list[int]:
        """The extents of a tensor with some atoms."""
        extents = [1] * self.rank
        for atom, place in atoms.items():
            extents[place] = atom.extent
        return extents

    def dim(self, value: SSAValue, dim: int, user: Operation) -> int:
        """What one dimension of a tensor has become."""
        row = self.atoms.dims(value)[dim]
        if len(row) != 1:
            raise NotFusedError(
                f"{op_label(user)} runs along a dimension that a view splits or that has one "
                "element"
            )
        return self.rank + self.places_in(value, user)[row[0]]

    def type_of(self, result: SSAValue) -> Attribute:
        """The type that a result gets."""
        if result in self.types:
            return self.types[result]
        return TensorType(element_type_of(result.type), self.shape(self.places_in(result)))

    def loaded(self, value: SSAValue, user: Operation) -> SSAValue:
        """A tensor from outside with its atoms in their places."""
        places = self.places_in(value, user)
        row = self.atoms.all(value)
        seen = self.arguments[value]
        if layout_of(value.type) is not None:
            strides = strides_of(resolved_layout_of(value))
            if strides_of_reshaped(shape_of(value.type), strides, _extents(row)) is None:
                raise NotFusedError(
                    f"the layout of {value_label(value)} allows no view of its parts"
                )
        shape, order = self.shape(places), _order(row, places, self.rank)
        if order == sorted(order):
            return self.view(seen, shape)
        seen = self.view(seen, [1] * (self.rank - len(row)) + _extents(row))
        # Where each dimension comes from.
        return self.transposed(seen, [order.index(dim) for dim in range(self.rank)])

    def list_of(self, value: SSAValue, user: Operation) -> SSAValue:
        """A list of numbers from outside, which keeps its one dimension."""
        if value not in self.arguments:
            raise NotFusedError(
                f"{op_label(user)} reads lengths from memory, and the same kernel would "
                "compute them"
            )
        return self.arguments[value]

    def view(
        self, value: SSAValue, shape: Sequence[int], type_: Attribute | None = None
    ) -> SSAValue:
        """A tensor's elements in the same order under other extents."""
        type_ = type_ or TensorType(element_type_of(value.type), shape)
        if list(shape_of(value.type)) == list(shape):
            return value
        return self._seen(value, type_, lambda: kn.ReshapeOp(value, type_))

    def transposed(
        self, value: SSAValue, order: Sequence[int], type_: Attribute | None = None
    ) -> SSAValue:
        """A tensor with its dimensions in another order."""
        return self._seen(value, (type_, *order), lambda: kn.TransposeOp(value, order, type_))

    def _seen(self, value: SSAValue, how: Hashable, make: Callable[[], Operation]) -> SSAValue:
        """The result of a view, which is there once."""
        if (value, how) not in self.known:
            op = make()
            op.results[0].name_hint = value.name_hint
            self.views.append(op)
            self.known[value, how] = op.results[0]
        return self.known[value, how]

    def computed(self, value: SSAValue) -> SSAValue:
        """What an operator computes that a tensor is a view of, with all its elements."""
        op = value.owner
        if isinstance(op, (kn.ReshapeOp, kn.TransposeOp)) and (value, None) in self.places:
            return self.computed(op.input)
        return value

    def stored_type(self, value: SSAValue) -> Attribute:
        """The type of a result of which a view is stored."""
        places, row = self.places_in(value), self.atoms.all(value)
        shape, own = self.shape(places), shape_of(value.type)
        order = _order(row, places, self.rank)
        is_in_order = order == sorted(order)
        if list(own) == shape and is_in_order:
            return value.type
        if layout_of(value.type) is None:
            if is_in_order:
                return TensorType(element_type_of(value.type), shape)
            outer = row_major_strides(own)
        else:
            outer = strides_of(resolved_layout_of(value))
        strides = strides_of_reshaped(own, outer, _extents(row))
        if strides is None:
            raise NotFusedError(f"the layout of {value_label(value)} cannot be stored in parts")
        placed = [math.prod(own)] * self.rank
        for atom, stride in zip(row, strides, strict=True):
            placed[places[atom]] = stride
        layout = Layout(tuple(shape), tuple(placed))
        return TensorType(element_type_of(value.type), shape, LayoutAttr(layout))

    def seen(self, value: SSAValue) -> SSAValue:
        """A stored result as it is outside."""
        row = self.atoms.all(value)
        order = _order(row, self.places_in(value), self.rank)
        new, own = self.values[value], shape_of(value.type)
        if order != sorted(order):
            extents = [shape_of(new.type)[dim] for dim in order]
            new = self.transposed(new, order, value.type if extents == [*own] else None)
        return self.view(new, own, value.type)


def _used(views: Sequence[Operation]) -> list[Operation]:
    """Views but for those that nothing uses: lists of lengths keep their one dimension."""
    kept: list[Operation] = []
    for op in reversed(views):
        if any(result.uses for result in op.results):
            kept.insert(0, op)
        else:
            op.erase()
    return kept


def is_view(op: Operation) -> bool:
    """Whether an operator of a group is a change of indices, or sees a part of a tensor.

    In a group it is no operator on tiles, or a slice.
    """
    return isinstance(op, (kn.ReshapeOp, kn.TransposeOp)) or (
        isinstance(op, kn.ViewOp) and op.part_start() is not None
    )


def part_of(
    operators: Sequence[Operation], loaded: Sequence[SSAValue], stored: Sequence[SSAValue]
) -> Part:
    """Operators alone; views are left before and after them only.

    Raises :class:`NotFusedError` where views do not go together.
    """
    if any(map(is_view, operators)):
        return Regrouping(operators, loaded).write(operators, stored)
    return Part.of(operators, loaded, stored)


@singledispatch
def rewritten(op: Operation, operands: Sequence[SSAValue], group: Regrouping) -> SSAValue:
    """What an operator computes, of operands whose dimensions are atoms.

    Operators that may stand in a group with views register a function.
    """
    raise NotFusedError(f"{op_label(op)} cannot share a kernel with views")


@rewritten.register
def _(op: kn.ElementwiseOp, operands: Sequence[SSAValue], group: Regrouping) -> SSAValue:
    new = op.clone(dict(zip(op.operands, operands, strict=True)))
    Rewriter.replace_value_with_new_type(new.result, group.type_of(op.result))
    return group.add(new)


@rewritten.register
def _(op: kn.MaskOp, operands: Sequence[SSAValue], group: Regrouping) -> SSAValue:
    places, rows = group.places_in(op.result), group.atoms.dims(op.result)
    forms: list[LinearForm] = []
    for form in op.forms():
        steps = [0] * group.rank
        for row, step in zip(rows, form.coefficients, strict=False):
            for atom in reversed(row):
                steps[group.rank + places[atom]] = step
                step *= atom.extent
        steps += form.coefficients[len(rows) :]
        forms.append(LinearForm(tuple(steps), form.constant))
    lengths = [group.list_of(length, op) for length in op.lengths]
    per = [dim if dim < 0 else group.dim(op.result, dim, op) for dim in op.dims_of_lengths]
    type_ = group.type_of(op.result)
    return group.add(kn.MaskOp(operands[0], forms, op.constant, type_, lengths, op.largest, per))


@rewritten.register
def _(op: kn.ReductionOp, operands: Sequence[SSAValue], group: Regrouping) -> SSAValue:
    if shape_of(op.result.type)[op.reduced_dim] != 1:
        raise NotFusedError(f"{op_label(op)} reduces to more than one element a row")
    (value,) = operands
    places = group.places_in(op.input, op)
    row = group.atoms.dims(op.input)[op.reduced_dim]
    if not row:
        raise NotFusedError(f"{op_label(op)} reduces a dimension of one element")
    outermost, *others = row
    for atom in reversed(others):
        shape = list(shape_of(value.type))
        shape[places[atom]] = 1
        dim = group.rank + places[atom]
        value = group.add(kn.ReductionOp(value, dim, TensorType(f32, shape), op.combination))
    dim = group.rank + places[outermost]
    return group.add(kn.ReductionOp(value, dim, group.type_of(op.result), op.combination))


@rewritten.register
def _(op: kn.ScanOp, operands: Sequence[SSAValue], group: Regrouping) -> SSAValue:
    dim = group.dim(op.input, op.reduced_dim, op)
    type_ = group.type_of(op.result)
    return group.add(kn.ScanOp(operands[0], dim, type_, *operands[1:], exclusive=op.is_exclusive))


@rewritten.register
def _(op: kn.MatmulOp, operands: Sequence[SSAValue], group: Regrouping) -> SSAValue:
    type_ = group.type_of(op.result)
    _, others = depth_of(op, group.atoms)
    apart = group.shape(group.places[op.result, op]) if others else [*shape_of(type_)]
    if others and op.compute is not None:
        raise NotFusedError(f"{op_label(op)} has compute f16, which only cuBLAS does")
    leading = apart[:-2]
    factors: list[SSAValue] = []
    for value in operands:
        wanted = [*leading, *shape_of(value.type)[-2:]]
        if wanted != [*shape_of(value.type)]:
            value = group.add(
                kn.BroadcastOp(value, TensorType(element_type_of(value.type), wanted))
            )
        factors.append(value)
    new = op.clone(dict(zip(op.operands, factors, strict=True)))
    # Sums of several products are rounded once, at the end.
    wide = i32 if is_integer(element_type_of(op.lhs.type)) else f32
    Rewriter.replace_value_with_new_type(new.result, TensorType(wide, apart) if others else type_)
    value = group.add(new)
    for number, atom in enumerate(others, 1):
        place = group.places[op.result, op][atom]
        apart[place] = 1
        summed = type_ if number == len(others) else TensorType(wide, apart)
        value = group.add(kn.ReductionOp(value, group.rank + place, summed))
    return value


@rewritten.register
def _(op: kn.BroadcastOp, operands: Sequence[SSAValue], group: Regrouping) -> SSAValue:
    return group.add(kn.BroadcastOp(operands[0], group.type_of(op.result)))


def _slice(
    op: Operation, start: Sequence[int], operands: Sequence[SSAValue], group: Regrouping
) -> SSAValue:
    """The part of a tensor that has other extents where atoms differ."""
    (source,), (result,) = op.operands, op.results
    own, wanted = shape_of(source.type), shape_of(result.type)
    starts = [0] * group.rank
    for dim, first in enumerate(start):
        if own[dim] != wanted[dim]:
            starts[group.dim(source, dim, op)] = first
    return group.add(kn.SliceOp(operands[0], starts, group.type_of(result)))


@rewritten.register
def _(op: kn.SliceOp, operands: Sequence[SSAValue], group: Regrouping) -> SSAValue:
    ((_, _, start),) = op.moves()
    return _slice(op, start, operands, group)


@rewritten.register
def _(op: kn.ConcatOp, operands: Sequence[SSAValue], group: Regrouping) -> SSAValue:
    dim = group.dim(op.result, op.joined_dim, op)
    return group.add(kn.ConcatOp(operands, dim, group.type_of(op.result)))


@rewritten.register(kn.ReshapeOp)
@rewritten.register(kn.TransposeOp)
def _(op: Operation, operands: Sequence[SSAValue], group: Regrouping) -> SSAValue:
    return operands[0]


@rewritten.register
def _(op: kn.ViewOp, operands: Sequence[SSAValue], group: Regrouping) -> SSAValue:
    start = op.part_start()
    assert start is not None  # is_view has said so
    return _slice(op, start, operands, group)


def _extents(row: Sequence[Atom]) -> list[int]:
    return [atom.extent for atom in row]


def _order(row: Sequence[Atom], places: Places, rank: int) -> list[int]:
    """The dimensions of a tensor with its atoms in their places that make up the row.

    Those of one element stay where they are if no others move, and come first if some do.
    """
    own = [rank + places[atom] for atom in row]
    if own == sorted(own):
        return [*range(rank)]
    return [dim for dim in range(rank) if dim not in own] + own
