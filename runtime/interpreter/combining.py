"""How threads combine numbers: one by one, by halves of vectors, and lane by lane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mugraph.dialects import sched
from mugraph.runtime.interpreter.arithmetic import Array

COMBINERS: dict[sched.Combiner, tuple[Callable[[Array, Array], Array], float]] = {
    sched.Combiner.SUM: (np.add, 0.0),
    sched.Combiner.MAX: (np.maximum, -np.inf),
}
"""What makes one number of two, and what changes none."""


def halved(vectors: Array, combine: Callable[[Array, Array], Array]) -> Array:
    """The halves of vectors, [..., vector, threads], combined until one number of each is left."""
    while vectors.shape[-2] > 1:
        half = vectors.shape[-2] // 2
        vectors = combine(vectors[..., :half, :], vectors[..., half:, :])
    return vectors[..., 0, :]


def combine_lanes(
    totals: Array, lanes: int, combiner: sched.Combiner = sched.Combiner.SUM
) -> Array:
    """Combines ``lanes`` neighbouring threads, over the distances lanes / 2, ..., 2, 1.

    [..., threads] to the same extents; every lane has the result.  Twin of the butterfly of
    ``Reduce``; threads past the last whole group change nothing.
    """
    combine, identity = COMBINERS[combiner]
    threads = totals.shape[-1]
    shape = (*totals.shape[:-1], -(-threads // lanes) * lanes)
    padded = np.full(shape, identity, totals.dtype)
    padded[..., :threads] = totals
    grouped = padded.reshape(*totals.shape[:-1], -1, lanes)
    distance = lanes // 2
    lane = np.arange(lanes)
    while distance:
        grouped = combine(grouped, grouped[..., lane ^ distance])
        distance //= 2
    return grouped.reshape(padded.shape)[..., :threads]
