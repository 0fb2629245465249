"""Plans by the sizes of tiles, so that a kernel of other extents can have them."""

from __future__ import annotations

from dataclasses import replace

from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.maps import AXES
from mugraph.dialects.plan import Plan
from mugraph.passes.mugraph.plan.choose import space_of, trial_of
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.partition import Partition, choose_partition


def in_tiles(graph: CustomizedOp, plan: Plan) -> Plan | None:
    """The plan with extents of tiles in the place of numbers of blocks and iterations.

    It cuts the kernel as before.  ``None`` where no plan in tiles does, as where the loop walks a
    dimension of the result.
    """
    try:
        with trial_of(graph) as trial:
            space = space_of(trial, plan)
            partition = choose_partition(space, plan)
            tiled = _in_tiles(space, partition, plan)
            return tiled if choose_partition(space, tiled) == partition else None
    except RetileError:
        return None


def _in_tiles(space: TileSpace, partition: Partition, plan: Plan) -> Plan:
    """Each dimension of the first result is cut by an axis, also where it is one tile here."""
    numbers = space.numbers[space.outputs()[0].stensor]
    along = [-1] * len(AXES)
    for axis in range(len(AXES)):
        cut = [dim for dim, number in enumerate(numbers) if number in partition.cut_by(axis)]
        along[axis] = cut[0] if cut else -1
    free = [axis for axis in range(len(AXES)) if along[axis] < 0 and partition.grid[axis] == 1]
    whole = [dim for dim, number in enumerate(numbers) if number is not None and dim not in along]
    for axis, dim in zip(free, whole, strict=False):
        along[axis] = dim
    tile = [
        0 if number is None else partition.tile(number, space.dimensions[number].extent)
        for number in numbers
    ]
    looped = [partition.tile(n, space.dimensions[n].extent) for n in partition.looped()]
    return replace(
        plan,
        grid=None,
        forloop=None,
        along=tuple(along),
        tile=tuple(tile),
        loop_tile=max(looped) if looped else None,
        block=partition.block,
    )
