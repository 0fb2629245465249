"""In which order the blocks of a grid start: those that run together should load the same tiles.

What the blocks of one wave load comes from device memory once and from the L2 cache after that.
With ``rows`` rows of the grid in a group, a wave of W blocks is ``rows`` by ``W / rows`` of them,
or all columns of one group and some of the next, and loads so many different tiles along y and x.

Where later rows run more iterations, as under a causal mask, those start first: a long block that
starts last would leave all other multiprocessors idle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mugraph.dialects import tb
from mugraph.dialects.linear_forms import LinearForm
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


def grows_down(forms: Sequence[LinearForm]) -> bool:
    """Whether blocks of later rows run more iterations, and nothing else decides how many."""
    ends = False
    for form in forms:
        across, down, planes, step, *_ = form.coefficients
        if across or planes or (step > 0 and down):
            return False
        ends = ends or (step < 0 < down)
    return ends


def columns_together(grid: Sequence[int], column_bytes: int, cache_bytes: int) -> int:
    """The columns of a group whose tiles half of the cache holds; they start together.

    All rows of a column load the same ``column_bytes`` in their loops.
    """
    fitting = [
        group
        for group in range(1, grid[0] + 1)
        if grid[0] % group == 0 and group * column_bytes <= cache_bytes // 2
    ]
    return max(fitting, default=1)


__all__ = ["bytes_along", "choose_raster", "columns_together", "grows_down"]
