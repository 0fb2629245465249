"""Maps, blocks and ranks: nested and reordered grid axes, odd threads, values of all phases."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from cases.case import Array, Case, Range
from cases.graph import Graph

Three = tuple[int, int, int]


def exp_of_tiles(
    shape: tuple[int, ...],
    grid: Three,
    block: Three,
    map_: Three,
    loop: tuple[int, int] = (1, -1),
    element: str = "f16",
) -> str:
    """exp of every tile, summed over a loop of ``loop[0]`` along dimension ``loop[1]``."""
    graph = Graph()
    x = graph.input(*shape, element=element)
    forloop, fordim = loop
    body = graph.customized(grid, block, forloop)
    total = body.accumulate("none", body.unary("exp", body.input(x, map_, fordim)))
    body.output(total, map_)
    return graph.text(*body.close())


def summed(
    shape: tuple[int, ...], grid: Three, map_: Three, loop: tuple[int, int]
) -> Callable[[Array], Array]:
    """The reference of :func:`exp_of_tiles`: slices of the loop lie inside those of the blocks."""
    forloop, fordim = loop

    def reference(x: Array) -> Array:
        if fordim < 0:
            return forloop * np.exp(x)
        blocks = int(np.prod([grid[axis] for axis in range(3) if map_[axis] == fordim]))
        extent = shape[fordim] // blocks // forloop
        cut = x.reshape(*shape[:fordim], blocks, forloop, extent, *shape[fordim + 1 :])
        total = np.exp(cut).sum(axis=fordim + 1)
        return total.reshape(*shape[:fordim], blocks * extent, *shape[fordim + 1 :])

    return reference


NESTED: dict[str, tuple[tuple[int, ...], Three, Three, tuple[int, int]]] = {
    "xy-on-0": ((24, 10), (2, 3, 1), (0, 0, -1), (1, -1)),
    "xz-on-1": ((6, 48), (2, 3, 4), (1, 0, 1), (1, -1)),
    "xyz-on-1": ((3, 48), (2, 3, 4), (1, 1, 1), (2, 1)),
    "yx-on-0-loop": ((36, 10), (2, 3, 1), (0, 0, -1), (3, 0)),
    "reversed": ((4, 6, 10), (5, 3, 2), (2, 1, 0), (1, -1)),
    "loop-in-slice": ((8, 96), (4, 1, 1), (1, -1, -1), (3, 1)),
    "same-every-iteration": ((16, 24), (2, 1, 1), (0, -1, -1), (5, -1)),
    "unused-axis": ((16, 24), (2, 1, 1), (0, 1, 1), (3, 1)),
}
"""Extents, grid, map, and the loop with its dimension."""

BLOCKS = ((1, 1, 1), (7, 1, 1), (33, 1, 1), (5, 5, 5), (100, 1, 1), (31, 33, 1), (1024, 1, 1))

SHAPES = ((37,), (1,), (5, 1), (1, 9), (2, 3, 5), (1, 1, 1, 17), (2, 1, 3, 1, 8))


def phases() -> str:
    """An input that only the part after the loop reads, a value stored twice, two results."""
    graph = Graph()
    x, bias = graph.input(24, 40), graph.input(24, 1)
    body = graph.customized((3, 1, 1), (64, 1, 1), 4)
    tile, late = body.input(x, (0, -1, -1), 1), body.input(bias, (0, -1, -1))
    total = body.accumulate("none", body.unary("square", tile))
    row = body.accumulate("sum", tile)
    shifted = body.binary("add", total, late)
    for value in (shifted, row, shifted):
        body.output(value, (0, -1, -1))
    return graph.text(*body.close())


def phases_reference(x: Array, bias: Array) -> tuple[Array, Array, Array]:
    """The results of :func:`phases`."""
    shifted = np.stack(np.split(x**2, 4, axis=1)).sum(axis=0) + bias
    return shifted, x.sum(axis=1, keepdims=True), shifted


def two_kernels() -> str:
    """A chain of custom kernels and a library's, with an input that two of them read."""
    graph = Graph()
    x, w = graph.input(16, 32), graph.input(32, 24)
    body = graph.customized((2, 1, 1), (96, 1, 1), 2)
    gate = body.accumulate("none", body.unary("exp", body.input(x, (0, -1, -1), 1)))
    body.output(gate, (0, -1, -1))
    (folded,) = body.close()
    product = graph.matmul(x, w)
    body = graph.customized((2, 1, 1), (64, 1, 1))
    row = body.accumulate("sum", body.input(folded, (0, -1, -1)))
    tile = body.accumulate("none", body.input(product, (0, -1, -1)))
    body.output(body.binary("div", tile, row), (0, -1, -1))
    (result,) = body.close()
    return graph.text(result, folded)


def two_kernels_reference(x: Array, w: Array) -> tuple[Array, Array]:
    """The results of :func:`two_kernels`."""
    folded = np.exp(x[:, :16]) + np.exp(x[:, 16:])
    return (x @ w) / folded.sum(axis=1, keepdims=True), folded


def cases() -> Iterator[Case]:
    """Every case of these tables."""
    for name, (shape, grid, map_, loop) in NESTED.items():
        yield Case(
            *("maps", name, exp_of_tiles(shape, grid, (64, 1, 1), map_, loop), (Range(),)),
            summed(shape, grid, map_, loop),
            sanitize=name == "xyz-on-1",
        )
    for block in BLOCKS:
        yield Case(
            *("maps", f"threads-{'x'.join(map(str, block))}"),
            exp_of_tiles((9, 70), (3, 1, 1), block, (0, -1, -1), (5, 1)),
            *((Range(),), summed((9, 70), (3, 1, 1), (0, -1, -1), (5, 1))),
            data="threads",
            sanitize=block in ((7, 1, 1), (31, 33, 1)),
        )
    for shape, element in itertools.product(SHAPES, ("f16", "f32")):
        name = f"{'x'.join(map(str, shape))}-{element}"
        yield Case(
            *("maps", f"rank-{name}"),
            exp_of_tiles(shape, (1, 1, 1), (32, 1, 1), (-1, -1, -1), element=element),
            *((Range(),), np.exp),
        )
        graph = Graph()
        x = graph.input(*shape, element=element)
        yield Case(
            "maps", f"kernel-rank-{name}", graph.text(graph.unary("exp", x)), (Range(),), np.exp
        )
    yield Case(*("maps", "phases", phases(), (Range(), Range()), phases_reference), sanitize=True)
    # Not under the sanitizers: initcheck does not see what cuBLAS writes for the second kernel.
    yield Case(*("maps", "two-kernels", two_kernels(), (Range(), Range()), two_kernels_reference))
