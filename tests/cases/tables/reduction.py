"""Sums over one dimension of a tile: to 1, and to groups of both meanings."""

from __future__ import annotations

from collections.abc import Iterator

from cases.case import Array, Case, Range
from cases.functions import sum_contiguous, sum_strided
from cases.graph import Graph, replaced

SHAPE = (12, 24)
SIZES = (1, 2, 4, 6)
BLOCKS = ((32, 1, 1), (16, 4, 2))
MEANINGS = {"contiguous": sum_contiguous, "strided": sum_strided}


def reduction(op: str, dim: int, size: int, block: tuple[int, int, int]) -> str:
    """The tile is summed along ``dim`` until ``size`` results remain."""
    graph = Graph()
    x = graph.input(*SHAPE)
    body = graph.customized((1, 1, 1), block)
    tile = body.op(op, [body.input(x)], replaced(SHAPE, dim, size), f"dim {dim}")
    body.output(body.accumulate("none", tile))
    return graph.text(*body.close())


def case_of(meaning: str, dim: int, size: int, block: tuple[int, int, int]) -> Case:
    """One row."""
    summed = MEANINGS[meaning]

    def reference(x: Array) -> Array:
        return summed(x, dim, size)

    op = "reduction" if size == 1 else f"reduction_to_dimx_{meaning}"
    return Case(
        "tb_reduction",
        f"{meaning}-dim{dim}-to{size}-{'x'.join(map(str, block))}",
        reduction(op, dim, size, block),
        (Range(),),
        reference,
        data=f"{meaning}-{dim}-{size}",
        sanitize=block == BLOCKS[1],
    )


def cases() -> Iterator[Case]:
    """Every case of this table: 16 contiguous ones, and 12 strided ones."""
    for meaning in MEANINGS:
        for dim in range(2):
            for size in SIZES if meaning == "contiguous" else SIZES[1:]:
                for block in BLOCKS:
                    yield case_of(meaning, dim, size, block)
