"""Random layouts for tests against other implementations: seeded, of every kind there is."""

from __future__ import annotations

import random
from typing import Any

from mugraph.dialects.cute import ComposedLayout, Layout, Swizzle
from mugraph.dialects.cute.int_tuple import flatten, size, unflatten

SMALL_EXTENTS = (1, 2, 2, 3, 4, 4, 5, 6, 8)
POWERS = (1, 2, 2, 4, 4, 8)


def random_shape(
    rng: random.Random, extents: tuple[int, ...] = SMALL_EXTENTS, rank: int | None = None
) -> Any:
    """A shape of rank up to 3 whose modes are nested at most once, of at most 512 elements."""
    while True:
        modes = rank if rank is not None else rng.randint(0, 3)
        if modes == 0:
            shape: Any = rng.choice(extents)
        else:
            shape = tuple(
                rng.choice(extents)
                if rng.random() < 0.65
                else tuple(rng.choice(extents) for _leaf in range(rng.randint(1, 3)))
                for _mode in range(modes)
            )
        if size(shape) <= 512:
            return shape


def permuted_strides(rng: random.Random, shape: Any, gaps: bool) -> Any:
    """Strides of an injective layout: the leaves laid down in a random order, perhaps padded."""
    leaves = flatten(shape)
    strides = [0] * len(leaves)
    step = 1
    for leaf in rng.sample(range(len(leaves)), len(leaves)):
        if gaps and rng.random() < 0.3:
            step *= rng.choice((2, 3))
        strides[leaf] = step if leaves[leaf] > 1 else 0
        step *= leaves[leaf]
    return unflatten(tuple(strides), shape)


def random_layout(
    rng: random.Random,
    kind: str | None = None,
    extents: tuple[int, ...] = SMALL_EXTENTS,
    rank: int | None = None,
) -> Layout[int]:
    """A layout of a kind: compact, padded, broadcast (some strides 0) or wild (any strides)."""
    kind = kind or rng.choice(("compact", "compact", "padded", "broadcast", "wild"))
    shape = random_shape(rng, extents, rank)
    strides = permuted_strides(rng, shape, gaps=kind == "padded")
    if kind == "broadcast":
        flat = [0 if rng.random() < 0.4 else step for step in flatten(strides)]
        strides = unflatten(tuple(flat), shape)
    elif kind == "wild":
        flat = [
            0 if extent == 1 else rng.choice((0, 1, 2, 3, 4, 6, 8, 12, 16, 24))
            for extent in flatten(shape)
        ]
        strides = unflatten(tuple(flat), shape)
    return Layout(shape, strides)


def random_swizzled(rng: random.Random, rank: int | None = None) -> ComposedLayout:
    """A swizzled layout over powers of two: a permutation of its elements."""
    while True:
        layout = random_layout(rng, "compact", POWERS, rank)
        bits = rng.randint(1, 3)
        swizzle = Swizzle(bits, rng.randint(0, 3), rng.choice((1, -1)) * rng.randint(bits, 4))
        if swizzle.period() <= layout.size():
            return ComposedLayout(swizzle, 0, layout)


def plain_extents_of_one(layout: Layout[Any]) -> Layout[Any]:
    """The layout with stride 0 wherever the extent is 1, where the stride means nothing."""
    flat = [
        0 if extent == 1 else step
        for extent, step in zip(layout.flat_shape, layout.flat_stride, strict=True)
    ]
    return Layout(layout.shape, unflatten(tuple(flat), layout.shape))
