"""Analysis: which elements of a tensor each block of a launch stores."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from mugraph.dialects.kn import ScatterOp
from mugraph.dialects.kn.workspace import memory_root
from mugraph.dialects.sched import LaunchOp, LocalTileOp
from mugraph.dialects.tensor_types import layout_of, memory_order, shape_of, strides_of

IntArray = npt.NDArray[np.int64]

NOBODY = -1
MOST_ELEMENTS = 1 << 20
"""Of a tensor that is looked at."""


def storing_blocks(launch: LaunchOp, output: SSAValue) -> IntArray | None:
    """The block that stores each place of an output's memory, counted along x first.

    :data:`NOBODY` for places between elements; ``None`` where no tile says it.
    """
    kernel = launch.resolve()
    index = kernel.input_count + [each is output for each in launch.outputs].index(True)
    uses = [use.operation for use in kernel.body.block.args[index].uses]
    shape, layout = shape_of(output.type), layout_of(output.type)
    if len(uses) != 1 or layout is None or math.prod(shape) > MOST_ELEMENTS:
        return None
    (tile,) = uses
    if not isinstance(tile, LocalTileOp) or not tile.is_plain:
        return None
    coordinates = np.indices(shape, np.int64)
    extents = shape_of(tile.result.type)
    blocks = np.zeros(shape, np.int64)
    before = 1
    for extent, dim in zip(kernel.grid_dim, tile.map_, strict=True):
        if extent > 1 and dim < 0:
            return None  # several blocks store the same
        if extent > 1:
            blocks += coordinates[dim] // extents[dim] * before
        before *= extent
    places = _places(shape, strides_of(layout))
    found = np.full(int(places.max()) + 1, NOBODY, np.int64)
    found[places] = blocks
    return found


def _places(shape: Sequence[int], strides: Sequence[int]) -> IntArray:
    """Where the elements of a tensor are, from its start."""
    coordinates = np.indices(shape, np.int64)
    return np.tensordot(np.asarray(strides, np.int64), coordinates, 1)


def run_stored(op: ScatterOp) -> int | None:
    """How many new elements lie side by side that one block of a launch has stored.

    In the order in which threads move them, runs of so many are of all blocks in turn.  ``None``
    where that is not so, or no launch stores them.
    """
    root = memory_root(op.values)
    launch, layout = root.owner, layout_of(op.values.type)
    if not isinstance(launch, LaunchOp) or launch.joins() is None or layout is None:
        return None
    blocks = storing_blocks(launch, root)
    if blocks is None:
        return None
    shape, strides = shape_of(op.values.type), strides_of(layout)
    order = memory_order(shape, strides)
    places = _places(shape, strides).transpose(order[::-1]).reshape(-1)
    if places.max() >= len(blocks):
        return None
    owners = blocks[places]
    others = np.flatnonzero(owners != owners[0])
    run = int(others[0]) if len(others) else len(owners)
    count = math.prod(launch.resolve().grid_dim)
    in_turn = np.arange(len(owners)) // run % count
    whole = len(owners) % (run * count) == 0
    return run if whole and np.array_equal(owners, in_turn) else None
