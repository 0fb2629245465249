"""In which order the blocks of a grid start: those that run together should load the same tiles.

What the blocks of one wave load comes from device memory once and from the L2 cache after that.
With ``rows`` rows of the grid in a group, a wave of W blocks is ``rows`` by ``W / rows`` of them,
or all columns of one group and some of the next, and loads so many different tiles along y and x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mugraph.dialects import tb
from mugraph.dialects.tensor_types import element_bytes_of, shape_of

ACROSS, DOWN = 0, 1
"""The axes of the grid that are reordered: x and y."""


def bytes_along(inputs: Sequence[tb.InputOp], axis: int) -> int:
    """The bytes of tiles, an iteration, of which blocks apart along an axis load different ones."""
    return sum(
        math.prod(shape_of(op.result.type)) * element_bytes_of(op.result.type)
        for op in inputs
        if op.map_[axis] >= 0 and op.loop_dim >= 0
    )


def choose_raster(grid: Sequence[int], down: int, across: int, wave: int) -> int:
    """The rows of a group for which a wave of blocks loads least; 1 is the grid's own order.

    ``down`` are the bytes of which rows load different ones, ``across`` those of columns.
    """
    columns, rows, _ = grid
    if wave >= columns * rows:
        return 1

    def loaded(group: int) -> int:
        whole, rest = divmod(wave, group * columns)
        if whole:
            return (whole * group + min(rest, group)) * down + columns * across
        return min(group, wave) * down + math.ceil(wave / group) * across

    return min((group for group in range(1, rows + 1) if rows % group == 0), key=loaded)


__all__ = ["bytes_along", "choose_raster"]
