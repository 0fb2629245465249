"""Rows of which a mask may leave nothing, since a length may be 0."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from mugraph.dialects.kn.compute import ElementwiseOp
from mugraph.dialects.kn.extent import ExtentOp
from mugraph.dialects.kn.mask import MaskOp
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.tensor_types import shape_of


def may_be_empty(value: SSAValue, dim: int) -> bool:
    """Whether lengths may make a tensor minus infinity at all places along a dimension.

    Those of the masks that it is made by, element by element.  Masks without lengths say what they
    leave, so only together with such of lengths do they count.
    """
    masks = _masks_of(value, dim)
    if not any(mask.lengths for mask in masks):
        return False
    ends = (0, shape_of(value.type)[dim] - 1)
    return not any(all(_keeps(mask, dim, end) for mask in masks) for end in ends)


def _masks_of(value: SSAValue, dim: int) -> Sequence[MaskOp]:
    """The masks by minus infinity, of tensors with all of a dimension, behind a tensor."""
    found: list[MaskOp] = []
    pending, extent = [value], shape_of(value.type)[dim]
    for each in pending:
        op = each.owner
        if isinstance(op, MaskOp) and op.constant == -math.inf:
            found.append(op)
        if isinstance(op, MaskOp):
            pending.append(op.input)
        elif isinstance(op, ElementwiseOp):
            whole = (one for one in op.operands if shape_of(one.type)[dim] == extent)
            pending += (one for one in whole if one not in pending)
    return found


def _keeps(mask: MaskOp, dim: int, place: int) -> bool:
    """Whether a mask keeps one place along a dimension in every row, whatever the lengths are."""
    shape = shape_of(mask.input.type)
    most = [*(extent - 1 for extent in shape), *mask.largest]
    # What a call says is at least 1: for 0 nothing is launched.
    lengths = [int(isinstance(length.owner, ExtentOp)) for length in mask.lengths]
    least = [*([0] * len(shape)), *lengths]
    least[dim] = most[dim] = place
    return all(_least(form, least, most) >= 0 for form in mask.forms())


def _least(form: LinearForm, least: Sequence[int], most: Sequence[int]) -> int:
    """The least value of a form between places."""
    between = zip(form.coefficients, least, most, strict=True)
    return form.constant + sum(min(step * low, step * high) for step, low, high in between)
