"""Rows that are reduced: numbers of threads that share them evenly, and lengths of rows that do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from mugraph.dialects.programming_model import WARP
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.work import ROW_VECTOR
from mugraph.passes.mugraph.plan.held_tiles import REDUCED, reduces_rows
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.partition import (
    Cut,
    Partition,
    divisors,
    tile_shape_of,
)
from mugraph.passes.targets import Target

MOST_OF_ROWS = 256
"""Threads of a block that are whole rows, at most."""
ROWS_OF_A_BLOCK = (1, 2, 4)
"""Rows that so many threads share at once."""
VECTORS_OF_A_LANE, BLOCKS_OF_A_WARP = 2, 4
"""Of short rows: vectors of a lane, and blocks for each multiprocessor, at most.

A softmax of 256 x 512 took 1.27 us on an H200 in blocks of a warp, 1.34 in blocks of two and 1.41
in blocks of four, one of 256 x 128 0.94 and 1.09; one of 182 x 1024 took 1.77 in blocks of four."""


def is_a_warp(shape: KernelShape, target: Target) -> bool:
    """Whether blocks are of one warp, which meets no other, few, and of the rows they reduce."""
    most = VECTORS_OF_A_LANE * ROW_VECTOR * target.warp_size
    held, rows = shape.held, (*shape.loop.rows, *shape.after.rows)
    return (
        shape.threads == target.warp_size
        and shape.blocks <= BLOCKS_OF_A_WARP * target.multiprocessors
        and held is not None
        and held.largest <= most
        and any(count * length == held.largest for count, length in rows)
    )


def row_lengths(space: TileSpace) -> dict[int, int]:
    """The dimensions along which something is reduced, each with the elements of a vector."""
    return {
        number: math.gcd(space.dimensions[number].extent, ROW_VECTOR)
        for op in space.graph.body.block.ops
        if isinstance(op, REDUCED) and (number := space.numbers[op.input][-1]) is not None
    }


def blocks_of_rows(space: TileSpace) -> list[int]:
    """Numbers of threads that share rows evenly, or nearly so, where threads can hold all tiles.

    A row has so many whole warps of vectors, perhaps some lanes too many: blocks are of one of
    them, of as many as divide these, or of one or two rows.
    """
    if not reduces_rows(space):
        return []
    found: set[int] = set()
    for number, vector in row_lengths(space).items():
        warps = math.ceil(space.dimensions[number].extent / vector / WARP)
        found.update(WARP * count for count in divisors(warps))
        found.update(WARP * warps * rows for rows in ROWS_OF_A_BLOCK)
    return sorted(threads for threads in found if threads <= MOST_OF_ROWS)


def padded_rows(space: TileSpace) -> dict[int, list[int]]:
    """How long rows of a kernel may be padded so that threads share several of them evenly.

    By the number of the dimension that is reduced: to whole warps of the vectors that its threads
    load, and to a power of two of these.  Of what is past the row nothing is loaded.
    """
    padded: dict[int, list[int]] = {}
    stored = space.numbers[space.outputs()[0].stensor]
    for number, vector in row_lengths(space).items():
        dimension = space.dimensions[number]
        if number not in stored:
            continue  # a plan has tiles of what is stored
        if dimension.axes or dimension.looped or dimension.fixed or dimension.whole:
            continue
        extent = dimension.extent
        lengths = {
            -(-extent // (WARP * vector)) * WARP * vector,
            vector << (extent // vector - 1).bit_length(),
        }
        padded[number] = [
            length for length in sorted(lengths - {extent}) if length % dimension.multiple == 0
        ]
    return padded


def with_padded_rows(
    space: TileSpace, partition: Partition, padded: Mapping[int, Sequence[int]]
) -> Iterator[Partition]:
    """The partition with such rows, unless its blocks have one row each.

    A block's only row may be written so, too: threads shift its vectors where it starts anywhere.
    Of 50,257 columns that spills, and takes 495 us where two kernels take 403.
    """
    tiles = [
        tile_shape_of(space, partition, op.input)
        for op in space.graph.body.block.ops
        if isinstance(op, REDUCED) and space.numbers[op.input][-1] in padded
    ]
    if partition.forloop > 1 or max((math.prod(tile[:-1]) for tile in tiles), default=1) == 1:
        return
    choices: list[Sequence[int | None]] = [lengths or [None] for lengths in padded.values()]
    for chosen in itertools.product(*choices):
        cuts = list(partition.cuts)
        for number, length in zip(padded, chosen, strict=True):
            if length is not None:
                cuts[number] = Cut(tile=length)
        if tuple(cuts) != partition.cuts:
            yield partition._replace(cuts=tuple(cuts))
