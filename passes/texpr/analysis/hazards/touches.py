"""What threads touch, listed: one row a thread and element."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.locations import place_of
from mugraph.dialects.te.points import grid_of, touched_numbers
from mugraph.dialects.tensor_types import source_name
from mugraph.passes.texpr.analysis.domains import Access
from mugraph.passes.texpr.analysis.evaluate import variables_of

IntArray = npt.NDArray[np.int64]

MOST_POINTS = 1 << 25
"""The rows of one access that are listed at most."""


class TooManyError(Exception):
    """An access has more rows than are listed."""

    def __init__(self, access: Access) -> None:
        self.access = access
        super().__init__(
            f"the accesses to {source_name(access.buffer)} of a block are too many to be listed; "
            "check the program at smaller sizes"
        )


@dataclass(frozen=True)
class Rows:
    """The rows of an access: the values of the variables asked for, and the element's number."""

    values: dict[SSAValue, IntArray]
    numbers: IntArray


def variables_used(access: Access) -> set[SSAValue]:
    """The loop variables on which the element depends, or whether the access happens."""
    used = set(access.indices)
    for condition in access.domain.conditions:
        used |= set(variables_of(list(condition.indices)))
    return used


def rows_of(access: Access, wanted: Sequence[SSAValue], fixed: Mapping[SSAValue, int]) -> Rows:
    """All rows of an access with some variables fixed, others at all of their values.

    Variables on which nothing depends are left out unless they are ``wanted``.  Raises
    ``TooManyError``.
    """
    used = variables_used(access)
    loops = [
        loop
        for loop in access.domain.loops
        if loop.variable not in fixed and (loop.variable in used or loop.variable in wanted)
    ]
    if math.prod(loop.iterations for loop in loops) > MOST_POINTS:
        raise TooManyError(access)
    points, count = grid_of(loops, access.domain.conditions, fixed)
    if math.prod([count, *access.box]) > MOST_POINTS:
        raise TooManyError(access)
    numbers = touched_numbers(access, points, count)
    exists = numbers.reshape(-1) >= 0
    values = {one: np.repeat(points[one], numbers.shape[1])[exists] for one in wanted}
    return Rows(values, numbers.reshape(-1)[exists])


def describe(access: Access, number: int) -> str:
    """``'te.bind' of 'par 64 i' (4:13) writes tile[3, 5]``."""
    op = access.op
    step: Operation | None = op
    while step is not None and not isinstance(step, te.StepOp):
        step = step.parent_op()
    place = f" of '{step.title.data}'" if step is not None else ""
    at = place_of(op)
    if at is not None:
        place += f" ({at})"
    return f"'{op.name}'{place} {touched_element(access, number)}"


def touched_element(access: Access, number: int) -> str:
    """``writes tile[3, 5]``."""
    index: list[int] = []
    for extent in reversed(access.type.get_shape()):
        index.insert(0, number % extent)
        number //= extent
    name = source_name(access.buffer)
    return f"{access.kind.verb} {name}[{', '.join(map(str, index))}]"


def says(access: Access, number: int) -> str:
    """``'te.bulk_load' (gemm.py:54:13) writes sa[0]``."""
    return f"{named(access.op)} {touched_element(access, number)}"


def named(op: Operation) -> str:
    """``'te.bulk_load' (gemm.py:54:13)``."""
    place = place_of(op)
    return f"'{op.name}'" if place is None else f"'{op.name}' ({place})"
