"""Accumulators over several blocks: what each block accumulates, and how that is combined.

An accumulator whose loop is divided over blocks becomes one in each of them, whose results are
stored, and one over the stored results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import NamedTuple

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of
from mugraph.passes.mugraph.retile.errors import RetileError


class DividedAccumulator(NamedTuple):
    """An accumulator of the loop of one of several blocks, and what makes the whole of all."""

    accumulate: Sequence[Operation]
    """The operators of the loop; the last one's result is the block's part."""
    combine: Callable[[SSAValue, Attribute], Sequence[Operation]]
    """The operators over the loaded parts, one an iteration; the last result is of that type."""
    adds: bool = True
    """Whether the parts are added up, so that several may be in one iteration."""


@singledispatch
def divide(op: Operation, operand: SSAValue, count: int) -> DividedAccumulator:
    """The accumulator ``op`` of ``operand``, divided over blocks.

    ``count`` is the number of iterations of all blocks.  Raises :class:`RetileError` for an
    accumulator whose parts cannot be combined; one that can registers a function of its own.
    """
    raise RetileError(
        f"{op_label(op)} cannot be divided over blocks: nothing says how to combine what each of "
        "them accumulates"
    )


def _part_type(op: tb.AccumulatorOp) -> tb.STensorType:
    """The result's extents in the type of sums."""
    type_ = element_type_of(op.input.type)
    return tb.STensorType(shape_of(op.result.type), type_ if is_integer(type_) else f32)


def _added_up(part: SSAValue, type_: Attribute) -> Sequence[Operation]:
    return [tb.ForloopAccumOp(tb.AccumulatorKind.NONE, part, type_)]


def _mean_of(count: int, *, root: bool) -> Callable[[SSAValue, Attribute], Sequence[Operation]]:
    """The sum of the parts divided by ``count``, or the square root of that."""

    def combine(part: SSAValue, type_: Attribute) -> Sequence[Operation]:
        total = tb.ForloopAccumOp(tb.AccumulatorKind.NONE, part, part.type)
        scaled = part.type if root else type_
        mean = tb.MulScalarOp(total.result, scaled, (1.0 / count,))
        return [total, mean, *([tb.SqrtOp(mean.result, type_)] if root else [])]

    return combine


@divide.register
def _(op: tb.ForloopAccumOp, operand: SSAValue, count: int) -> DividedAccumulator:
    kinds = tb.AccumulatorKind
    kind = op.kind.data
    type_ = _part_type(op)
    elements = shape_of(op.input.type)[-1] * count
    if kind is kinds.MAX:

        def largest(part: SSAValue, type_: Attribute) -> Sequence[Operation]:
            return [tb.ForloopAccumOp(kinds.MAX, part, type_)]

        part = tb.ForloopAccumOp(kinds.MAX, operand, type_)
        return DividedAccumulator([part], largest, adds=False)
    if kind is kinds.RMS:
        square = tb.SquareOp(operand, tb.STensorType(shape_of(operand.type), f32))
        total = tb.ForloopAccumOp(kinds.SUM, square.result, type_)
        return DividedAccumulator([square, total], _mean_of(elements, root=True))
    if kind is kinds.MEAN:
        total = tb.ForloopAccumOp(kinds.SUM, operand, type_)
        return DividedAccumulator([total], _mean_of(elements, root=False))
    return DividedAccumulator([tb.ForloopAccumOp(kind, operand, type_)], _added_up)


@divide.register
def _(op: tb.ForloopAccumSumToDimxOp, operand: SSAValue, count: int) -> DividedAccumulator:
    part = type(op)(operand, _part_type(op))
    return DividedAccumulator([part], _added_up)
