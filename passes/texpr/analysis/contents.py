"""Indices that are contents of buffers: what they are made of, and stand-ins for what they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.te.points import Points, Rows, evaluate, first_numbers
from mugraph.passes.texpr.analysis.evaluate import variables_of

_FACTOR = 0x9E3779B97F4A7C15
"""Multiplies what is hashed, modulo 2^64: 2^64 over the golden ratio."""


def made_of(value: SSAValue) -> Iterator[Operation]:
    """The operators that an index of contents is computed by, itself first."""
    owner = value.owner
    if not isinstance(owner, Operation):
        return
    yield owner
    for operand in owner.operands:
        yield from made_of(operand)


def sources_of(operands: Sequence[SSAValue]) -> list[SSAValue]:
    """The variables of indices, and those that contents among them are read and computed by."""
    found: dict[SSAValue, None] = {}
    for one in variables_of(operands):
        if not isinstance(one.owner, te.IndexOfOp):
            found[one] = None
            continue
        for op in made_of(one):
            if isinstance(op, (te.AccessOp, te.IndexValueOp)):
                found |= dict.fromkeys(sources_of(list(op.indices)))
    return list(found)


def stand_ins(operands: Sequence[SSAValue], points: Points) -> dict[SSAValue, Rows]:
    """A number for each index of contents among some indices, at all points.

    It is any number, but the same where the same elements are read and the same indices computed
    with: a hash of these.
    """
    found: dict[SSAValue, Rows] = {}
    for one in variables_of(operands):
        if not isinstance(one.owner, te.IndexOfOp):
            continue
        mixed = np.array(0, np.uint64)
        for op in made_of(one):
            if isinstance(op, te.AccessOp):
                inner = {**points, **stand_ins(list(op.indices), points)}
                number = first_numbers(op.exact_touch(), inner)
            elif isinstance(op, te.IndexValueOp):
                number = evaluate(op.expression, list(op.indices), points)
            else:
                continue
            mixed = (mixed + number.astype(np.uint64) + np.uint64(1)) * np.uint64(_FACTOR)
            mixed = mixed ^ (mixed >> np.uint64(29))
        found[one] = (mixed % np.uint64(one.owner.below)).astype(np.int64)
    return found
