"""Who touches which bytes of a buffer with one kind of instruction, as a dense array.

Shared memory is counted in *granules*: the largest unit that divides every element of a kernel's
buffers, one or a few bytes.  A footprint holds one number a granule, so that two accesses are
compared by comparing slices of two arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mugraph.dialects import sched
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.sched.mappings import IDLE

OwnerArray: TypeAlias = npt.NDArray[np.int32]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

NOBODY = 0
"""No thread touches the granule; thread t is written t + 1."""
SEVERAL = -1
"""More than one thread touches the granule."""


@dataclass(frozen=True, eq=False)
class Footprint:
    """The granules that one access touches, from granule ``low`` of the buffer's stage on.

    ``owners[g]`` is ``NOBODY``, the touching thread plus 1, or ``SEVERAL``.  Only bytes whose
    values can reach a result count.
    """

    low: int
    owners: OwnerArray
    touched: BoolArray
    is_whole: bool
    """Whether every granule of the range is touched."""
    is_shared: bool
    """Whether some granule is touched by more than one thread."""

    @property
    def high(self) -> int:
        """One past the last granule."""
        return self.low + len(self.owners)


def footprint_of(
    access: sched.ThreadAccess, granule: int, first_thread: int = 0
) -> Footprint | None:
    """The footprint of an access in granules of ``granule`` bytes; ``None`` where it is empty.

    The access counts threads from thread ``first_thread`` of the block on.

    An ``ldmatrix`` hands part of every line to every lane, so each of its lines has several
    readers.
    """
    unit, units, threads = _units(access)
    if not units.size:
        return None
    low = int(units.min())
    places = units - low
    owners = np.zeros(int(places.max()) + 1, dtype=np.int32)
    if access.warp_collective:
        owners[places] = SEVERAL
        is_shared = True
    else:
        marks = (threads + (first_thread + 1)).astype(np.int32)
        owners[places] = marks
        others = owners[places] != marks
        is_shared = bool(others.any())
        if is_shared:
            owners[places[others]] = SEVERAL
    granules = unit * access.element_bytes // granule
    owners = np.repeat(owners, granules)
    touched = owners != NOBODY
    return Footprint(low * granules, owners, touched, bool(touched.all()), is_shared)


def _units(
    access: sched.ThreadAccess,
) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The size of a unit in elements, and which unit each thread touches, one entry a touch.

    Units are whole vectors where all vectors are aligned and count as a whole; else elements.
    """
    offsets, width = access.offsets, access.width
    threads = np.broadcast_to(np.arange(offsets.shape[1], dtype=np.int64), offsets.shape)
    active = offsets != IDLE
    if access.significant is not None:
        active = active & (access.significant > 0)
    starts, threads = offsets[active], threads[active]
    is_aligned = width > 1 and not (starts % width).any()
    if access.significant is None:
        if width == 1 or is_aligned:
            return width, starts // width, threads
        counts = np.full(starts.shape, width)
    else:
        counts = access.significant[active]
        if width == 1 or (is_aligned and bool((counts == width).all())):
            return width, starts // width, threads
    steps = np.arange(width, dtype=np.int64)
    counted = steps < counts[:, None]
    elements = (starts[:, None] + steps)[counted]
    return 1, elements, np.broadcast_to(threads[:, None], counted.shape)[counted]


def threads_at(
    access: sched.ThreadAccess, granule: int, position: int, threads: int, first_thread: int = 0
) -> list[int]:
    """The threads of the block that touch granule ``position`` of the buffer's stage, in order.

    ``threads`` is how many run the operator, from thread ``first_thread`` of the block on.
    """
    element = position * granule // access.element_bytes
    counts = access.width if access.significant is None else access.significant
    offsets = access.offsets
    hit = (offsets != IDLE) & (offsets <= element) & (element < offsets + counts)
    found = {int(thread) for thread in np.nonzero(hit)[1]}
    if access.warp_collective:
        warps = {thread // WARP for thread in found}
        found = {
            thread
            for warp in warps
            for thread in range(warp * WARP, min((warp + 1) * WARP, threads))
        }
    return sorted(first_thread + thread for thread in found)
