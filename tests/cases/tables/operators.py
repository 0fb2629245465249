"""Every operator with every element type, in the smallest graph that holds it.

Extents are odd or not powers of two on purpose, blocks are of 32, 96 and 128 threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from cases.case import Array, Case, Range
from cases.functions import (
    erf,
    gelu,
    random_numbers,
    relu,
    rms,
    sigmoid,
    silu,
    sum_contiguous,
    sum_strided,
)
from cases.graph import Graph, Tensor, Threadblock, Tile, replaced
from mugraph.dialects.elementwise import FP4_NUMBERS, NF4_NUMBERS

TYPES = ("f16", "f32", "bf16", "f8E4M3FN", "f8E5M2")
"""Floating-point types; what takes integers is in ``types.py``."""
LIBRARY_PRODUCTS = ("f16", "f32", "bf16")
"""Types that the library multiplies."""
SANITIZED = ("f32", "bf16", "f8E4M3FN")
"""Types of the cases of element-wise operators and reductions that run under sanitizers."""
TRIED_IN_ALL_WAYS = ("f16", "f32")
"""Types with a case for each way of broadcasting, and in and after the loop; others have one."""
BLOCKS = {
    "f16": (128, 1, 1),
    "f32": (96, 1, 1),
    "bf16": (32, 3, 1),
    "f8E4M3FN": (64, 1, 1),
    "f8E5M2": (64, 2, 1),
}
GRID = (3, 1, 1)
FORLOOP = 4
SHAPE = (24, 40)
"""Cut into three by the grid and into four by the loop: tiles of 8x10."""

BROADCAST_SHAPES = {"same": SHAPE, "row": (1, 40), "column": (24, 1)}


MODERATE = Range(-3, 3)


@dataclass(frozen=True)
class Unary:
    """A function of one number."""

    function: Callable[[Array], Array]
    range: Range = MODERATE
    more: str = ""
    """Its attributes in the text."""


UNARY: dict[str, Unary] = {
    "exp": Unary(np.exp),
    "silu": Unary(silu),
    "gelu": Unary(gelu),
    "sigmoid": Unary(sigmoid),
    "softplus": Unary(lambda x: np.log1p(np.exp(x))),
    "tanh": Unary(np.tanh),
    "relu": Unary(relu),
    "square": Unary(np.square),
    "abs": Unary(np.abs),
    "sqrt": Unary(np.sqrt, Range(0.25, 9)),
    "rsqrt": Unary(lambda x: x**-0.5, Range(0.25, 9)),
    "reciprocal": Unary(lambda x: 1 / x, Range(0.25, 9)),
    "reciprocal_or_zero": Unary(lambda x: 1 / x, Range(0.25, 9)),
    "erf": Unary(erf),
    "cos": Unary(np.cos),
    "round": Unary(np.rint, Range(-9, 9)),
    "floor": Unary(np.floor, Range(-9, 9)),
    "bits": Unary(lambda x: np.rint(x).astype(int) >> 1 & 7, Range(-99, 99), "from 1.0 count 3.0"),
    "fp4": Unary(lambda x: np.array(FP4_NUMBERS)[np.rint(x).astype(int) & 15], Range(0, 15)),
    "nf4": Unary(lambda x: np.array(NF4_NUMBERS)[np.rint(x).astype(int) & 15], Range(0, 15)),
    "sin": Unary(np.sin),
    "fill": Unary(lambda x: np.full_like(x, 0.375), more="with 0.375"),
    "log": Unary(np.log, Range(0.25, 9)),
    "add_scalar": Unary(lambda x: x + 0.375, more="by 0.375"),
    "mul_scalar": Unary(lambda x: x * -0.375, more="by -0.375"),
    "clamp": Unary(lambda x: np.clip(x, -0.5, 1.25), more="from -0.5 to 1.25"),
}

BINARY: dict[str, tuple[Callable[[Array, Array], Array], Range, Range]] = {
    "add": (np.add, Range(-2, 2), Range(-2, 2)),
    "sub": (np.subtract, Range(-2, 2), Range(-2, 2)),
    "mul": (np.multiply, Range(-2, 2), Range(-2, 2)),
    "div": (np.divide, Range(-2, 2), Range(0.5, 2)),
    "pow": (np.power, Range(0.25, 2), Range(-2, 2)),
    "max": (np.maximum, Range(-2, 2), Range(-2, 2)),
    "min": (np.minimum, Range(-2, 2), Range(-2, 2)),
    "less": (lambda x, y: np.less(x, y) * 1.0, Range(-2, 2), Range(-2, 2)),
    "less_equal": (lambda x, y: np.less_equal(x, y) * 1.0, Range(-2, 2), Range(-2, 2)),
}


def variance(x: Array) -> Array:
    """The mean of what is left without the mean, squared, of each row."""
    return np.mean(centred(x) ** 2, axis=-1, keepdims=True)


def centred(x: Array) -> Array:
    """Rows without their mean."""
    return x - x.mean(axis=-1, keepdims=True)


def masked(a: Array, b: Array, c: Array) -> Array:
    """Which elements a mask keeps."""
    return (c - 3 * b + 4 >= 0) & (a + c <= 20)


WHOLE: tuple[tuple[str, str, tuple[int, ...], Callable[[Array], Array]], ...] = (
    ("reduction", "combine max dim 1", (7, 1, 32), lambda x: x.max(axis=1, keepdims=True)),
    ("mean", "dim 2", (7, 3, 1), lambda x: x.mean(axis=2, keepdims=True)),
    ("variance", "dim 2", (7, 3, 1), variance),
    ("log_sum_exp", "dim 0", (1, 3, 32), lambda x: np.log(np.exp(x).sum(axis=0, keepdims=True))),
    ("softmax", "dim 2", (7, 3, 32), lambda x: np.exp(x) / np.exp(x).sum(axis=2, keepdims=True)),
    (
        *("mask", "where affine_set<(a, b, c) : (c - 3 * b + 4 >= 0, a + c - 20 <= 0)> else -0.5"),
        *((7, 3, 32), lambda x: np.where(masked(*np.indices(x.shape)), x, -0.5)),
    ),
    ("reshape", "", (21, 2, 16), lambda x: x.reshape(21, 2, 16)),
    ("transpose", "dims [2, 0, 1]", (32, 7, 3), lambda x: x.transpose(2, 0, 1)),
    ("slice", "from [2, 0, 7]", (5, 3, 20), lambda x: x[2:, :, 7:27]),
)
"""Operators on a tensor of 7x3x32: what follows the operand, the result's extents, and numpy.

Means multiply by 1/32, which is an fp32 number.
"""


def over_loop(x: Array) -> Array:
    """The tiles that the loop cuts, along a new first dimension."""
    return np.stack(np.split(x, FORLOOP, axis=1))


def kernel_unary(name: str, element: str) -> str:
    """The operator alone."""
    graph = Graph()
    x = graph.input(7, 45, element=element)
    return graph.text(graph.unary(name, x, UNARY[name].more))


def kernel_binary(name: str, other: tuple[int, ...], element: str) -> str:
    """The operator alone."""
    graph = Graph()
    x, y = graph.input(*SHAPE, element=element), graph.input(*other, element=element)
    return graph.text(graph.binary(name, x, y))


def in_loop(element: str, compute: Callable[..., Tile], *others: tuple[int, ...]) -> str:
    """``compute`` of tiles of the loop, summed over it."""
    graph = Graph()
    shapes = (SHAPE, *others)
    inputs = [graph.input(*shape, element=element) for shape in shapes]
    body = graph.customized(GRID, BLOCKS[element], FORLOOP)
    tiles = [
        body.input(
            tensor, (0 if tensor.shape[0] > 1 else -1, -1, -1), 1 if tensor.shape[1] > 1 else -1
        )
        for tensor in inputs
    ]
    body.output(body.accumulate("none", compute(body, *tiles)), (0, -1, -1))
    return graph.text(*body.close())


def after_loop(element: str, compute: Callable[..., Tile]) -> str:
    """``compute`` of what the loop has summed."""
    graph = Graph()
    x = graph.input(*SHAPE, element=element)
    body = graph.customized(GRID, BLOCKS[element], FORLOOP)
    total = body.accumulate("none", body.input(x, (0, -1, -1), 1))
    body.output(compute(body, total), (0, -1, -1))
    return graph.text(*body.close())


def unary_cases(element: str) -> Iterator[Case]:
    """Functions of one tensor: in a kernel of their own, in the loop, and after it."""
    for name, row in UNARY.items():
        yield Case(
            *("kn_operators", f"{name}-{element}", kernel_unary(name, element), (row.range,)),
            row.function,
            sanitize=element in SANITIZED,
        )
        yield Case(
            *("tb_operators", f"{name}-{element}"),
            in_loop(element, lambda body, x, n=name, m=row.more: body.unary(n, x, m)),
            *((row.range,), lambda x, f=row.function: over_loop(f(x)).sum(axis=0)),
            sanitize=element in SANITIZED,
        )
        if element not in TRIED_IN_ALL_WAYS:
            continue
        yield Case(
            *("tb_operators", f"{name}-after-{element}"),
            after_loop(element, lambda body, x, n=name, m=row.more: body.unary(n, x, m)),
            (Range(row.range.low / FORLOOP, row.range.high / FORLOOP),),
            lambda x, f=row.function: f(over_loop(x).sum(axis=0)),
        )


def binary_cases(element: str) -> Iterator[Case]:
    """Functions of two tensors, of the same extents and of broadcast ones."""
    for name, (function, *ranges) in BINARY.items():
        for shape_name, shape in BROADCAST_SHAPES.items():
            if element not in TRIED_IN_ALL_WAYS and shape_name != "column":
                continue
            yield Case(
                *("kn_operators", f"{name}-{shape_name}-{element}"),
                *(kernel_binary(name, shape, element), tuple(ranges), function),
                sanitize=element == "f32" and shape_name == "column",
            )
            yield Case(
                *("tb_operators", f"{name}-{shape_name}-{element}"),
                in_loop(element, lambda body, x, y, n=name: body.binary(n, x, y), shape),
                tuple(ranges),
                lambda x, y, f=function: over_loop(f(x, y)).sum(axis=0),
                sanitize=element in SANITIZED and shape_name == "column",
            )


def matmul_cases(element: str) -> Iterator[Case]:
    """The library's product, batched, and the product of tiles in and after the loop."""
    if element in LIBRARY_PRODUCTS:
        yield library_product(element, element)
        yield product_of_groups(element)
        if element != "f32":
            yield library_product(element, "f32")
    yield tile_product(element)
    yield batched_tile_product(element)


def arg_max_cases(element: str) -> Iterator[Case]:
    """Places along each dimension, in runs, and in rows that a block shares."""
    for shape, dim, size in (
        ((10, 8, 3), 0, 1),
        ((10, 8, 3), 1, 1),
        ((10, 8, 3), 2, 1),
        ((10, 8, 3), 1, 2),
        ((3, 1500), 1, 1),
        ((700, 5), 0, 1),
    ):
        graph = Graph()
        x = graph.input(*shape, element=element)
        more = f"dim {dim}"
        places = graph.op("arg_max", [x], replaced(shape, dim, size), more, element="i32")

        def reference(x: Array, dim: int = dim, size: int = size) -> Array:
            runs = np.split(x, size, axis=dim)
            return np.concatenate([run.argmax(dim, keepdims=True) for run in runs], dim) * 1.0

        yield Case(
            *("kn_operators", f"arg_max-{shape[dim]}-dim{dim}-to{size}-{element}"),
            *(graph.text(places), (Range(),), reference),
            sanitize=dim == 1,
        )
    yield special_places(element)


def top_k_cases(element: str) -> Iterator[Case]:
    """Of a router's and of a vocabulary's extents, of all elements, and along each dimension."""
    for shape, dim, count in (
        ((10, 8, 3), 0, 3),
        ((10, 8, 3), 1, 8),
        ((10, 8, 3), 2, 1),
        ((5, 64), 1, 6),
        ((3, 1500), 1, 50),
        ((700, 5), 0, 130),
        ((2, 5000), 1, 1),
    ):
        if max(shape) > 1000 and element not in TRIED_IN_ALL_WAYS:
            continue
        graph = Graph()
        x = graph.input(*shape, element=element)
        wide = "i64" if dim == 0 else "i32"
        extents = "x".join(map(str, shape))
        yield Case(
            *("kn_operators", f"top_k-{count}-of-{extents}-dim{dim}-{element}"),
            graph.text(*top_k(graph, x, dim, count, wide)),
            *((Range(),), lambda x, d=dim, k=count: largest(x, d, k)),
            sanitize=max(shape) < 1000,
        )
    graph = Graph()
    x = graph.input(9, 40, element=element)
    results: list[Tensor] = []
    for name, only_places in (("relu", False), ("log", True)):
        for dim in (0, 1):
            found = top_k(graph, graph.unary(name, x), dim, 7)
            results += found[1:] if only_places else found
    yield Case(
        *("kn_operators", f"top_k-special-{element}", graph.text(*results), (Range(-3, 1),)),
        lambda x: [
            *(one for dim in (0, 1) for one in largest(relu(x), dim, 7)),
            *(largest(np.log(x), dim, 7)[1] for dim in (0, 1)),
        ],
        sanitize=True,
    )


def top_k(graph: Graph, x: Tensor, dim: int, count: int, places: str = "i32") -> list[Tensor]:
    """The operator of one tensor."""
    shapes = [replaced(x.shape, dim, count)] * 2
    return graph.op_of_many("top_k", [x], shapes, f"dim {dim}", elements=(x.element, places))


def largest(x: Array, dim: int, count: int) -> list[Array]:
    """The largest elements along a dimension and their places: of equal ones the first."""
    rising = np.where(np.isnan(x), np.inf, x)
    places = np.argsort(-rising, dim, kind="stable").take(range(count), dim)
    return [np.take_along_axis(x, places, dim), places * 1.0]


def random_cases() -> Iterator[Case]:
    """Random numbers of a seed and an offset, of whole counters and of parts, in any layout."""
    shapes = ((5, 7), (3, 1, 400), (1,))
    for name, element in (("bits", "i32"), ("uniform", "f32"), ("normal", "f32")):
        graph = Graph()
        seed, offset = graph.input(1, element="i64"), graph.input(1, 1, element="i64")
        more = f"offset {offset.name}"
        results = [
            graph.functional(f"random {name} seed", [seed, offset], shape, more, element=element)
            for shape in shapes
        ]
        turned = graph.op("transpose", results[:1], (7, 5), "dims [1, 0]")
        copied = graph.unary("copy", results[0], strides=(1, 8))

        def reference(seed: Array, offset: Array, name: str = name) -> list[Array]:
            key, start = int(seed.item()), int(offset.item())
            made = [random_numbers(name, shape, key, start) for shape in shapes]
            return [*made, made[0].T, made[0]]

        yield Case(
            *("kn_operators", f"random-{name}", graph.text(*results, turned, copied)),
            *((Range(0, 2**40), Range(0, 2**34)), reference),
            sanitize=True,
        )


def scan_cases(element: str) -> Iterator[Case]:
    """Sums so far and recurrences: along each dimension, in rows of a block, in several rounds."""
    for shape, dim, decay in (
        ((10, 8, 3), 1, None),
        ((3, 45), 1, (3, 1)),
        ((700, 5), 0, (700, 1)),
        ((3000, 9), 0, None),
        ((2, 3, 520), 2, (2, 1, 520)),
        ((1, 17000), 1, None),
        ((4, 9000), 1, (4, 9000)),
        ((9000, 33), 0, (9000, 33)),
    ):
        if len(shape) == 2 and max(shape) > 1000 and element not in TRIED_IN_ALL_WAYS:
            continue
        graph = Graph()
        operands = [graph.input(*each, element=element) for each in (shape, decay) if each]
        more = f"{f'decay {operands[1].name} ' if decay else ''}dim {dim}"
        extents = "x".join(map(str, shape))
        yield Case(
            *("kn_operators", f"{'scan' if decay else 'cumsum'}-{extents}-dim{dim}-{element}"),
            graph.text(graph.functional("scan", operands, shape, more)),
            (Range(-0.25, 0.25), Range(0.5, 0.9375))[: len(operands)],
            lambda x, a=None, d=dim: recurrence(x, 1.0 if a is None else a, d),
            sanitize=max(shape) < 1000,
        )
    yield laid_out_scan(element)


def laid_out_scan(element: str) -> Case:
    """Tensors whose elements along the dimension lie in each another way."""
    graph = Graph()
    x = graph.input(6, 64, 5, element=element, strides=(400, 1, 80))
    a = graph.input(6, 64, 1, element=element, strides=(1, 6, 1))
    y, z = (graph.functional("scan", [x, a], x.shape, f"decay {a.name} dim {d}") for d in (1, 2))
    wide = graph.op("broadcast", [a], x.shape)
    w = graph.functional("scan", [wide, a], x.shape, f"decay {a.name} dim 2")
    return Case(
        *("kn_operators", f"scan-laid-out-{element}", graph.text(y, z, w)),
        (Range(), Range(0.5, 0.9375)),
        lambda x, a: [
            recurrence(each, a, dim)
            for each, dim in ((x, 1), (x, 2), (np.broadcast_to(a, x.shape), 2))
        ],
        sanitize=True,
    )


def recurrence(x: Array, decay: Array | float, dim: int) -> Array:
    """h_t = decay_t h_(t-1) + x_t along a dimension."""
    before = np.zeros_like(np.take(x, 0, dim))
    results: list[Array] = []
    for element, factor in zip(
        np.moveaxis(x, dim, 0), np.moveaxis(np.broadcast_to(decay, x.shape), dim, 0), strict=True
    ):
        before = factor * before + element
        results.append(before)
    return np.stack(results, dim)


def special_places(element: str) -> Case:
    """Of equal elements, and of NaNs, the first one: most rows have some of either."""
    graph = Graph()
    x = graph.input(9, 40, element=element)
    places = [
        graph.op("arg_max", [each], replaced(x.shape, dim, 1), f"dim {dim}", element="i32")
        for each in (graph.unary("relu", x), graph.unary("log", x))
        for dim in (0, 1)
    ]
    return Case(
        *("kn_operators", f"arg_max-special-{element}", graph.text(*places), (Range(-3, 1),)),
        lambda x: [
            each.argmax(dim, keepdims=True) * 1.0 for each in (relu(x), np.log(x)) for dim in (0, 1)
        ],
        sanitize=True,
    )


def product_of_groups(element: str) -> Case:
    """Three queries' heads for each of the keys', which are not copied."""
    graph = Graph()
    q, k = graph.input(2, 3, 9, 24, element=element), graph.input(2, 1, 24, 16, element=element)
    product = graph.matmul(q, graph.op("broadcast", [k], (2, 3, 24, 16)))
    return Case(
        *("kn_operators", f"matmul-groups-{element}", graph.text(product)),
        *((Range(), Range()), np.matmul),
    )


def broadcast_cases(element: str) -> Iterator[Case]:
    """Kernels that read a tensor under strides of 0: one that sums along it among them."""
    whole = (7, 3, 32)
    graph = Graph()
    x, y = graph.input(7, 1, 32, element=element), graph.input(1, 3, 1, element=element)
    wide = [graph.op("broadcast", [each], whole) for each in (x, y)]
    results = [
        *wide,
        *(
            graph.op("reduction", [wide[0]], replaced(whole, dim, 1), f"dim {dim}")
            for dim in (0, 1)
        ),
        *(
            graph.op("reduction", [wide[1]], replaced(whole, dim, 1), f"dim {dim}")
            for dim in (0, 2)
        ),
        *(graph.functional("rms_norm", [each], whole, "over [3, 32]") for each in wide),
        graph.op("concat", wide, (7, 3, 64), "dim 2"),
    ]

    def reference(*inputs: Array) -> list[Array]:
        x, y = (np.broadcast_to(each, whole) for each in inputs)
        norms = [each / np.sqrt((each**2).mean((1, 2), keepdims=True)) for each in (x, y)]
        sums = [x.sum(0, keepdims=True), x.sum(1, keepdims=True)]
        sums += [y.sum(0, keepdims=True), y.sum(2, keepdims=True)]
        return [x, y, *sums, *norms, np.concatenate([x, y], 2)]

    yield Case(
        *("kn_operators", f"broadcast-{element}", graph.text(*results)),
        *((Range(0.25, 2),) * 2, reference),
        sanitize=element in SANITIZED,
    )
    graph = Graph()
    x = graph.input(24, 1, element=element)
    y = graph.op("broadcast", [x], SHAPE)
    body = graph.customized(GRID, BLOCKS[element], FORLOOP)
    body.output(body.accumulate("none", body.input(y, (0, -1, -1), 1)), (0, -1, -1))
    yield Case(
        *("tb_operators", f"input-broadcast-{element}", graph.text(*body.close())),
        *((Range(),), lambda x: np.broadcast_to(x * FORLOOP, (24, 10))),
        sanitize=element in SANITIZED,
    )


def library_product(element: str, result: str) -> Case:
    """A batch of products, rounded or as their sums are."""
    graph = Graph()
    x, y = graph.input(3, 9, 24, element=element), graph.input(3, 24, 17, element=element)
    name = f"matmul-{element}" if result == element else f"matmul-{element}-{result}"
    return Case(
        *("kn_operators", name, graph.text(graph.matmul(x, y, element=result))),
        *((Range(), Range()), np.matmul),
    )


def tile_product(element: str) -> Case:
    """The product of tiles in the loop, and of its sum and a tile after the loop."""
    graph = Graph()
    x, y = graph.input(48, 64, element=element), graph.input(64, 24, element=element)
    z = graph.input(24, 40, element=element)
    body = graph.customized(GRID, (128, 1, 1), FORLOOP)
    tile_x, tile_y = body.input(x, (0, -1, -1), 1), body.input(y, (-1, -1, -1), 0)
    total = body.accumulate("none", body.matmul(tile_x, tile_y))
    body.output(body.matmul(total, body.input(z)), (0, -1, -1))
    return Case(
        *("tb_operators", f"matmul-{element}", graph.text(*body.close())),
        *((Range(), Range(), Range()), lambda x, y, z: x @ y @ z),
        sanitize=element in SANITIZED,
    )


def batched_tile_product(element: str) -> Case:
    """Products of tiles of rank 3 and 4: a batch in the block, heads over the grid."""
    graph = Graph()
    x, y = graph.input(6, 2, 8, 32, element=element), graph.input(6, 2, 32, 16, element=element)
    body = graph.customized(GRID, (128, 1, 1), 2)
    tile_x, tile_y = body.input(x, (0, -1, -1), 3), body.input(y, (0, -1, -1), 2)
    body.output(body.accumulate("none", body.matmul(tile_x, tile_y)), (0, -1, -1))
    return Case(
        *("tb_operators", f"matmul-batched-{element}", graph.text(*body.close())),
        *((Range(), Range()), np.matmul),
        sanitize=True,
    )


def whole_tensor_cases(element: str) -> Iterator[Case]:
    """Kernels that sum, normalise, join and cut."""
    for dim, size in ((0, 1), (1, 1), (2, 1), (1, 2)):
        graph = Graph()
        x = graph.input(10, 8, 3, element=element)
        result = graph.op("reduction", [x], replaced(x.shape, dim, size), f"dim {dim}")
        yield Case(
            *("kn_operators", f"reduction-dim{dim}-to{size}-{element}", graph.text(result)),
            *((Range(),), lambda x, d=dim, s=size: sum_contiguous(x, d, s)),
            sanitize=dim == 1,
        )
    for name, more, shape, function in WHOLE:
        graph = Graph()
        x = graph.input(7, 3, 32, element=element)
        yield Case(
            *("kn_operators", f"{name}-{element}", graph.text(graph.op(name, [x], shape, more))),
            *((Range(0.25, 2),), function),
            sanitize=name == "softmax" or element in SANITIZED,
        )
    graph = Graph()
    x, w = graph.input(7, 3, 32, element=element), graph.input(32, element=element)
    more = f"affine {w.name}, {w.name} over [32] epsilon 0.125"
    yield Case(
        "kn_operators",
        f"layer_norm-{element}",
        graph.text(graph.functional("layer_norm", [x, w, w], x.shape, more)),
        *((Range(0.25, 2),) * 2, lambda x, w: centred(x) / np.sqrt(variance(x) + 0.125) * w + w),
        sanitize=element in SANITIZED,
    )
    graph = Graph()
    shapes = ((5, 3, 32), (1, 3, 32), (5, 1, 1))
    x, c, s = (graph.input(*shape, element=element) for shape in shapes)
    turned = graph.functional("rotary", [x, c, s], x.shape, f", {c.name}, {s.name}")
    yield Case(
        *("kn_operators", f"rotary-{element}", graph.text(turned), (Range(),) * 3),
        lambda x, c, s: x * c + np.concatenate([-x[..., 16:], x[..., :16]], -1) * s,
        sanitize=element in SANITIZED,
    )
    if element in ("f16", "bf16"):
        graph = Graph()
        x, w, r = (graph.input(*shape, element=element) for shape in ((7, 40), (40, 24), (7, 24)))
        added = graph.functional("matmul_add", [x, w, r], r.shape, f", {w.name}, {r.name}")
        yield Case(
            *("kn_operators", f"matmul_add-{element}", graph.text(added), (Range(),) * 3),
            lambda x, w, r: x @ w + r,
            sanitize=element in SANITIZED,
        )
    graph = Graph()
    c, x, y = (graph.input(7, extent, element=element) for extent in (1, 45, 45))
    chosen = graph.op("where", [graph.unary("relu", c), x, y], (7, 45))
    yield Case(
        *("kn_operators", f"where-{element}", graph.text(chosen)),
        *((Range(),) * 3, lambda c, x, y: np.where(c > 0, x, y)),
        sanitize=element in SANITIZED,
    )
    yield Case(
        *("tb_operators", f"where-{element}"),
        in_loop(
            element,
            lambda body, x, c, y: body.op("where", [body.unary("relu", c), x, y], x.shape),
            *((24, 1), SHAPE),
        ),
        *((Range(),) * 3, lambda x, c, y: over_loop(np.where(c > 0, x, y)).sum(axis=0)),
        sanitize=element in SANITIZED,
    )
    for name, over, weight, epsilon in (
        ("plain", (45,), False, 0.0),
        ("epsilon", (45,), False, 0.25),
        ("weight", (45,), True, 0.0),
        ("two-dims", (3, 45), True, 0.125),
    ):
        graph = Graph()
        inputs = [graph.input(7, 3, 45, element=element)]
        more = f"over [{', '.join(map(str, over))}]"
        if weight:
            inputs.append(graph.input(*over, element=element))
            more = f"weight {inputs[1].name} {more}"
        more += f" epsilon {epsilon}" if epsilon else ""
        result = graph.functional("rms_norm", inputs, inputs[0].shape, more)

        def norm(x: Array, w: Array | float = 1.0, n: int = len(over), e: float = epsilon) -> Array:
            axes = tuple(range(x.ndim - n, x.ndim))
            return x / np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + e) * w

        yield Case(
            *("kn_operators", f"rms_norm-{name}-{element}", graph.text(result)),
            *((Range(0.25, 2),) * len(inputs), norm),
            sanitize=name == "two-dims",
        )
    graph = Graph()
    x, y = graph.input(5, 3, element=element), graph.input(5, 8, element=element)
    yield Case(
        *("kn_operators", f"concat-{element}"),
        graph.text(graph.op("concat", [x, y, x], (5, 14), "dim 1")),
        *((Range(), Range()), lambda x, y: np.concatenate([x, y, x], axis=1)),
        sanitize=True,
    )
    graph = Graph()
    x = graph.input(6, 9, 5, element=element)
    yield Case(
        *("kn_operators", f"copy-{element}"),
        graph.text(graph.unary("copy", x, strides=(1, 7, 70))),
        *((Range(),), lambda x: x),
    )
    for name, extents in (("split", (2, 7, 3)), ("chunk", (4, 4, 4))):
        graph = Graph()
        x = graph.input(12, 9, element=element)
        parts = graph.op_of_many(name, [x], [(extent, 9) for extent in extents], "dim 0")
        yield Case(
            *("kn_operators", f"{name}-{element}", graph.text(*parts), (Range(),)),
            lambda x, e=extents: np.split(x, np.cumsum(e)[:-1]),
            sanitize=True,
        )


def reduction_cases(element: str) -> Iterator[Case]:
    """Sums over a dimension, to 1 and to groups, in the loop and after it; norms of tiles."""
    for dim, size in ((0, 1), (1, 1), (1, 5)):
        for meaning in ("strided", "contiguous"):
            if size == 1 and meaning == "contiguous":
                continue
            op = "reduction" if size == 1 else f"reduction_to_dimx_{meaning}"
            summed = sum_strided if meaning == "strided" else sum_contiguous

            def compute(body, x, op=op, dim=dim, size=size):  # type: ignore[no-untyped-def]
                return body.op(op, [x], replaced(x.shape, dim, size), f"dim {dim}")

            def reference(x, summed=summed, dim=dim, size=size):  # type: ignore[no-untyped-def]
                tiles = over_loop(x).reshape(FORLOOP, GRID[0], 8, 10)
                sums = summed(tiles, dim + 2, size).sum(axis=0)
                return sums.reshape(-1, sums.shape[-1])

            names = f"{op}-dim{dim}-{element}"
            yield Case(
                *("tb_operators", names, in_loop(element, compute), (Range(),), reference),
                sanitize=element in SANITIZED,
            )
            if element not in TRIED_IN_ALL_WAYS:
                continue
            yield Case(
                *("tb_operators", f"{names}-after", after_loop(element, compute), (Range(),)),
                reference,
            )
    yield Case(
        *("tb_operators", f"rms_norm-{element}"),
        in_loop(element, lambda body, x: body.unary("rms_norm", x)),
        (Range(0.5, 2),),
        lambda x: (over_loop(x) / rms(over_loop(x))).sum(axis=0),
        sanitize=element in SANITIZED,
    )


def weighted_norm_cases(element: str) -> Iterator[Case]:
    """Norms of tiles with a weight, with an epsilon, and with both, in and after the loop."""
    for name, has_weight, epsilon in (
        ("weight", True, 0.0),
        ("epsilon", False, 0.25),
        ("weight-epsilon", True, 0.25),
    ):

        def compute(body: Threadblock, *tiles: Tile, epsilon: float = epsilon) -> Tile:
            return body.rms_norm(tiles, epsilon)

        def norm(x: Array, w: Array | float = 1.0, epsilon: float = epsilon) -> Array:
            rows = over_loop(x)
            weights = 1.0 if isinstance(w, float) else over_loop(w)
            mean = np.mean(rows * rows, axis=-1, keepdims=True)
            return (rows / np.sqrt(mean + epsilon) * weights).sum(axis=0)

        others = ((1, 40),) if has_weight else ()
        yield Case(
            *("tb_operators", f"rms_norm-{name}-{element}", in_loop(element, compute, *others)),
            *((Range(0.5, 2),) * (1 + has_weight), norm),
            sanitize=has_weight and epsilon > 0,
        )


def accumulator_cases(element: str) -> Iterator[Case]:
    """What an accumulator keeps of the loop and of the last dimension."""
    references: dict[str, Callable[[Array], Array]] = {
        "none": lambda x: over_loop(x).sum(axis=0),
        "sum": lambda x: x.sum(axis=1, keepdims=True),
        "mean": lambda x: x.mean(axis=1, keepdims=True),
        "rms": rms,
        "max": lambda x: over_loop(x).max(axis=0),
    }
    for kind, reference in references.items():
        yield Case(
            *("tb_operators", f"accumulate-{kind}-{element}", accumulator(element, kind)),
            *((Range(0.25, 2),), reference),
            sanitize=True,
        )
    for meaning, summed in (("strided", sum_strided), ("contiguous", sum_contiguous)):
        yield Case(
            *("tb_operators", f"accumulate-to-dimx-{meaning}-{element}"),
            accumulator(element, f"sum_to_dimx_{meaning}"),
            (Range(),),
            lambda x, s=summed: s(over_loop(x).sum(axis=0), 1, 5),
            sanitize=True,
        )


def accumulator(element: str, kind: str) -> str:
    """An accumulator of a tile as it is loaded."""
    graph = Graph()
    x = graph.input(*SHAPE, element=element)
    body = graph.customized(GRID, BLOCKS[element], FORLOOP)
    tile = body.input(x, (0, -1, -1), 1)
    if kind.startswith("sum_to_dimx"):
        result = body.op(f"forloop_accum_{kind}", [tile], (tile.shape[0], 5))
    else:
        result = body.accumulate(kind, tile)
    body.output(result, (0, -1, -1))
    return graph.text(*body.close())


def rescaled(element: str, kind: str) -> str:
    """A sum that is rescaled by the exponential of a running maximum's falls."""
    graph = Graph()
    x = graph.input(*SHAPE, element=element)
    body = graph.customized(GRID, BLOCKS[element], FORLOOP)
    tile = body.input(x, (0, -1, -1), 1)
    # In 8 bits the exponents would have no error bound.
    wide = "f32" if element.startswith("f8") else element
    maximum, fall = body.running_maximum(tile, 1, wide)
    weights = body.unary("exp", body.binary("sub", tile, maximum, wide), element=element)
    factor = body.unary("exp", fall)
    body.output(body.rescale(kind, weights, factor), (0, -1, -1))
    return graph.text(*body.close())


def rescaled_cases(element: str) -> Iterator[Case]:
    """Sums of exponentials below the maximum of a row, wherever in the loop that comes."""

    def weights(x: Array) -> Array:
        return over_loop(np.exp(x - x.max(axis=1, keepdims=True)))

    references: dict[str, Callable[[Array], Array]] = {
        "none": lambda x: weights(x).sum(axis=0),
        "sum": lambda x: weights(x).sum(axis=(0, 2)).reshape(-1, 1),
    }
    for kind, reference in references.items():
        yield Case(
            *("tb_operators", f"rescale-{kind}-{element}", rescaled(element, kind)),
            *((Range(-8, 8),), reference),
            sanitize=True,
        )


def rearranging_cases(element: str) -> Iterator[Case]:
    """Tiles put together and cut, and a product of tiles that would have to be put together."""

    def join(body, x):  # type: ignore[no-untyped-def]
        first, second = body.op_of_many("split", [x], [(8, 3), (8, 7)], "dim 1")
        return body.op_of_many("concat", [second, first], [(8, 10)], "dim 1")[0]

    yield Case(
        *("tb_operators", f"split-concat-{element}", in_loop(element, join), (Range(),)),
        lambda x: np.roll(over_loop(x), 7, axis=2).sum(axis=0),
        sanitize=True,
    )
    graph = Graph()
    shapes = ((24, 32), (24, 8), (32, 16), (8, 16))
    inputs = [graph.input(*shape, element=element) for shape in shapes]
    body = graph.customized(GRID, (128, 1, 1), 1)
    tiles = [
        body.input(tensor, (0, -1, -1) if tensor.shape[0] == 24 else (-1, -1, -1))
        for tensor in inputs
    ]
    product = body.op_of_many("concat_then_matmul", tiles, [(8, 16)])[0]
    body.output(body.accumulate("none", product), (0, -1, -1))
    yield Case(
        *("tb_operators", f"concat_then_matmul-{element}", graph.text(*body.close())),
        *((Range(),) * 4, lambda a1, a2, b1, b2: a1 @ b1 + a2 @ b2),
        sanitize=True,
    )


def cases() -> Iterator[Case]:
    """Every operator with every type."""
    yield from random_cases()
    for element in TYPES:
        yield from unary_cases(element)
        yield from binary_cases(element)
        yield from matmul_cases(element)
        yield from whole_tensor_cases(element)
        yield from broadcast_cases(element)
        yield from arg_max_cases(element)
        yield from top_k_cases(element)
        yield from scan_cases(element)
        yield from reduction_cases(element)
        yield from weighted_norm_cases(element)
        yield from accumulator_cases(element)
        yield from rescaled_cases(element)
        yield from rearranging_cases(element)
