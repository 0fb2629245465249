"""Casts, integers, products of every pair of element types, and graphs of several types."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cases.case import Array, Case, Range
from cases.functions import rms, sum_contiguous, sum_strided
from cases.graph import Graph

FLOATS = ("f16", "bf16", "f32", "f8E4M3FN", "f8E5M2")
WHOLE = {
    "i8": Range(-9, 9),
    "i32": Range(-1000, 1000),
    "i64": Range(-1000, 1000),
    "i1": Range(0, 1),
}
SUMMED = (*FLOATS, "i32")
"""Types of which tiles are summed over a loop."""
RANGES = {**dict.fromkeys(FLOATS, Range(-5, 5)), **WHOLE}

PRODUCTS = (("i8", "i32"), ("f8E4M3FN", "f32"), ("f8E5M2", "f16"), ("bf16", "f32"), ("f16", "f32"))
"""Types of the operands and of the result, where they differ."""


def cast_of(source: str, target: str) -> str:
    """A kernel-level cast, and one in the loop of what is accumulated after it."""
    graph = Graph()
    x = graph.input(12, 20, element=source)
    return graph.text(graph.unary("cast", x, element=target))


def cast_in_loop(source: str, target: str, columns: int = 20) -> str:
    """The sum over the loop of what tiles are cast to."""
    graph = Graph()
    x = graph.input(12, columns, element=source)
    body = graph.customized((3, 1, 1), (64, 1, 1), 2)
    tile = body.unary("cast", body.input(x, (0, -1, -1), 1), element=target)
    body.output(body.accumulate("none", tile), (0, -1, -1))
    return graph.text(*body.close())


def cast_cases() -> Iterator[Case]:
    """Every pair of types, in a kernel of its own, and in a threadblock graph where sums exist."""
    for source in RANGES:
        for target in RANGES:
            if source == target:
                continue
            is_small = target in ("i8", "i1", "f8E4M3FN", "f8E5M2") and source != "i1"
            small = Range(-8, 8) if is_small else RANGES[source]
            yield Case(
                *("types", f"kn-cast-{source}-{target}", cast_of(source, target), (small,)),
                lambda x: x,  # rounding, to whole numbers too, is within the budget
                sanitize=target in WHOLE,
            )
            if target in SUMMED:
                yield Case(
                    *(
                        "types",
                        f"tb-cast-{source}-{target}",
                        cast_in_loop(source, target),
                        (small,),
                    ),
                    lambda x: x[:, :10] + x[:, 10:],
                )


def vector_cast_cases() -> Iterator[Case]:
    """Casts before a sum in tiles that threads read and write in vectors."""
    for source, target in (("i8", "i32"), ("f16", "i32"), ("i8", "f16"), ("f8E4M3FN", "bf16")):
        yield Case(
            *("types", f"tb-cast-vectors-{source}-{target}", cast_in_loop(source, target, 256)),
            *((Range(-8, 8),), lambda x: x[:, :128] + x[:, 128:]),
        )


def product(element: str, result: str, more: str = "") -> str:
    """A product of tiles of one type into another, summed over the loop."""
    graph = Graph()
    x, y = graph.input(48, 64, element=element), graph.input(64, 24, element=element)
    body = graph.customized((3, 1, 1), (128, 1, 1), 4)
    tiles = [body.input(x, (0, -1, -1), 1), body.input(y, (-1, -1, -1), 0)]
    total = body.op("matmul", tiles, (16, 24), more, element=result)
    body.output(body.accumulate("none", total), (0, -1, -1))
    return graph.text(*body.close())


def product_cases() -> Iterator[Case]:
    """Products into another type; of f32 without TF32; of integers by the library."""
    for element, result in PRODUCTS:
        interval = WHOLE.get(element, Range())
        yield Case(
            *("types", f"matmul-{element}-{result}", product(element, result)),
            *((interval, interval), np.matmul),
            sanitize=True,
        )
    yield Case(
        *("types", "matmul-f32-ieee", product("f32", "f32", "precision ieee")),
        *((Range(), Range()), np.matmul),
        sanitize=True,
    )
    graph = Graph()
    x, y = graph.input(2, 8, 16, element="i8"), graph.input(2, 16, 12, element="i8")
    yield Case(
        *("types", "kn-matmul-i8-i32", graph.text(graph.matmul(x, y, element="i32"))),
        *((WHOLE["i8"], WHOLE["i8"]), np.matmul),
    )
    for element, result in (("f8E4M3FN", "bf16"), ("f8E5M2", "f8E5M2")):
        graph = Graph()
        x, y = graph.input(8, 48, element=element), graph.input(48, 12, element=element)
        yield Case(
            *("types", f"kn-matmul-{element}", graph.text(graph.matmul(x, y, element=result))),
            *((Range(), Range()), np.matmul),
        )
    graph = Graph()
    x, y = graph.input(8, 16, element="f32"), graph.input(16, 12, element="f32")
    yield Case(
        *("types", "kn-matmul-f32-ieee", graph.text(graph.matmul(x, y, "precision ieee"))),
        *((Range(), Range()), np.matmul),
    )
    graph = Graph()
    x, y = graph.input(8, 64), graph.input(64, 12)
    yield Case(
        *("types", "kn-matmul-f16-compute-f16", graph.text(graph.matmul(x, y, "compute f16"))),
        *((Range(), Range()), np.matmul),
        budget=lambda x, y: 64 * 2.0**-10 * (np.abs(x) @ np.abs(y)) + 2.0**-20,
    )


def sums(element: str) -> Iterator[Case]:
    """Sums of integers, which are exact."""
    interval = WHOLE[element]
    for op, more, shape in (
        ("reduction", "dim 1", (4, 1)),
        ("reduction_to_dimx_strided", "dim 1", (4, 5)),
        ("reduction_to_dimx_contiguous", "dim 1", (4, 5)),
    ):
        graph = Graph()
        x = graph.input(12, 20, element=element)
        body = graph.customized((3, 1, 1), (32, 1, 1), 2)
        tile = body.op(op, [body.input(x, (0, -1, -1), 1)], shape, more)
        body.output(body.accumulate("none", tile), (0, -1, -1))

        def reference(x: Array, size: int = shape[1], strided: bool = "strided" in op) -> Array:
            halves = x[:, :10] + x[:, 10:]
            if strided:
                return halves.reshape(12, 10 // size, size).sum(axis=1)
            return sum_contiguous(halves, 1, size)

        yield Case("types", f"{op}-{element}", graph.text(*body.close()), (interval,), reference)
    for meaning in ("strided", "contiguous"):
        graph = Graph()
        x = graph.input(12, 20, element=element)
        body = graph.customized((3, 1, 1), (32, 1, 1), 2)
        tile = body.input(x, (0, -1, -1), 1)
        body.output(body.op(f"forloop_accum_sum_to_dimx_{meaning}", [tile], (4, 5)), (0, -1, -1))
        summed = sum_strided if meaning == "strided" else sum_contiguous
        yield Case(
            *("types", f"accumulate-to-dimx-{meaning}-{element}", graph.text(*body.close())),
            *((interval,), lambda x, s=summed: s(x[:, :10] + x[:, 10:], 1, 5)),
        )
    for kind in ("none", "sum"):
        graph = Graph()
        x = graph.input(12, 20, element=element)
        body = graph.customized((3, 1, 1), (32, 1, 1), 2)
        body.output(body.accumulate(kind, body.input(x, (0, -1, -1), 1)), (0, -1, -1))
        yield Case(
            *("types", f"accumulate-{kind}-{element}", graph.text(*body.close()), (interval,)),
            (lambda x: x[:, :10] + x[:, 10:])
            if kind == "none"
            else (lambda x: x.sum(axis=1, keepdims=True)),
        )


def tile_moves(element: str) -> Case:
    """Tiles that are cut and put together otherwise, in a loop over integers."""
    graph = Graph()
    x = graph.input(12, 20, element=element)
    body = graph.customized((3, 1, 1), (32, 1, 1), 2)
    tile = body.input(x, (0, -1, -1), 1)
    first, second = body.op_of_many("split", [tile], [(4, 3), (4, 7)], "dim 1")
    (joined,) = body.op_of_many("concat", [second, first], [(4, 10)], "dim 1")
    body.output(body.accumulate("none", joined), (0, -1, -1))
    return Case(
        *("types", f"tile-moves-{element}", graph.text(*body.close()), (WHOLE[element],)),
        lambda x: np.roll(x[:, :10] + x[:, 10:], 7, axis=1),
    )


def moves(element: str) -> Iterator[Case]:
    """Kernels that move integers."""
    graph = Graph()
    x, y = graph.input(5, 3, element=element), graph.input(5, 8, element=element)
    joined = graph.op("concat", [x, y], (5, 11), "dim 1")
    parts = graph.op_of_many("split", [joined], [(5, 4), (5, 7)], "dim 1")
    halves = graph.op_of_many("chunk", [y], [(5, 4), (5, 4)], "dim 1")
    copied = graph.unary("copy", x, strides=(1, 6))
    wide = graph.op("broadcast", [graph.op("slice", [y], (5, 1), "from [0, 2]")], (5, 3))
    turned = graph.op("reshape", [graph.op("transpose", [y], (8, 5), "dims [1, 0]")], (4, 10))
    part = graph.op("slice", [y], (3, 4), "from [2, 1]")

    def reference(x: Array, y: Array) -> list[Array]:
        whole = np.concatenate([x, y], axis=1)
        return [
            *(whole[:, :4], whole[:, 4:], y[:, :4], y[:, 4:], x),
            *(y.T.reshape(4, 10), y[2:, 1:5], np.broadcast_to(y[:, 2:3], (5, 3))),
        ]

    yield Case(
        *("types", f"moves-{element}", graph.text(*parts, *halves, copied, turned, part, wide)),
        *((WHOLE[element], WHOLE[element]), reference),
    )


def gathers(element: str) -> Iterator[Case]:
    """Rows that lie side by side, and rows of a table that does not."""
    graph = Graph()
    x = graph.input(11, 64, element=element)
    y = graph.input(9, 5, 3, element=element, strides=(1, 9, 50))
    rows, others = graph.input(2, 7, element="i32"), graph.input(6, element="i64")
    results = [
        graph.functional("gather", [x, rows], (2, 7, 64), f"rows {rows.name}"),
        graph.functional("gather", [y, others], (6, 5, 3), f"rows {others.name}"),
    ]
    yield Case(
        *("types", f"gather-{element}", graph.text(*results)),
        (RANGES[element], RANGES[element], Range(0, 10), Range(0, 8)),
        lambda x, y, rows, others: [x[rows.astype(int)], y[others.astype(int)]],
        sanitize=True,
    )


def scatters(element: str) -> Iterator[Case]:
    """Rows put into tables with rows of their own, side by side and not; none is named twice."""
    graph = Graph()
    new, table = graph.input(2, 64, element=element), graph.input(11, 64, element=element)
    column = graph.input(5, 1, 3, element=element)
    wide = graph.input(5, 9, 3, element=element, strides=(1, 5, 50))
    low, high = graph.input(1, element="i32"), graph.input(1, element="i32")
    place = graph.input(1, element="i64")
    rows = graph.op("concat", [high, low], (2,), "dim 0")
    results = [
        graph.functional(
            "scatter", [new, table, rows], (11, 64), f"into {table.name} rows {rows.name} dim 0"
        ),
        graph.functional(
            "scatter", [column, wide, place], (5, 9, 3), f"into {wide.name} rows {place.name} dim 1"
        ),
    ]

    def reference(*given: Array) -> list[Array]:
        new, table, column, wide, low, high, place = given
        table, wide = table.copy(), wide.copy()
        table[[int(high[0]), int(low[0])]] = new
        wide[:, place.astype(int)] = column
        return [table, wide]

    values = (RANGES[element],) * 4
    numbers = (Range(0, 5), Range(6, 10), Range(-9, 8))
    yield Case(
        *("types", f"scatter-{element}", graph.text(*results)),
        (*values, *numbers),
        reference,
        sanitize=True,
    )


def integers(element: str) -> Case:
    """What is computed of integers alone."""
    graph = Graph()
    x, y = graph.input(9, 21, element=element), graph.input(1, 21, element=element)
    c = graph.input(9, 1, element="i1")
    names = ("add", "sub", "mul", "max", "min", "less", "less_equal")
    results = [graph.binary(name, x, y) for name in names]
    results += [graph.binary(name, x, y, element="i1") for name in ("less", "less_equal")]
    results += [
        graph.op("where", [c, x, y], x.shape, element=element),
        graph.op("where", [x, x, y], x.shape),
        graph.unary("fill", x, "with 1.0"),
        graph.unary("fill", x, "with 0.375", element="f16"),
    ]

    def reference(x: Array, y: Array, c: Array) -> list[Array]:
        holds = [1.0 * (x < y), 1.0 * (x <= y)]
        return [
            *(x + y, x - y, x * y, np.maximum(x, y), np.minimum(x, y), *holds, *holds),
            *(np.where(c != 0, x, y), np.where(x != 0, x, y)),
            *(np.full_like(x, 1.0), np.full_like(x, 0.375)),
        ]

    return Case(
        *("types", f"integers-{element}", graph.text(*results)),
        *((WHOLE[element], WHOLE[element], WHOLE["i1"]), reference),
        sanitize=True,
    )


def conditions(element: str) -> Iterator[Case]:
    """Truths of comparisons, and those that are inputs, choose numbers: also in a loop."""
    graph = Graph()
    x, y, c = (graph.input(7, 45, element=e) for e in (element, element, "i1"))
    row = graph.input(1, 45, element="i1")
    less = graph.binary("less", x, y, element="i1")
    both = graph.binary("mul", less, row)
    results = [
        graph.op("where", [condition, x, y], x.shape, element=element)
        for condition in (less, c, row, both)
    ]
    yield Case(
        *("types", f"kn-conditions-{element}", graph.text(*results, less)),
        (Range(), Range(), WHOLE["i1"], WHOLE["i1"]),
        lambda x, y, c, r: [
            *(np.where(each != 0, x, y) for each in (x < y, c, r, (x < y) & (r != 0))),
            1.0 * (x < y),
        ],
        sanitize=True,
    )
    for name, columns in (("", 20), ("-vectors", 256)):
        graph = Graph()
        x, y, c = (graph.input(12, columns, element=e) for e in (element, element, "i1"))
        row = graph.input(1, columns, element="i1")
        body = graph.customized((3, 1, 1), (64, 1, 1), 2)
        tiles = [
            body.input(each, (0 if each.shape[0] > 1 else -1, -1, -1), 1) for each in (x, y, c, row)
        ]
        less = body.binary("less", tiles[0], tiles[1], element="i1")
        for condition in (less, *tiles[2:]):
            chosen = body.op("where", [condition, *tiles[:2]], less.shape, element=element)
            body.output(body.accumulate("none", chosen), (0, -1, -1))
        yield Case(
            *("types", f"tb-conditions{name}-{element}", graph.text(*body.close())),
            (Range(), Range(), WHOLE["i1"], WHOLE["i1"]),
            lambda x, y, c, r: [
                sum(np.split(np.where(each != 0, x, y), 2, axis=1)) for each in (x < y, c, r)
            ],
            sanitize=True,
        )


def mixed() -> Iterator[Case]:
    """Graphs whose values change their type on the way."""
    graph = Graph()
    x, w = graph.input(16, 128, element="bf16"), graph.input(128, 48, element="f8E4M3FN")
    body = graph.customized((3, 1, 1), (128, 1, 1), 4)
    tile_x = body.input(x, fordim=1)
    tile_w = body.unary("cast", body.input(w, (1, -1, -1), 0), element="bf16")
    product_ = body.accumulate("none", body.matmul(tile_x, tile_w, element="f32"))
    norm = body.accumulate("rms", tile_x, element="f32")
    quotient = body.binary("div", product_, norm)
    body.output(body.unary("cast", quotient, element="f16"), (1, -1, -1))
    yield Case(
        *("types", "rmsnorm-bf16-f8", graph.text(*body.close()), (Range(), Range())),
        lambda x, w: (x / rms(x)) @ w,
        sanitize=True,
    )
    graph = Graph()
    x, w = graph.input(16, 64, element="i8"), graph.input(64, 32, element="i8")
    scale = graph.input(1, 32)
    body = graph.customized((2, 1, 1), (64, 1, 1), 2)
    tiles = body.input(x, fordim=1), body.input(w, (1, -1, -1), 0)
    total = body.accumulate("none", body.matmul(*tiles, element="i32"))
    wide = body.unary("cast", total, element="f32")
    scaled = body.binary("mul", wide, body.input(scale, (1, -1, -1)), element="f32")
    body.output(body.unary("cast", scaled, element="f16"), (1, -1, -1))
    yield Case(
        *("types", "dequantised-i8", graph.text(*body.close())),
        *((WHOLE["i8"], WHOLE["i8"], Range(0.001, 0.01)), lambda x, w, s: (x @ w) * s),
        sanitize=True,
    )


def cases() -> Iterator[Case]:
    """Every case of these tables."""
    yield from cast_cases()
    yield from vector_cast_cases()
    yield from product_cases()
    for element in WHOLE:
        yield from moves(element)
        yield integers(element)
    for element in ("f16", "f32", "f8E4M3FN"):
        yield from conditions(element)
    for element in RANGES:
        yield from gathers(element)
        yield from scatters(element)
    yield from sums("i32")
    yield tile_moves("i32")
    yield from mixed()
