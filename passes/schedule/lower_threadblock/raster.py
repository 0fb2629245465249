"""In which order the blocks of a grid start: those that run together should load the same tiles.

What the blocks of one wave load comes from device memory once and from the L2 cache after that.
With ``rows`` rows of the grid in a group, a wave of W blocks is ``rows`` by ``W / rows`` of them,
or all columns of one group and some of the next, and loads so many different tiles along y and x.

Where later rows run more iterations, as under a causal mask, those start first: a long block that
starts last would leave all other multiprocessors idle.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from typing import NamedTuple

from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.tensor_types import bytes_of
from mugraph.passes.targets import Target

ACROSS, DOWN, BEHIND = 0, 1, 2
"""The axes of the grid: of columns, rows and planes."""


def bytes_along(inputs: Sequence[tb.InputOp], axis: int) -> int:
    """The bytes of tiles, an iteration, of which blocks apart along an axis load different ones."""
    return sum(bytes_of(op.result.type) for op in inputs if op.map_[axis] >= 0 and op.loop_dim >= 0)


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


def growing_axis(forms: Sequence[LinearForm]) -> int | None:
    """The axis, of rows or planes, along which later blocks run more iterations.

    ``None`` where something else decides, too, how many.
    """
    found: set[int] = set()
    for form in forms:
        *blocks, step = form.coefficients[:4]
        axes = [axis for axis, factor in enumerate(blocks) if factor]
        if step < 0 and len(axes) == 1 and blocks[axes[0]] > 0:
            found.add(axes[0])
        elif axes:
            return None
    return found.pop() if len(found) == 1 and found != {ACROSS} else None


class Descending(NamedTuple):
    """Rows, or planes, that start from the last one on, in groups of so many columns."""

    columns: int
    of_planes: bool


def choose_descending(
    graph: CustomizedOp, forms: Sequence[LinearForm], target: Target, cut: Container[int]
) -> Descending | None:
    """How blocks that run more iterations start first, where not all start at once.

    ``cut`` are axes of which a call may launch a part: so no columns are in groups.
    """
    axis, grid = growing_axis(forms), graph.grid_dim
    if axis is None or math.prod(grid[: axis + 1]) <= target.multiprocessors:
        return None
    if any(column in cut for column in range(axis)):
        return None
    inputs = [op for op in graph.body.block.ops if isinstance(op, tb.InputOp)]
    iterated = [op for op in inputs if op.loop_dim >= 0 and op.map_[axis] < 0]
    # Of a plane's columns those that share what they load are neighbours.
    own = [op for op in iterated if axis == BEHIND and op.map_[DOWN] >= 0]
    shared = [op for op in iterated if op not in own]
    column = bytes_along(own, DOWN) + bytes_along(shared, ACROSS) // math.prod(grid[1:axis])
    together = columns_together(
        math.prod(grid[:axis]), graph.forloop_range * column, target.l2_bytes
    )
    return Descending(together, axis == BEHIND)


def columns_together(columns: int, column_bytes: int, cache_bytes: int) -> int:
    """The columns of a group whose tiles half of the cache holds; they start together.

    All rows of a column load ``column_bytes`` in their loops.
    """
    fitting = [
        group
        for group in range(1, columns + 1)
        if columns % group == 0 and group * column_bytes <= cache_bytes // 2
    ]
    return max(fitting, default=1)
