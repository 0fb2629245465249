"""How long the runtime's kernel of sums so far takes (``runtime/include/mugraph/kn/scan.h``)."""

from __future__ import annotations

import math
from typing import NamedTuple

from mugraph.passes.targets import Target

BUSY_THREADS = 1 << 17
"""Threads that the kernel wants at least; few runs are shared by as many blocks as that needs."""
LEAST_THREADS, MOST_LANES, LANES_ACROSS = 256, 1024, 128
HELD, HELD_OF_HALVES = 8, 16
"""Elements that a thread has of a run at a time."""
SHORTEST_PART = 1024
ROUND_NS = 1500.0
"""What a block takes for one round of a run behind another one: 16 runs of 65,536 numbers took 15.4
us on an H200 by one block of eight rounds each (``benchmarks/results/recurrences_h200.md``)."""
ALONG_BYTES_A_NS, ACROSS_BYTES_A_NS = 110.0, 40.0
"""What a block reads of what lies before its part, where a run's elements are neighbours in memory
and where runs are.

4 runs of 1,048,576 numbers took 42.7 us on an H200, whose last blocks read 4.1 MB before their
part, and 16 runs of 65,536 that lie side by side 54.4, of 2.1 MB."""


class ScanShape(NamedTuple):
    """The runs that are summed."""

    runs: int
    length: int
    """Elements of each."""
    element_bytes: int
    is_along: bool
    """Whether the elements of a run are neighbours in memory."""
    has_decays: bool = False


def power_of_two_from(least: int, most: int) -> int:
    """The power of two that is at least so large, or the largest that is not larger than one."""
    power = 1
    while power < least and power < most:
        power *= 2
    return power


class Shared(NamedTuple):
    """How blocks share runs."""

    threads: int
    lanes: int
    """Threads that share a run in a block."""
    held: int
    """Elements that a thread has of a run at a time."""


def shared(shape: ScanShape, target: Target) -> Shared:
    """How many threads have a run, as ``kn::Scan`` chooses."""
    is_wide = shape.is_along and not shape.has_decays and shape.element_bytes < 4
    held = HELD_OF_HALVES if is_wide else HELD
    parts = math.ceil(shape.length / held)
    if shape.is_along:
        warp = power_of_two_from(parts, target.warp_size)
        enough = shape.runs * warp >= BUSY_THREADS
        lanes = warp if enough else power_of_two_from(parts, MOST_LANES)
        return Shared(max(lanes, LEAST_THREADS), lanes, held)
    most = power_of_two_from(parts, LANES_ACROSS)
    lanes = power_of_two_from(math.ceil(BUSY_THREADS / shape.runs), most)
    return Shared(LEAST_THREADS if lanes < target.warp_size else MOST_LANES, lanes, held)


def later_rounds_ns(shape: ScanShape, target: Target) -> float:
    """Nanoseconds that the last block of a run takes but for its first round.

    A block reads all that lies before its part, so that of a few long runs the last block bounds
    the kernel.
    """
    threads, lanes, held = shared(shape, target)
    side_by_side = threads // lanes
    rounds = math.ceil(shape.length / (held * lanes))
    room = BUSY_THREADS // (math.ceil(shape.runs / side_by_side) * threads)
    own = rounds if shape.has_decays or room <= 1 else math.ceil(rounds / room)
    before = math.ceil(rounds / own) * own - own
    round_bytes = lanes * held * min(side_by_side, shape.runs) * shape.element_bytes
    rate = ALONG_BYTES_A_NS if shape.is_along else ACROSS_BYTES_A_NS
    return (own - 1 + (before > 0)) * ROUND_NS + before * round_bytes / rate


def parts_of_runs(shape: ScanShape, target: Target) -> int:
    """Into how many equal parts each run is divided, so that all blocks have some; 1 for none.

    Parts are at least :data:`SHORTEST_PART` long.  16 runs of 65,536 numbers side by side took 22.6
    and 18.1 us on an H200 in 32 and 64 parts, 4 runs of 1,048,576 40.4 and 30.5 in 16 and 64.
    """
    lanes = shared(shape, target).lanes
    wanted = min(2 * BUSY_THREADS // (shape.runs * lanes), shape.length // SHORTEST_PART)
    return next(count for count in range(max(wanted, 1), 0, -1) if shape.length % count == 0)
