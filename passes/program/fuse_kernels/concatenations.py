"""Computes of each part of a concatenation what is computed of the whole.

An element-wise function of a concatenation is one of each part, a sum or a maximum along the joined
dimension combines those of the parts, a product over it is a sum of products, and what is cut out
of one part is cut out of it alone::

    softmax(concat(x, y))[:-1]  =  exp(x - m) / (sum of exp(x - m) + exp(y - m))
    m = max(max of x, y)

So no row is longer than the index that a kernel's loop walks, which goes along the longest part;
the others, which a block has whole, are computed beside the loop.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce, singledispatch

from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.transforms.dead_code_elimination import region_dce

from mugraph.dialects import kn
from mugraph.dialects.element_types import HALF_TYPES
from mugraph.dialects.kn.composite import Expansion
from mugraph.dialects.kn.compute import Computation
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.tensor_types import element_type_of, layout_of, shape_of

COMBINED_BY = {Combiner.SUM: "add", Combiner.MAX: "max"}
MOST_BESIDE = 1
"""Elements of a part beside the longest one."""


@dataclass(frozen=True)
class Parts:
    """Along which dimension of a tensor its parts stand one after the other."""

    dim: int
    extents: tuple[int, ...]

    @property
    def starts(self) -> list[int]:
        """Where each part begins."""
        return [*itertools.accumulate(self.extents, initial=0)][:-1]

    def at(self, dim: int) -> Parts:
        """The same parts along another dimension."""
        return replace(self, dim=dim)

    def type_of(self, value: SSAValue, place: int) -> TensorType[Attribute]:
        """The type of one part of a tensor."""
        shape = [*shape_of(value.type)]
        shape[self.dim] = self.extents[place]
        return TensorType(element_type_of(value.type), shape)


@dataclass
class Writer:
    """Writes operators of parts in the place of one of the whole."""

    of_value: Mapping[SSAValue, Sequence[SSAValue]]
    """The parts of tensors that are computed of parts."""
    steps: Expansion = field(default_factory=Expansion)

    def parts_of(self, value: SSAValue, parts: Parts) -> Sequence[SSAValue]:
        """A tensor's parts: itself, each time, where it has one element along the dimension."""
        if value in self.of_value:
            return self.of_value[value]
        shape = shape_of(value.type)
        if parts.dim < 0 or shape[parts.dim] == 1:
            return [value] * len(parts.extents)
        start = [0] * len(shape)
        found: list[SSAValue] = []
        for place, first in enumerate(parts.starts):
            start[parts.dim] = first
            found.append(self.steps.add(kn.SliceOp(value, start, parts.type_of(value, place))))
        return found

    def combined(self, function: str, results: Sequence[SSAValue], type_: Attribute) -> SSAValue:
        """What all parts give together, in a tensor of a type."""
        whole = reduce(lambda one, other: self.steps.apply(function, one, other), results)
        return whole if whole.type == type_ else self.steps.add(kn.CastOp(whole, type_))


@dataclass(frozen=True)
class Step:
    """How an operator is computed of parts."""

    parts: Parts | None
    """Those of its result; ``None`` where that is whole."""
    write: Callable[[Writer], Sequence[SSAValue]]
    """Writes it; the parts of the result, or the result."""


Known = Mapping[SSAValue, Parts]


@singledispatch
def step_of(op: Operation, known: Known) -> Step | None:
    """Analysis: how an operator is computed of the parts of its operands.

    ``None`` where it needs one of them as a whole.
    """
    return None


def _each(
    op: Operation, parts: Parts, write: Callable[[Writer, int, TensorType[Attribute]], Operation]
) -> Step | None:
    """An operator whose parts are the same operator of parts."""
    (result,) = op.results
    if layout_of(result.type) is not None:
        return None

    def of_all(writer: Writer) -> Sequence[SSAValue]:
        places = range(len(parts.extents))
        return [
            writer.steps.add(write(writer, place, parts.type_of(result, place))) for place in places
        ]

    return Step(parts, of_all)


@step_of.register
def _(op: kn.ElementwiseOp, known: Known) -> Step | None:
    rank = len(shape_of(op.result.type))

    def missing(value: SSAValue) -> int:
        """How many of the result's first dimensions an operand lacks."""
        return rank - len(shape_of(value.type))

    found = {known[v].at(known[v].dim + missing(v)) for v in op.operands if v in known}
    if len(found) > 1:
        return None
    (parts,) = found

    def write(writer: Writer, place: int, type_: TensorType[Attribute]) -> Operation:
        new = op.clone(
            {v: writer.parts_of(v, parts.at(parts.dim - missing(v)))[place] for v in op.operands}
        )
        Rewriter.replace_value_with_new_type(new.result, type_)
        return new

    return _each(op, parts, write)


@step_of.register
def _(op: kn.ReductionOp, known: Known) -> Step | None:
    parts, type_, dim = known[op.input], op.result.type, op.reduced_dim
    if dim != parts.dim:

        def write(writer: Writer, place: int, type_: TensorType[Attribute]) -> Operation:
            return kn.ReductionOp(writer.of_value[op.input][place], dim, type_, op.combination)

        return _each(op, parts, write)
    if shape_of(type_)[dim] != 1 or not _is_real(op.input, op.result):
        return None

    def of_all(writer: Writer) -> Sequence[SSAValue]:
        results = [
            part if extent == 1 else writer.steps.reduce(part, [dim], op.combination)
            for part, extent in zip(writer.of_value[op.input], parts.extents, strict=True)
        ]
        return [writer.combined(COMBINED_BY[op.combination], results, type_)]

    return Step(None, of_all)


def _is_real(*values: SSAValue) -> bool:
    """Whether numbers are of types in which sums of sums are those of all numbers."""
    return all(element_type_of(value.type) in (*HALF_TYPES, f32) for value in values)


@step_of.register
def _(op: kn.MatmulOp, known: Known) -> Step | None:
    rank = len(shape_of(op.result.type))
    row, column = rank - 2, rank - 1
    left, right = known.get(op.lhs), known.get(op.rhs)
    if op.computation is not Computation.F32 or op.rows is not None:
        return None
    if (left is not None and left.dim == column) or (right is not None and right.dim == row):
        return _sum_of_products(op, left, right)
    if left is not None and right is not None:
        return None
    parts = left or right
    assert parts is not None
    is_batch = parts.dim < row

    def write(writer: Writer, place: int, type_: TensorType[Attribute]) -> Operation:
        operands = {
            value: writer.parts_of(value, parts)[place]
            for value in op.operands
            if value in known or is_batch
        }
        new = op.clone(operands)
        Rewriter.replace_value_with_new_type(new.result, type_)
        return new

    return _each(op, parts, write)


def _sum_of_products(op: kn.MatmulOp, left: Parts | None, right: Parts | None) -> Step | None:
    """A product over the joined dimension: one of each part, added up."""
    rank = len(shape_of(op.result.type))
    row, column = rank - 2, rank - 1
    sides = (left or (right and right.at(column))), (right or (left and left.at(row)))
    one, other = sides
    if not one or not other or one.at(row) != other or not _is_real(*op.operands, op.result):
        return None
    own, precision = op.result.type, None if op.precision is None else op.precision.data
    type_ = TensorType(f32, shape_of(own))

    def of_all(writer: Writer) -> Sequence[SSAValue]:
        pairs = zip(writer.parts_of(op.lhs, one), writer.parts_of(op.rhs, other), strict=True)
        products = [
            writer.steps.apply("mul", lhs, rhs)
            if extent == 1
            else writer.steps.add(kn.MatmulOp(lhs, rhs, type_, precision=precision))
            for (lhs, rhs), extent in zip(pairs, one.extents, strict=True)
        ]
        return [writer.combined("add", products, own)]

    return Step(None, of_all)


@step_of.register
def _(op: kn.SliceOp, known: Known) -> Step | None:
    parts = known[op.input]
    ((_, _, start),) = op.moves()
    first, end = start[parts.dim], start[parts.dim] + shape_of(op.result.type)[parts.dim]
    kept = [
        (place, max(first - before, 0), min(end - before, extent))
        for place, (before, extent) in enumerate(zip(parts.starts, parts.extents, strict=True))
        if before < end and first < before + extent
    ]
    left = Parts(parts.dim, tuple(stop - begin for _, begin, stop in kept))
    if len(kept) > 1 and layout_of(op.result.type) is not None:
        return None

    def write(writer: Writer) -> Sequence[SSAValue]:
        found: list[SSAValue] = []
        for number, (place, begin, _) in enumerate(kept):
            part = writer.of_value[op.input][place]
            at = [*start]
            at[parts.dim] = begin
            type_ = op.result.type if len(kept) == 1 else left.type_of(op.result, number)
            is_whole = part.type == type_
            found.append(part if is_whole else writer.steps.add(kn.SliceOp(part, at, type_)))
        return found

    return Step(left if len(kept) > 1 else None, write)


@step_of.register
def _(op: kn.MaskOp, known: Known) -> Step | None:
    if op.input not in known or known[op.input].dim in op.dims_of_lengths:
        return None
    parts = known[op.input]

    def write(writer: Writer, place: int, type_: TensorType[Attribute]) -> Operation:
        first, part = parts.starts[place], writer.of_value[op.input][place]
        forms = [
            LinearForm(form.coefficients, form.constant + form.coefficients[parts.dim] * first)
            for form in op.forms()
        ]
        lengths = list(op.lengths)
        return kn.MaskOp(part, forms, op.constant, type_, lengths, op.largest, op.dims_of_lengths)

    return _each(op, parts, write)


@step_of.register
def _(op: kn.TransposeOp, known: Known) -> Step | None:
    def write(writer: Writer, place: int, type_: TensorType[Attribute]) -> Operation:
        return kn.TransposeOp(writer.of_value[op.input][place], op.order, type_)

    parts = known[op.input]
    return _each(op, parts.at(op.order.index(parts.dim)), write)


@step_of.register
def _(op: kn.ReshapeOp | kn.BroadcastOp, known: Known) -> Step | None:
    """Where the joined dimension stays one of its own."""
    parts = known[op.input]
    own, wanted = shape_of(op.input.type), shape_of(op.result.type)
    dims = [parts.dim]
    if isinstance(op, kn.ReshapeOp):
        before = math.prod(own[: parts.dim])
        dims = [
            dim
            for dim, extent in enumerate(wanted)
            if extent == own[parts.dim] and math.prod(wanted[:dim]) == before
        ]

    def write(writer: Writer, place: int, type_: TensorType[Attribute]) -> Operation:
        return type(op)(writer.of_value[op.input][place], type_)

    return _each(op, parts.at(dims[0]), write) if dims else None


def joined_parts(op: kn.ConcatOp) -> Parts | None:
    """The parts of a concatenation of which one is long; ``None`` of another."""
    extents = tuple(shape_of(part.type)[op.joined_dim] for part in op.inputs)
    is_one_long = sum(extent > MOST_BESIDE for extent in extents) == 1
    return Parts(op.joined_dim, extents) if is_one_long else None


@dataclass
class Plan:
    """Which operators of a function are computed of parts."""

    concatenations: Sequence[kn.ConcatOp]
    steps: Mapping[Operation, Step]

    @classmethod
    def of(cls, function: FuncOp) -> Plan:
        """Those that lead from concatenations, which nothing then needs, to sums and cuts."""
        ops = [*function.body.block.ops]
        taken = [op for op in ops if isinstance(op, kn.ConcatOp) and joined_parts(op)]
        while True:
            plan = cls(taken, _steps(ops, taken))
            needed = plan.needed(ops)
            if not needed:
                return plan
            taken = [op for op in taken if op not in needed]

    def needed(self, ops: Sequence[Operation]) -> set[Operation]:
        """Operators whose results something needs as a whole, though their parts are known.

        A function may return a concatenation: it is made for that alone.
        """
        found: set[Operation] = set()
        for op in reversed(ops):
            step = self.steps.get(op)
            is_joined = op in self.concatenations
            if not is_joined and (step is None or step.parts is None):
                continue
            users = [use.operation for use in op.results[0].uses]
            if any(
                user in found or (user not in self.steps and not self._may_return(op, user))
                for user in users
            ) or all(isinstance(user, ReturnOp) for user in users):
                found.add(op)
        return found

    def _may_return(self, op: Operation, user: Operation) -> bool:
        return op in self.concatenations and isinstance(user, ReturnOp)


def _steps(ops: Sequence[Operation], taken: Sequence[kn.ConcatOp]) -> dict[Operation, Step]:
    known: dict[SSAValue, Parts] = {}
    steps: dict[Operation, Step] = {}
    for op in ops:
        parts = None
        if isinstance(op, kn.ConcatOp) and op in taken:
            parts = joined_parts(op)
        elif any(value in known for value in op.operands):
            step = step_of(op, known)
            if step is not None:
                steps[op], parts = step, step.parts
        if parts is not None:
            known[op.results[0]] = parts
    return steps


def take_concatenations_apart(function: FuncOp) -> None:
    """Computes of parts what needs no concatenation as a whole."""
    plan = Plan.of(function)
    of_value: dict[SSAValue, Sequence[SSAValue]] = {
        op.result: [*op.inputs] for op in plan.concatenations
    }
    for op, step in plan.steps.items():
        writer = Writer(of_value)
        results = step.write(writer)
        for new in writer.steps.operations:
            new.results[0].name_hint = op.results[0].name_hint
            Rewriter.insert_op(new, InsertPoint.before(op))
        if step.parts is None:
            op.results[0].replace_all_uses_with(results[0])
        else:
            of_value[op.results[0]] = results
    if plan.steps:
        region_dce(function.body)
