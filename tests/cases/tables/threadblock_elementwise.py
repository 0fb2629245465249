"""Threadblock tables of element-wise graphs, with and without broadcasting."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from cases.case import Array, Case, Range
from cases.graph import Graph

Three = tuple[int, int, int]

SHAPE = (10, 12, 14, 16)
LAYOUTS = {
    "row": ((3315, 255, 17, 1), (4096, 256, 16, 1)),
    "column": ((1, 10, 131, 2000), (1, 16, 256, 4096)),
    "mixed": ((1, 16, 256, 4096), (3315, 255, 17, 1)),
}
PARTITIONS: tuple[tuple[Three, Three, Three], ...] = (
    ((10, 12, 1), (2, 3, 4), (0, 1, -1)),
    ((10, 12, 14), (2, 3, 4), (0, 1, 2)),
    ((10, 12, 2), (2, 3, 4), (0, 1, 2)),
    ((4, 12, 10), (3, 1, 1), (3, 1, 0)),
)
"""Grid, block and map."""

BROADCASTS = (
    ((12, 15), (12, 15)),
    ((1, 15), (12, 15)),
    ((12, 1), (12, 15)),
    ((1, 15), (12, 1)),
    ((12, 1), (1, 15)),
)


def elementwise(
    shape: tuple[int, ...],
    strides: tuple[tuple[int, ...], tuple[int, ...]],
    partition: tuple[Three, Three, Three],
) -> str:
    """exp((a + b) / b) in every block."""
    grid, block, map_ = partition
    graph = Graph()
    a, b = (graph.input(*shape, strides=each) for each in strides)
    body = graph.customized(grid, block)
    tile_a, tile_b = body.input(a, map_), body.input(b, map_)
    quotient = body.binary("div", body.binary("add", tile_a, tile_b), tile_b)
    body.output(body.accumulate("none", body.unary("exp", quotient)), map_)
    return graph.text(*body.close())


def reference(a: Array, b: Array) -> Array:
    """What these graphs compute."""
    return np.exp((a + b) / b)


def cases() -> Iterator[Case]:
    """Every case of these tables."""
    ranges = (Range(-1, 1), Range(1, 2))
    for (layout, strides), (number, partition) in itertools.product(
        LAYOUTS.items(), enumerate(PARTITIONS)
    ):
        yield Case(
            *("tb_elemwise", f"{layout}-partition{number}"),
            *(elementwise(SHAPE, strides, partition), ranges, reference),
            data="4d",
            sanitize=number == 3,
        )
    large = ((1, 100, 12000), (18200, 140, 1))
    yield Case(
        *("tb_elemwise", "large"),
        elementwise((100, 120, 140), large, ((100, 3, 1), (128, 1, 1), (0, 1, -1))),
        *(ranges, reference),
    )
    for shapes in BROADCASTS:
        for orders in itertools.product(("row", "column"), repeat=2):
            name = "-".join(
                f"{m}x{n}-{order}" for (m, n), order in zip(shapes, orders, strict=True)
            )
            yield Case(
                *("tb_bcast", name, broadcasting(shapes, orders), ranges, np.add),
                data=str(shapes),
                sanitize=orders == ("row", "column"),
            )


def broadcasting(shapes: tuple[tuple[int, int], ...], orders: tuple[str, ...]) -> str:
    """The sum of two tiles of which one dimension or the other is broadcast."""
    graph = Graph()
    inputs = [
        graph.input(m, n, strides=(n, 1) if order == "row" else (1, m))
        for (m, n), order in zip(shapes, orders, strict=True)
    ]
    body = graph.customized((1, 1, 1), (128, 1, 1))
    total = body.binary("add", *(body.input(tensor) for tensor in inputs))
    body.output(body.accumulate("none", total))
    return graph.text(*body.close())
