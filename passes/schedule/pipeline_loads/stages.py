"""How many stages the loads of a loop have: pure functions of sizes, with no IR in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from mugraph.passes.targets import Target

MIN_STAGES, MAX_STAGES = 2, 8
"""Bounds on the copies of a pipelined buffer."""


def choose_stages(
    tile_bytes: int, blocks: int, iterations: int, shared_bytes: int, target: Target
) -> int:
    """The fewest copies of the pipelined buffers that cover the latency of device memory.

    ``tile_bytes`` are loaded an iteration by each of ``blocks`` blocks; ``shared_bytes`` is what
    one block needs with a single stage.  Between 2 and 8, but never more than there are
    iterations; 1 where nothing is loaded in the loop.
    """
    if tile_bytes == 0 or iterations == 1:
        return 1
    resident = max(1, min(blocks // target.multiprocessors, _blocks_that_fit(shared_bytes, target)))
    needed = target.bytes_in_flight_per_multiprocessor()
    ahead = math.ceil(needed / (tile_bytes * resident))
    return min(max(ahead + 1, MIN_STAGES), MAX_STAGES, iterations)


MAX_RING_STAGES = 16
"""The most stages of a channel: more only lengthen what runs before the loop."""


class Ring(NamedTuple):
    """What comes through one channel: the bytes of a stage.

    Beside the stage that is being read, ``kept`` more are in use by products that run behind the
    program.
    """

    stage_bytes: int
    kept: int = 0


Stages = tuple[int, ...]
"""The stages of each ring of a kernel, in the rings' order."""


def choose_ring_stages(
    rings: Sequence[Ring], resident: int, iterations: int, target: Target, flight: int = 0
) -> Stages:
    """The stages of each ring that keep what bulk copies should have on their way.

    An iteration uses a stage of every ring, so all rings run equally far ahead of it: so many
    iterations that their bytes together are enough, with those of the ``resident`` blocks that
    share a multiprocessor.  ``flight`` are enough, or what is enough of tiles of one block alone.
    """
    tile_bytes = sum(ring.stage_bytes for ring in rings)
    if tile_bytes == 0 or iterations == 1 or target.bulk_bytes_in_flight is None:
        return (1,) * len(rings)
    flight = flight or target.bulk_bytes_in_flight
    ahead = math.ceil(flight / (tile_bytes * resident))
    most = min(MAX_RING_STAGES, iterations)
    return tuple(min(max(ahead + 1 + ring.kept, MIN_STAGES), most) for ring in rings)


def fewer_stages(
    rings: Sequence[Ring], stages: Stages, excess: int, *, least: int = 1
) -> Stages | None:
    """The stages left when ``excess`` bytes are given up; ``None`` where ``least`` each are more.

    One after the other, each time in the ring that runs furthest ahead; of several such in that of
    the largest tiles, and of these in the last, whose tiles are needed latest in an iteration.
    """
    left = list(stages)
    while excess > 0:
        rest = [number for number, count in enumerate(left) if count > least]
        if not rest:
            return None
        most = max(
            rest,
            key=lambda number: (
                left[number] - rings[number].kept,
                rings[number].stage_bytes,
                number,
            ),
        )
        left[most] -= 1
        excess -= rings[most].stage_bytes
    return tuple(left)


def asked_stages(asked: Stages, rings: int, iterations: int) -> Stages:
    """What a user asked for, the last number for all rings that follow; as many as iterations."""
    wanted = (*asked, *asked[-1:] * rings)[:rings]
    return tuple(min(count, iterations) for count in wanted)


def _blocks_that_fit(shared_bytes: int, target: Target) -> int:
    if shared_bytes == 0:
        return target.max_blocks_per_multiprocessor
    return max(1, target.shared_memory_per_multiprocessor // shared_bytes)
