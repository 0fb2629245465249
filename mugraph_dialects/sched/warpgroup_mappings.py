"""What warp groups read of the operands of their products: twin of ``tb/warpgroup_matmul.h``.

The hardware reads for a whole group, so which thread reads what has no meaning; here the units of
16 bytes that a group reads are dealt to its threads in turn.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mugraph.dialects.cute.matrix_descriptor import UNIT_BYTES, matrix_descriptor
from mugraph.dialects.programming_model import GROUP_THREADS
from mugraph.dialects.sched.mappings import (
    IDLE,
    IntArray,
    Stream,
    for_block,
    matrix_offsets,
)
from mugraph.dialects.tensor_types import AnyLayout, base_layout


def group_lines(
    lines: int, groups_m: int, groups_n: int, atom_lines: int, *, is_a: bool
) -> IntArray:
    """The lines that each group reads, ``[groups, lines]``; group g is (g % m, g / m)."""
    group = np.arange(groups_m * groups_n, dtype=np.int64)
    along, groups = (group % groups_m, groups_m) if is_a else (group // groups_m, groups_n)
    tiles = np.arange(lines // (groups * atom_lines), dtype=np.int64)
    starts = (tiles[None, :] * groups + along[:, None]) * atom_lines
    every = starts[:, :, None] + np.arange(atom_lines, dtype=np.int64)
    return every.reshape(len(group), -1)


@lru_cache(256)
def warpgroup_operand_stream(
    matrix: AnyLayout,
    element_bytes: int,
    groups_m: int,
    groups_n: int,
    atom_lines: int,
    *,
    is_a: bool,
    block: int,
) -> Stream:
    """The units of 16 bytes that the groups read of an operand (lines, k), row by row.

    Raises ``LayoutError`` where no descriptor says the layout.
    """
    transposed = matrix_descriptor(matrix, element_bytes).transposed
    plain, unit = base_layout(matrix), UNIT_BYTES // element_bytes
    lines = group_lines(plain[0].size(), groups_m, groups_n, atom_lines, is_a=is_a)
    k = np.arange(plain[1].size(), dtype=np.int64)
    if transposed:
        line, depth = lines[:, None, ::unit], k[None, :, None]
    else:
        line, depth = lines[:, :, None], k[None, None, ::unit]
    line, depth = np.broadcast_arrays(line, depth)
    offsets = matrix_offsets(matrix, line, depth).reshape(len(lines), -1)
    missing = -offsets.shape[1] % GROUP_THREADS
    offsets = np.pad(offsets, ((0, 0), (0, missing)), constant_values=IDLE)
    by_thread = offsets.reshape(len(lines), -1, GROUP_THREADS).transpose(1, 0, 2)
    return Stream(unit, for_block(by_thread.reshape(by_thread.shape[0], -1), block))
