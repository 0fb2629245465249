"""Writing the fragment of a product straight to device memory, 16 bytes a lane.

The four lanes that hold a row exchange what they hold by shuffles, so that each has eight
neighbouring columns and rows are written in whole sectors.  Nothing goes through shared memory.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.chaining import holds_pairs_of_columns
from mugraph.dialects.cute.thread_values import ThreadValues
from mugraph.dialects.sched.accesses import NamedRows
from mugraph.dialects.sched.local_tile import LocalTileOp, tile_of_named_rows
from mugraph.dialects.sched.mappings import (
    IDLE,
    IntArray,
    Stream,
    for_block,
    linear_offsets,
    matrix_layout,
)
from mugraph.dialects.sched.types import TileType
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    element_bytes_of,
    resolved_layout_of,
    shape_of,
    value_label,
)

BLOCK = 8
"""Neighbouring columns that one lane of a quad writes: 16 bytes."""
QUAD = 4
"""Lanes that hold the columns of a block."""


def quad_store_problem(fragment: TileType, tile: SSAValue) -> str | None:
    """Why a fragment cannot be written so; ``None`` where it can."""
    mma = fragment.tiled_mma
    if mma is None or mma.thr_layout[2] != 1:
        return "only the fragment of a product, whole in its threads, can be written so"
    atom = mma_atom(mma.atom)
    rows, columns = fragment.get_shape()[-2:]
    if not holds_pairs_of_columns(atom) or atom.shape_mnk[1] % BLOCK:
        return f"{atom.name} does not deal out pairs of columns to quads of lanes"
    if element_bytes_of(tile.type) != 2:
        return "vectors of 16 bytes are eight elements of 16 bits"
    step = mma.thr_layout[1] * atom.shape_mnk[1]
    if columns % step or columns // mma.thr_layout[1] < QUAD * BLOCK:
        return f"each warp must have {QUAD * BLOCK} of the {columns} columns, or more"
    plain = base_layout(matrix_layout(resolved_layout_of(tile), shape_of(tile.type)))
    down, along = plain[0], plain[1]
    if along.flat_stride[0] != 1 or len(along.flat_shape) != 1:
        return f"the columns of {value_label(tile)} are not contiguous"
    named = tile_of_named_rows(tile)
    apart = list(down.flat_stride) if rows > 1 else []
    apart += [] if named is None else [named.stride_of_rows]
    if isinstance(tile.owner, LocalTileOp):
        apart += [*tile.owner.block_strides(), tile.owner.iteration_stride()]
    if any(stride % BLOCK for stride in apart):
        return f"the rows of {value_label(tile)} do not start at multiples of 16 bytes"
    return None


def named_rows_of_quads(fragment: ThreadValues, tile: SSAValue, *, block: int) -> NamedRows | None:
    """The rows that the vectors of :func:`quad_store_stream` mean; ``None`` where none are named.

    The vectors' own rows are those of the fragment's matrix, of which all numbers are one list.
    """
    if (owner := tile_of_named_rows(tile)) is None:
        return None
    *_, row, _ = fragment.coordinates()
    value, lane = (held[:, 0] for held in held_before(fragment))
    at = np.minimum(row[value, lane], fragment.shape[-2] - 1)
    numbers = np.maximum(for_block(at * owner.number_strides()[-2], block), 0)
    return NamedRows(numbers, owner.stride_of_rows)


def held_before(fragment: ThreadValues) -> tuple[IntArray, IntArray]:
    """Which value of which thread is written as each element: ``[vectors, 8, threads]``, twice.

    By tiles of m, halves of a tile, groups of four blocks, as ``QuadStore`` goes.  What lanes that
    have no block of the last group are said to write stands for nothing (:func:`_has_block`).
    """
    rows, blocks = _rows_and_blocks(fragment)
    thread = np.arange(fragment.threads, dtype=np.int64)
    place = thread % QUAD
    element = np.arange(BLOCK, dtype=np.int64)[:, None]
    values: list[IntArray] = []
    for tile in range(rows // 2):
        for half in range(2):
            for group in range(math.ceil(blocks / QUAD)):
                block = tile * blocks + np.minimum(group * QUAD + place, blocks - 1)
                values.append(block * QUAD + 2 * half + element % 2)
    value = np.stack(values)
    lane = np.broadcast_to(thread - place + element // 2, value.shape)
    return value, lane


def _rows_and_blocks(fragment: ThreadValues) -> tuple[int, int]:
    """How many rows each thread has, and how many blocks of columns of each."""
    rows = fragment.sliced(len(fragment.shape) - 1).values
    return rows, fragment.values // rows // 2


def _has_block(fragment: ThreadValues) -> npt.NDArray[np.bool_]:
    """Which lanes write each vector: ``[vectors, threads]``."""
    rows, blocks = _rows_and_blocks(fragment)
    place = np.arange(fragment.threads) % QUAD
    groups = np.arange(math.ceil(blocks / QUAD))[:, None]
    return np.tile(groups * QUAD + place < blocks, (rows, 1))


@lru_cache(128)
def quad_store_stream(fragment: ThreadValues, matrix: AnyLayout, *, block: int) -> Stream:
    """Who writes which vectors of 16 bytes: lane s of a quad every fourth block from its s-th."""
    *_, row, column = fragment.coordinates()
    value, lane = (held[:, 0] for held in held_before(fragment))
    at_row, at_column = row[value, lane], column[value, lane]
    plain = base_layout(matrix)
    rows = fragment.shape[-2]
    at = linear_offsets(plain[0], np.minimum(at_row, rows - 1))
    exists = (at_row < rows) & _has_block(fragment)
    offsets = np.where(exists, at + linear_offsets(plain[1], at_column), IDLE)
    return Stream(BLOCK, for_block(offsets, block))
