"""The lengths of a kernel, which tensors of a call hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation

from mugraph.dialects.launch_extents import HoldsLengths
from mugraph.dialects.tensor_types import op_label
from mugraph.runtime.interpreter.arithmetic import Array
from mugraph.runtime.interpreter.components import ComponentArray
from mugraph.runtime.interpreter.errors import ExecutionError

Numbers = npt.NDArray[np.int64]


def numbers_in(op: Operation, held: Array, largest: int) -> Numbers:
    """The lengths that a tensor holds; raises ``ExecutionError`` where one is none from 0 on."""
    whole = held.whole_numbers() if isinstance(held, ComponentArray) else held
    numbers = np.asarray(whole).reshape(-1).astype(np.int64)
    wrong = numbers[(numbers < 0) | (numbers > largest)]
    if wrong.size:
        raise ExecutionError(
            f"{op_label(op)} reads the length {wrong[0]}; it may be 0 to {largest}"
        )
    return numbers


def length_in(op: Operation, held: Array, largest: int) -> int:
    """The only one; raises as :func:`numbers_in`."""
    (number,) = numbers_in(op, held, largest).tolist()
    return number


class LengthsOfBlocks(NamedTuple):
    """The lengths of blocks that have the same: those at some places of the grid."""

    at: dict[int, int]
    """The place along each axis for whose blocks there are lengths."""
    values: list[int]

    def part_of(self, box: Sequence[slice]) -> tuple[slice, ...] | None:
        """What a box has of those blocks; ``None`` for nothing."""
        part = list(box)
        for axis, place in self.at.items():
            if not box[axis].start <= place < box[axis].stop:
                return None
            part[axis] = slice(place, place + 1)
        return tuple(part)

    def blocks_of(self, lists: Numbers) -> Numbers:
        """Those of some blocks, ``[positions, blocks, 3]``, whose first has the places."""
        chosen = np.ones(lists.shape[1], np.bool_)
        for axis, place in self.at.items():
            chosen &= lists[0, :, axis] == place
        return lists[:, chosen]


def lengths_in(
    op: HoldsLengths, arguments: Sequence[Array], grid: Sequence[int]
) -> Iterator[LengthsOfBlocks]:
    """The values of a kernel's lengths, of its arguments, for all blocks of a grid.

    Raises as :func:`numbers_in`.
    """
    held = op.held_lengths
    numbers = [numbers_in(op, arguments[each.argument], each.largest) for each in held]
    axes = sorted({each.axis for each in held if each.axis >= 0})
    for places in itertools.product(*(range(grid[axis]) for axis in axes)):
        at = dict(zip(axes, places, strict=True))
        block = [at.get(axis, 0) for axis in range(len(grid))]
        pairs = zip(held, numbers, strict=True)
        yield LengthsOfBlocks(at, [int(own[each.place(block)]) for each, own in pairs])
