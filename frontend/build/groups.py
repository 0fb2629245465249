"""Products of rows with the matrices of their groups, and the tables that they take.

Rows of a group stand side by side: the tokens of an expert.  ``ends`` says behind which row each
group ends.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute

from mugraph.build.elementwise import of_tensors
from mugraph.build.errors import BuildError, build_errors
from mugraph.build.programs import ProgramOperators
from mugraph.build.tensors import DTensor
from mugraph.build.threadblock_graph import ThreadblockGraph
from mugraph.dialects import kn
from mugraph.dialects.precision import Precision
from mugraph.dialects.tensor_types import STAND_INS, dims

LARGEST_TILE = 128
"""A tile has no more rows."""
SMALLEST_TILE = 16
"""Tiles of several rows have room for these, as the least matrix instruction has."""
COLUMNS, DEPTH, BLOCK = 128, 64, 128
"""Columns and summands of the tiles, and threads, as they are written; a plan may cut others."""
WIDE_COLUMNS = 256
"""Columns of tiles that have the most rows, where they divide a matrix."""


class GroupTiles(NamedTuple):
    """How rows in groups fall into tiles, lists of int32; see ``kn.group_tiles``."""

    groups: DTensor
    """The group of each tile."""
    starts: DTensor
    """The first row of each tile."""
    places: DTensor
    """Where each row is found among the rows of all tiles."""
    used: DTensor
    """How many tiles have rows that count: the first ones."""


class SortedGroups(NamedTuple):
    """Rows sorted by their groups, lists of int32; see ``kn.sort_groups``."""

    order: DTensor
    """The row that comes to each place."""
    places: DTensor
    """The place that each row comes to."""
    ends: DTensor
    """The place behind the last row of each group."""


def rows_of_a_tile(rows: int, groups: int) -> int:
    """Choice: the rows of a tile; 1 where groups have about one row.

    A group has more rows than a tile, on average.  Smaller tiles leave less empty, and bring a
    group's matrix more often: 64 groups of 128 rows took 163 us on an H200 in tiles of 128 rows and
    177 in tiles of 64 (2048 x 1408 matrices).
    """
    if rows <= groups or rows < SMALLEST_TILE:
        return 1
    size = SMALLEST_TILE
    while 2 * size * groups <= rows and size < LARGEST_TILE:
        size *= 2
    return size


def columns_of_a_tile(columns: int, rows: int, element: Attribute) -> int:
    """Choice: the columns of a tile of so many rows; matrices have ``columns``.

    Wide tiles bring the rows half as often: with 64 matrices of 4096 x 1024, 65,536 rows took 1,021
    us on an H200 instead of 1,138.  Where they do not divide the matrix, they compute columns that
    it does not have: 805 instead of 794 with 1,408 columns.
    """
    is_16_bits = isinstance(element, Float16Type | BFloat16Type)
    wide = rows == LARGEST_TILE and columns % WIDE_COLUMNS == 0 and is_16_bits
    return WIDE_COLUMNS if wide else min(columns, COLUMNS)


class GroupOperators(ProgramOperators):
    """Operators on rows in groups."""

    @abstractmethod
    def customized(
        self, inputs: Sequence[DTensor], graph: ThreadblockGraph, *, names: Sequence[str] = ()
    ) -> list[DTensor]:
        """One kernel that runs a threadblock graph in every block of its grid."""

    def row_windows(self, x: DTensor, size: int, *, name: str | None = None) -> DTensor:
        """All runs of ``size`` rows that stand side by side, without a copy: a first dimension."""
        value = self._value(x)
        with build_errors():
            op = kn.RowWindowsOp(value, size)
        return self._add(op, name)

    def sort_groups(self, groups: DTensor, count: int) -> SortedGroups:
        """A counting sort of rows by the group of each, a number from 0 to ``count - 1``."""
        value = self._value(groups)
        if count < 1:
            raise BuildError(f"sort_groups: {count} groups; expected at least 1")
        with build_errors():
            op = kn.SortGroupsOp(value, count)
        return SortedGroups(*self._add_many(op))

    def group_tiles(self, ends: DTensor, rows: int, size: int) -> GroupTiles:
        """How ``rows`` fall into tiles of ``size`` rows, none of which has two groups' to compute.

        ``ends`` are int32 or int64, and do not fall.  Rows behind the last end belong to the last
        group.
        """
        value = self._value(ends)
        with build_errors():
            op = kn.GroupTilesOp(value, rows, size)
        return GroupTiles(*self._add_many(op))

    def invert_places(
        self, places: DTensor, extents: Sequence[int], *, name: str | None = None
    ) -> DTensor:
        """Which row is at each place, int32 of one or two ``extents``; -1 where none is.

        ``places`` are int32 or int64, and all different; those of two dimensions are counted in
        row-major order.
        """
        value = self._value(places)
        with build_errors():
            op = kn.InvertPlacesOp(value, extents)
        return self._add(op, name)

    def grouped_matmul(
        self,
        x: DTensor,
        matrices: DTensor,
        ends: DTensor,
        *,
        rows_per_tile: int | None = None,
        dtype: Attribute | None = None,
        precision: Precision | None = None,
        name: str | None = None,
    ) -> DTensor:
        """Each row times the matrix of its group, as of the tokens of experts.

        ``x`` is (rows, k), ``matrices`` (groups, k, n), and ``ends`` (groups,) of int32 or int64
        says behind which row each group ends; a group may have no rows.  Rows behind the last end
        belong to the last group.  Tiles of ``rows_per_tile`` rows are multiplied by one matrix
        each, which they read where it lies.
        """
        for tensor in (x, matrices, ends):
            self._value(tensor)
        count = matrices.stand_ins[0] if len(matrices.shape) == 3 else 0
        is_deep = matrices.stand_ins[1:2] == x.stand_ins[1:]
        if len(x.shape) != 2 or not is_deep or ends.stand_ins != (count,):
            raise BuildError(
                f"grouped_matmul: rows of {dims(x.shape)}, matrices of {dims(matrices.shape)} and "
                f"ends of {dims(ends.shape)} do not go together; expected (rows, k), (groups, k, "
                "n) and (groups)"
            )
        rows, columns = x.stand_ins[0], matrices.stand_ins[2]
        if (named := STAND_INS.get(rows)) is not None:
            raise BuildError(
                f"grouped_matmul: there are '{named}' rows, known only at a call, and tables of "
                "tiles are made for a number of rows: not yet; give x as many rows as there may "
                "be, and those that do not count to the last group"
            )
        size = rows_per_tile or rows_of_a_tile(rows, count)
        tiles = self.group_tiles(ends, rows, size)
        product = self._product_of_tiles(x, matrices, tiles, size, dtype or x.dtype, precision)
        made = self.reshape(product, (product.shape[0] * size, columns))
        return made if size == 1 else self.gather(made, tiles.places, name=name)

    def _product_of_tiles(
        self,
        x: DTensor,
        matrices: DTensor,
        tiles: GroupTiles,
        size: int,
        dtype: Attribute,
        precision: Precision | None,
    ) -> DTensor:
        """The product of each tile, (tiles, rows of a tile, n), in one kernel."""
        (rows, depth), columns = x.shape, matrices.shape[2]
        (count,) = tiles.groups.shape
        wide, deep = columns_of_a_tile(columns, size, x.dtype), min(depth, DEPTH)
        grid = (count, math.ceil(columns / wide), 1)
        block = ThreadblockGraph(grid, (BLOCK, 1, 1), math.ceil(depth / DEPTH), 64)
        if size == 1:  # every row is a tile, in order
            left, starts = self.reshape(x, (rows, 1, depth)), None
        else:
            left, starts = self.row_windows(x, size), tiles.starts
        a = block.new_input(left, (0, -1, -1), 2, tile=(1, size, deep), through=starts)
        b = block.new_input(matrices, (0, 2, -1), 1, tile=(1, deep, wide), through=tiles.groups)
        total = block.forloop_accum(block.matmul(a, b, dtype=dtype, precision=precision))
        # A row alone is a tile of its own: all of them count.
        ends = {} if size == 1 else {0: tiles.used}
        block.new_output(total, (0, 2, -1), dims=(count, size, columns), ends=ends)
        inputs = [left, *([] if starts is None else [starts]), matrices, tiles.groups]
        return self.customized([*inputs, *ends.values()], block)[0]


group_tiles = of_tensors(GroupOperators.group_tiles)
grouped_matmul = of_tensors(GroupOperators.grouped_matmul)
invert_places = of_tensors(GroupOperators.invert_places)
sort_groups = of_tensors(GroupOperators.sort_groups)
row_windows = of_tensors(GroupOperators.row_windows)

__all__ = ["group_tiles", "grouped_matmul", "invert_places", "row_windows", "sort_groups"]
