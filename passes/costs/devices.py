"""What it takes to move tensors between devices of one host.

Fitted by ``python -m benchmarks.collective_costs`` to what two and four H200 took
(``benchmarks/results/collectives_h200x2.json`` and ``collectives_h200x4.json``); they serve other
hosts for want of better ones.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.ir import SSAValue

from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.targets import Target

SHORT = 2**21
"""What is loaded beyond so many bytes comes at the link's pace."""
COPIED_BYTES = 365e3
"""Bytes in a microsecond that a copy engine moves to or from another H200."""
MOST_LOADED = 2**24
"""A device loads no more than this from others: longer exchanges were not measured."""


@dataclass(frozen=True)
class Links:
    """What exchanges take between so many devices of a host."""

    library: Sequence[tuple[int, float]]
    """NCCL's collectives: the bytes that a device sends, and microseconds."""
    start: float
    """Loads from other devices: microseconds to begin with."""
    launch: float
    """Microseconds of each kernel or meeting of all devices."""
    loaded_bytes: float
    """Bytes that are loaded in a microsecond, of the first ``SHORT``."""
    link_bytes: float
    """Bytes that are loaded in a microsecond beyond these."""
    moved_bytes: float
    """Bytes in a microsecond that long copies bring from another's memory."""
    gathered_bytes: float
    """Bytes in a microsecond of tensors that are gathered, as partitioning counts them."""
    exchanged_bytes: float
    """The same of all-to-alls."""
    kernel_bytes: float
    """Bytes in a microsecond that kernels store in, or load from, the memory of all others."""


MEASURED = {
    # Which way is faster comes out right for 18 of 19 programs; the other differs by 1.5 µs.  What
    # is loaded beyond SHORT is of 8 and 16 MiB behind products of 1,024 rows, what is moved what
    # NCCL moves from 16 to 64 MiB.
    2: Links(
        library=(
            (2_048, 11.03),
            (4_096, 11.88),
            (32_768, 11.52),
            (65_536, 12.77),
            (131_072, 12.39),
            (262_144, 13.82),
            (1_048_576, 20.81),
            (2_097_152, 31.83),
            (8_388_608, 55.84),
            (16_777_216, 77.63),
            (33_554_432, 165.07),
            (67_108_864, 250.96),
        ),
        start=3.6,
        launch=2.2,
        loaded_bytes=1507e3,
        link_bytes=266e3,
        moved_bytes=290e3,
        # Partitioning chose right by the pace of a copy engine.
        gathered_bytes=COPIED_BYTES,
        exchanged_bytes=COPIED_BYTES,
        kernel_bytes=290e3,
    ),
    # 17 of 18 programs; the other differs by 1 µs.
    4: Links(
        library=(
            (3_072, 12.18),
            (6_144, 15.66),
            (49_152, 13.38),
            (98_304, 15.15),
            (196_608, 14.01),
            (393_216, 17.12),
            (1_572_864, 22.67),
            (3_145_728, 31.90),
            (12_582_912, 65.87),
            (25_165_824, 98.98),
            (50_331_648, 193.89),
            (100_663_296, 325.60),
        ),
        start=-0.6,
        launch=4.3,
        loaded_bytes=276e3,
        link_bytes=228e3,
        moved_bytes=373e3,
        # Kernels store 320 to 334 at three others, and NCCL gathers 260: the programs of a gather
        # or an all-to-all have no product beside it.  All-to-alls are loads.
        gathered_bytes=320e3,
        exchanged_bytes=228e3,
        # Stores of products, sums and copies 320 to 334, loads of 50.3 MB behind a meeting 333.
        kernel_bytes=333e3,
    ),
}


def links_between(devices: int) -> Links:
    """What exchanges take between so many devices, or the nearest number that was measured."""
    return MEASURED[min(MEASURED, key=lambda measured: (abs(measured - devices), -measured))]


class PeerLoads(NamedTuple):
    """A collective as loads from other devices."""

    devices: int
    launches: int
    """Kernels and meetings that there would not be otherwise."""
    loaded: int
    """Bytes that each device loads from the others."""

    @property
    def microseconds(self) -> float:
        """What they take; infinite where it is not known."""
        if self.loaded > MOST_LOADED:
            return math.inf
        links = links_between(self.devices)
        short = min(self.loaded, SHORT)
        loading = short / links.loaded_bytes + (self.loaded - short) / links.link_bytes
        return links.start + self.launches * links.launch + loading


TILE, WIDE_TILE = 128, 256
"""The extents of tiles in which products are computed: those of fewer rows take as long."""


def sent_beside(made: float, sent: float, result: SSAValue, target: Target) -> float:
    """The time of a product whose result is sent, from the times of both, in any unit.

    The tiles of a round are sent while the next round is computed; those of the last one after it.
    Where each multiprocessor has one tile, all of the result is sent behind the product.
    """
    tiles = math.prod(shape_of(result.type)) / (TILE * WIDE_TILE)
    rounds = math.ceil(tiles / target.multiprocessors)
    return (made + sent + (rounds - 1) * max(made, sent)) / rounds


def library_microseconds(devices: int, sent: int) -> float:
    """What a collective of the library takes in which each of the devices sends so many bytes."""
    return _between(links_between(devices).library, sent)


def _between(points: Sequence[tuple[int, float]], size: int) -> float:
    """What was measured, with a straight line between each two of the points."""
    behind = min(max(bisect_left(points, (size, 0.0)), 1), len(points) - 1)
    (low, fast), (high, slow) = points[behind - 1 : behind + 1]
    return max(points[0][1], fast + (slow - fast) * (size - low) / (high - low))


__all__ = [
    "COPIED_BYTES",
    "TILE",
    "WIDE_TILE",
    "Links",
    "PeerLoads",
    "library_microseconds",
    "links_between",
    "sent_beside",
]
