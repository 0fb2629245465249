"""What the memory system makes of a warp's addresses: wavefronts and sectors, by counting.

All functions take ``addresses``, the byte address of every lane, ``[instructions, 32]`` with -1
for lanes that are predicated off, and give one number an instruction.

The model of shared memory: 32 banks of 4-byte words, and a wavefront brings one word of each bank.
Lanes are served together in groups that need at most 32 words: a warp for accesses of up to 4
bytes, half-warps for 8, quarter-warps for 16, and the eight lines of one matrix for ``ldmatrix``.
A group takes as many wavefronts as its busiest bank has distinct words; a word that several lanes
want is brought once.

Loads of 8 and 16 bytes may be served two groups at a time, see :func:`load_wavefronts`; stores
and ``cp.async`` never are.  ``cp.async`` is bound by both of its sides, see
:func:`copy_wavefronts` and :func:`copy_sectors`.  Sources and measurements:
``docs/memory-access.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from mugraph.dialects.programming_model import (
    BANK_BYTES,
    BANKS,
    LINE_BYTES,
    MATRIX_ROW_BYTES,
    SECTOR_BYTES,
    WARP,
)

WAVEFRONT_BYTES = BANKS * BANK_BYTES

IntArray = npt.NDArray[np.int64]

_FEW = 16
"""Instructions that are counted faster than they are compared."""
_IDLE_WITHIN = -(1 << 40)
_KEYS = np.array([pow(0x9E3779B97F4A7C15, lane + 1, 1 << 62) for lane in range(WARP)], np.int64)
"""Factors that make one number of a row; rows of equal numbers are compared all the same."""


def lanes_together(access_bytes: int) -> int:
    """How many lanes one wavefront can serve; ``ValueError`` for a width that no access has."""
    if access_bytes not in (1, 2, 4, 8, 16):
        raise ValueError(
            f"a thread accesses 1, 2, 4, 8 or 16 bytes of shared memory at once, not {access_bytes}"
        )
    return min(WARP, WAVEFRONT_BYTES // access_bytes)


def lane_addresses(offsets: IntArray, element_bytes: int, start: int = 0) -> IntArray:
    """Byte addresses by warp instruction and lane, ``[instructions, 32]``; idle warps left out.

    ``offsets[instruction, thread]`` are in elements from ``start`` on, -1 for idle threads.
    """
    missing = -offsets.shape[1] % WARP
    if missing:
        offsets = np.pad(offsets, ((0, 0), (0, missing)), constant_values=-1)
    offsets = offsets.reshape(-1, WARP)
    addresses = start + offsets * element_bytes
    idle = offsets < 0
    if not idle.any():
        return addresses
    addresses[idle] = -1
    return addresses[~idle.all(axis=1)]


def distinct_instructions(addresses: IntArray) -> tuple[IntArray, IntArray] | None:
    """The first row of each kind, and the kind of every row; ``None`` where most are of their own.

    Rows of one kind are whole lines of all banks apart: they take equally many wavefronts and
    sectors.
    """
    if len(addresses) < _FEW:
        return None
    lines = addresses.max(axis=1, keepdims=True) & -WAVEFRONT_BYTES
    within = np.where(addresses < 0, _IDLE_WITHIN, addresses - lines)
    numbers = within @ _KEYS[: within.shape[1]]
    _, first, kind = np.unique(numbers, return_index=True, return_inverse=True)
    if 2 * len(first) > len(addresses) or not np.array_equal(within[first][kind], within):
        return None
    return first, kind


def _once_for_alike(count: Callable[[IntArray], IntArray], addresses: IntArray) -> IntArray:
    """``count`` of every row, computed once for each kind of row."""
    kinds = distinct_instructions(addresses)
    if kinds is None:
        return count(addresses)
    first, kind = kinds
    return count(addresses[first])[kind]


def group_wavefronts(addresses: IntArray, access_bytes: int, lanes: int) -> IntArray:
    """The wavefronts of every group of ``lanes`` lanes, ``[instructions, groups]``."""
    return _once_for_alike(lambda rows: _group_wavefronts(rows, access_bytes, lanes), addresses)


def _group_wavefronts(addresses: IntArray, access_bytes: int, lanes: int) -> IntArray:
    grouped = addresses.reshape(-1, lanes)
    words = _words(grouped, access_bytes)
    words.sort(axis=1)
    is_new = np.ones_like(words, dtype=np.bool_)
    is_new[:, 1:] = words[:, 1:] != words[:, :-1]
    is_new &= words >= 0
    row, column = np.nonzero(is_new)
    slots = row * BANKS + words[row, column] % BANKS
    counts = np.bincount(slots, minlength=grouped.shape[0] * BANKS).reshape(-1, BANKS)
    return counts.max(axis=1).reshape(addresses.shape[0], addresses.shape[1] // lanes)


def _words(addresses: IntArray, access_bytes: int) -> IntArray:
    """The words that each row of lanes touches; -1 for idle lanes."""
    count = max(1, access_bytes // BANK_BYTES)
    words = (addresses // BANK_BYTES)[:, :, None] + np.arange(count)
    words[addresses < 0] = -1
    return words.reshape(addresses.shape[0], addresses.shape[1] * count)


def store_wavefronts(addresses: IntArray, access_bytes: int) -> IntArray:
    """The wavefronts of stores to shared memory."""
    return group_wavefronts(addresses, access_bytes, lanes_together(access_bytes)).sum(axis=1)


def copy_wavefronts(targets: IntArray, sources: IntArray, access_bytes: int) -> IntArray:
    """The wavefronts of ``cp.async``, from where each lane writes and where it reads.

    Each group takes the greater of what a store to ``targets`` would, and of what it would if the
    ``sources`` lay in the same 32 banks: device memory comes through those of the L1 cache.
    """
    lanes = lanes_together(access_bytes)
    written = group_wavefronts(targets, access_bytes, lanes)
    read = group_wavefronts(sources, access_bytes, lanes)
    return np.maximum(written, read).sum(axis=1)


def load_wavefronts(addresses: IntArray, access_bytes: int) -> IntArray:
    """The wavefronts of loads from shared memory.

    Loads of 8 or 16 bytes are served two groups at a time, half as many wavefronts, where all
    lanes that differ in bit 0 of their number, or all that differ in bit 1, want the same address
    (idle lanes want any), and no two lanes want different words of one bank.
    """
    lanes = lanes_together(access_bytes)
    separate = group_wavefronts(addresses, access_bytes, lanes)
    total = separate.sum(axis=1)
    if lanes == WARP:
        return total
    merged = group_wavefronts(addresses, access_bytes, 2 * lanes)
    has_pairs = lanes_pair_up(addresses)
    is_free = np.less_equal(merged.max(axis=1), 1)
    fewest: IntArray = np.minimum(total, merged.sum(axis=1))
    return np.where(has_pairs & is_free, fewest, total)


def lanes_pair_up(addresses: IntArray) -> npt.NDArray[np.bool_]:
    """Whether all lanes that differ in bit 0, or all in bit 1, of their number want one address."""
    return _lanes_agree(addresses, 1) | _lanes_agree(addresses, 2)


def _lanes_agree(addresses: IntArray, bit: int) -> npt.NDArray[np.bool_]:
    """Whether active lanes whose numbers differ in ``bit`` want the same address."""
    other = addresses[:, np.arange(WARP) ^ bit]
    agree: npt.NDArray[np.bool_] = (addresses == other) | (addresses < 0) | (other < 0)
    return np.all(agree, axis=1)


def ldmatrix_wavefronts(addresses: IntArray) -> IntArray:
    """The wavefronts of ``ldmatrix``: lanes 8 q to 8 q + 7 give the lines of matrix q."""
    return group_wavefronts(addresses, MATRIX_ROW_BYTES, 8).sum(axis=1)


def moved(
    addresses: IntArray,
    access_bytes: int,
    *,
    shared: bool,
    writes: bool,
    other: IntArray | None = None,
    collective: bool = False,
) -> IntArray:
    """The wavefronts of every warp instruction, or in device memory the sectors.

    ``other`` are the addresses on the other side of a ``cp.async``; ``collective`` is ``ldmatrix``.
    """
    if collective:
        return ldmatrix_wavefronts(addresses)
    if other is not None:
        both = (addresses, other) if shared else (other, addresses)
        return (copy_wavefronts if shared else copy_sectors)(*both, access_bytes)
    if not shared:
        return sectors(addresses, access_bytes)
    return (store_wavefronts if writes else load_wavefronts)(addresses, access_bytes)


def ideal_wavefronts(addresses: IntArray, access_bytes: int) -> IntArray:
    """The bytes that the lanes ask for, over the 128 of a wavefront, rounded up."""
    return _rounded_up((addresses >= 0).sum(axis=1) * access_bytes, WAVEFRONT_BYTES)


def sectors(addresses: IntArray, access_bytes: int) -> IntArray:
    """The distinct 32-byte sectors of device memory that the lanes touch."""
    return _once_for_alike(lambda rows: _sectors(rows, access_bytes), addresses)


def _sectors(addresses: IntArray, access_bytes: int) -> IntArray:
    first, last = addresses // SECTOR_BYTES, (addresses + access_bytes - 1) // SECTOR_BYTES
    idle = addresses < 0
    touched = np.concatenate([np.where(idle, -1, first), np.where(idle, -1, last)], axis=1)
    touched.sort(axis=1)
    is_new = np.ones_like(touched, dtype=np.bool_)
    is_new[:, 1:] = touched[:, 1:] != touched[:, :-1]
    return (is_new & (touched >= 0)).sum(axis=1)


def lines(addresses: IntArray) -> IntArray:
    """The distinct lines of the first-level cache, of 128 bytes, that the lanes touch."""
    return sectors(addresses * SECTOR_BYTES // LINE_BYTES, 1)


def sector_residues(steps: Iterable[tuple[int, int]], start: int = 0) -> Counter[int]:
    """Where tiles start within a sector, in bytes, and how many start there.

    One starts at ``start`` plus, for each pair of an extent and a stride in bytes, any multiple of
    the stride below the extent.  Multiples repeat within a sector, so that extents may be large.
    """
    counts = Counter([start % SECTOR_BYTES])
    for extent, stride in steps:
        period = SECTOR_BYTES // math.gcd(SECTOR_BYTES, stride)
        rounds, rest = divmod(extent, period)
        moved = Counter[int]()
        for index in range(min(period, extent)):
            for residue, times in counts.items():
                moved[(residue + index * stride) % SECTOR_BYTES] += times * (
                    rounds + (index < rest)
                )
        counts = moved
    return counts


def copy_sectors(targets: IntArray, sources: IntArray, access_bytes: int) -> IntArray:
    """The sectors of device memory that ``cp.async`` asks for.

    Each wavefront of the writes asks for its own: lanes that read one sector and whose writes
    cannot be served together ask for it twice.
    """
    lanes = lanes_together(access_bytes)
    passes = _write_passes(targets.reshape(-1, lanes), access_bytes)
    # Lanes of a pass keep their source, all others are idle: one row a pass.
    read = np.where(
        passes[:, None, :] == np.arange(lanes)[:, None], sources.reshape(-1, 1, lanes), -1
    )
    touched = sectors(read.reshape(-1, lanes), access_bytes)
    return touched.reshape(targets.shape[0], -1).sum(axis=1)


def _write_passes(targets: IntArray, access_bytes: int) -> IntArray:
    """In which of its group's wavefronts each lane writes, ``[groups, lanes]``.

    Lanes that write one place go together; of those that write different places in the same banks
    the lower lane goes first.
    """
    places = targets // access_bytes
    banks = places % (WAVEFRONT_BYTES // access_bytes)
    passes = np.zeros_like(targets)
    is_first = np.zeros(targets.shape, dtype=np.bool_)
    for lane in range(targets.shape[1]):
        same = places[:, :lane] == places[:, lane, None]
        blocked = is_first[:, :lane] & (banks[:, :lane] == banks[:, lane, None])
        joined = np.where(same, passes[:, :lane], 0).max(axis=1, initial=0)
        is_first[:, lane] = ~same.any(axis=1) & (targets[:, lane] >= 0)
        passes[:, lane] = np.where(is_first[:, lane], blocked.sum(axis=1), joined)
    return passes


def ideal_sectors(addresses: IntArray, access_bytes: int) -> IntArray:
    """The bytes that the lanes ask for, over the 32 of a sector, rounded up."""
    return _rounded_up((addresses >= 0).sum(axis=1) * access_bytes, SECTOR_BYTES)


def _rounded_up(amount: IntArray, unit: int) -> IntArray:
    return (amount + unit - 1) // unit
