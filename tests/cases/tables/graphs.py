"""µGraphs written by hand for models: norms, gated MLPs, attention, low-rank corrections."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cases.case import Array, Case, Level, Range
from cases.functions import (
    HALF_UNIT,
    SUM_UNIT,
    matmul_budget,
    rms,
    silu,
    softmax_times,
)
from cases.graph import Graph


def rmsnorm_linear(
    rows: int, inner: int, columns: int, grid: int, forloop: int, parts: int = 1, threads: int = 128
) -> str:
    """rms_norm(x) w: the product and the norm's squares share the loop; rows in ``parts``."""
    graph = Graph()
    x, w = graph.input(rows, inner), graph.input(inner, columns)
    body = graph.customized((grid, parts, 1), (threads, 1, 1), forloop)
    tile_x, tile_w = body.input(x, (-1, 0, -1), 1), body.input(w, (1, -1, -1), 0)
    product = body.accumulate("none", body.matmul(tile_x, tile_w))
    body.output(body.binary("div", product, body.accumulate("rms", tile_x)), (1, 0, -1))
    return graph.text(*body.close())


def rmsnorm_budget(x: Array, w: Array) -> Array:
    """Of :func:`rmsnorm_linear`, with its product and its norm rounded to f16 in between."""
    norm, inner = rms(x), x.shape[-1]
    result = (x @ w) / norm
    relative = inner * SUM_UNIT + 3 * HALF_UNIT
    sums = inner * SUM_UNIT * (np.abs(x) @ np.abs(w))
    return (sums / norm + relative * np.abs(result)) * 1.01 + 2.0**-22


def rmsnorm_reference(x: Array, w: Array) -> Array:
    """rms_norm(x) w."""
    return (x / rms(x)) @ w


def gated_mlp(rows: int, inner: int, columns: int, grid: int, forloop: int) -> str:
    """silu(x a) * (x b): two accumulators."""
    graph = Graph()
    x, a, b = graph.input(rows, inner), graph.input(inner, columns), graph.input(inner, columns)
    body = graph.customized((grid, 1, 1), (128, 1, 1), forloop)
    tile_x = body.input(x, fordim=1)
    gate, up = (
        body.accumulate("none", body.matmul(tile_x, body.input(w, (1, -1, -1), 0))) for w in (a, b)
    )
    body.output(body.binary("mul", body.unary("silu", gate), up), (1, -1, -1))
    return graph.text(*body.close())


def gated_reference(x: Array, a: Array, b: Array) -> Array:
    """silu(x a) * (x b)."""
    return silu(x @ a) * (x @ b)


def column_major_mlp(rows: int, inner: int, columns: int, grid: int, forloop: int) -> str:
    """silu(x a) * (x b) in bf16, with weights whose columns are contiguous."""
    graph = Graph()
    x = graph.input(rows, inner, element="bf16")
    a, b = (graph.input(inner, columns, element="bf16", strides=(1, inner)) for _ in range(2))
    body = graph.customized((grid, 1, 1), (128, 1, 1), forloop)
    tile_x = body.input(x, fordim=1)
    gate, up = (
        body.accumulate("none", body.matmul(tile_x, body.input(w, (1, -1, -1), 0))) for w in (a, b)
    )
    body.output(body.binary("mul", body.unary("silu", gate), up), (1, -1, -1))
    return graph.text(*body.close())


def column_major_mlp_budget(x: Array, a: Array, b: Array) -> Array:
    """Of :func:`column_major_mlp`, with every value in between rounded to bf16."""
    half_unit = 2.0**-9
    gate, up, sums = x @ a, x @ b, x.shape[-1] * SUM_UNIT
    gate_error = sums * (np.abs(x) @ np.abs(a)) + half_unit * np.abs(gate)
    up_error = sums * (np.abs(x) @ np.abs(b)) + half_unit * np.abs(up)
    # The derivative of silu is at most 1.1 in magnitude.
    activated = 1.1 * gate_error + 2 * half_unit * np.abs(silu(gate))
    error = activated * (np.abs(up) + up_error) + np.abs(silu(gate)) * up_error
    return error * 1.01 + half_unit * np.abs(silu(gate) * up) + 2.0**-40


def attention(heads: int, rows: int, keys: int, splits: int, parts: int, forloop: int) -> str:
    """softmax(q k) v over heads of 64, keys in ``splits`` and rows in ``parts`` over the grid.

    The first kernel leaves the numerators of each split side by side, and so the sums of weights;
    the second one, over ``splits`` parts of the rows, adds and divides them.
    """
    graph = Graph()
    q, k = graph.input(heads, rows, 64), graph.input(heads, 64, keys)
    v = graph.input(heads, keys, 64)
    body = graph.customized((heads, splits, parts), (128, 1, 1), forloop)
    tile_q = body.input(q, (0, -1, 1))
    tile_k, tile_v = body.input(k, (0, 2, -1), 2), body.input(v, (0, 1, -1), 1)
    weights = body.unary("exp", body.matmul(tile_q, tile_k))
    body.output(body.accumulate("none", body.matmul(weights, tile_v)), (0, 2, 1))
    body.output(body.accumulate("sum", weights), (0, 2, 1))
    numerators, sums = body.close()
    body = graph.customized((heads, splits, 1), (128, 1, 1))
    split = body.input(numerators, (0, 1, -1))
    total = body.op("forloop_accum_sum_to_dimx_strided", [split], (*split.shape[:2], 64))
    weight = body.accumulate("sum", body.input(sums, (0, 1, -1)))
    body.output(body.binary("div", total, weight), (0, 1, -1))
    return graph.text(*body.close())


def attention_reference(q: Array, k: Array, v: Array) -> Array:
    """softmax(q k) v."""
    return softmax_times(q @ k, v)


def lora(rows: int, inner: int, rank: int, columns: int, grid: int, forloop: int) -> str:
    """x w + (x a) b in one kernel; b is loaded before the loop and used after it."""
    graph = Graph()
    x, w = graph.input(rows, inner), graph.input(inner, columns)
    a, b = graph.input(inner, rank), graph.input(rank, columns)
    body = graph.customized((grid, 1, 1), (128, 1, 1), forloop)
    tile_x = body.input(x, fordim=1)
    full = body.accumulate("none", body.matmul(tile_x, body.input(w, (1, -1, -1), 0)))
    low = body.accumulate("none", body.matmul(tile_x, body.input(a, fordim=0)))
    correction = body.matmul(low, body.input(b, (1, -1, -1)))
    body.output(body.binary("add", full, correction), (1, -1, -1))
    return graph.text(*body.close())


def lora_concatenated(
    rows: int, inner: int, rank: int, columns: int, grid: int, *, fused: bool
) -> str:
    """[x, x a] [w; b]: one product of concatenations, as one operator or with both written out."""
    graph = Graph()
    x, w = graph.input(rows, inner), graph.input(inner, columns)
    a, b = graph.input(inner, rank), graph.input(rank, columns)
    body = graph.customized((grid, 1, 1), (128, 1, 1))
    tile_x, tile_a = body.input(x), body.input(a)
    tile_w, tile_b = body.input(w, (1, -1, -1)), body.input(b, (1, -1, -1))
    low = body.matmul(tile_x, tile_a)
    shape = (rows, columns // grid)
    if fused:
        product = body.op("concat_then_matmul", [tile_x, low, tile_w, tile_b], shape)
    else:
        (left,) = body.op_of_many("concat", [tile_x, low], [(rows, inner + rank)], "dim 1")
        (right,) = body.op_of_many("concat", [tile_w, tile_b], [(inner + rank, shape[1])], "dim 0")
        product = body.matmul(left, right)
    body.output(body.accumulate("none", product), (1, -1, -1))
    return graph.text(*body.close())


def lora_reference(x: Array, w: Array, a: Array, b: Array) -> Array:
    """x w + (x a) b."""
    return x @ w + (x @ a) @ b


def cases() -> Iterator[Case]:
    """Every graph: at a size for a CPU, and at its own."""
    weight, score = Range(-1 / 32, 1 / 32), Range(-0.3, 0.3)
    yield Case(
        *("graphs", "rmsnorm", rmsnorm_linear(16, 256, 192, 3, 4)),
        *((Range(), Range()), rmsnorm_reference),
        sanitize=True,
    )
    yield Case(
        *("graphs", "rmsnorm-4096", rmsnorm_linear(16, 4096, 4096, 64, 64)),
        *((Range(), weight), rmsnorm_reference),
        level=Level.TRANSPILED,
    )
    for columns, grid in ((6144, 96), (28672, 448)):
        yield Case(
            *("graphs", f"rmsnorm-{columns}", rmsnorm_linear(16, 4096, columns, grid, 64)),
            *((Range(), weight), rmsnorm_reference),
            level=Level.TRANSPILED,
        )
    yield Case(
        *("graphs", "gated_mlp", gated_mlp(16, 256, 192, 3, 4)),
        *((Range(), weight, weight), gated_reference),
        sanitize=True,
    )
    yield Case(
        *("graphs", "gated_mlp-4096", gated_mlp(16, 4096, 4096, 64, 32)),
        *((Range(), weight, weight), gated_reference),
        level=Level.TRANSPILED,
    )
    yield Case(
        *("graphs", "attention", attention(2, 32, 256, 2, 2, 4)),
        *((score, score, Range()), attention_reference),
        sanitize=True,
    )
    yield Case(
        *("graphs", "attention-gqa", attention(2, 256, 4096, 16, 4, 4)),
        *((score, score, Range()), attention_reference),
        level=Level.TRANSPILED,
    )
    yield Case(
        *("graphs", "lora", lora(16, 256, 16, 192, 3, 4)),
        *((Range(), weight, weight, weight), lora_reference),
        sanitize=True,
    )
    yield Case(
        *("graphs", "lora-4096", lora(8, 4096, 16, 4096, 64, 32)),
        *((Range(), weight, weight, weight), lora_reference),
        level=Level.TRANSPILED,
    )
    yield Case(
        *("graphs", "lora-one-row-4096", lora(1, 4096, 16, 4096, 64, 32)),
        *((Range(), weight, weight, weight), lora_reference),
        level=Level.TRANSPILED,
    )
    for name, fused in (("concat", False), ("concat_then_matmul", True)):
        yield Case(
            *("graphs", f"lora-{name}", lora_concatenated(16, 128, 16, 192, 3, fused=fused)),
            *((Range(), weight, weight, weight), lora_reference),
            sanitize=True,
        )
        yield Case(
            *("graphs", f"lora-{name}-4096", lora_concatenated(16, 256, 16, 4096, 64, fused=fused)),
            *((Range(), weight, weight, weight), lora_reference),
            level=Level.TRANSPILED,
        )
    yield Case(
        *("graphs", "rmsnorm-three-warp-groups", rmsnorm_linear(16, 256, 192, 3, 4, threads=384)),
        *((Range(), Range()), rmsnorm_reference),
    )
    yield Case(
        *("graphs", "rmsnorm-512x4096x4096", rmsnorm_linear(512, 4096, 4096, 64, 64, parts=4)),
        *((Range(), weight), rmsnorm_reference),
        level=Level.TRANSPILED,
        budget=rmsnorm_budget,
    )
    yield Case(
        *("graphs", "qwen_mlp", column_major_mlp(16, 256, 192, 3, 4)),
        *((Range(), weight, weight), gated_reference),
        sanitize=True,
    )
    yield Case(
        *("graphs", "qwen_mlp-3584", column_major_mlp(16, 3584, 18944, 296, 56)),
        *((Range(), weight, weight), gated_reference),
        level=Level.TRANSPILED,
        budget=column_major_mlp_budget,
    )
    for name, (m, n, k), grid, forloop in (
        ("matmul-512x256x1024", (512, 256, 1024), (4, 4, 1), 8),
        ("matmul-256x4096x4096", (256, 4096, 4096), (4, 16, 1), 64),
    ):
        graph = Graph()
        x, y = graph.input(m, k), graph.input(k, n)
        body = graph.customized(grid, (256, 1, 1), forloop)
        tiles = body.input(x, (0, -1, -1), 1), body.input(y, (-1, 1, -1), 0)
        body.output(body.accumulate("none", body.matmul(*tiles)), (0, 1, -1))
        yield Case(
            *("graphs", name, graph.text(*body.close()), (Range(), Range()), np.matmul),
            level=Level.TRANSPILED,
            budget=matmul_budget,
        )
