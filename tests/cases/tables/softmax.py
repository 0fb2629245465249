"""Attention in one kernel, as written and with ``--online-softmax`` or by hand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from schedules import AS_WRITTEN

from cases.case import Array, Case, Level, Range
from cases.functions import rms, softmax_times
from cases.graph import Graph, Threadblock, Tile, replaced
from mugraph.dialects.plan import Plan

SMALL = Range(-0.7, 0.7)
"""Of queries and keys: exponentials of their products are numbers of every type."""
LARGE = Range(-6, 6)
"""Scores up to about 130: exp overflows f16 and fp32 alike unless a maximum is subtracted."""
ONLINE = Plan(tiles="written")


def scores_of(body: Threadblock, q: Tile, k: Tile, precision: str = "") -> Tile:
    """Products of queries and keys, in f32: rounded to f16, large ones would have errors of 5 %."""
    return body.op("matmul", [q, k], (*q.shape[:-1], k.shape[-1]), precision, element="f32")


def normalised(body: Threadblock, weights: Tile, v: Tile) -> Tile:
    """The sum of values, weighted, over the sum of the weights."""
    total = body.accumulate("none", body.matmul(weights, v))
    return body.binary("div", total, body.accumulate("sum", weights))


def attention(
    extents: tuple[int, int, int, int],
    heads_a_block: int,
    forloop: int,
    element: str,
    precision: str = "",
) -> str:
    """softmax(q k) v of heads, rows, keys and their length, with the keys in the loop."""
    heads, rows, keys, inner = extents
    graph = Graph()
    q, k = (graph.input(heads, *shape, element=element) for shape in ((rows, inner), (inner, keys)))
    v = graph.input(heads, keys, inner, element=element)
    body = graph.customized((heads // heads_a_block, 1, 1), (128, 1, 1), forloop)
    tile_q = body.input(q, (0, -1, -1))
    tile_k, tile_v = body.input(k, (0, -1, -1), 2), body.input(v, (0, -1, -1), 1)
    weights = body.unary("exp", scores_of(body, tile_q, tile_k, precision), element=element)
    body.output(normalised(body, weights, tile_v), (0, -1, -1))
    return graph.text(*body.close())


def attention_reference(q: Array, k: Array, v: Array) -> Array:
    """softmax(q k) v."""
    return softmax_times(q @ k, v)


def softmax_rows(element: str) -> str:
    """Two softmaxes of the rows of one kernel, weighted sums of which are added."""
    graph = Graph()
    x, y = graph.input(24, 40, element=element), graph.input(24, 40, element=element)
    v = graph.input(40, 16, element=element)
    body = graph.customized((3, 1, 1), (64, 1, 1), 4)
    tile_v = body.input(v, fordim=0)
    quotients = [
        normalised(body, body.unary("exp", body.input(tensor, (0, -1, -1), 1)), tile_v)
        for tensor in (x, y)
    ]
    body.output(body.binary("add", *quotients), (0, -1, -1))
    return graph.text(*body.close())


def softmax_rows_reference(x: Array, y: Array, v: Array) -> Array:
    """The result of :func:`softmax_rows`."""
    return softmax_times(x, v) + softmax_times(y, v)


def attention_by_hand(
    heads: int, rows: int, keys: int, splits: int, parts: int, forloop: int
) -> str:
    """softmax(q k) v over heads of 64 with a running maximum, in two kernels; rows in ``parts``.

    Each split of the keys leaves its numerator, its sum of weights and its maximum side by side,
    along the last dimension; the second kernel loops over the splits and rescales what it has.
    """
    graph = Graph()
    q, k = graph.input(heads, rows, 64), graph.input(heads, 64, keys)
    v = graph.input(heads, keys, 64)
    body = graph.customized((heads, splits, parts), (128, 1, 1), forloop)
    tile_q = body.input(q, (0, -1, 1))
    tile_k, tile_v = body.input(k, (0, 2, -1), 2), body.input(v, (0, 1, -1), 1)
    scores = scores_of(body, tile_q, tile_k)
    maximum, fall = body.running_maximum(scores, 2)
    weights = body.unary("exp", body.binary("sub", scores, maximum), element="f16")
    factor = body.unary("exp", fall)
    body.output(body.rescale("none", body.matmul(weights, tile_v), factor), (0, 2, 1))
    body.output(body.rescale("sum", weights, factor), (0, 2, 1))
    body.output(body.accumulate("max", maximum), (0, 2, 1))
    numerators, sums, maxima = body.close()
    body = graph.customized((heads, parts, 1), (128, 1, 1), splits)
    numerator, sum_, maximum = (
        body.input(tensor, (0, 1, -1), 2) for tensor in (numerators, sums, maxima)
    )
    largest, fall = body.running_maximum(maximum, 2)
    weight = body.unary("exp", body.binary("sub", maximum, largest))
    factor = body.unary("exp", fall)
    total, norm = (
        body.rescale("none", body.binary("mul", part, weight), factor) for part in (numerator, sum_)
    )
    body.output(body.binary("div", total, norm), (0, 1, -1))
    return graph.text(*body.close())


def normalised_attention(heads: int, rows: int, keys: int, forloop: int) -> str:
    """softmax(norm(q) norm(k) / 8) v: queries and keys are normalised over their 64 elements.

    Keys are stored one after the other, so that the right operand of the product is column-major.
    """
    graph = Graph()
    q, scale_q = graph.input(heads, rows, 64), graph.input(1, 1, 64)
    k = graph.input(heads, 64, keys, strides=(64 * keys, 1, 64))
    scale_k, v = graph.input(1, 64, 1), graph.input(heads, keys, 64)
    body = graph.customized((heads, 1, 1), (128, 1, 1), forloop)
    tile_q = body.rms_norm([body.input(q, (0, -1, -1)), body.input(scale_q)])
    tile_k, tile_v = body.input(k, (0, -1, -1), 2), body.input(v, (0, -1, -1), 1)
    squares = body.unary("square", tile_k)
    sums = body.op("reduction", [squares], replaced(tile_k.shape, 1, 1), "dim 1")
    norms = body.unary("sqrt", body.unary("mul_scalar", sums, f"by {1 / 64}"))
    scaled_k = body.binary("mul", body.binary("div", tile_k, norms), body.input(scale_k))
    scores = body.unary("mul_scalar", scores_of(body, tile_q, scaled_k), "by 0.125")
    weights = body.unary("exp", scores, element="f16")
    body.output(normalised(body, weights, tile_v), (0, -1, -1))
    return graph.text(*body.close())


def normalised_attention_reference(
    q: Array, scale_q: Array, k: Array, scale_k: Array, v: Array
) -> Array:
    """The result of :func:`normalised_attention`."""
    norms = np.sqrt(np.mean(k * k, axis=1, keepdims=True))
    return softmax_times((q / rms(q) * scale_q) @ (k / norms * scale_k) / 8, v)


def attention_cases() -> Iterator[Case]:
    """The same graph as it is written, rewritten, and rewritten on scores that need it."""
    for element in ("f16", "bf16", "f32"):
        for name, heads_a_block in (("", 1), ("-batched", 2)):
            text = attention((4, 16, 96, 32), heads_a_block, 3, element)
            if element == "f16" or not name:
                yield Case(
                    *("softmax", f"as-written{name}-{element}", text, (SMALL, SMALL, Range())),
                    attention_reference,
                )
            for scale, range_ in (("small", SMALL), ("large", LARGE)):
                if element == "f32" and scale == "large":
                    # TF32 would leave large scores, and so the exponents, without an error bound.
                    extents = (4, 16, 96, 32)
                    text = attention(extents, heads_a_block, 3, element, "precision ieee")
                yield Case(
                    *("softmax", f"online-{scale}{name}-{element}", text),
                    *((range_, range_, Range()), attention_reference),
                    plan=ONLINE,
                    sanitize=scale == "large",
                )
    for element in ("f16", "bf16", "f32", "f8E4M3FN", "f8E5M2"):
        large = Range(-90, 90) if element in ("bf16", "f32") else Range(-20, 20)
        if element.startswith("f8"):
            large = Range(-10, 10)
        yield Case(
            *("softmax", f"online-two-places-{element}", softmax_rows(element)),
            *((large, large, Range()), softmax_rows_reference),
            plan=ONLINE,
        )


def cases() -> Iterator[Case]:
    """Every case of these tables."""
    yield from attention_cases()
    score = Range(-0.3, 0.3)
    yield Case(
        *("softmax", "gqa-online", attention((2, 256, 4096, 64), 1, 64, "f16")),
        *((score, score, Range()), attention_reference),
        level=Level.TRANSPILED,
        plan=ONLINE,
    )
    for scale, range_ in (("small", score), ("large", Range(-3, 3))):
        yield Case(
            *("softmax", f"by-hand-{scale}", attention_by_hand(2, 32, 256, 4, 2, 2)),
            *((range_, range_, Range()), attention_reference),
            sanitize=scale == "large",
        )
    yield Case(
        *("softmax", "by-hand-gqa", attention_by_hand(2, 256, 4096, 16, 4, 4)),
        *((score, score, Range()), attention_reference),
        level=Level.TRANSPILED,
    )
    for element in ("f16", "bf16"):
        for name, split in (("", None), ("-split", 2)):
            yield Case(
                *("softmax", f"uneven-keys{name}-{element}"),
                attention((2, 64, 197, 64), 1, 1, element),
                *((LARGE, LARGE, Range()), attention_reference),
                plan=Plan(loop_tile=64, split_k=split, block=(128,)),
                sanitize=True,
            )
    for name, plan in (("as-written", AS_WRITTEN), ("online", ONLINE)):
        yield Case(
            "softmax",
            f"qk-norm-{name}",
            normalised_attention(2, 16, 96, 3),
            (Range(), Range(0.5, 1.5), Range(), Range(0.5, 1.5), Range()),
            normalised_attention_reference,
            plan=plan,
            sanitize=True,
        )
