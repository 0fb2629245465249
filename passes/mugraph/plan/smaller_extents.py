"""Plans for all values that extents may have, not for the largest ones alone.

A kernel whose loop ends at a length that memory holds, or whose grid ends where a call says, is
planned at the largest values.  Of plans that are about as fast there, the one is taken that is
nearest to the fastest at each smaller value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.named_extents import (
    NamedExtent,
    Names,
    argument_names,
    ends_of_argument,
    named_extents,
)
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.loads import Loads
from mugraph.passes.mugraph.plan.shape import KernelModel
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.partition import Partition

STEP = 4
"""From one value of an extent that is looked at to the next smaller one."""
ALIKE = 1.02
"""Plans are alike whose worst ratios differ by less."""


class Values(NamedTuple):
    """The part of the largest length that counts, and of each extent that a call says, by name."""

    length: float
    called: Mapping[str, float]


class Candidate(NamedTuple):
    """A kernel that its loop may be divided in."""

    partition: Partition
    split: int


Shrink = Callable[[KernelShape], KernelShape]
"""What a kernel is at smaller values."""
TimeOf = Callable[[KernelModel, Candidate, Shrink], float | None]
"""Nanoseconds of a candidate whose first kernel becomes smaller."""


Called = Mapping[int, NamedExtent]
"""The dimensions of a kernel whose extent a call says, by their numbers."""


def names_of_inputs(space: TileSpace) -> list[Names]:
    """The names of the dimensions of each tensor that a kernel reads, of arguments alone."""
    function = space.graph.parent_op()
    return [
        argument_names(function, value.index)
        if isinstance(value, BlockArgument) and isinstance(function, FuncOp)
        else ()
        for value in space.graph.inputs
    ]


def called_dimensions(space: TileSpace, names: Sequence[Names] | None = None) -> Called:
    """The dimensions of a kernel that a call says, by the names of the tensors that it reads.

    Those that are no arguments of the function count where ``names`` are given.
    """
    function = space.graph.parent_op()
    if not isinstance(function, FuncOp):
        return {}
    names = names_of_inputs(space) if names is None else names
    extents, found = named_extents(function), dict[int, NamedExtent]()
    for op in space.graph.body.block.ops:
        if not isinstance(op, tb.InputOp) or op.through is not None:
            continue
        assert isinstance(op.dtensor, BlockArgument)  # as graphs are isolated
        own = names[op.dtensor.index]
        for number, name in zip(space.numbers[op.result], own, strict=False):
            if name in extents and number is not None:
                found[number] = extents[name]
    return found


def ended_dimensions(space: TileSpace) -> frozenset[int]:
    """The dimensions of a kernel that end at a length, by their numbers, of arguments alone."""
    function, found = space.graph.parent_op(), set[int]()
    if not isinstance(function, FuncOp):
        return frozenset()
    for op in space.graph.body.block.ops:
        if not isinstance(op, tb.InputOp) or op.through is not None:
            continue
        assert isinstance(op.dtensor, BlockArgument)  # as graphs are isolated
        value = space.graph.inputs[op.dtensor.index]
        if isinstance(value, BlockArgument):
            ends = ends_of_argument(function, value.index)
            pairs = zip(space.numbers[op.result], ends, strict=False)
            found.update(number for number, end in pairs if end and number is not None)
    return frozenset(found)


def least_length(space: TileSpace) -> int:
    """The smallest length for which a call takes a kernel, by its bound; 1 where it says none."""
    graph, function = space.graph, space.graph.parent_op()
    if not isinstance(function, FuncOp):
        return 1
    holders = (graph.inputs[held.argument] for held in graph.held_lengths)
    numbers = {value.index for value in holders if isinstance(value, BlockArgument)}
    known = (each.least for each in named_extents(function).values() if each.held in numbers)
    return max(min(known, default=1), 1)


def values_of(space: TileSpace, called: Called) -> Iterator[Values]:
    """The values that are looked at: of lengths all magnitudes, of a call the ends of its range.

    Bounds that a call says are about as large as what memory holds: lengths that kernels of smaller
    bounds are taken for do not count.
    """
    largest = min((held.largest for held in space.graph.held_lengths), default=1)
    least = least_length(space)
    lengths = [1.0]
    while lengths[-1] * largest > STEP * least:
        lengths.append(lengths[-1] / STEP)
    least = {e.name: max(e.least, 1) / e.largest for e in called.values()}
    ends = [dict.fromkeys(least, 1.0), *([least] if least else [])]
    for length, part in itertools.product(lengths, ends):
        yield Values(length, part)


def smaller(
    space: TileSpace,
    candidate: Candidate,
    values: Values,
    called: Called,
    ended: frozenset[int] = frozenset(),
) -> Shrink:
    """What a kernel is at smaller values, of what it is at the largest.

    Blocks that share a loop and have none of its tiles take next to no time.  Of a tensor the part
    is loaded that its own dimensions have: weights have none that a call says.  ``ended``
    are the dimensions that end at a length, behind which zeros fill tiles; without them those of
    the loop end there, and zeros do not count: so plans are chosen that were measured.
    """
    partition, split = candidate
    grid = list(partition.grid)
    ends_tiles, ended = bool(ended), ended or partition.looped()
    in_loop = not ends_tiles or not ended.isdisjoint(partition.looped())
    for number, extent in called.items():
        for axis in partition.cuts[number].axes:
            grid[axis] = math.ceil(grid[axis] * values.called[extent.name])
    counted = partition.forloop * values.length if in_loop else values.length
    tiles = max(math.ceil(counted), 1)
    if in_loop:
        busy, iterations = min(split, tiles), math.ceil(tiles / split)
    else:
        busy, iterations = split, math.ceil(partition.forloop / split)
    loaded = KernelModel.of(space, partition.looped()).loaded

    def part_of(tile: SSAValue) -> tuple[float, float]:
        numbers = {*space.numbers[tile]}
        parts = (values.called[e.name] for number, e in called.items() if number in numbers)
        ends = not numbers.isdisjoint(ended)
        zeros = 1.0 - counted / tiles if ends and ends_tiles and values.length < 1.0 else 0.0
        return math.prod(parts) * (values.length if ends else 1.0), zeros

    parts = [part_of(load.tile) for load in loaded]

    def shrink(shape: KernelShape) -> KernelShape:
        loads = Loads(
            load._replace(
                tensor_bytes=int(load.tensor_bytes * part),
                padding=load.padding + int(load.bytes * zeros),
            )
            for load, (part, zeros) in zip(shape.loads, parts, strict=True)
        )
        return shape._replace(blocks=math.prod(grid) * busy, iterations=iterations, loads=loads)

    return shrink


def least_regret(
    space: TileSpace, candidates: Sequence[Candidate], time_of: TimeOf
) -> list[Candidate]:
    """Of plans for all values those that are nearest to the fastest where they are farthest."""
    worst, called = dict.fromkeys(candidates, 1.0), called_dimensions(space)
    for values in values_of(space, called):
        times: dict[Candidate, float] = {}
        for candidate in candidates:
            model = KernelModel.of(space, candidate.partition.looped())
            time = time_of(model, candidate, smaller(space, candidate, values, called))
            times[candidate] = math.inf if time is None else time
        least = min(times.values())
        worst = {c: max(worst[c], time / least) for c, time in times.items()}
    longest = ALIKE * min(worst.values())
    return [candidate for candidate, ratio in worst.items() if ratio <= longest]
