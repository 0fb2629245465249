"""Partitions that do not divide, and outputs of each iteration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from cases.case import Array, Case, Range
from cases.functions import rms
from cases.graph import Graph, Threadblock, Tile
from mugraph.dialects.plan import Plan

FLOATS = ("f16", "bf16", "f32", "f8E4M3FN", "f8E5M2")


def folded(x: Array, forloop: int, dim: int) -> Array:
    """The sum of the tiles that a loop cuts from a dimension; what does not exist counts 0."""
    tile = math.ceil(x.shape[dim] / forloop)
    missing = tile * forloop - x.shape[dim]
    widths = [(0, missing if other == dim else 0) for other in range(x.ndim)]
    cut = np.pad(x, widths).reshape(*x.shape[:dim], forloop, tile, *x.shape[dim + 1 :])
    return cut.sum(axis=dim)


def elementwise(
    shape: tuple[int, int],
    grid: tuple[int, int, int],
    map_: tuple[int, int, int],
    loop: tuple[int, int],
    element: str = "f16",
    strides: tuple[int, int] | None = None,
) -> str:
    """exp of every tile, summed over the loop."""
    graph = Graph()
    x = graph.input(*shape, element=element, strides=strides)
    body = graph.customized(grid, (96, 1, 1), loop[0])
    total = body.accumulate("none", body.unary("exp", body.input(x, map_, loop[1])))
    extents = list(shape)
    if loop[1] >= 0:
        extents[loop[1]] = math.ceil(shape[loop[1]] / loop[0])
    body.output(total, map_, shape=extents)
    return graph.text(*body.close())


def reduced(kind: str, element: str, shape: tuple[int, int], forloop: int) -> str:
    """An accumulator over rows that the loop cuts into unequal tiles, rows split unequally."""
    graph = Graph()
    x = graph.input(*shape, element=element)
    body = graph.customized((3, 1, 1), (64, 1, 1), forloop)
    total = body.accumulate(kind, body.input(x, (0, -1, -1), 1))
    body.output(total, (0, -1, -1), shape=(shape[0], 1))
    return graph.text(*body.close())


def product(
    shape: tuple[int, int, int], grid: tuple[int, int], forloop: int, element: str, result: str
) -> str:
    """A matrix product of which no tile divides its dimension."""
    m, n, k = shape
    graph = Graph()
    a, b = graph.input(m, k, element=element), graph.input(k, n, element=element)
    body = graph.customized((*grid, 1), (128, 1, 1), forloop)
    tiles = body.input(a, (0, -1, -1), 1), body.input(b, (-1, 1, -1), 0)
    total = body.accumulate("none", body.matmul(*tiles, element=result))
    body.output(total, (0, 1, -1), shape=(m, n))
    return graph.text(*body.close())


def unequal_means(kind: str, element: str, dim: int) -> str:
    """Means over columns that the grid cuts unequally, in a loop over columns or over rows.

    Each block divides by its own number, and each row where the last iteration has fewer.
    """
    graph = Graph()
    x = graph.input(8, 46, element=element)
    body = graph.customized((4, 1, 1), (64, 1, 1), 3)
    body.output(body.accumulate(kind, body.input(x, (1, -1, -1), dim)), (1, -1, -1))
    return graph.text(*body.close())


def unequal_means_reference(kind: str, dim: int, x: Array) -> Array:
    """The result of :func:`unequal_means`: slices of 12, 12, 12 and 10 columns."""
    values, counts = (x**2 if kind == "rms" else x), np.ones_like(x)
    if dim == 0:
        values, counts = folded(values, 3, 0), folded(counts, 3, 0)
    starts = (0, 12, 24, 36)
    means = np.add.reduceat(values, starts, axis=1) / np.add.reduceat(counts, starts, axis=1)
    return np.sqrt(means) if kind == "rms" else means


def unequal_norms(element: str) -> str:
    """Norms of tiles that have fewer elements in the last iteration, which each one stores."""
    graph = Graph()
    x = graph.input(8, 46, element=element)
    body = graph.customized((2, 1, 1), (64, 1, 1), 4)
    norm = body.rms_norm([body.input(x, (0, -1, -1), 1)], 0.25)
    body.output(norm, (0, -1, -1), fordim=1, shape=(8, 46))
    return graph.text(*body.close())


def unequal_norms_reference(x: Array) -> Array:
    """The result of :func:`unequal_norms`."""
    parts = np.split(x, (12, 24, 36), axis=1)
    norms = [np.sqrt(np.mean(part**2, axis=1, keepdims=True) + 0.25) for part in parts]
    return np.concatenate([part / norm for part, norm in zip(parts, norms, strict=True)], axis=1)


def unequal_cases(element: str) -> Iterator[Case]:
    """Means of numbers of elements that are not the same in all blocks and iterations."""
    for kind, dim in itertools.product(("mean", "rms"), (1, 0)):
        name = f"unequal-{kind}-{element}" if dim else f"unequal-{kind}-of-rows-{element}"
        yield Case(
            *("ragged", name, unequal_means(kind, element, dim)),
            *((Range(0.25, 2),), lambda x, k=kind, d=dim: unequal_means_reference(k, d, x)),
            sanitize=element == "f16",
        )
    yield Case(
        *("ragged", f"unequal-norms-{element}", unequal_norms(element)),
        *((Range(),), unequal_norms_reference),
    )


def rows_in_the_loop(element: str, result: str, constant: str) -> str:
    """Products of which every iteration has other rows, the last fewer: their sum needs masks.

    What is multiplied is made of the tile, so that not even the operands are known to be zeros.
    """
    graph = Graph()
    a, b = graph.input(22, 16, element=element), graph.input(16, 24, element=element)
    body = graph.customized((2, 1, 1), (64, 1, 1), 3)
    tile, right = body.input(a, (-1, -1, -1), 0), body.input(b, (1, -1, -1))
    if constant:
        tile = body.unary("add_scalar", tile, f"by {constant}")
    total = body.accumulate("none", body.matmul(tile, right, element=result))
    body.output(total, (1, -1, -1))
    return graph.text(*body.close())


def whole_numbers(element: str) -> str:
    """Sums of whole numbers, over the rows of unequal tiles and over the iterations."""
    graph = Graph()
    x = graph.input(22, 47, element=element)
    body = graph.customized((3, 1, 1), (64, 1, 1), 4)
    tile = body.input(x, (0, -1, -1), 1)
    if element != "i32":
        tile = body.unary("cast", tile, element="i32")
    row = body.op("reduction", [tile], (tile.shape[0], 1), "dim 1")
    body.output(body.accumulate("none", tile), (0, -1, -1), shape=(22, 12))
    body.output(body.accumulate("sum", tile), (0, -1, -1), shape=(22, 1))
    body.output(body.accumulate("none", row), (0, -1, -1), shape=(22, 1))
    return graph.text(*body.close())


def whole_numbers_reference(x: Array) -> tuple[Array, Array, Array]:
    """The results of :func:`whole_numbers`."""
    rows = x.sum(axis=1, keepdims=True)
    return folded(x, 4, 1), rows, rows


def integer_cases() -> Iterator[Case]:
    """Ragged tiles of integers: their sums, and products whose missing rows are masked."""
    for element, range_ in (("i8", Range(-9, 9)), ("i32", Range(-1e8, 1e8))):
        yield Case(
            *("ragged", f"whole-numbers-{element}", whole_numbers(element), (range_,)),
            whole_numbers_reference,
            sanitize=True,
        )
    for element, result, constant in (
        ("i8", "i32", ""),
        ("f16", "f16", "1.0"),
        ("f32", "f32", "1.0"),
        ("f8E4M3FN", "f32", "1.0"),
    ):
        range_ = Range(-9, 9) if element == "i8" else Range(0, 1)
        shift = float(constant or 0)
        yield Case(
            *("ragged", f"rows-in-the-loop-{element}", rows_in_the_loop(element, result, constant)),
            (range_, range_),
            lambda a, b, s=shift: folded((a + s) @ b, 3, 0),
            sanitize=True,
        )


def each_iteration(
    shape: tuple[int, int], forloop: int, compute: Callable[[Threadblock, Tile], Tile]
) -> str:
    """Every iteration stores what it computes in its own columns."""
    graph = Graph()
    x = graph.input(*shape)
    body = graph.customized((2, 1, 1), (64, 1, 1), forloop)
    value = compute(body, body.input(x, (0, -1, -1), 1))
    body.output(value, (0, -1, -1), fordim=1, shape=(shape[0], shape[1]))
    return graph.text(*body.close())


def norm_linear(rows: int, inner: int, columns: int, grid: int, forloop: int) -> str:
    """rms_norm(x) w with an inner dimension that the loop does not divide."""
    graph = Graph()
    x, w = graph.input(rows, inner), graph.input(inner, columns)
    body = graph.customized((grid, 1, 1), (128, 1, 1), forloop)
    tile_x, tile_w = body.input(x, fordim=1), body.input(w, (1, -1, -1), 0)
    total = body.accumulate("none", body.matmul(tile_x, tile_w))
    quotient = body.binary("div", total, body.accumulate("rms", tile_x))
    body.output(quotient, (1, -1, -1), shape=(rows, columns))
    return graph.text(*body.close())


def exponentials(rows: int, keys: int, forloop: int) -> str:
    """exp(q k) and its row sums: padding must not count, though exp(0) is 1."""
    graph = Graph()
    q, k = graph.input(rows, 32), graph.input(32, keys)
    v = graph.input(keys, 32)
    body = graph.customized((1, 1, 1), (128, 1, 1), forloop)
    scores = body.unary("exp", body.matmul(body.input(q), body.input(k, fordim=1)))
    total = body.accumulate("none", body.matmul(scores, body.input(v, fordim=0)))
    body.output(body.binary("div", total, body.accumulate("sum", scores)))
    return graph.text(*body.close())


def exponentials_reference(q: Array, k: Array, v: Array) -> Array:
    """The result of :func:`exponentials`."""
    weights = np.exp(q @ k)
    return weights @ v / weights.sum(axis=1, keepdims=True)


def elementwise_cases() -> Iterator[Case]:
    """Slices and tiles that are smaller at the end, or empty, of tensors of any layout."""
    for element in FLOATS:
        for name, shape, grid, map_ in (
            ("rows", (22, 30), (4, 1, 1), (0, -1, -1)),
            ("columns", (6, 43), (5, 1, 1), (1, -1, -1)),
            ("nested", (10, 16), (2, 2, 1), (0, 0, -1)),
            ("both", (13, 27), (4, 5, 1), (0, 1, -1)),
            ("empty", (5, 8), (4, 1, 1), (0, -1, -1)),
        ):
            if element not in ("f16", "f32") and name != "both":
                continue
            yield Case(
                *("ragged", f"{name}-{element}"),
                elementwise(shape, grid, map_, (1, -1), element),
                *((Range(),), np.exp),
                sanitize=name in ("both", "empty"),
            )
        yield Case(
            *("ragged", f"loop-{element}"),
            elementwise((9, 46), (2, 1, 1), (0, -1, -1), (4, 1), element),
            *((Range(),), lambda x: folded(np.exp(x), 4, 1)),
            sanitize=True,
        )
    for name, strides in (("column-major", (1, 15)), ("padded", (29, 1)), ("odd", (31, 1))):
        yield Case(
            *("ragged", f"both-{name}"),
            elementwise((13, 27), (4, 5, 1), (0, 1, -1), (1, -1), strides=strides),
            *((Range(),), np.exp),
            data="both-strides",
        )


def chosen_cases() -> Iterator[Case]:
    """Products in tiles of powers of two that end with their tensors, by TMA where rows allow."""
    for name, shape, tile, depth in (
        ("groups", (300, 136, 1008), (128, 128), 64),
        ("warps", (37, 200, 136), (16, 64), 32),
        ("odd-rows", (37, 72, 101), (32, 64), 32),
    ):
        for element in ("f16", "bf16", "f32"):
            yield Case(
                *("chosen_tiles", f"{name}-{element}"),
                product(shape, (1, 1), 1, element, element),
                *((Range(), Range()), np.matmul),
                plan=Plan(tile=tile, loop_tile=depth),
                sanitize=element == "f16",
            )


def cases() -> Iterator[Case]:
    """Every case of these tables."""
    yield from elementwise_cases()
    for element in FLOATS:
        yield from unequal_cases(element)
        yield Case(
            *("ragged", f"sum-{element}", reduced("sum", element, (11, 47), 4), (Range(),)),
            lambda x: x.sum(axis=1, keepdims=True),
            sanitize=True,
        )
        yield Case(
            *("ragged", f"rms-{element}", reduced("rms", element, (11, 47), 4)),
            *((Range(0.25, 2),), rms),
        )
    for element, result in (
        *((element, element) for element in ("f16", "bf16", "f32")),
        ("f8E4M3FN", "f32"),
        ("f8E5M2", "f32"),
        ("i8", "i32"),
    ):
        interval = Range(-9, 9) if element == "i8" else Range()
        for shape, grid, forloop in (((45, 37, 70), (3, 2), 4), ((7, 9, 5), (2, 2), 2)):
            yield Case(
                *("ragged", f"matmul-{'x'.join(map(str, shape))}-{element}"),
                product(shape, grid, forloop, element, result),
                *((interval, interval), np.matmul),
                sanitize=shape[0] == 45,
            )
    yield from chosen_cases()
    yield from integer_cases()
    yield Case(
        *("ragged", "rmsnorm", norm_linear(13, 100, 50, 3, 3)),
        *((Range(), Range()), lambda x, w: (x / rms(x)) @ w),
        sanitize=True,
    )
    yield Case(
        *("ragged", "exponentials", exponentials(16, 100, 3)),
        *((Range(-0.4, 0.4), Range(-0.4, 0.4), Range()), exponentials_reference),
        sanitize=True,
    )
    for name, columns in (("whole", 40), ("ragged", 46), ("empty", 9)):
        yield Case(
            *("each_iteration", f"exp-{name}"),
            each_iteration((12, columns), 4, lambda body, x: body.unary("exp", x)),
            *((Range(),), np.exp),
            sanitize=True,
        )
    yield Case(
        *("each_iteration", "square-of-a-sum"),
        each_iteration((12, 40), 4, lambda body, x: body.unary("square", body.binary("add", x, x))),
        *((Range(),), lambda x: 4 * x * x),
    )
