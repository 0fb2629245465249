"""Which blocks of the grid each block of a launch takes, one after the other.

Usually a block of the launch is one of the grid.  A persistent kernel launches fewer, of which each
takes a *list* of blocks of the grid (docs of ``sched.kernel``).  What a block of the launch keeps
from one to the next (shared memory, channels, registers) goes on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mugraph.dialects import sched
from mugraph.dialects.maps import Slicing
from mugraph.dialects.tensor_types import op_label
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Array
from mugraph.runtime.interpreter.blocks import GRID_AXES, Frame
from mugraph.runtime.interpreter.errors import ExecutionError

IntArray = npt.NDArray[np.int64]


def blocks_at(
    kernel: sched.KernelOp, places: IntArray, grid: Sequence[int] | None = None
) -> IntArray:
    """The blocks that start at these places, ``[..., 3]``: as ``block_in`` of the header library.

    In groups of the raster's rows, down the columns of a group.  ``grid`` is the kernel's, or what
    a call launches of it.
    """
    columns, rows, _ = kernel.grid_dim if grid is None else grid
    plane, inside = np.divmod(places, columns * rows)
    first = inside // (kernel.raster_rows * columns) * kernel.raster_rows
    height = np.minimum(kernel.raster_rows, rows - first)
    column, row = np.divmod(inside - first * columns, height)
    return np.stack([column, first + row, plane], axis=-1).astype(np.int64)


def block_lists(
    kernel: sched.KernelOp, sample: int | None = None, grid: Sequence[int] | None = None
) -> list[IntArray]:
    """The blocks of the grid that blocks of the launch take, ``[positions, blocks, 3]``.

    An array holds lists of one length; those of a persistent kernel may have two, one more and one
    less.  ``grid`` is the kernel's, or what a call launches of it.  With ``sample`` only so many
    blocks of the grid run, spread over it: the first, the last, and some between.  Of a persistent
    kernel whole lists run, until they are so many.
    """
    count = math.prod(kernel.grid_dim if grid is None else grid)
    launched = min(kernel.persistent_blocks or count, count)
    longest = -(-count // launched)
    chosen = np.arange(launched)
    if sample is not None:
        lists = max(-(-sample // longest), min(sample, 2))
        if lists < launched:
            chosen = np.unique(np.linspace(0, launched - 1, lists).round().astype(np.int64))
    lengths = (count - chosen - 1) // launched + 1
    return [
        blocks_at(kernel, chosen[lengths == length] + launched * np.arange(length)[:, None], grid)
        for length in sorted(set(lengths.tolist()), reverse=True)
    ]


def require_clusters(kernel: sched.KernelOp) -> None:
    """Raises ``ExecutionError`` where blocks of a cluster cannot bring tiles for each other.

    Each block brings the whole tile to itself in the interpreter, which is right only where all
    blocks of every cluster have the same one.
    """
    if kernel.cluster is None:
        return
    pairs = list(zip(kernel.launched_grid, kernel.cluster_dim, strict=True))
    if any(extent % blocks for extent, blocks in pairs):
        raise ExecutionError(
            f"{op_label(kernel)} launches {list(kernel.launched_grid)} blocks, which are no whole "
            f"clusters of {list(kernel.cluster_dim)}"
        )
    copies = [op for op in kernel.walk() if isinstance(op, sched.BulkCopyOp) and op.multicast]
    split = [part for extent, blocks in reversed(pairs) for part in (extent // blocks, blocks)]
    numbers = np.arange(math.prod(split)).reshape(split).transpose(0, 2, 4, 1, 3, 5)
    clusters = numbers.reshape(-1, kernel.cluster_blocks)
    count = math.prod(kernel.grid_dim)
    for first in range(0, count if copies else 0, clusters.size):
        places = first + clusters
        exist = (places < count).any(axis=-1)
        if (places[exist] >= count).any():
            raise ExecutionError(
                f"{op_label(kernel)}: some blocks of a cluster have no block of the grid left when "
                "others need their tiles"
            )
        blocks = blocks_at(kernel, places[exist])
        for copy in copies:
            owner = copy.tile.owner
            starts = blocks @ np.array(
                owner.block_strides() if isinstance(owner, sched.LocalTileOp) else (0, 0, 0)
            )
            if (starts != starts[:, :1]).any():
                raise ExecutionError(
                    f"{op_label(copy)} brings one tile to all blocks of a cluster, and these need "
                    "several"
                )


@dataclass
class ListFrame(Frame):
    """Where the execution of a persistent kernel stands, in lists of one length.

    Its values have one axis of the grid that says which list, two of extent 1, and the tile's.
    """

    lists: IntArray = field(kw_only=True)
    """``[positions, blocks, 3]``."""

    @classmethod
    def of(
        cls, lists: IntArray, arithmetic: Arithmetic, grid: Sequence[int], iterations: int
    ) -> ListFrame:
        """At the beginning of all lists."""
        every = (slice(0, lists.shape[1]), *[slice(0, 1)] * (GRID_AXES - 1))
        return cls(arithmetic, tuple(grid), iterations, every, lists=lists)

    @property
    def positions(self) -> int:
        """The length of the lists."""
        return len(self.lists)

    def first_block(self) -> tuple[int, ...]:
        """The block of the grid that the first list is at."""
        return tuple(self.lists[self.position, 0].tolist())

    def block_indices(self, axis: int) -> Array:
        """The indices along an axis of the grid of the blocks that the lists are at."""
        return self.lists[self.position, :, axis].reshape(-1, *[1] * (GRID_AXES - 1))

    def whole_tiles(self, array: Array, slicing: Slicing, chosen: int) -> Array:
        """A copy of the tiles of the blocks that the lists are at."""
        tiles = self.every_tile(array, slicing, chosen)
        return tiles[self._at(tiles)][(slice(None), *[None] * (GRID_AXES - 1))]

    def store_whole_tiles(self, array: Array, slicing: Slicing, chosen: int, value: Array) -> None:
        """Writes the tiles of the blocks that the lists are at."""
        tiles = self.every_tile(array, slicing, chosen)
        tiles[self._at(tiles)] = value[(slice(None), *[0] * (GRID_AXES - 1))]

    def _at(self, tiles: Array) -> tuple[IntArray, ...]:
        """The indices along the axes of the grid, 0 where the tiles do not depend on one."""
        blocks = self.lists[self.position]
        return tuple(blocks[:, axis] % tiles.shape[axis] for axis in range(GRID_AXES))


def within(lists: IntArray, together: int) -> Iterator[IntArray]:
    """The same lists, at most so many at once."""
    for first in range(0, lists.shape[1], together):
        yield lists[:, first : first + together]
