"""Index expressions at many points at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from mugraph.dialects.te.accesses import Touch
from mugraph.dialects.te.loops import Conditional, LoopOp
from mugraph.dialects.te.mapped import ApplyOp
from mugraph.dialects.te.sizes import size_of
from mugraph.dialects.tensor_types import row_major_strides

Rows = npt.NDArray[np.int64]
Points = Mapping[SSAValue, Rows]
"""The value of each variable at a number of points.

A variable that is not there is 0, a size its largest.
"""


def evaluate_with(
    expression: AffineExpr, operands: Sequence[SSAValue], look_up: Callable[[SSAValue], Rows]
) -> Rows:
    """An index expression at all points, where ``look_up`` gives the numbers of an operand.

    Of an expression without operands it is one number, of no dimensions.
    """
    # xDSL says that it is of numbers, but it computes as well with arrays of them.
    numbers = cast(Sequence[int], [look_up(operand) for operand in operands])
    return np.asarray(expression.eval(numbers, []), np.int64)


def evaluate(expression: AffineExpr, operands: Sequence[SSAValue], points: Points) -> Rows:
    """An index expression at all points; of ``te.apply`` operands their expressions."""
    return evaluate_with(expression, operands, lambda value: variable_at(value, points))


def variable_at(value: SSAValue, points: Points) -> Rows:
    """A variable at all points."""
    if value in points:
        return points[value]
    if isinstance(owner := value.owner, ApplyOp):
        return evaluate(owner.expression, list(owner.indices), points)
    size = size_of(value)
    return np.array(0 if size is None else size.largest, np.int64)


def all_hold(conditions: Iterable[Conditional], points: Points) -> npt.NDArray[np.bool_]:
    """Whether all of some conditions hold, at all points."""
    holds: npt.NDArray[np.bool_] = np.array(True)
    for condition in conditions:
        for expression, equal in condition.conditions():
            value = evaluate(expression, list(condition.indices), points)
            holds = holds & ((value == 0) if equal else (value >= 0))
    return holds


def first_numbers(touch: Touch, points: Points) -> Rows:
    """The row-major number of the first element touched, at all points."""
    number = np.array(0, np.int64)
    for expression, extent in zip(touch.expressions, touch.extents, strict=True):
        number = number * extent + evaluate(expression, touch.indices, points)
    return number


def box_offsets(touch: Touch) -> Rows:
    """How far the row-major numbers of the elements touched are from that of the first one."""
    if touch.offsets is not None:
        return np.array(touch.offsets, np.int64)
    offsets = np.zeros(1, np.int64)
    for extent, stride in zip(touch.box, row_major_strides(touch.extents), strict=True):
        offsets = (offsets[:, None] + np.arange(extent) * stride).reshape(-1)
    return offsets


def touched_numbers(touch: Touch, points: Points, count: int) -> Rows:
    """The row-major numbers of the elements touched at ``count`` points, ``[count, elements]``.

    -1 for those of a clipped box that the buffer does not have.
    """
    if touch.clipped:
        found = [evaluate(one, touch.indices, points) for one in touch.expressions]
        return clipped_numbers(touch, [np.broadcast_to(one, (count,)) for one in found])
    first = np.broadcast_to(first_numbers(touch, points), (count,))
    return first[:, None] + box_offsets(touch)


def clipped_numbers(touch: Touch, starts: Sequence[Rows]) -> Rows:
    """The row-major numbers of the elements of a box at its starts, an array a dimension.

    -1 for those that the buffer does not have.
    """
    count = len(starts[0])
    numbers, exists = np.zeros((count, 1), np.int64), np.ones((count, 1), np.bool_)
    steps = touch.steps or (1,) * len(touch.box)
    for start, part, step, extent in zip(starts, touch.box, steps, touch.extents, strict=True):
        index = start[:, None, None] + np.arange(part) * step
        numbers = (numbers[:, :, None] * extent + index).reshape(count, -1)
        exists = (exists[:, :, None] & (index >= 0) & (index < extent)).reshape(count, -1)
    return np.where(exists, numbers, -1)


def grid_of(
    loops: Sequence[LoopOp],
    conditions: Sequence[Conditional] = (),
    fixed: Mapping[SSAValue, int] = {},
) -> tuple[dict[SSAValue, Rows], int]:
    """The values of variables at all points of some loops where conditions hold, the last fastest.

    ``fixed`` are those of other variables.  Beside them how many points there are.
    """
    count = math.prod(loop.iterations for loop in loops)
    points: dict[SSAValue, Rows] = {one: np.array(value) for one, value in fixed.items()}
    stride = count
    number = np.arange(count)
    for loop in loops:
        stride //= loop.iterations
        points[loop.variable] = number // stride % loop.iterations
    holds = np.broadcast_to(all_hold(conditions, points), (count,))
    for loop in loops:
        points[loop.variable] = points[loop.variable][holds]
    return points, int(holds.sum())
