"""Constants along a dimension: through which operators they pass, and what they say of rows.

A tensor may be one constant at some places along a dimension: minus infinity or 0 behind the end of
a named extent, minus infinity where masks leave nothing.  One set of rules, :func:`passages`, says
which dimension of an operand is which of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.interfaces import HasTileIndices, IndexKind
from mugraph.dialects.kn.compute import ElementwiseOp
from mugraph.dialects.kn.extent import ExtentOp
from mugraph.dialects.kn.mask import MaskOp
from mugraph.dialects.kn.rearrange import ConcatOp, CopyOp, PartsOp, SliceOp
from mugraph.dialects.kn.reshape import BroadcastOp, ReshapeOp, TransposeOp
from mugraph.dialects.kn.statistics import SoftmaxOp
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.tensor_types import shape_of

Constants = Mapping[int, float]
"""What a tensor has at certain places along each dimension, where that is known."""


class Passage(NamedTuple):
    """A dimension of an operand that is one of every result.

    Of the operand, elements of a result depend on those at the same place along it only; along a
    dimension of one element, on that one.
    """

    operand: int
    own: int
    result: int


@singledispatch
def passages(op: Operation) -> Iterator[Passage]:
    """The dimensions that go through an operator which moves elements, or computes one by one."""
    yield from ()


@passages.register(BroadcastOp)
@passages.register(ConcatOp)
@passages.register(CopyOp)
@passages.register(ElementwiseOp)
@passages.register(SliceOp)
def _(op: HasTileIndices) -> Iterator[Passage]:
    for index in op.tile_indices():
        if index.kind is IndexKind.PARALLEL and index.result is not None:
            for operand in range(len(op.operands)):
                yield Passage(operand, index.result, index.result)


@passages.register
def _(op: MaskOp) -> Iterator[Passage]:
    yield from (Passage(0, dim, dim) for dim in range(len(shape_of(op.input.type))))


@passages.register
def _(op: PartsOp) -> Iterator[Passage]:
    dims = range(len(shape_of(op.input.type)))
    yield from (Passage(0, dim, dim) for dim in dims if dim != op.cut_dim)


@passages.register
def _(op: TransposeOp) -> Iterator[Passage]:
    yield from (Passage(0, own, dim) for dim, own in enumerate(op.order))


@passages.register
def _(op: ReshapeOp) -> Iterator[Passage]:
    own, new = shape_of(op.input.type), shape_of(op.result.type)
    places = {(math.prod(new[:dim]), extent): dim for dim, extent in enumerate(new) if extent > 1}
    for dim, extent in enumerate(own):
        if (place := places.get((math.prod(own[:dim]), extent))) is not None:
            yield Passage(0, dim, place)


@singledispatch
def constants_behind(op: Operation, operands: Sequence[Constants]) -> Constants:
    """What an operator's results have behind the ends, given what its operands have there.

    What only moves has the constants of what it moves, where all of that has the same.
    """
    found: dict[int, set[float | None]] = {}
    for operand, own, dim in passages(op):
        found.setdefault(dim, set()).add(operands[operand].get(own))
    single = ((dim, *each) for dim, each in found.items() if len(each) == 1)
    return {dim: constant for dim, constant in single if constant is not None}


@constants_behind.register
def _(op: MaskOp, operands: Sequence[Constants]) -> Constants:
    return {dim: c for dim, c in operands[0].items() if c == op.constant}


@constants_behind.register
def _(op: SoftmaxOp, operands: Sequence[Constants]) -> Constants:
    # Behind another dimension's end all of a row may be minus infinity, which may have no softmax.
    return {op.reduced_dim: 0.0} if operands[0].get(op.reduced_dim) == -math.inf else {}


@constants_behind.register
def _(op: ElementwiseOp, operands: Sequence[Constants]) -> Constants:
    if len(operands) != 1:
        # Minus infinity less a maximum, of which a softmax takes the exponential.  What has
        # elements behind the end itself may be anything there.
        first: Constants = operands[0] if op.function.name == "sub" else {}
        other = shape_of(op.operands[-1].type)
        return {dim: c for dim, c in first.items() if c == -math.inf and other[dim] == 1}
    results = {dim: op.function.at([constant]) for dim, constant in operands[0].items()}
    return {dim: constant for dim, constant in results.items() if constant is not None}


def may_be_empty(value: SSAValue, dim: int) -> bool:
    """Whether lengths may make a tensor minus infinity at all places along a dimension.

    Those of the masks that it is made by, element by element, with views in between.  Masks without
    lengths say what they leave, so only together with such of lengths do they count.
    """
    masks = _masks_of(value, dim)
    if not any(mask.lengths for mask, _ in masks):
        return False
    return not any(all(_keeps(*mask, last=last) for mask in masks) for last in (False, True))


def _masks_of(value: SSAValue, dim: int) -> Sequence[tuple[MaskOp, int]]:
    """The masks by minus infinity behind a tensor, each with the dimension that is the tensor's."""
    found: list[tuple[MaskOp, int]] = []
    pending = [(value, dim)]
    for each, at in pending:
        op = each.owner
        if not isinstance(op, Operation):
            continue
        if isinstance(op, MaskOp) and op.constant == -math.inf:
            found.append((op, at))
        sources = ((op.operands[one.operand], one.own) for one in passages(op) if one.result == at)
        pending += (source for source in dict.fromkeys(sources) if source not in pending)
    return found


def _keeps(mask: MaskOp, dim: int, *, last: bool) -> bool:
    """Whether a mask keeps one end of a dimension in every row, whatever the lengths are."""
    shape = shape_of(mask.input.type)
    most = [*(extent - 1 for extent in shape), *mask.largest]
    # What a call says is at least 1: for 0 nothing is launched.
    lengths = [int(isinstance(length.owner, ExtentOp)) for length in mask.lengths]
    least = [*([0] * len(shape)), *lengths]
    least[dim] = most[dim] = most[dim] if last else 0
    return all(_least(form, least, most) >= 0 for form in mask.forms())


def _least(form: LinearForm, least: Sequence[int], most: Sequence[int]) -> int:
    """The least value of a form between places."""
    between = zip(form.coefficients, least, most, strict=True)
    return form.constant + sum(min(step * low, step * high) for step, low, high in between)
