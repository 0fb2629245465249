"""Kernel-level tables: element-wise graphs, broadcasting, matrix products, reductions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cases.case import Array, Case, Level, Range
from cases.functions import matmul_budget
from cases.graph import Graph

Strides = tuple[int, ...]

PERFECT_3D = (192, 24, 1)
ELEMENTWISE: dict[str, tuple[tuple[int, ...], tuple[Strides, Strides, Strides]]] = {
    "1d": ((180,), ((1,), (1,), (1,))),
    "2d-row": ((10, 18), ((32, 1), (24, 1), (48, 1))),
    "2d-row-odd": ((10, 18), ((18, 1), (19, 1), (123, 1))),
    "2d-column": ((10, 18), ((1, 16), (1, 24), (1, 32))),
    "2d-column-odd": ((10, 18), ((1, 10), (1, 11), (1, 13))),
    "3d-row": ((2, 5, 18), (PERFECT_3D, PERFECT_3D, PERFECT_3D)),
    "3d-row-odd": ((2, 5, 18), ((90, 18, 1), (92, 18, 1), (100, 20, 1))),
    "3d-column": ((2, 5, 18), ((1, 8, 64), (1, 8, 64), (1, 8, 64))),
    "3d-column-odd": ((2, 5, 18), ((1, 2, 10), (1, 2, 10), (1, 2, 10))),
}
"""Extents, and strides of the three inputs."""

PERFORMANCE_SHAPE = (128, 1024, 1024)


def elementwise(shape: tuple[int, ...], strides: tuple[Strides, ...] | None) -> str:
    """exp((a + b) / (b * c)), and exp of that: two results."""
    graph = Graph()
    given = strides or (None, None, None)
    a, b, c = (graph.input(*shape, strides=each) for each in given)
    quotient = graph.binary("div", graph.binary("add", a, b), graph.binary("mul", b, c))
    first = graph.unary("exp", quotient)
    return graph.text(first, graph.unary("exp", first))


def elementwise_reference(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """exp((a + b) / (b * c)), and exp of that."""
    first = np.exp((a + b) / (b * c))
    return first, np.exp(first)


def matmul(x: tuple[int, ...], y: tuple[int, ...]) -> str:
    """One matrix product."""
    graph = Graph()
    return graph.text(graph.matmul(graph.input(*x), graph.input(*y)))


def cases() -> Iterator[Case]:
    """Every case of these tables."""
    ranges = (Range(-1, 1), Range(1, 2), Range(2, 3))
    for name, (shape, strides) in ELEMENTWISE.items():
        text = elementwise(shape, strides)
        yield Case(
            "elemwise", name, text, ranges, elementwise_reference, data=str(shape), sanitize=True
        )
    yield Case(
        *("elemwise", "performance", elementwise(PERFORMANCE_SHAPE, None), ranges),
        elementwise_reference,
        level=Level.TRANSPILED,
        budget=elementwise_budget,
    )
    graph = Graph()
    a, b = graph.input(1, 4, 1, 10), graph.input(1, 1, 4, 10)
    text = graph.text(graph.binary("add", graph.binary("add", a, b), graph.binary("mul", a, b)))
    yield Case(
        *("elemwise_bcast", "1x4x1x10-1x1x4x10", text, ranges[:2]),
        lambda a, b: (a + b) + (a * b),
        sanitize=True,
    )
    yield Case(
        "matmul", "3x6x9x4", matmul((3, 6, 9), (3, 9, 4)), ranges[:2], np.matmul, sanitize=True
    )
    yield Case(
        *("matmul", "performance", matmul((1, 4096, 1024), (1, 1024, 4096)), ranges[:2]),
        np.matmul,
        level=Level.TRANSPILED,
        budget=matmul_budget,
    )


def elementwise_budget(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """Each of three values on the way is rounded to f16 once, which exp magnifies."""
    unit = 2.0**-11 * 1.01
    total, product = a + b, b * c
    quotient = total / product
    error = unit * np.abs(quotient) * 2.01 + unit * np.abs(quotient) + 2.0**-24 / product
    first = np.exp(quotient)
    first_error = first * np.expm1(error) + unit * first
    second = np.exp(first)
    return first_error, second * np.expm1(first_error) + unit * second
