"""How long a kernel takes that adds up what blocks of a divided loop have computed."""

from __future__ import annotations

from functools import cache

from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.kernels import estimate
from mugraph.passes.costs.loads import Load, Loads
from mugraph.passes.costs.work import PhaseWork
from mugraph.passes.mugraph.plan.bounds import PART_BYTES
from mugraph.passes.targets import Target

NO_WORK = PhaseWork((), 0)
OPERATORS_OF_COMBINATION = 3
"""On each part: a product with its weight, the accumulator, and its rescaling."""
USUAL_THREADS = 256
"""Enough to copy and to share products, few enough to have many registers each."""
FEWEST_SUMS = 128
"""A block that combines parts has as many sums."""


@cache
def combination_time(
    blocks: int,
    parts: int,
    split: int,
    stored_bytes: int,
    parallel: int,
    target: Target,
    after: PhaseWork = NO_WORK,
    shared: int = 0,
) -> float | None:
    """Nanoseconds of the kernel that adds up what blocks have stored, partitioned anew.

    Each of ``blocks`` tiles has ``parts`` sums, ``split`` times over.  The kernel's blocks divide
    the tiles further, along what is ``parallel``, over so many blocks at most, and load all parts
    of theirs at once.  Of products ``after`` the loop the columns are parallel: each block loads
    all the ``shared`` sums that are their left matrices.
    """
    times: list[float] = []
    spread, results = 1, stored_bytes // PART_BYTES if shared else parts
    while spread <= max(1, min(results // FEWEST_SUMS, parallel)):
        own = shared + (parts - shared) // spread
        loaded = own * PART_BYTES * split
        shape = KernelShape(
            blocks * spread,
            USUAL_THREADS,
            1,
            Loads((Load(loaded, parts * PART_BYTES * blocks * split, looped=False),)),
            PhaseWork((), OPERATORS_OF_COMBINATION * own * split),
            after.shared_by(spread) if shared else NO_WORK._replace(elements=own),
            stored_bytes // spread,
            own * PART_BYTES + loaded,
        )
        time = estimate(shape, target)
        if time is not None:
            times.append(time)
        spread *= 2
    return min(times, default=None)
