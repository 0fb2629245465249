"""How warps read the operands of a product with swapped operands: twin of ``tb/swapped_matmul.h``.

A tile of A is 8 rows, one of B 16.  Lanes read runs of 16 neighbours along k, four lanes one after
the other, by vectors of 16 bytes: in which order an instruction takes k makes no difference.  Of a
right matrix whose neighbours along n lie side by side they read lines (twin: ``tb/line_matmul.h``).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mugraph.dialects.programming_model import VECTOR_BYTES, WARP
from mugraph.dialects.sched.mappings import (
    IDLE,
    IntArray,
    MappingError,
    Stream,
    counted_stream,
    keeps_vectors,
    matrix_offsets,
    modes_of,
)
from mugraph.dialects.tensor_types import AnyLayout, base_layout

RUN = 16
"""Neighbours along k that a lane reads."""
RUNS = 4
"""Lanes that read one after the other along k; others read the rows below."""
ROWS = WARP // RUNS


class RunOperand(NamedTuple):
    """One operand: ``matrix`` is (M, K) for A and (N, K) for B, of elements of so many bytes.

    Its rows are dealt to ``warps`` warps in tiles of ``tile_rows``; ``inner`` warps stand before
    the next one of these.  ``slices`` warps in all have matrices that lie ``apart`` elements apart.
    """

    matrix: AnyLayout
    element_bytes: int
    tile_rows: int
    warps: int
    inner: int
    slices: int = 1
    slice_warps: int = 1
    apart: int = 0

    @property
    def vector(self) -> int:
        """Elements of a vector."""
        return VECTOR_BYTES // self.element_bytes

    @property
    def rows(self) -> int:
        """The extent along m or n."""
        return base_layout(self.matrix)[0].size()

    @property
    def depth(self) -> int:
        """The extent along k."""
        return base_layout(self.matrix)[1].size()

    @property
    def threads(self) -> int:
        """How many threads multiply."""
        return self.slices * self.slice_warps * WARP

    @property
    def tiles(self) -> int:
        """Tiles of a warp."""
        return math.ceil(math.ceil(self.rows / self.tile_rows) / self.warps)

    def has_runs(self) -> bool:
        """Whether all runs lie whole, and at multiples of 16 bytes."""
        plain, vector = base_layout(self.matrix), self.vector
        along, across = modes_of(plain[1]), modes_of(plain[0])
        return (
            self.depth % (RUN * RUNS) == 0
            and len(along) == 1
            and along[0][1] == 1
            and len(across) <= 1
            and self.apart % vector == 0
            and keeps_vectors(self.matrix, vector, across)
        )

    def row_of(self, thread: IntArray) -> IntArray:
        """The rows of a thread, [tiles, parts of a tile, threads]; some past the last one."""
        warp = thread // WARP // self.inner % self.warps
        tile = np.arange(self.tiles, dtype=np.int64)[:, None, None] * self.warps + warp
        part = np.arange(self.tile_rows // ROWS, dtype=np.int64)[:, None]
        return tile * self.tile_rows + part * ROWS + thread % WARP // RUNS

    def place(self, thread: IntArray) -> IntArray:
        """Which of the matrices is a thread's."""
        return thread // WARP // self.slice_warps


LINE_STEP = 16
"""Of an instruction along k, and the columns of a tile."""


@lru_cache(512)
def line_streams(operand: RunOperand, *, block: int) -> tuple[tuple[int, Stream], ...]:
    """The lines of bytes that lanes give to ``ldmatrix``, and how many matrices it loads.

    Four for two steps along k, and two for a last one; of wider elements, in place of a number of
    matrices 0, the pairs of neighbours along n that lanes read.
    """
    thread = np.arange(operand.threads, dtype=np.int64)
    lane, warp = thread % WARP, thread // WARP // operand.inner % operand.warps
    tile = np.arange(operand.tiles, dtype=np.int64)[:, None] * operand.warps + warp
    column = tile * LINE_STEP
    start = operand.place(thread) * operand.apart
    exists = column < operand.rows
    if operand.element_bytes > 1:
        column = (column + lane // RUNS * 2)[:, None]
        k = np.arange(0, operand.depth, ROWS, dtype=np.int64)[:, None, None, None]
        k = k + lane % RUNS * 2 + np.arange(2, dtype=np.int64)[:, None]
        offsets = matrix_offsets(operand.matrix, np.minimum(column, operand.rows - 2), k, start)
        return ((0, counted_stream(2, offsets, 2 * exists[:, None], block)),)
    streams: list[tuple[int, Stream]] = []
    whole = operand.depth // (2 * LINE_STEP)
    for matrices, steps in ((4, range(whole)), (2, range(whole, -(-operand.depth // WARP)))):
        if not steps:
            continue
        k = np.array(steps, dtype=np.int64)[:, None, None] * WARP + lane % (matrices * ROWS)
        offsets = matrix_offsets(operand.matrix, np.where(exists, column, 0), k, start)
        offsets = np.where(lane < matrices * ROWS, offsets, IDLE)
        streams.append((matrices, counted_stream(LINE_STEP, offsets, LINE_STEP * exists, block)))
    return tuple(streams)


@lru_cache(512)
def run_stream(operand: RunOperand, *, block: int) -> Stream:
    """The vectors that lanes read: by rounds along k, tiles, their parts and vectors of a run.

    Raises ``MappingError`` where runs are not whole or aligned.
    """
    if not operand.has_runs():
        raise MappingError(
            f"a product with swapped operands reads runs of {RUN} neighbours along k, in multiples "
            "of 16 bytes; rows, matrices and the swizzle must keep these whole"
        )
    thread, vector = np.arange(operand.threads, dtype=np.int64), operand.vector
    row = operand.row_of(thread)[:, :, None]
    rounds = np.arange(operand.depth // (RUN * RUNS), dtype=np.int64)[:, None, None, None, None]
    within = np.arange(RUN // vector, dtype=np.int64)[:, None] * vector
    k = rounds * RUN * RUNS + thread % RUNS * RUN + within
    start = operand.place(thread) * operand.apart
    offsets = matrix_offsets(operand.matrix, np.minimum(row, operand.rows - 1), k, start)
    return counted_stream(vector, offsets, vector * (row < operand.rows), block)
