"""Rows that are reduced: numbers of threads that share them evenly, and lengths of rows that do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from mugraph.dialects import tb
from mugraph.dialects.programming_model import VECTOR_BYTES, WARP
from mugraph.dialects.tensor_types import element_bytes_of
from mugraph.passes.costs.work import ROW_VECTOR
from mugraph.passes.mugraph.plan.shape import REDUCED, reduces_rows
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.partition import (
    Cut,
    Partition,
    divisors,
    tile_shape_of,
)

MOST_OF_ROWS = 256
"""Threads of a block that are whole rows, at most."""
ROWS_OF_A_BLOCK = (1, 2, 4)
"""Rows that so many threads share at once."""


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
    """How long rows of a kernel may be padded.

    By the number of the dimension that is reduced.  Where a block has several rows, to whole warps
    of the vectors that its threads load, and to a power of two of these.  Its only row is padded to
    whole vectors of 16 bits, which threads shift where rows start anywhere.  Of what is past the
    row nothing is loaded.
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
        lengths = {-(-extent // (WARP * vector)) * WARP * vector}
        lengths.add(vector << (extent // vector - 1).bit_length())
        if _has_narrow_rows(space, number):
            lengths.add(_in_whole_vectors(extent))
        padded[number] = [
            length for length in sorted(lengths - {extent}) if length % dimension.multiple == 0
        ]
    return padded


def _in_whole_vectors(extent: int) -> int:
    return -(-extent // ROW_VECTOR) * ROW_VECTOR


def _has_narrow_rows(space: TileSpace, number: int) -> bool:
    """Whether all rows that a kernel loads along a dimension are of 16 bits, eight in a vector."""
    sizes = {
        element_bytes_of(op.result.type)
        for op in space.graph.body.block.ops
        if isinstance(op, tb.InputOp) and space.numbers[op.result][-1] == number
    }
    return sizes == {VECTOR_BYTES // ROW_VECTOR}


def with_padded_rows(
    space: TileSpace, partition: Partition, padded: Mapping[int, Sequence[int]]
) -> Iterator[Partition]:
    """The partition with such rows."""
    tiles = [
        tile_shape_of(space, partition, op.input)
        for op in space.graph.body.block.ops
        if isinstance(op, REDUCED) and space.numbers[op.input][-1] in padded
    ]
    if partition.forloop > 1:
        return
    of_one_row = max((math.prod(tile[:-1]) for tile in tiles), default=1) == 1
    choices: list[list[int | None]] = []
    for number, lengths in padded.items():
        whole = _in_whole_vectors(space.dimensions[number].extent)
        if of_one_row:
            lengths = [length for length in lengths if length == whole]
        else:
            lengths = [length for length in lengths if length != whole]
        choices.append([*lengths] or [None])
    for chosen in itertools.product(*choices):
        cuts = list(partition.cuts)
        for number, length in zip(padded, chosen, strict=True):
            if length is not None:
                cuts[number] = Cut(tile=length)
        if tuple(cuts) != partition.cuts:
            yield partition._replace(cuts=tuple(cuts))
