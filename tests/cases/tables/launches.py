"""Kernels that do not wait for each other, so that several of them are one launch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from schedules import AS_WRITTEN

from cases.case import Array, Case, Range
from cases.graph import Graph, Tensor, Threadblock

ROWS, DEPTH, COLUMNS = 16, 96, 32


def product(graph: Graph, x: Tensor, w: Tensor, forloop: int) -> Tensor:
    """A custom kernel with a block for each 32 columns of the second matrix."""
    body: Threadblock = graph.customized((w.shape[1] // COLUMNS, 1, 1), (64, 1, 1), forloop)
    rows, columns = body.input(x, (-1, -1, -1), 1), body.input(w, (1, -1, -1), 0)
    body.output(body.accumulate("none", body.matmul(rows, columns)), (1, -1, -1))
    return body.close()[0]


def products(count: int, element: str) -> str:
    """So many products of one matrix, in grids and loops of their own, and a product of two."""
    graph = Graph()
    x = graph.input(ROWS, DEPTH, element=element)
    weights = [
        graph.input(DEPTH, COLUMNS * (number + 1), element=element) for number in range(count)
    ]
    last = graph.input(COLUMNS, COLUMNS, element=element)
    made = [product(graph, x, w, 3 - number % 3) for number, w in enumerate(weights)]
    return graph.text(*made[1:], product(graph, made[0], last, 1))


def products_reference(x: Array, *weights: Array) -> list[Array]:
    """The same."""
    *matrices, last = weights
    made = [x @ w for w in matrices]
    return [*made[1:], made[0] @ last]


def rows(count: int, element: str) -> str:
    """The roots of so many tensors of odd extents, squared again, and rows of one tensor."""
    graph = Graph()
    tensors = [graph.input(7, 2 * number + 3, element=element) for number in range(count)]
    numbers = graph.input(5, element="i32")
    roots = [graph.unary("sqrt", x) for x in tensors]
    squares = [graph.unary("square", x) for x in roots]
    found = graph.functional(
        "gather", [tensors[0], numbers], (5, 3), f"rows {numbers.name}", element=element
    )
    return graph.text(*squares, found)


def rows_reference(*given: Array) -> list[Array]:
    """The squares of roots are what they were."""
    *tensors, numbers = given
    return [*tensors, tensors[0][numbers.astype(int)]]


def cases() -> Iterator[Case]:
    """Every case of these tables."""
    by_threads = replace(AS_WRITTEN, loads="cp_async")
    for element in ("f16", "bf16", "f32"):
        for count in (2, 5):
            yield Case(
                *("launches", f"products-{count}-{element}", products(count, element)),
                *((Range(),) * (count + 2), products_reference),
                plan=by_threads,
                sanitize=count == 2,
            )
            yield Case(
                *("launches", f"rows-{count}-{element}", rows(count, element)),
                *((*(Range(0.5, 2.0),) * count, Range(0, 6)), rows_reference),
                sanitize=count == 5,
            )
