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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce, singledispatch

from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.transforms.dead_code_elimination import region_dce

from mugraph.dialects import kn
from mugraph.dialects.device_cuts import DeviceCut, device_cuts
from mugraph.dialects.element_types import HALF_TYPES
from mugraph.dialects.kn.composite import Expansion
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.reductions import COMBINING
from mugraph.dialects.tensor_types import element_type_of, layout_of, shape_of

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

    def type_of(self, value: SSAValue, place: int) -> TensorType[Attribute]:
        """The type of one part of a tensor."""
        shape = [*shape_of(value.type)]
        shape[self.dim] = self.extents[place]
        return TensorType(element_type_of(value.type), shape)


@dataclass
class PartWriter:
    """Writes operators of parts in the place of one of the whole."""

    of_value: Mapping[SSAValue, Sequence[SSAValue]]
    """The parts of tensors that are computed of parts."""
    steps: Expansion = field(default_factory=Expansion)

    def parts_of(self, value: SSAValue, parts: Parts) -> Sequence[SSAValue]:
        """A tensor's parts: itself, each time, where it has one element along the dimension."""
        if value in self.of_value:
            return self.of_value[value]
        shape = shape_of(value.type)
        if shape[parts.dim] == 1:
            return [value] * len(parts.extents)
        start = [0] * len(shape)
        found: list[SSAValue] = []
        for place, first in enumerate(parts.starts):
            start[parts.dim] = first
            found.append(self.steps.add(kn.SliceOp(value, start, parts.type_of(value, place))))
        return found

    def alike(self, op: Operation, operands: Sequence[SSAValue], type_: Attribute) -> SSAValue:
        """The same operator of other operands."""
        new = op.clone(dict(zip(op.operands, operands, strict=True)))
        Rewriter.replace_value_with_new_type(new.results[0], type_)
        return self.steps.add(new)

    def combined(self, function: str, results: Sequence[SSAValue], type_: Attribute) -> SSAValue:
        """What all parts give together, in a tensor of a type."""
        whole = reduce(lambda one, other: self.steps.apply(function, one, other), results)
        if element_type_of(whole.type) != element_type_of(type_):
            return self.steps.add(kn.CastOp(whole, type_))
        return Rewriter.replace_value_with_new_type(whole, type_)


@dataclass(frozen=True)
class ByParts:
    """How an operator is computed of parts."""

    parts: Parts | None
    """Those of its result; ``None`` where that is whole."""
    write: Callable[[PartWriter], Sequence[SSAValue]]
    """Writes it; the parts of the result, or the result."""


Known = Mapping[SSAValue, Parts]


ALIKE = (kn.ElementwiseOp, kn.ReductionOp, kn.MatmulOp, kn.RegroupOp, kn.SliceOp)
"""Operators of which the same one, of a part, is a part of the result, or of a sum."""


@singledispatch
def step_of(op: Operation, known: Known) -> ByParts | None:
    """Analysis: how an operator is computed of the parts of its operands.

    ``None`` where it needs one of them as a whole.
    """
    if not isinstance(op, ALIKE) or (isinstance(op, kn.MatmulOp) and (op.rows or op.compute)):
        return None
    steps = (_along(op, cut, known) for cut in device_cuts(op))
    return next((step for step in steps if step is not None), None)


def _along(op: Operation, cut: DeviceCut, known: Known) -> ByParts | None:
    """The same operator of each part, if one of its indices numbers the parts of all operands.

    What it adds up, or takes the maximum of, is then combined.
    """
    found = [
        (known[value], dim)
        for value, dim in zip(op.operands, cut.operands, strict=True)
        if value in known
    ]
    if len({parts.extents for parts, _ in found}) > 1 or any(p.dim != dim for p, dim in found):
        return None
    extents, (result,), (along,) = found[0][0].extents, op.results, cut.results

    def operands(writer: PartWriter, place: int) -> list[SSAValue]:
        return [
            value if dim is None else writer.parts_of(value, Parts(dim, extents))[place]
            for value, dim in zip(op.operands, cut.operands, strict=True)
        ]

    if cut.combiner is not None:
        if not _is_real(*op.operands, result):
            return None
        own, function = result.type, COMBINING[cut.combiner]

        def write(writer: PartWriter) -> Sequence[SSAValue]:
            results = [
                _of_one(op, operands(writer, place), writer.steps)
                if extent == 1
                else writer.alike(op, operands(writer, place), TensorType(f32, shape_of(own)))
                for place, extent in enumerate(extents)
            ]
            return [writer.combined(function, results, own)]

        return ByParts(None, write)
    if along is None or shape_of(result.type)[along] != sum(extents):
        return None
    parts = Parts(along, extents)
    return _each(
        op, parts, lambda writer, place, type_: writer.alike(op, operands(writer, place), type_)
    )


def _of_one(op: Operation, operands: Sequence[SSAValue], steps: Expansion) -> SSAValue:
    """A sum or a maximum of one element, or a product that sums over one."""
    return steps.apply("mul", *operands) if isinstance(op, kn.MatmulOp) else operands[0]


def _is_real(*values: SSAValue) -> bool:
    """Whether numbers are of types in which sums of sums are those of all numbers."""
    return all(element_type_of(value.type) in (*HALF_TYPES, f32) for value in values)


def _each(
    op: Operation, parts: Parts, write: Callable[[PartWriter, int, TensorType[Attribute]], SSAValue]
) -> ByParts | None:
    """An operator whose result is in parts."""
    (result,) = op.results
    if layout_of(result.type) is not None:
        return None
    places = range(len(parts.extents))
    return ByParts(
        parts, lambda writer: [write(writer, n, parts.type_of(result, n)) for n in places]
    )


@step_of.register
def _(op: kn.SliceOp, known: Known) -> ByParts | None:
    parts = known[op.input]
    ((_, _, start),) = op.moves()
    if shape_of(op.result.type)[parts.dim] == sum(parts.extents):
        return step_of.dispatch(object)(op, known)
    first, end = start[parts.dim], start[parts.dim] + shape_of(op.result.type)[parts.dim]
    kept = [
        (place, max(first - before, 0), min(end - before, extent))
        for place, (before, extent) in enumerate(zip(parts.starts, parts.extents, strict=True))
        if before < end and first < before + extent
    ]
    left = Parts(parts.dim, tuple(stop - begin for _, begin, stop in kept))
    if len(kept) > 1 and layout_of(op.result.type) is not None:
        return None

    def write(writer: PartWriter) -> Sequence[SSAValue]:
        found: list[SSAValue] = []
        for number, (place, begin, _) in enumerate(kept):
            part = writer.of_value[op.input][place]
            at = [*start]
            at[parts.dim] = begin
            type_ = op.result.type if len(kept) == 1 else left.type_of(op.result, number)
            is_whole = part.type == type_
            found.append(part if is_whole else writer.steps.add(kn.SliceOp(part, at, type_)))
        return found

    return ByParts(left if len(kept) > 1 else None, write)


@step_of.register
def _(op: kn.MaskOp, known: Known) -> ByParts | None:
    """Places of a part count from its start on."""
    if op.input not in known or known[op.input].dim in op.dims_of_lengths:
        return None
    parts = known[op.input]

    def write(writer: PartWriter, place: int, type_: TensorType[Attribute]) -> SSAValue:
        first, part = parts.starts[place], writer.of_value[op.input][place]
        forms = [
            LinearForm(form.coefficients, form.constant + form.coefficients[parts.dim] * first)
            for form in op.forms()
        ]
        given = list(op.lengths), op.largest, op.dims_of_lengths
        return writer.steps.add(kn.MaskOp(part, forms, op.constant, type_, *given))

    return _each(op, parts, write)


def joined_parts(op: kn.ConcatOp) -> Parts | None:
    """The parts of a concatenation of which one is long; ``None`` of another."""
    extents = tuple(shape_of(part.type)[op.joined_dim] for part in op.inputs)
    is_one_long = sum(extent > MOST_BESIDE for extent in extents) == 1
    return Parts(op.joined_dim, extents) if is_one_long else None


@dataclass
class TakenApart:
    """Which operators of a function are computed of parts."""

    concatenations: Sequence[kn.ConcatOp]
    steps: Mapping[Operation, ByParts]

    @classmethod
    def of(cls, function: FuncOp) -> TakenApart:
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
                user in found
                or (user not in self.steps and not (is_joined and isinstance(user, ReturnOp)))
                for user in users
            ) or all(isinstance(user, ReturnOp) for user in users):
                found.add(op)
        return found


def _steps(ops: Sequence[Operation], taken: Sequence[kn.ConcatOp]) -> dict[Operation, ByParts]:
    known: dict[SSAValue, Parts] = {}
    steps: dict[Operation, ByParts] = {}
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
    plan = TakenApart.of(function)
    of_value: dict[SSAValue, Sequence[SSAValue]] = {
        op.result: [*op.inputs] for op in plan.concatenations
    }
    for op, step in plan.steps.items():
        writer = PartWriter(of_value)
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
