"""How a warp reads the operands of a tensor-core product: twin of ``tb/matmul_operand.h``.

A tile of A is 16 rows of m, one of B 8 rows of n; B tiles are read two at a time.  A register of 32
bits holds ``packed`` neighbours along k, and one step along k is eight registers: 16 elements of
16 bits, 32 of 8 bits, 8 of 32 bits.  Lines or elements past the matrix are replaced by valid ones,
whose values never reach a result.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mugraph.dialects.programming_model import WARP
from mugraph.dialects.sched.mappings import (
    ATOM_M,
    ATOM_N,
    IDLE,
    ROWS,
    IntArray,
    MappingError,
    Stream,
    counted_stream,
    keeps_vectors,
    matrix_offsets,
    modes_of,
)
from mugraph.dialects.tensor_types import AnyLayout, base_layout


class MatmulOperand(NamedTuple):
    """One operand: ``matrix`` is (M, K) for A (``is_a``) and (N, K) for B.

    ``warps_m`` and ``warps_n`` lie along the product, ``warps_k`` along k: warp w is (w % warps_m,
    w / warps_m % warps_n, w / (warps_m * warps_n)), and warp wk along k takes the steps wk,
    wk + warps_k and so on; or, where matrices lie ``apart`` (elements, before the swizzle), all
    steps of matrix wk.
    """

    is_a: bool
    warps_m: int
    warps_n: int
    matrix: AnyLayout
    packed: int = 2
    warps_k: int = 1
    apart: int = 0

    @property
    def line(self) -> int:
        """Elements in one line of ``ldmatrix``, four registers wide."""
        return 4 * self.packed

    @property
    def step_depth(self) -> int:
        """The extent of one instruction along k."""
        return 8 * self.packed

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
        return self.warps_m * self.warps_n * self.warps_k * WARP

    @property
    def tile_rows(self) -> int:
        """Rows of one tile."""
        return ATOM_M if self.is_a else ATOM_N

    @property
    def row_step(self) -> int:
        """Rows from one tile of a warp to its next."""
        return (self.warps_m if self.is_a else self.warps_n) * self.tile_rows

    @property
    def tiles(self) -> int:
        """Tiles of a warp."""
        warps = self.warps_m if self.is_a else self.warps_n
        return math.ceil(math.ceil(self.rows / self.tile_rows) / warps)

    @property
    def steps(self) -> int:
        """Steps along k, the last one perhaps partial."""
        return math.ceil(self.depth / self.step_depth)

    @property
    def steps_of_a_warp(self) -> int:
        """Steps that the first warp along k takes; later ones perhaps one fewer."""
        return self.steps if self.apart else math.ceil(self.steps / self.warps_k)

    @property
    def transposed(self) -> bool:
        """Whether lines run along the rows rather than along k."""
        rows, depth = (modes_of(base_layout(self.matrix)[mode]) for mode in (0, 1))
        row_stride = rows[0][1] if rows else 0
        contiguous = depth[0][1] == 1 if depth else row_stride != 1
        return not contiguous

    def has_aligned_lines(self) -> bool:
        """Whether ``ldmatrix`` can read the matrix: every line of 16 bytes whole and aligned."""
        # Only elements of 16 bits can be transposed on the way.
        return self._has_aligned(self.line) and (self.packed == 2 or not self.transposed)

    def _has_aligned(self, length: int) -> bool:
        """Whether runs of so many neighbours lie whole and at multiples of their length."""
        plain = base_layout(self.matrix)
        lines, others = plain[1], plain[0]
        if self.transposed:
            lines, others = others, lines
        along, across = modes_of(lines), modes_of(others)
        return (
            (not along or along[0][1] == 1)
            and (len(along) <= 1 or along[0][0] % length == 0)
            and self.apart % length == 0
            and keeps_vectors(self.matrix, length, (*along[1:], *across))
        )

    @property
    def read(self) -> int:
        """How many elements are read at once without ``ldmatrix``: a register's, or one."""
        in_words = not self.transposed and self.depth % self.packed == 0
        return self.packed if in_words and self._has_aligned(self.packed) else 1

    def single_loads(self) -> tuple[IntArray, IntArray, IntArray]:
        """Tile, register and part of it of what lanes read in one k step without ``ldmatrix``."""
        loads = [
            (tile, quarter, part)
            for tile in self.first_tiles().tolist()
            for quarter in range(4 if self.is_a or tile + 1 < self.tiles else 2)
            for part in range(0, self.packed, self.read)
        ]
        tile, quarter, part = np.array(loads, dtype=np.int64).T[:, :, None]
        return tile, quarter, part

    def origin(self, quarter: IntArray) -> tuple[IntArray, IntArray]:
        """Row and k of the first element of matrix ``quarter`` of a load (twin: matrix_origin)."""
        if self.is_a:
            return quarter % 2 * ROWS, quarter // 2 * self.line
        return quarter // 2 * self.row_step, quarter % 2 * self.line

    def first_tiles(self) -> IntArray:
        """The tiles with which the loads of one k step begin."""
        return np.arange(0, self.tiles, 1 if self.is_a else 2, dtype=np.int64)

    def warp_along(self, thread: IntArray) -> IntArray:
        """A thread's warp along the operand's rows."""
        warp = thread // WARP
        return warp % self.warps_m if self.is_a else warp // self.warps_m % self.warps_n

    def step_of(self, thread: IntArray) -> IntArray:
        """The step along k of each of a thread's steps, ``[steps of a warp, 1, threads]``.

        The number of steps and beyond where the warp has no such step.
        """
        own = np.arange(self.steps_of_a_warp, dtype=np.int64)[:, None, None]
        if self.apart:
            return own + np.zeros_like(thread)
        return self.place_along_k(thread) + own * self.warps_k

    def place_along_k(self, thread: IntArray) -> IntArray:
        """A thread's warp along k."""
        return thread // WARP // (self.warps_m * self.warps_n)

    def offsets(self, thread: IntArray, row: IntArray, k: IntArray) -> IntArray:
        """Where elements of the matrix of a thread's warp lie."""
        return matrix_offsets(self.matrix, row, k, self.apart * self.place_along_k(thread))


@lru_cache(512)
def ldmatrix_streams(operand: MatmulOperand, *, block: int) -> tuple[tuple[int, Stream], ...]:
    """The lines whose addresses the lanes give to ``ldmatrix``, and how many matrices it loads.

    By k steps, then by tiles.  A last single tile of B is loaded two matrices at a time, for
    which only lanes 0 to 15 give addresses.  Raises ``MappingError`` where lines are not whole or
    aligned.
    """
    if not operand.has_aligned_lines():
        raise MappingError(
            "ldmatrix needs rows or k contiguous, and every other stride (and the swizzle) in "
            f"multiples of {operand.line} elements; and k contiguous unless elements have 16 bits"
        )
    thread = np.arange(operand.threads, dtype=np.int64)
    lane = thread % WARP
    row, k = operand.origin(lane // ROWS)
    row, k = (row, k + lane % ROWS) if operand.transposed else (row + lane % ROWS, k)
    row = row + operand.warp_along(thread) * operand.tile_rows
    steps = operand.step_of(thread)
    tiles = operand.first_tiles()
    loads_pairs = operand.is_a | (tiles + 1 < operand.tiles)
    streams: list[tuple[int, Stream]] = []
    for matrices, chosen in ((4, tiles[loads_pairs]), (2, tiles[~loads_pairs])):
        if not chosen.size:
            continue
        at_row = row + chosen[None, :, None] * operand.row_step
        at_k = k + steps * operand.step_depth
        offsets, significant = _lines(operand, thread, at_row, at_k)
        unused = (lane >= matrices * ROWS) | (steps >= operand.steps)
        offsets = np.where(unused, IDLE, offsets)
        streams.append((matrices, counted_stream(operand.line, offsets, significant, block)))
    return tuple(streams)


def _lines(
    operand: MatmulOperand, thread: IntArray, row: IntArray, k: IntArray
) -> tuple[IntArray, IntArray]:
    """Offsets of lines, moved inside the matrix, and how many elements of each count."""
    rows, depth, line = operand.rows, operand.depth, operand.line
    if operand.transposed:
        last_row, last_k = (rows - 1) // line * line, depth - 1
        left = np.where(k < depth, rows - row, 0)
    else:
        last_row, last_k = rows - 1, (depth - 1) // line * line
        left = np.where(row < rows, depth - k, 0)
    offsets = operand.offsets(thread, np.minimum(row, last_row), np.minimum(k, last_k))
    return offsets, np.clip(left, 0, line)


@lru_cache(512)
def element_stream(operand: MatmulOperand, *, block: int) -> Stream:
    """What lanes read without ``ldmatrix``, by k steps, tiles, registers and their parts."""
    thread = np.arange(operand.threads, dtype=np.int64)
    lane = thread % WARP
    tile, quarter, part = operand.single_loads()
    row, k = operand.origin(quarter)
    row = row + lane // 4 + operand.warp_along(thread) * operand.tile_rows + tile * operand.row_step
    steps = operand.step_of(thread)
    k = k + operand.packed * (lane % 4) + part + steps * operand.step_depth
    offsets = operand.offsets(
        thread,
        np.minimum(row, operand.rows - 1),
        np.minimum(k, operand.depth - operand.read),
    )
    exists = (row < operand.rows) & (k < operand.depth)
    offsets = np.where(steps >= operand.steps, IDLE, offsets)
    return counted_stream(operand.read, offsets, exists * operand.read, block)


class ScalarOperand(NamedTuple):
    """An operand of a product by single threads: twin of ``ScalarMatmul``.

    Thread t is (t % threads_m, t / threads_m) and computes the rows (or columns) that are so far
    from its own, in steps of ``threads_m`` (or ``threads_n``).  ``matrix`` is (M, K) for A
    (``is_a``) and (N, K) for B.
    """

    is_a: bool
    threads_m: int
    threads_n: int
    matrix: AnyLayout

    @property
    def threads(self) -> int:
        """How many threads multiply."""
        return self.threads_m * self.threads_n

    @property
    def depth(self) -> int:
        """The extent along k."""
        return base_layout(self.matrix)[1].size()

    def rows(self) -> tuple[IntArray, int]:
        """The rows that each thread reads, [rows, threads], some past the last one, which is next.

        Those past the last one are replaced by it.
        """
        thread = np.arange(self.threads, dtype=np.int64)
        step = self.threads_m if self.is_a else self.threads_n
        along = thread % self.threads_m if self.is_a else thread // self.threads_m
        extent = base_layout(self.matrix)[0].size()
        return along + np.arange(0, extent, step, dtype=np.int64)[:, None], extent - 1

    def offsets(self) -> tuple[IntArray, IntArray]:
        """What each thread reads, [k, rows, threads], and whether that can reach a result."""
        row, last = self.rows()
        k = np.arange(self.depth, dtype=np.int64)[:, None, None]
        offsets = matrix_offsets(self.matrix, np.minimum(row, last), k)
        return offsets, np.broadcast_to((row <= last).astype(np.int64), offsets.shape)


@lru_cache(512)
def scalar_stream(operand: ScalarOperand, *, block: int) -> Stream:
    """The elements that threads read, by k, then by their rows."""
    offsets, significant = operand.offsets()
    return counted_stream(1, offsets, significant, block)
