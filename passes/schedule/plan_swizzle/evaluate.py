"""The wavefronts of patterns under many layouts at once, by the exact model, and a lower bound.

Under a swizzle, instructions whose offsets differ by an xor take equally many wavefronts, because a
swizzle is linear over F2 and an xor of all banks permutes them.  Under other strides those do that
differ by a translation.  Of such instructions one is counted for all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mugraph.dialects.cute import Swizzle
from mugraph.dialects.sched.mappings import IntArray, swizzled
from mugraph.dialects.tensor_types import AnyLayout, base_layout
from mugraph.passes.memory.wavefronts import (
    BANK_BYTES,
    WARP,
    WAVEFRONT_BYTES,
    group_wavefronts,
    lanes_pair_up,
    load_wavefronts,
)
from mugraph.passes.schedule.plan_swizzle.patterns import (
    Instruction,
    Pattern,
    offsets_along,
    offsets_under,
)

_IDLE_DIFFERENCE = -(1 << 40)


def _first_active(offsets: IntArray) -> IntArray:
    """The offset of the first lane that takes part, ``[instructions, 1]``."""
    return np.take_along_axis(offsets, np.argmax(offsets >= 0, axis=1)[:, None], axis=1)


def _distinct(keys: IntArray, floors: IntArray | None) -> tuple[IntArray, IntArray]:
    """The first of each kind of row, and how many rows are of its kind."""
    if floors is not None:
        keys = np.concatenate([keys, floors], axis=1)
    rows = np.ascontiguousarray(keys)
    packed = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, index, counts = np.unique(packed, return_index=True, return_counts=True)
    return index, counts


def _wavefronts(pattern: Pattern, addresses: IntArray, floors: IntArray | None) -> IntArray:
    """Of every instruction; ``floors`` are those of a copy's other side."""
    if pattern.instruction is Instruction.LOAD:
        return load_wavefronts(addresses, pattern.access_bytes)
    groups = group_wavefronts(addresses, pattern.access_bytes, pattern.lanes)
    return (groups if floors is None else np.maximum(groups, floors)).sum(axis=1)


def _total(pattern: Pattern, offsets: IntArray, counts: IntArray, kept: IntArray) -> IntArray:
    """The sum for each layout of ``offsets[layout, instruction, lane]``."""
    layouts, rows = offsets.shape[:2]
    addresses = np.where(offsets < 0, -1, offsets * pattern.element_bytes).reshape(-1, WARP)
    floors = None if pattern.floors is None else np.tile(pattern.floors[kept], (layouts, 1))
    each = _wavefronts(pattern, addresses, floors).reshape(layouts, rows)
    return each @ counts * pattern.executions


def swizzled_wavefronts(
    pattern: Pattern, strides: Sequence[int], swizzles: Sequence[Swizzle]
) -> IntArray:
    """The wavefronts a block spends on a pattern, for each swizzle over the same strides."""
    plain = offsets_under(pattern.coordinates, strides)
    idle = plain < 0
    keys = np.where(idle, -1, plain ^ _first_active(plain))
    kept, counts = _distinct(keys, pattern.floors)
    rows, idle = np.maximum(plain[kept], 0), idle[kept]
    masks = np.array([swizzle.source_mask for swizzle in swizzles], dtype=np.int64)
    shifts = np.array([swizzle.shift for swizzle in swizzles], dtype=np.int64)
    moved = (rows[None] & masks[:, None, None]) >> shifts[:, None, None]
    offsets = np.where(idle[None], -1, rows[None] ^ moved)
    return _total(pattern, offsets, counts, kept)


def nested_wavefronts(pattern: Pattern, layout: AnyLayout) -> int:
    """The wavefronts a block spends on a pattern under any layout without a constant."""
    plain = offsets_along(pattern.coordinates, base_layout(layout))
    offsets = np.where(plain < 0, -1, swizzled(layout, np.maximum(plain, 0)))
    every = np.arange(len(offsets), dtype=np.int64)
    return int(_total(pattern, offsets[None], np.ones(len(offsets), dtype=np.int64), every)[0])


def strided_wavefronts(pattern: Pattern, strides: Sequence[Sequence[int]]) -> IntArray:
    """The wavefronts a block spends on a pattern, for each choice of strides without a swizzle."""
    coordinates = pattern.coordinates
    idle = coordinates[..., 0] < 0
    first = np.argmax(~idle, axis=1)
    origin = coordinates[np.arange(len(coordinates)), first]
    moved = np.where(idle[..., None], _IDLE_DIFFERENCE, coordinates - origin[:, None, :])
    # Where elements are narrower than a bank, it matters where in a word an access starts.
    place = origin % max(1, BANK_BYTES // pattern.element_bytes)
    keys = np.concatenate([moved.reshape(len(moved), -1), place], axis=1)
    kept, counts = _distinct(keys, pattern.floors)
    offsets = np.stack([offsets_under(coordinates[kept], choice) for choice in strides])
    return _total(pattern, offsets, counts, kept)


def ideal(pattern: Pattern, strides: Sequence[int]) -> int:
    """Wavefronts that no layout of a pattern's elements can save, as a block spends them.

    A group of lanes needs as many as its bytes fill banks, and a copy what its other side takes.
    Loads are counted two groups at a time where the hardware may merge them.  ``strides`` are any
    that keep what is contiguous together.
    """
    offsets = offsets_under(pattern.coordinates, strides)
    addresses = np.where(offsets < 0, -1, offsets * pattern.element_bytes)
    lanes = pattern.lanes
    needed = _full_wavefronts(addresses, pattern.access_bytes, lanes)
    if pattern.floors is not None:
        needed = np.maximum(needed, pattern.floors)
    total: IntArray = needed.sum(axis=1)
    if pattern.instruction is Instruction.LOAD and lanes < WARP:
        merged = _full_wavefronts(addresses, pattern.access_bytes, 2 * lanes).sum(axis=1)
        fewest: IntArray = np.minimum(total, merged)
        total = np.where(lanes_pair_up(addresses), fewest, total)
    return int(total.sum()) * pattern.executions


def _full_wavefronts(addresses: IntArray, access_bytes: int, lanes: int) -> IntArray:
    """The distinct bytes that every group of lanes wants, over those of a wavefront, rounded up."""
    grouped = np.sort(addresses.reshape(len(addresses), -1, lanes), axis=2)
    is_new = grouped >= 0
    is_new[:, :, 1:] &= grouped[:, :, 1:] != grouped[:, :, :-1]
    return -(-is_new.sum(axis=2) * access_bytes // WAVEFRONT_BYTES)
