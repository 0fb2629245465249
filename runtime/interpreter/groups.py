"""Tables of rows in groups: a counting sort, and how groups fall into tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mugraph.dialects.kn.groups import most_tiles
from mugraph.runtime.interpreter.components import ComponentArray, existing_rows
from mugraph.runtime.interpreter.errors import ExecutionError

Numbers = npt.NDArray[np.int64]
Tables = tuple[Any, ...]


def group_tiles(ends: Any, rows: int, size: int) -> Tables:
    """The group and the first row of each tile, the place of each row, and how many tiles count.

    Raises ``ExecutionError`` for ends that fall, or are no numbers from 0 to ``rows``.
    """
    return _of_whole_numbers(lambda numbers: _group_tiles(numbers, rows, size), ends)


def sort_groups(groups: Any, count: int) -> Tables:
    """The order of rows by their groups, their places and the groups' ends.

    Raises ``ExecutionError`` for a number that names no group.
    """
    return _of_whole_numbers(lambda numbers: _sort_groups(numbers, count), groups)


def invert_places(places: Any, extents: Sequence[int]) -> Tables:
    """Which row is at each place of these extents, -1 where none is.

    Raises ``ExecutionError`` for a place that there is not, or that two rows have.
    """
    if isinstance(places, ComponentArray) and not places.has_numbers():
        return (places.of([np.empty(extents)]),)
    return _of_whole_numbers(lambda numbers: _invert_places(numbers, extents), places)


def _of_whole_numbers(compute: Callable[[Any], tuple[Numbers, ...]], numbers: Any) -> Tables:
    """Tables of a list that may have components beside its numbers; those of tables are 0."""
    if not isinstance(numbers, ComponentArray):
        return compute(numbers)
    first, *others = numbers.components
    rest = [component.dtype for component in others]
    return tuple(
        numbers.of([table.astype(first.dtype), *(np.zeros(table.shape, each) for each in rest)])
        for table in compute(first)
    )


def _group_tiles(ends: Any, rows: int, size: int) -> tuple[Numbers, ...]:
    last = np.asarray(ends).astype(np.int64)
    if last.size and (last[0] < 0 or last.max() > rows or np.any(np.diff(last) < 0)):
        raise ExecutionError(
            f"groups end at {last.tolist()}; expected numbers from 0 to {rows} that do not fall"
        )
    last[-1:] = rows
    begin = np.concatenate([[0], last[:-1]])
    tiles = -(-(last - begin) // size)
    most = most_tiles(rows, len(last), size)
    groups = np.full(most, len(last) - 1, np.int64)
    starts = np.full(most, rows - size, np.int64)
    found = np.repeat(np.arange(len(last)), tiles)
    first = np.cumsum(tiles) - tiles
    own = np.arange(len(found))
    groups[: len(found)] = found
    starts[: len(found)] = np.minimum(begin[found] + (own - first[found]) * size, rows - size)
    row = np.arange(rows)
    of_row = np.repeat(np.arange(len(last)), last - begin)
    tile = first[of_row] + (row - begin[of_row]) // size
    return groups, starts, tile * size + row - starts[tile], np.array([len(found)])


def _sort_groups(groups: Any, count: int) -> tuple[Numbers, ...]:
    known = existing_rows(count, np.asarray(groups), "group")
    order = np.argsort(known, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return order, places, np.cumsum(np.bincount(known, minlength=count))


def _invert_places(places: Any, extents: Sequence[int]) -> tuple[Numbers, ...]:
    count = math.prod(extents)
    known = existing_rows(count, np.asarray(places), "place")
    several = np.flatnonzero(np.bincount(known, minlength=count) > 1)
    if several.size:
        raise ExecutionError(f"several rows are at place {several[0]}; expected one at most")
    rows = np.full(count, -1, np.int64)
    rows[known] = np.arange(len(known))
    return (rows.reshape(extents),)
