"""Programs whose sizes or rows stand in memory, and what numpy computes of them in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import mugraph.build as mi
from mugraph.build import KernelGraph
from mugraph.dialects.plan import Plan

Array = npt.NDArray[Any]
Random = np.random.Generator

IN_BULK = Plan(tiles="written", loads="tma")
KEYS, WIDTH, HEADS = 1000, 64, 8
ROWS = 513


@dataclass(frozen=True)
class Program:
    """One program, the sizes that it runs at, and what it must give there."""

    name: str
    graph: Callable[[], KernelGraph]
    sizes: Sequence[int]
    inputs: Callable[[int, Random], list[Array]]
    expected: Callable[..., list[Any]]
    """Of the size and the inputs; masked elements stay as they were."""
    types: Sequence[Any] = (np.float16,)
    in_place: Mapping[int, int] = field(default_factory=dict[int, int])
    """The input in whose memory a result lies, by the result's number."""
    plan: Plan | None = None


def halves(random: Random, *shape: int, scale: float = 1.0) -> Array:
    """Random numbers of f16."""
    return (random.standard_normal(shape) * scale).astype(np.float16)


def behind(array: Array, dim: int, size: int) -> Array:
    """The array, NaN from a place along a dimension on."""
    array = array.copy()
    array[(*[slice(None)] * dim, slice(size, None))] = np.nan
    return array


def masked_behind(values: Array, size: int) -> Any:
    """Results whose rows from a place on must stay as they were."""
    mask = np.zeros(values.shape, bool)
    mask[size:] = True
    return np.ma.array(values, mask=mask)


def held(size: int) -> Array:
    """A length in memory."""
    return np.array([size], np.int32)


def softmax(scores: Array) -> Array:
    """Along the last dimension, in float64; NaN of nothing."""
    if not scores.shape[-1]:
        return scores
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def attend(q: Array, k: Array, v: Array) -> Array:
    """softmax(q kT) v in float64; NaN without any key."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    result = softmax(q @ np.swapaxes(k, -1, -2)) @ v
    return result if k.shape[-2] else np.full_like(result, np.nan)


# Lengths that memory holds.


def _attention() -> KernelGraph:
    graph = mi.new_kernel_graph("attention")
    length = graph.new_input((1,), dtype=mi.int32)
    n = mi.Extent("n", largest=KEYS, held=length)
    q = graph.new_input((HEADS, 16, WIDTH))
    k, v = (graph.new_input((HEADS, n, WIDTH)) for _ in range(2))
    graph.mark_output(graph.softmax(q @ graph.transpose(k, [0, 2, 1]), 2) @ v)
    return graph


def _attention_inputs(size: int, random: Random) -> list[Array]:
    caches = (behind(halves(random, HEADS, KEYS, WIDTH), 1, size) for _ in range(2))
    return [held(size), halves(random, HEADS, 16, WIDTH, scale=0.2), *caches]


def _attention_expected(size: int, _: Array, q: Array, k: Array, v: Array) -> list[Any]:
    return [attend(q, k[:, :size], v[:, :size])]


def _held_product() -> KernelGraph:
    graph = mi.new_kernel_graph("held_product")
    length = graph.new_input((1,), dtype=mi.int32)
    n = mi.Extent("n", largest=KEYS, held=length)
    graph.mark_output(graph.new_input((128, n)) @ graph.new_input((n, 96)))
    return graph


def _held_product_inputs(size: int, random: Random) -> list[Array]:
    x, w = halves(random, 128, KEYS, scale=0.1), halves(random, KEYS, 96)
    return [held(size), behind(x, 1, size), behind(w, 0, size)]


def _held_product_expected(size: int, _: Array, x: Array, w: Array) -> list[Any]:
    return [x[:, :size].astype(np.float64) @ w[:size].astype(np.float64)]


def _held_rows() -> KernelGraph:
    graph = mi.new_kernel_graph("held_rows")
    length = graph.new_input((1,), dtype=mi.int32)
    n = mi.Extent("n", largest=ROWS, held=length)
    x, w = graph.new_input((n, 256)), graph.new_input((256, 192))
    graph.mark_output(mi.silu(mi.rms_norm(x, eps=1e-5) @ w))
    return graph


def _rows_inputs(size: int, random: Random) -> list[Array]:
    x, w = halves(random, ROWS, 256), halves(random, 256, 192, scale=0.06)
    return [held(size), behind(x, 0, size), w]


def _normed(x: Array, w: Array) -> Array:
    x, w = x.astype(np.float64), w.astype(np.float64)
    y = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5) @ w
    return y / (1 + np.exp(-y))


def _held_rows_expected(size: int, _: Array, x: Array, w: Array) -> list[Any]:
    result = np.zeros((ROWS, 192))
    result[:size] = _normed(x[:size], w)
    return [masked_behind(result, size)]


def _called_rows() -> KernelGraph:
    graph = mi.new_kernel_graph("called_rows")
    m = mi.Extent("m", largest=ROWS, buckets=(16, 64))
    x, w = graph.new_input((m, 256)), graph.new_input((256, 192))
    graph.mark_output(mi.silu(mi.rms_norm(x, eps=1e-5) @ w))
    return graph


# Prefix sums and recurrences.

SCANNED = ((7, 1), (3, 1009), (2, 4096))


def _scans() -> KernelGraph:
    graph = mi.new_kernel_graph("scans")
    for shape in SCANNED:
        x = graph.new_input(shape, dtype=mi.float32)
        a = graph.new_input(shape, dtype=mi.float32)
        graph.mark_output(mi.cumsum(x, 1))
        graph.mark_output(graph.scan(x, dim=1, exclusive=True))
        graph.mark_output(graph.scan(x, a, 1))
        graph.mark_output(graph.scan(graph.transpose(x), dim=0))
    return graph


def _scans_inputs(_: int, random: Random) -> list[Array]:
    inputs: list[Array] = []
    for shape in SCANNED:
        inputs += [random.standard_normal(shape).astype(np.float32)]
        inputs += [random.uniform(0.9, 1.0, shape).astype(np.float32)]
    return inputs


def _scans_expected(_: int, *inputs: Array) -> list[Any]:
    results: list[Any] = []
    for x, a in zip(inputs[::2], inputs[1::2], strict=True):
        x, a = x.astype(np.float64), a.astype(np.float64)
        sums, states = np.cumsum(x, 1), np.zeros_like(x)
        state = np.zeros(len(x))
        for t in range(x.shape[1]):
            state = states[:, t] = state * a[:, t] + x[:, t]
        results += [sums, sums - x, states, sums.T]
    return results


STEPS, STATES = 200, 64


def _recurrence() -> KernelGraph:
    graph = mi.new_kernel_graph("recurrence")
    x, a = (graph.new_input((4, STEPS, STATES)) for _ in range(2))
    w = graph.new_input((4, STATES, 32))
    graph.mark_output(graph.scan(x, mi.sigmoid(a), 1) @ w)
    return graph


def _recurrence_inputs(_: int, random: Random) -> list[Array]:
    x, a = (halves(random, 4, STEPS, STATES) for _ in range(2))
    return [x, a, halves(random, 4, STATES, 32, scale=0.1)]


def _recurrence_expected(_: int, x: Array, a: Array, w: Array) -> list[Any]:
    x, a, w = (each.astype(np.float64) for each in (x, a, w))
    decay, state, states = 1 / (1 + np.exp(-a)), np.zeros((4, STATES)), np.zeros_like(x)
    for t in range(STEPS):
        state = states[:, t] = state * decay[:, t] + x[:, t]
    return [states @ w]


# Rows that numbers name.

TABLE = 23


def _embedding() -> KernelGraph:
    graph = mi.new_kernel_graph("embedding")
    table = graph.new_input((TABLE, 96))
    graph.mark_output(
        mi.rms_norm(mi.gather(table, graph.new_input((80,), dtype=mi.int32)), eps=0.1)
    )
    return graph


def _embedding_inputs(size: int, random: Random) -> list[Array]:
    """With size 1 some numbers name no row: the nearest is taken."""
    rows = random.integers(0, TABLE, 80).astype(np.int32)
    if size:
        rows[[3, 17, 79]] = -5, TABLE, 2**31 - 1
    return [halves(random, TABLE, 96), rows]


def _embedding_expected(_: int, table: Array, rows: Array) -> list[Any]:
    found = table.astype(np.float64)[np.clip(rows, 0, TABLE - 1)]
    return [found / np.sqrt((found**2).mean(axis=-1, keepdims=True) + 0.1)]


def _paged(page: int) -> KernelGraph:
    """Attention over 4 sequences of 8 pages each, cut as in ``examples/paged_attention.mlir``."""
    graph = mi.new_kernel_graph(f"paged_{page}")
    q = graph.new_input((4, 1, 16, WIDTH))
    k, v = (graph.new_input((50, page, WIDTH)) for _ in range(2))
    table = graph.new_input((4, 8), dtype=mi.int32)
    block = mi.new_threadblock_graph((4, 1, 1), (128, 1, 1), 8)
    keys = graph.transpose(k, [0, 2, 1])
    tile_q = block.new_input(q, (0, -1, -1))
    tile_k = block.new_input(keys, (0, -1, -1), 1, through=table)
    tile_v = block.new_input(v, (0, -1, -1), 1, through=table)
    weights = block.exp(block.matmul(tile_q, tile_k, dtype=mi.float32), dtype=mi.float16)
    total = block.forloop_accum(block.matmul(weights, tile_v))
    norm = block.forloop_accum(weights, "sum")
    block.new_output(block.div(total, norm), (0, -1, -1))
    graph.mark_output(*graph.customized([q, keys, table, v], block))
    return graph


def _paged_inputs(page: int, _: int, random: Random) -> list[Array]:
    q = halves(random, 4, 1, 16, WIDTH, scale=0.1)
    k, v = (halves(random, 50, page, WIDTH) for _ in range(2))
    table = np.stack([random.permutation(50)[:8] for _ in range(4)]).astype(np.int32)
    return [q, k, v, table]


def _paged_expected(_: int, q: Array, k: Array, v: Array, table: Array) -> list[Any]:
    keys, values = (x[table].reshape(4, 1, -1, WIDTH) for x in (k, v))
    return [attend(q, keys, values)]


GROUPED = 7


def _grouped(rows: int) -> KernelGraph:
    graph = mi.new_kernel_graph(f"grouped_{rows}")
    x, w = graph.new_input((rows, 256)), graph.new_input((GROUPED, 256, 320))
    group = graph.new_input((rows,), dtype=mi.int32)
    order = mi.sort_groups(group, GROUPED)
    made = mi.grouped_matmul(mi.gather(x, order.order), w, order.ends)
    graph.mark_output(mi.gather(made, order.places))
    for table in order:
        graph.mark_output(table)
    return graph


def _grouped_inputs(rows: int, size: int, random: Random) -> list[Array]:
    """Rows of ``size`` groups, the others empty; 0: of all, by chance."""
    chosen = random.permutation(GROUPED)[: size or GROUPED]
    group = random.choice(chosen, rows).astype(np.int32)
    return [halves(random, rows, 256), halves(random, GROUPED, 256, 320, scale=0.06), group]


def _grouped_expected(_: int, x: Array, w: Array, group: Array) -> list[Any]:
    made = np.einsum("tk,tkn->tn", x.astype(np.float64), w.astype(np.float64)[group])
    order = np.argsort(group, kind="stable")
    return [made, order, np.argsort(order), np.cumsum(np.bincount(group, minlength=GROUPED))]


# Rows that are written where they lie.


def _step() -> KernelGraph:
    """A step of generation: a key and a value are put into caches, then attention over them."""
    graph = mi.new_kernel_graph("step")
    length = graph.new_input((1,), dtype=mi.int32)
    place = graph.new_input((1,), dtype=mi.int64)
    q = graph.new_input((HEADS, 1, WIDTH))
    new_k, new_v = (graph.new_input((HEADS, 1, WIDTH)) for _ in range(2))
    k, v = (graph.new_input((HEADS, KEYS, WIDTH)) for _ in range(2))
    keys, values = graph.scatter(new_k, k, place, 1), graph.scatter(new_v, v, place, 1)
    scores = graph.matmul(q, graph.transpose(keys, [0, 2, 1]), dtype=mi.float32)
    scores = graph.mask(scores, lambda h, i, j, n: n - 1 - j, lengths=[(length, KEYS)])
    graph.mark_output(graph.cast(graph.softmax(scores, 2), mi.float16) @ values)
    graph.mark_output(keys)
    graph.mark_output(values)
    return graph


def _step_inputs(size: int, random: Random) -> list[Array]:
    """The new key is the last one that counts."""
    inputs = [held(size), np.array([size - 1], np.int64)]
    inputs += [halves(random, HEADS, 1, WIDTH, scale=scale) for scale in (0.2, 1, 1)]
    return [*inputs, *(halves(random, HEADS, KEYS, WIDTH) for _ in range(2))]


def _step_expected(size: int, _: Array, place: Array, q: Array, *new_and_old: Array) -> list[Any]:
    new_k, new_v, k, v = (each.astype(np.float64) for each in new_and_old)
    for cache, new in ((k, new_k), (v, new_v)):
        cache[:, place[0]] = new[:, 0]
    return [attend(q, k[:, :size], v[:, :size]), k, v]


def _scatter() -> KernelGraph:
    graph = mi.new_kernel_graph("put_rows")
    new, table = graph.new_input((HEADS, 3, WIDTH)), graph.new_input((HEADS, KEYS, WIDTH))
    graph.mark_output(graph.scatter(new, table, graph.new_input((3,), dtype=mi.int64), 1))
    return graph


def _scatter_inputs(size: int, random: Random) -> list[Array]:
    """With size 1 one number names no row, and is left out."""
    rows = np.array([KEYS - 1, 0, KEYS if size else 17], np.int64)
    return [halves(random, HEADS, 3, WIDTH), halves(random, HEADS, KEYS, WIDTH), rows]


def _scatter_expected(_: int, new: Array, table: Array, rows: Array) -> list[Any]:
    result = table.astype(np.float64)
    for at, row in enumerate(rows):
        if row < KEYS:
            result[:, row] = new[:, at]
    return [result]


PROGRAMS = (
    *(
        Program("held attention", _attention, (0, 1, 37, 128, KEYS), _attention_inputs,
                _attention_expected),
        Program("held product", _held_product, (0, 1, 63, 64, 65, KEYS), _held_product_inputs,
                _held_product_expected),
        Program("held rows", _held_rows, (0, 1, 65, ROWS), _rows_inputs, _held_rows_expected),
        Program("called rows", _called_rows, (0, 1, 16, 17, 37, 100, ROWS),
                lambda size, random: [halves(random, size, 256),
                                      halves(random, 256, 192, scale=0.06)],
                lambda _, x, w: [_normed(x, w)]),
        Program("scans", _scans, (0,), _scans_inputs, _scans_expected,
                [np.float32] * (4 * len(SCANNED))),
        Program("recurrence", _recurrence, (0,), _recurrence_inputs, _recurrence_expected),
        Program("embedding", _embedding, (0, 1), _embedding_inputs, _embedding_expected),
        Program("step of generation", _step, (1, 2, 65, KEYS), _step_inputs, _step_expected,
                [np.float16] * 3, in_place={1: 5, 2: 6}),
        Program("put rows", _scatter, (0, 1), _scatter_inputs, _scatter_expected,
                in_place={0: 1}),
    ),
    *(
        Program(f"paged {page}", partial(_paged, page), (0,), partial(_paged_inputs, page),
                _paged_expected, plan=IN_BULK)
        for page in (16, 64, 128)
    ),
    *(
        Program(f"grouped {rows}", partial(_grouped, rows), (0, 1, 3),
                partial(_grouped_inputs, rows), _grouped_expected,
                (np.float16, np.int32, np.int32, np.int32), plan=plan)
        for rows, plan in ((6, None), (100, None), (1000, None), (1001, IN_BULK))
    ),
)  # fmt: skip
"""Every program; sizes are lengths, or choose what the inputs are."""

__all__ = ["PROGRAMS", "Array", "Program"]
