"""Which element every thread touches where the rows of a fragment meet memory.

The twins of ``runtime/include/mugraph/tb/rows.h``; see :mod:`mugraph.dialects.sched.mappings`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mugraph.dialects.programming_model import WARP
from mugraph.dialects.rows import LinearRows
from mugraph.dialects.sched.mappings import (
    IDLE,
    ReduceSum,
    Stream,
    element_offsets,
    for_block,
    linear_offsets,
    offset_of,
    swizzled,
)
from mugraph.dialects.tensor_types import AnyLayout

_CACHED = 512


@lru_cache(_CACHED)
def rows_source_stream(
    reduction: ReduceSum, rows: LinearRows, element_bytes: int, *, block: int
) -> Stream:
    """What every thread reads of its rows: row by row, in vectors from low to high."""
    vector = reduction.vector_length(element_bytes)
    row = rows.rows_of()[:, None, :]
    steps = np.arange(0, reduction.reduced.size(), vector, dtype=np.int64)[None, :, None]
    unswizzled = (
        offset_of(reduction.source)
        + linear_offsets(reduction.outputs, np.maximum(row, 0))
        + linear_offsets(reduction.reduced, steps)
    )
    offsets = np.where(row == IDLE, IDLE, swizzled(reduction.source, unswizzled))
    return Stream(vector, for_block(offsets, block))


@lru_cache(_CACHED)
def warps_stream(rows: LinearRows, target: AnyLayout, *, block: int) -> Stream:
    """Where the first lane of each warp writes its part of each row; ``target`` is over them."""
    thread = np.arange(rows.partition.threads)
    row = rows.rows_of()
    part = np.maximum(row, 0) * rows.warps + thread % rows.lanes // WARP
    active = (row != IDLE) & (thread % WARP == 0)
    offsets = np.where(active, element_offsets(target, part), IDLE)
    return Stream(1, for_block(offsets, block))
