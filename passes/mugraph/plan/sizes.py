"""Tiles for all values of an extent that a call says: of few rows as of many.

A bucket's kernel is planned at its largest value.  Tiles that are best there may fill the
multiprocessors badly at others, where the last wave of blocks is nearly empty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument

from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.named_extents import argument_names, named_extents
from mugraph.dialects.plan import Plan
from mugraph.passes.costs.kernels import estimate
from mugraph.passes.mugraph.plan.partitions import products_of
from mugraph.passes.mugraph.plan.shape import shape_under
from mugraph.passes.mugraph.plan.tiles import TileChoice, least_times
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.targets import Target

CANDIDATES = 24
"""Partitions of least time at the largest value, of which one is chosen."""
SAMPLES = 9
"""Values at which times are compared, each as many times larger than the one before."""


class Range(NamedTuple):
    """A dimension of a kernel that a call says, and the values that it has."""

    number: int
    least: int
    largest: int

    def samples(self) -> list[int]:
        """Some values, of any magnitude alike."""
        step = math.log(self.largest / self.least) / SAMPLES
        return [round(self.least * math.exp(step * (at + 0.5))) for at in range(SAMPLES)]


def depends_on_call(graph: CustomizedOp) -> bool:
    """Whether a call says extents of the program that a kernel is in."""
    function = graph.parent_op()
    return isinstance(function, FuncOp) and any(
        not extent.is_fixed for extent in named_extents(function).values()
    )


def range_of(space: TileSpace) -> Range | None:
    """The dimension of a kernel's operands that a call says; ``None`` for none, or several.

    Of kernels with products: blocks of others are short, and many.
    """
    function, found = space.graph.parent_op(), set[Range]()
    if not isinstance(function, FuncOp) or not depends_on_call(space.graph):
        return None
    if not products_of(space):
        return None
    extents = named_extents(function)
    for op in space.graph.body.block.ops:
        if not isinstance(op, tb.InputOp) or not isinstance(op.dtensor, BlockArgument):
            continue
        operand = space.graph.inputs[op.dtensor.index]
        if not isinstance(operand, BlockArgument) or op.through is not None:
            continue
        names = argument_names(function, operand.index)
        for name, number in zip(names, space.numbers[op.result], strict=False):
            if name and number is not None and not extents[name].is_fixed:
                extent = extents[name]
                found.add(Range(number, max(extent.least, 1), extent.largest))
    return found.pop() if len(found) == 1 else None


def time_at(space: TileSpace, choice: TileChoice, rows: Range, value: int, target: Target) -> float:
    """Nanoseconds of a partition at a value, of which fewer blocks have some."""
    partition, extent = choice.partition, space.dimensions[rows.number].extent
    tile = partition.tile(rows.number, extent)
    shape = shape_under(space, partition).divided(choice.split)
    shape = shape._replace(threads=math.prod(partition.block))
    present = shape.blocks * -(-value // tile) // -(-extent // tile)
    whole, part = (
        estimate(shape._replace(blocks=max(blocks, 1)), target)
        for blocks in (shape.blocks, present)
    )
    if whole is None or part is None:
        return math.inf
    return max(choice.time - whole, 0.0) + part  # what parts of sums take besides stays


def for_all_values(
    space: TileSpace, choice: TileChoice, rows: Range, target: Target, written: Plan
) -> TileChoice:
    """Of the partitions that are fast at the largest value the one that loses least at others."""
    candidates = [choice, *least_times(space, target, written, CANDIDATES)]
    times = [
        [time_at(space, each, rows, value, target) for value in rows.samples()]
        for each in candidates
    ]
    best = [min(column) for column in zip(*times, strict=True)]
    losses = [_loss(own, best) for own in times]
    return candidates[min(range(len(losses)), key=losses.__getitem__)]


def _loss(times: Sequence[float], best: Sequence[float]) -> float:
    """By how much times are longer than the best ones; large losses count more."""
    return math.fsum((own / least - 1) ** 2 for own, least in zip(times, best, strict=True))


__all__ = ["Range", "depends_on_call", "for_all_values", "range_of", "time_at"]
