"""Copies into and out of shared memory, summed over the loop: 80 layouts and block shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from cases.case import Array, Case, Level, Range
from cases.functions import summed_budget
from cases.graph import Graph

SHAPES = {
    "even": (1, 16, 16, 8, 8),
    "n-odd": (1, 16, 18, 8, 9),
    "m-odd": (1, 18, 16, 9, 8),
    "both-odd": (1, 18, 18, 9, 9),
    "random": (2, 68, 72, 17, 6),
    "large": (16, 4096, 4096, 128, 128),
}
"""b, m, n and the tile's m and n."""

BLOCKS = ((32, 1, 1), (32, 2, 1), (128, 1, 1), (8, 8, 4))


def strides_of(b: int, m: int, n: int, innermost: str, padded: bool) -> tuple[int, int, int]:
    """Strides of {b, m, n}; the leading dimension is rounded up to 8 where ``padded``."""
    leading = n if innermost == "n" else m
    if padded:
        leading = math.ceil(leading / 8) * 8
    return (m * leading, leading, 1) if innermost == "n" else (n * leading, 1, leading)


def copy(
    shape: tuple[int, int, int, int, int], strides: tuple[int, ...], block: tuple[int, int, int]
) -> str:
    """The sum over the loop of the tiles that it cuts from the last dimension."""
    b, m, n, tile_m, tile_n = shape
    graph = Graph()
    x = graph.input(b, m, n, strides=strides)
    body = graph.customized((b, m // tile_m, 1), block, n // tile_n)
    tile = body.input(x, (0, 1, -1), 2)
    body.output(body.accumulate("none", tile), (0, 1, -1))
    return graph.text(*body.close())


def case_of(name: str, innermost: str, padded: bool, block: tuple[int, int, int]) -> Case:
    """One row."""
    shape = SHAPES[name]
    b, m, n, _, tile_n = shape
    is_large = name == "large"

    def folded(x: Array) -> Array:
        return x.reshape(b, m, n // tile_n, tile_n)

    return Case(
        "tb_input_output",
        f"{name}-{innermost}-{'padded' if padded else 'exact'}-{'x'.join(map(str, block))}",
        copy(shape, strides_of(b, m, n, innermost, padded), block),
        (Range(),),
        lambda x: folded(x).sum(axis=2),
        data=name,
        level=Level.TRANSPILED if is_large else Level.ADDRESSES,
        budget=(
            lambda x: summed_budget(
                n // tile_n, np.abs(folded(x)).sum(axis=2), folded(x).sum(axis=2)
            )
        )
        if is_large
        else None,
        sanitize=name in ("both-odd", "random") and block in (BLOCKS[0], BLOCKS[3]),
    )


def cases() -> Iterator[Case]:
    """Every case of this table."""
    for name, (_, m, n, _, _) in SHAPES.items():
        for innermost in "nm":
            for padded in (True, False) if m % 8 or n % 8 else (True,):
                for block in BLOCKS:
                    yield case_of(name, innermost, padded, block)
