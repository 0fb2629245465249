"""Matrix products of tiles: 14 shapes, every order of both operands, four block shapes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from cases.case import Case, Level, Range
from cases.functions import matmul_budget
from cases.graph import Graph
from cases.tables.input_output import BLOCKS

Three = tuple[int, int, int]

SHAPES: tuple[tuple[Three, Three], ...] = (
    ((16, 8, 16), (16, 8, 16)),
    ((64, 64, 64), (16, 8, 16)),
    ((256, 256, 64), (32, 32, 32)),
    ((128, 128, 64), (128, 8, 32)),
    ((128, 128, 64), (16, 128, 32)),
    ((15, 15, 24), (5, 5, 8)),
    ((15, 15, 15), (5, 5, 5)),
    ((96, 96, 64), (24, 24, 32)),
    ((96, 96, 57), (24, 24, 19)),
    ((96, 96, 63), (24, 24, 21)),
    ((405, 435, 63), (27, 29, 21)),
    ((381, 504, 62), (127, 126, 31)),
    ((92, 94, 64), (46, 47, 32)),
    ((4096, 4096, 1024), (128, 128, 32)),
)
"""m, n, k and their tiles."""


def product(
    shape: Three, tile: Three, orders: tuple[str, str], block: Three, element: str = "f16"
) -> str:
    """C = A B with A cut by rows over x, B by columns over y, and both by k over the loop."""
    (m, n, k), (tile_m, tile_n, tile_k) = shape, tile
    graph = Graph()
    a = graph.input(m, k, element=element, strides=_strides(m, k, orders[0] == "k"))
    b = graph.input(k, n, element=element, strides=_strides(k, n, orders[1] == "n"))
    body = graph.customized((m // tile_m, n // tile_n, 1), block, k // tile_k)
    tile_a, tile_b = body.input(a, (0, -1, -1), 1), body.input(b, (-1, 1, -1), 0)
    body.output(body.accumulate("none", body.matmul(tile_a, tile_b)), (0, 1, -1))
    return graph.text(*body.close())


def _strides(rows: int, columns: int, is_row_major: bool) -> tuple[int, int]:
    """With the leading dimension rounded up to 8."""
    leading = math.ceil((columns if is_row_major else rows) / 8) * 8
    return (leading, 1) if is_row_major else (1, leading)


def cases() -> Iterator[Case]:
    """Every case of this table."""
    for (shape, tile), *orders, block in itertools.product(SHAPES, "km", "kn", BLOCKS):
        is_large = shape[0] == 4096
        names = ["x".join(map(str, extents)) for extents in (shape, tile, block)]
        yield Case(
            "tb_matmul",
            f"{names[0]}-tile{names[1]}-{''.join(orders)}-{names[2]}",
            product(shape, tile, (orders[0], orders[1]), block),
            (Range(-1, 1), Range(-1, 1)),
            np.matmul,
            data=str(shape),
            level=Level.TRANSPILED if is_large else Level.ADDRESSES,
            budget=matmul_budget if is_large else None,
            sanitize=max(shape) < 100 and orders == ["m", "k"] and block == BLOCKS[3],
        )
