"""Arguments and results that start at multiples of a few bytes only, down to one element.

Extents and strides would allow 16-byte accesses everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cases.case import Array, Case, Range
from cases.functions import rms
from cases.graph import Graph

ELEMENT_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f8E4M3FN": 1, "f8E5M2": 1, "i8": 1, "i32": 4}
FLOATS = tuple(element for element in ELEMENT_BYTES if element[0] != "i")
WHOLE = Range(-9, 9)


def tiles(element: str, alignment: int, result_alignment: int | None) -> str:
    """The sum over the loop of tiles that every block loads and stores in whole rows."""
    graph = Graph()
    x = graph.input(8, 256, element=element, alignment=alignment)
    y = graph.input(8, 64, element=element)
    body = graph.customized((2, 1, 1), (64, 1, 1), 4)
    total = body.accumulate("none", body.input(x, (0, -1, -1), 1))
    late = body.accumulate("none", body.input(y, (0, -1, -1)))
    body.output(total, (0, -1, -1))
    body.output(late, (0, -1, -1))
    return graph.text(*body.close(), alignment=result_alignment)


def tiles_reference(x: Array, y: Array) -> tuple[Array, Array]:
    """The results of :func:`tiles`."""
    return x.reshape(8, 4, 64).sum(axis=1), 4 * y


def product(element: str, result: str, alignment: int) -> str:
    """A product of tiles, of which the left operand alone is aligned."""
    graph = Graph()
    x = graph.input(32, 128, element=element)
    y = graph.input(128, 64, element=element, alignment=alignment)
    body = graph.customized((2, 2, 1), (128, 1, 1), 2)
    operands = body.input(x, (0, -1, -1), 1), body.input(y, (-1, 1, -1), 0)
    total = body.accumulate("none", body.matmul(*operands, element=result))
    body.output(total, (0, 1, -1))
    return graph.text(*body.close(), alignment=max(alignment, ELEMENT_BYTES[result]))


def whole_tensors(element: str, alignment: int) -> str:
    """Kernels of ``kn`` on one argument: element-wise, a sum, a norm, parts put together."""
    graph = Graph()
    x = graph.input(16, 64, element=element, alignment=alignment)
    halves = graph.op_of_many("split", [x], [(16, 24), (16, 40)], "dim 1")
    results = (
        graph.unary("square", x),
        graph.op("reduction", [x], (16, 1), "dim 1"),
        graph.functional("rms_norm", [x], (16, 64), "over [64]"),
        graph.op("concat", [*reversed(halves)], (16, 64), "dim 1"),
        graph.unary("copy", x, strides=(1, 16)),
    )
    return graph.text(*results, alignment=alignment)


def whole_tensors_reference(x: Array) -> tuple[Array, ...]:
    """The results of :func:`whole_tensors`."""
    return x * x, x.sum(axis=1, keepdims=True), x / rms(x), np.roll(x, 40, axis=1), x


def library_product(element: str, result: str) -> str:
    """cuBLAS on arguments aligned to one element."""
    graph = Graph()
    bytes_ = ELEMENT_BYTES[element]
    x = graph.input(2, 16, 32, element=element, alignment=bytes_)
    y = graph.input(2, 32, 24, element=element, alignment=bytes_)
    return graph.text(graph.matmul(x, y, element=result), alignment=ELEMENT_BYTES[result])


def library_case(element: str) -> Case:
    """The case of :func:`library_product`."""
    interval = WHOLE if element == "i8" else Range()
    result = "i32" if element == "i8" else element
    return Case(
        *("alignment", f"kn-matmul-{element}", library_product(element, result)),
        *((interval, interval), np.matmul),
    )


def tile_cases(element: str) -> Iterator[Case]:
    """Tiles at every alignment below 16 bytes, of the argument, of the results, and of both."""
    interval = WHOLE if element == "i32" else Range()
    least = ELEMENT_BYTES[element]
    chosen: dict[str, tuple[int, int | None]] = {f"output-{least}": (16, least)}
    for alignment in (1, 2, 4, 8):
        if alignment >= least:
            chosen |= {
                f"both-{alignment}": (alignment, alignment),
                f"input-{alignment}": (alignment, None),
            }
    for name, (alignment, result_alignment) in chosen.items():
        yield Case(
            *("alignment", f"tiles-{element}-{name}", tiles(element, alignment, result_alignment)),
            *((interval, interval), tiles_reference),
            data=f"tiles-{element}",
            sanitize=name == f"both-{least}",
        )


def cases() -> Iterator[Case]:
    """Every case of these tables."""
    for element, least in ELEMENT_BYTES.items():
        if element != "i8":
            yield from tile_cases(element)
        if element in FLOATS:
            yield Case(
                *("alignment", f"kernels-{element}", whole_tensors(element, least)),
                *((Range(0.25, 2),), whole_tensors_reference),
                sanitize=True,
            )
        if element == "i32":
            continue
        interval = WHOLE if element == "i8" else Range()
        result = {"i8": "i32", "f8E4M3FN": "f32", "f8E5M2": "f32"}.get(element, element)
        for alignment in (least, 8):
            yield Case(
                *("alignment", f"matmul-{element}-{alignment}"),
                product(element, result, alignment),
                *((interval, interval), np.matmul),
                data=f"matmul-{element}",
                sanitize=alignment == least,
            )
        if not element.startswith("f8"):
            yield library_case(element)
