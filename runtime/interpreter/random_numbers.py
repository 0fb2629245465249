"""Random numbers by Philox4x32-10, the twin of ``kn/random.h``.

Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mugraph.dialects.kn.random import Distribution
from mugraph.runtime.interpreter.arithmetic import Array
from mugraph.runtime.interpreter.components import ComponentArray

Words = npt.NDArray[np.uint64]
"""Numbers of 32 bits, or products of two."""

ROUNDS = 10
FACTORS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
WORD = 0xFFFFFFFF


def philox(counters: Sequence[Words], key: Sequence[int]) -> list[Words]:
    """The four words that Philox makes of each four words of counters, under a key of two words."""
    x = [np.asarray(word, np.uint64) for word in counters]
    for number in range(ROUNDS):
        low, high = (
            np.uint64((word + number * step) & WORD)
            for word, step in zip(key, KEY_STEPS, strict=True)
        )
        first, second = (np.uint64(factor) * x[2 * i] for i, factor in enumerate(FACTORS))
        x = [
            second >> np.uint64(32) ^ x[1] ^ low,
            second & np.uint64(WORD),
            first >> np.uint64(32) ^ x[3] ^ high,
            first & np.uint64(WORD),
        ]
    return x


def random_numbers(
    distribution: Distribution, shape: Sequence[int], seed: Array, offset: Array
) -> Array:
    """What ``kn.random`` gives: integers, or numbers in float64 before they are rounded."""
    if isinstance(seed, ComponentArray):
        return seed.random(distribution, shape, offset)
    key, start = (int(value.reshape(-1)[0]) % 2**64 for value in (seed, offset))
    count = math.prod(shape)
    counters = np.arange(-(-count // 4), dtype=np.uint64) + np.uint64(start)
    zero = np.zeros_like(counters)
    words = philox(
        [counters & np.uint64(WORD), counters >> np.uint64(32), zero, zero],
        [key & WORD, key >> 32],
    )
    numbers = np.stack(_DISTRIBUTIONS[distribution](words), -1)
    return numbers.reshape(-1)[:count].reshape(*shape)


def _bits(words: Sequence[Words]) -> list[Array]:
    return [word.astype(np.uint32).view(np.int32).astype(np.int64) for word in words]


def _uniform(words: Sequence[Words]) -> list[Array]:
    return [(word >> np.uint64(8)).astype(np.float64) * 2.0**-24 for word in words]


def _normal(words: Sequence[Words]) -> list[Array]:
    uniform = _uniform(words)
    numbers: list[Array] = []
    for u, v in (uniform[:2], uniform[2:]):
        size = np.sqrt(-2 * np.log(u + 2.0**-24))
        numbers += [size * of_turns for of_turns in _cos_and_sin(v)]
    return numbers


def _cos_and_sin(turns: Array) -> tuple[Array, Array]:
    """Both of so many turns; exact where they are 0 or 1."""
    quarters = np.rint(4 * turns)
    angle = (turns - quarters / 4) * (2 * math.pi)
    cos, sin = np.cos(angle), np.sin(angle)
    quarter = quarters.astype(np.int64) % 4
    return (
        np.choose(quarter, [cos, -sin, -cos, sin]),
        np.choose(quarter, [sin, cos, -sin, -cos]),
    )


_DISTRIBUTIONS = {
    Distribution.BITS: _bits,
    Distribution.UNIFORM: _uniform,
    Distribution.NORMAL: _normal,
}
