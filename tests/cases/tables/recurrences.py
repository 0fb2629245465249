"""Loops that carry a state: sums so far, linear attention with decay, delays, the delta rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cases.case import Array, Case, Range
from cases.graph import Graph, Threadblock, Tile

FLOATS = ("f16", "bf16", "f32", "f8E4M3FN", "f8E5M2")
LARGE = Range(-1, 1)


def cumulative_sum(rows: int, columns: int, chunk: int, element: str) -> str:
    """Sums so far along rows: of a chunk by a product with a triangle, before it by a state."""
    graph = Graph()
    x = graph.input(rows, columns, element=element)
    body = graph.customized((rows // 16, 1, 1), (128, 1, 1), columns // chunk)
    tile = body.input(x, (0, -1, -1), 1)
    triangle = body.unary(
        "mask",
        body.unary("fill", body.input(graph.input(chunk, chunk, element=element)), "with 1.0"),
        f"with 0.0 where affine_set<(i, j) : (j - i >= 0)> of [{chunk}, {chunk}] imap [-1, -1, -1]",
    )
    before = body.carried((16, 1))
    inside = body.matmul(tile, triangle, "f32")
    after = body.op("reduction", [tile], (16, 1), "dim 1", "f32")
    last = body.carry(body.binary("add", before, after), before)
    body.output(body.binary("add", inside, before), (0, -1, -1), fordim=1)
    body.output(last, (0, -1, -1))
    return graph.text(*body.close())


def cumulative_sum_reference(x: Array, _: Array) -> list[Array]:
    """The sums up to each element, and of all."""
    return [x.cumsum(axis=1), x.sum(axis=1, keepdims=True)]


def so_far(body: Threadblock, row: Tile, column: Tile, dim: int) -> Tile:
    """Sums of a row's numbers up to each place as a column, or of a column's as a row.

    ``dim`` is the dimension along which the first of the tiles lies.
    """
    chunk = row.shape[dim]
    square = body.binary("add", row, body.unary("fill", column, "with 0.0"))
    form = "i - j" if dim == 2 else "j - i"
    kept = body.unary(
        "mask",
        square,
        f"with 0.0 where affine_set<(h, i, j) : ({form} >= 0)> of [1, {chunk}, {chunk}] "
        "imap [-1, -1, -1]",
    )
    return body.op("reduction", [kept], column.shape, f"dim {dim}")


def ratios(body: Threadblock, rows: Tile, columns: Tile, *, below: int = 0) -> Tile:
    """exp(row - column) where the row is at least ``below`` places behind the column, else 0."""
    chunk = rows.shape[1]
    form = f"i - j - {below}" if below else "i - j"
    kept = body.unary(
        "mask",
        body.binary("sub", rows, columns),
        f"with -inf where affine_set<(h, i, j) : ({form} >= 0)> of [1, {chunk}, {chunk}] "
        "imap [-1, -1, -1]",
    )
    return body.unary("exp", kept)


@dataclass(frozen=True)
class LinearAttention:
    """Linear attention in chunks, whose state decays by a number at each token."""

    heads: int
    tokens: int
    chunk: int
    width: int
    element: str

    def text(self) -> str:
        """The µGraph: a block for each head; the loop walks the chunks.

        G are the sums so far of the logarithms of the decays in a chunk, of which t is the last::

            o = exp(G) (q S) + (q kT * exp(G_i - G_j) where j <= i) v
            S = exp(G_t) S + (kT * exp(G_t - G)) v
        """
        chunk, width, element = self.chunk, self.width, self.element
        graph = Graph()
        rows, columns = (self.heads, self.tokens, width), (self.heads, width, self.tokens)
        inputs = [graph.input(*shape, element=element) for shape in (rows, columns, rows)]
        logarithms = graph.input(self.heads, self.tokens, 1, element="f32")
        decays = [logarithms, graph.op("reshape", [logarithms], (self.heads, 1, self.tokens))]
        grid = (self.heads, 1, 1)
        body = graph.customized(grid, (128, 1, 1), self.tokens // chunk)
        q, k, v, by_rows, by_columns = (
            body.input(tensor, (0, -1, -1), dim)
            for tensor, dim in zip((*inputs, *decays), (1, 2, 1, 1, 2), strict=True)
        )
        state = body.carried((1, width, width))
        rows_so_far = so_far(body, by_columns, by_rows, 2)
        columns_so_far = so_far(body, by_rows, by_columns, 1)
        whole = body.op("reduction", [by_columns], (1, 1, 1), "dim 2")
        decays_between = ratios(body, rows_so_far, columns_so_far)
        scores = body.binary("mul", body.matmul(q, k, "f32"), decays_between, element)
        inside = body.matmul(scores, v, "f32")
        before = body.matmul(q, body.unary("cast", state, element=element), "f32")
        decayed = body.binary("mul", before, body.unary("exp", rows_so_far))
        left = body.unary("exp", body.binary("sub", whole, columns_so_far))
        keys = body.binary("mul", k, body.unary("cast", left, element=element))
        added = body.matmul(keys, v, "f32")
        kept = body.binary("mul", state, body.unary("exp", whole))
        last = body.carry(body.binary("add", kept, added), state)
        out = body.binary("add", inside, decayed, element)
        body.output(out, (0, -1, -1), fordim=1)
        body.output(last, (0, -1, -1))
        return graph.text(*body.close())

    def reference(self, q: Array, k: Array, v: Array, decays: Array) -> list[Array]:
        """Token by token."""
        out, state = np.empty_like(q), np.zeros((self.heads, self.width, self.width))
        for token in range(self.tokens):
            state = np.exp(decays[:, token, :, None]) * state
            state = state + k[:, :, token, None] * v[:, token, None, :]
            out[:, token] = np.einsum("hd,hde->he", q[:, token], state)
        return [out, state]


def delays(rows: int, steps: int, element: str) -> str:
    """y_t = x_t + x_(t-1) / 2 - x_(t-2) / 4: a state that passes on what another one was."""
    graph = Graph()
    x = graph.input(steps * rows, 32, element=element)
    body = graph.customized((1, 1, 1), (64, 1, 1), steps)
    tile = body.input(x, fordim=0)
    one, two = (body.carried(tile.shape, element) for _ in range(2))
    body.carry(tile, one)
    body.carry(one, two)
    now, then, earlier = (
        each if element == "f32" else body.unary("cast", each, element="f32")
        for each in (tile, one, two)
    )
    sums = body.binary("add", now, body.unary("mul_scalar", then, "by 0.5"))
    body.output(body.binary("add", sums, body.unary("mul_scalar", earlier, "by -0.25")), fordim=0)
    return graph.text(*body.close())


def delays_reference(x: Array, rows: int = 8) -> Array:
    """The filter."""
    one, two = (np.concatenate([np.zeros((n * rows, 32)), x[: -n * rows]]) for n in (1, 2))
    return x + one / 2 - two / 4


def delta_rule(tokens: int, width: int) -> str:
    """The gated delta rule token by token: S = a S + b k (v - a kT S), o = qT S."""
    graph = Graph()
    names = ((tokens, width), (width, tokens), (tokens, width), (tokens, width))
    inputs = [graph.input(*shape, element="f32") for shape in names]
    numbers = [graph.input(tokens, 1, element="f32") for _ in range(2)]
    body = graph.customized((1, 1, 1), (64, 1, 1), tokens)
    q, column, k, v, a, b = (
        body.input(tensor, fordim=dim)
        for tensor, dim in zip((*inputs, *numbers), (0, 1, 0, 0, 0, 0), strict=True)
    )
    state = body.carried((width, width), start=0.5)
    decayed = body.binary("mul", state, a)
    error = body.binary("sub", v, body.op("matmul", [k, decayed], (1, width), "precision ieee"))
    change = body.binary("mul", column, body.binary("mul", error, b))
    new = body.binary("add", decayed, change)
    body.carry(new, state)
    body.output(body.op("matmul", [q, new], (1, width), "precision ieee"), fordim=0)
    return graph.text(*body.close())


def delta_rule_reference(
    q: Array, _: Array, k: Array, v: Array, decays: Array, rates: Array
) -> Array:
    """Token by token; the two forms of the keys are drawn apart, and both count."""
    width = q.shape[1]
    state, out = np.full((width, width), 0.5), np.empty_like(q)
    for t in range(len(q)):
        decayed = decays[t] * state
        state = decayed + _[:, t, None] * (rates[t] * (v[t] - k[t] @ decayed))
        out[t] = q[t] @ state
    return out


@dataclass(frozen=True)
class GatedDeltaRule:
    """The gated delta rule in chunks.

    S_t = a_t S_(t-1) + k_t u_t, with u_t = b_t (v_t - a_t k_t S_(t-1)), and o_t = q_t S_t.  With
    G the sums so far of the logarithms of a, E that of the chunk, and N, strictly below the
    diagonal, -b_i exp(G_i - G_j) (k_i kT_j)::

        u = (1 - N)^-1 b (v - exp(G) (k S)) = (1 + N) (1 + N^2) (1 + N^4) ... b (v - exp(G) (k S))
        o = exp(G) (q S) + (q kT * exp(G_i - G_j) where j <= i) u
        S = exp(E) S + (kT * exp(E - G)) u
    """

    heads: int
    tokens: int
    chunk: int
    width: int

    def text(self) -> str:
        """The µGraph: a block for each head; the loop walks the chunks."""
        chunk, width = self.chunk, self.width
        graph = Graph()
        rows, row = (self.heads, self.tokens, width), (self.heads, self.tokens, 1)
        q, k, v = (graph.input(*rows, element="f32") for _ in range(3))
        rates, logarithms = (graph.input(*row, element="f32") for _ in range(2))
        across = graph.op("reshape", [logarithms], (self.heads, 1, self.tokens))
        columns = (self.heads, width, self.tokens)
        keys = graph.op("transpose", [k], columns, "dims [0, 2, 1]")
        body = graph.customized((self.heads, 1, 1), (128, 1, 1), self.tokens // chunk)
        tiles = [body.input(each, (0, -1, -1), 1) for each in (q, k, v, rates, logarithms)]
        q_tile, k_tile, v_tile, b, by_rows = tiles
        kt, by_columns = (body.input(each, (0, -1, -1), 2) for each in (keys, across))
        state = body.carried((1, width, width))
        down = so_far(body, by_columns, by_rows, 2)
        over = so_far(body, by_rows, by_columns, 1)
        whole = body.op("reduction", [by_columns], (1, 1, 1), "dim 2")
        decay = body.unary("exp", down)
        seen = body.binary("mul", body.matmul(k_tile, state), decay)
        update = body.binary("mul", body.binary("sub", v_tile, seen), b)
        alike = body.binary("mul", body.matmul(k_tile, kt), ratios(body, down, over, below=1))
        power = body.unary("mul_scalar", body.binary("mul", alike, b), "by -1.0")
        reach = 1
        while reach < chunk:
            update = body.binary("add", update, body.matmul(power, update))
            reach *= 2
            power = body.matmul(power, power) if reach < chunk else power
        scores = body.binary("mul", body.matmul(q_tile, kt), ratios(body, down, over))
        earlier = body.binary("mul", body.matmul(q_tile, state), decay)
        body.output(body.binary("add", earlier, body.matmul(scores, update)), (0, -1, -1), fordim=1)
        left = body.unary("exp", body.binary("sub", whole, over))
        added = body.matmul(body.binary("mul", kt, left), update)
        kept = body.binary("mul", state, body.unary("exp", whole))
        body.output(body.carry(body.binary("add", kept, added), state), (0, -1, -1))
        return graph.text(*body.close())

    def reference(self, q: Array, k: Array, v: Array, rates: Array, logs: Array) -> list[Array]:
        """Token by token."""
        out, state = np.empty_like(q), np.zeros((self.heads, self.width, self.width))
        for t in range(self.tokens):
            state = np.exp(logs[:, t, :, None]) * state
            error = rates[:, t] * (v[:, t] - np.einsum("hd,hde->he", k[:, t], state))
            state = state + k[:, t, :, None] * error[:, None]
            out[:, t] = np.einsum("hd,hde->he", q[:, t], state)
        return [out, state]


def cases() -> Iterator[Case]:
    """Every case of these tables."""
    for element in ("f16", "bf16", "f32"):
        yield Case(
            *("recurrences", f"cumulative-sum-{element}", cumulative_sum(32, 256, 64, element)),
            *((LARGE, LARGE), cumulative_sum_reference),
            sanitize=True,
        )
    for element, width in (("f16", 64), ("bf16", 32)):
        attention = LinearAttention(2, 192, 64, width, element)
        yield Case(
            *("recurrences", f"linear-attention-{width}-{element}", attention.text()),
            *((LARGE, LARGE, LARGE, Range(-0.5, 0)), attention.reference),
            sanitize=True,
        )
    for element in FLOATS:
        text = delays(8, 6, element)
        name = f"delays-{element}"
        yield Case("recurrences", name, text, (LARGE,), delays_reference, sanitize=True)
    yield Case(
        *("recurrences", "delta-rule", delta_rule(6, 16), (LARGE,) * 5 + (Range(0, 1),)),
        delta_rule_reference,
        sanitize=True,
    )
    rule = GatedDeltaRule(2, 48, 16, 32)
    ranges = (LARGE, Range(-0.25, 0.25), LARGE, Range(0, 1), Range(-0.5, 0))
    yield Case(
        *("recurrences", "delta-rule-in-chunks", rule.text(), ranges, rule.reference),
        sanitize=True,
    )
