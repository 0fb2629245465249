"""Plans for all values that extents may have, not for the largest ones alone.

A kernel whose loop ends at a length that memory holds, or whose grid ends where a call says, is
planned at the largest values.  Of plans that are about as fast there, the one is taken that is
nearest to the fastest at each smaller value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument

from mugraph.dialects import tb
from mugraph.dialects.named_extents import NamedExtent, argument_names, named_extents
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.work import Loads
from mugraph.passes.mugraph.plan.shape import KernelModel
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.partition import Partition

STEP = 4
"""From one value of an extent that is looked at to the next smaller one."""
ALIKE = 1.02
"""Plans are alike whose worst ratios differ by less."""


class Values(NamedTuple):
    """The part of the largest length that counts, and of each dimension that a call says."""

    length: float
    called: float


class Candidate(NamedTuple):
    """A kernel that its loop may be divided in."""

    partition: Partition
    split: int


Shrink = Callable[[KernelShape], KernelShape]
"""What a kernel is at smaller values."""
TimeOf = Callable[[KernelModel, Candidate, Shrink], float | None]
"""Nanoseconds of a candidate whose first kernel becomes smaller."""


def called_dimensions(space: TileSpace) -> dict[int, NamedExtent]:
    """The dimensions of a kernel that a call says, as far as its function's arguments have them."""
    graph = space.graph
    function = graph.parent_op()
    if not isinstance(function, FuncOp):
        return {}
    extents, found = named_extents(function), dict[int, NamedExtent]()
    for op in graph.body.block.ops:
        if not isinstance(op, tb.InputOp) or op.through is not None:
            continue
        assert isinstance(op.dtensor, BlockArgument)  # as graphs are isolated
        value = graph.inputs[op.dtensor.index]
        if not isinstance(value, BlockArgument) or value.owner is not function.body.block:
            continue
        names = argument_names(function, value.index)
        for number, name in zip(space.numbers[op.result], names, strict=False):
            if name in extents and number is not None:
                found[number] = extents[name]
    return found


def values_of(space: TileSpace) -> Iterator[Values]:
    """The values that are looked at: of lengths all magnitudes, of a call the ends of its range."""
    largest = min((held.largest for held in space.graph.held_lengths), default=1)
    lengths = [1.0]
    while lengths[-1] * largest > STEP:
        lengths.append(lengths[-1] / STEP)
    called = [max(e.least, 1) / e.largest for e in called_dimensions(space).values()]
    for length, part in itertools.product(lengths, sorted({1.0, min(called, default=1.0)})):
        yield Values(length, part)


def smaller(space: TileSpace, candidate: Candidate, values: Values) -> Shrink:
    """What a kernel is at smaller values, of what it is at the largest.

    Blocks that share a loop and have none of its tiles take next to no time.
    """
    partition, split = candidate
    grid = list(partition.grid)
    for number in called_dimensions(space):
        for axis in partition.cuts[number].axes:
            grid[axis] = math.ceil(grid[axis] * values.called)
    tiles = max(math.ceil(partition.forloop * values.length), 1)
    busy, iterations = min(split, tiles), math.ceil(tiles / split)

    def shrink(shape: KernelShape) -> KernelShape:
        part = values.called * values.length
        loads = Loads(
            load._replace(tensor_bytes=int(load.tensor_bytes * part)) for load in shape.loads
        )
        return shape._replace(blocks=math.prod(grid) * busy, iterations=iterations, loads=loads)

    return shrink


def least_regret(
    space: TileSpace, candidates: Sequence[Candidate], time_of: TimeOf
) -> list[Candidate]:
    """Of plans for all values those that are nearest to the fastest where they are farthest."""
    worst = dict.fromkeys(candidates, 1.0)
    for values in values_of(space):
        times: dict[Candidate, float] = {}
        for candidate in candidates:
            model = KernelModel.of(space, candidate.partition.looped())
            time = time_of(model, candidate, smaller(space, candidate, values))
            times[candidate] = math.inf if time is None else time
        least = min(times.values())
        worst = {c: max(worst[c], time / least) for c, time in times.items()}
    longest = ALIKE * min(worst.values())
    return [candidate for candidate, ratio in worst.items() if ratio <= longest]
