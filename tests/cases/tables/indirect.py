"""Tiles of rows that numbers name: pages of a cache, embeddings of tokens, matrices of experts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from schedules import AS_WRITTEN

from cases.case import Array, Case, Range
from cases.functions import softmax_times
from cases.graph import Graph
from cases.tables.softmax import ONLINE, SMALL, normalised, scores_of

ROWS = 23
"""Of every table: no power of two."""


@dataclass(frozen=True)
class Paged:
    """Attention of 16 queries a sequence over a cache in pages, several of which a tile may be."""

    page: int
    element: str
    sequences: int = 3
    pages: int = 6
    width: int = 64

    def text(self) -> str:
        """The µGraph: a block for each sequence, whose loop walks over its pages."""
        graph = Graph()
        q = graph.input(self.sequences, 1, 16, self.width, element=self.element)
        # Keys lie as values do: page, key, element.
        strides = (self.page * self.width, 1, self.width)
        k = graph.input(ROWS, self.width, self.page, element=self.element, strides=strides)
        v = graph.input(ROWS, self.page, self.width, element=self.element)
        table = graph.input(self.sequences, self.pages, element="i32")
        body = graph.customized((self.sequences, 1, 1), (128, 1, 1), self.pages)
        tile_q = body.input(q, (0, -1, -1))
        tile_k, tile_v = (body.input(x, (0, -1, -1), 1, table) for x in (k, v))
        weights = body.unary("exp", scores_of(body, tile_q, tile_k), element=self.element)
        body.output(normalised(body, weights, tile_v), (0, -1, -1))
        return graph.text(*body.close())

    def reference(self, q: Array, k: Array, v: Array, table: Array) -> Array:
        """The same of keys and values side by side."""
        numbers = table.astype(int)
        keys = np.concatenate(list(k[numbers].transpose(1, 0, 2, 3)), axis=-1)
        values = np.concatenate(list(v[numbers].transpose(1, 0, 2, 3)), axis=-2)
        return softmax_times(q[:, 0] @ keys, values)[:, None]


def embedding(tokens: Sequence[int], width: int, blocks: int, element: str) -> str:
    """The embeddings of tokens, each over its norm: tiles have a row for each of their tokens."""
    graph = Graph()
    x = graph.input(ROWS, width, element=element)
    numbers = graph.input(*tokens, element="i32")
    dim = len(tokens) - 1
    body = graph.customized((blocks, 1, 1), (64, 1, 1))
    tile = body.input(x, (dim, -1, -1), through=numbers)
    body.output(body.rms_norm([tile]), (dim, -1, -1))
    return graph.text(*body.close())


def embedding_reference(x: Array, numbers: Array) -> Array:
    """Rows, each over the root of the mean of its squares."""
    found = x[numbers.astype(int)]
    return found / np.sqrt((found**2).mean(axis=-1, keepdims=True))


def columns(width: int, forloop: int, element: str) -> str:
    """Sums over the elements of rows, in a loop along them that does not divide."""
    graph = Graph()
    x = graph.input(ROWS, width, element=element)
    numbers = graph.input(24, element="i32")
    body = graph.customized((2, 1, 1), (64, 1, 1), forloop)
    tile = body.input(x, (0, -1, -1), 1, numbers)
    body.output(body.accumulate("sum", tile), (0, -1, -1))
    return graph.text(*body.close())


def experts(element: str, rows: int = 16, columns: int = 32) -> str:
    """Row tiles times matrices, each of the expert that a number names."""
    graph = Graph()
    x = graph.input(4, rows, 128, element=element)
    w = graph.input(ROWS, 128, columns, element=element)
    numbers = graph.input(4, element="i32")
    body = graph.customized((4, 1, 1), (128, 1, 1), 4)
    tile, matrices = body.input(x, (0, -1, -1), 2), body.input(w, (0, -1, -1), 1, numbers)
    body.output(body.accumulate("none", body.matmul(tile, matrices)), (0, -1, -1))
    return graph.text(*body.close())


def groups(element: str, rows: int = 64) -> str:
    """As experts; a row tile starts at any row of one tensor."""
    graph = Graph()
    x = graph.input(200, 128, element=element, strides=(128, 1))
    w = graph.input(ROWS, 128, 64, element=element)
    starts, numbers = (graph.input(5, element="i32") for _ in range(2))
    windows = graph.op("view", [x], (201 - rows, rows, 128), strides=(128, 128, 1))
    body = graph.customized((5, 1, 1), (128, 1, 1), 2)
    tile = body.input(windows, (0, -1, -1), 2, starts)
    matrices = body.input(w, (0, -1, -1), 1, numbers)
    body.output(body.accumulate("none", body.matmul(tile, matrices)), (0, -1, -1))
    return graph.text(*body.close())


def groups_reference(x: Array, w: Array, starts: Array, numbers: Array) -> Array:
    """The rows of each tile times its matrix."""
    tiles = np.stack([x[start : start + 64] for start in starts.astype(int)])
    return tiles @ w[numbers.astype(int)]


TOKENS, EXPERTS = 300, 7


def tables(element: str) -> str:
    """A counting sort of tokens by their experts, and the tiles of each expert's tokens.

    At last the token at each place, of more places than tokens.
    """
    graph = Graph()
    experts = graph.input(TOKENS, element=element)
    lists = [(TOKENS,), (TOKENS,), (EXPERTS,)]
    order, places, ends = graph.op_of_many("sort_groups", [experts], lists, elements=["i32"] * 3)
    given, of_rows = ends, places
    if element != "i32":
        given = graph.op("cast", [ends], (EXPERTS,), element=element)
        of_rows = graph.op("cast", [places], (TOKENS,), element=element)
    lists = [(25,), (25,), (TOKENS,), (1,)]
    tiles = graph.op_of_many("group_tiles", [given], lists, "size 16", elements=["i32"] * 4)
    rows = graph.op("invert_places", [of_rows], (12, 30), element="i32")
    return graph.text(order, places, ends, *tiles, rows)


def tables_reference(experts: Array) -> list[Array]:
    """The same, tile by tile and token by token."""
    found = experts.astype(int)
    order = np.argsort(found, kind="stable")
    ends = np.cumsum(np.bincount(found, minlength=EXPERTS))
    tiles = [
        (expert, row, min(row + 16, end))
        for expert, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True))
        for row in range(start, end, 16)
    ]
    groups, starts = np.full(25, EXPERTS - 1), np.full(25, TOKENS - 16)
    where = np.zeros(TOKENS)
    for tile, (expert, first, end) in enumerate(tiles):
        groups[tile], starts[tile] = expert, min(first, TOKENS - 16)
        for row in range(first, end):
            where[row] = tile * 16 + row - starts[tile]
    found_rows = np.append(order, np.full(60, -1)).reshape(12, 30)
    used = np.array([len(tiles)])
    return [order, np.argsort(order), ends, groups, starts, where, used, found_rows]


@dataclass(frozen=True)
class Stored:
    """Rows in tiles, of which some are stored where a list says: sorted by groups, and back.

    ``columns``: of a matrix that they are multiplied by; 0 for exponentials.
    """

    tiles: int
    rows: int
    width: int
    element: str
    columns: int = 0
    count: int = 55
    """Rows that are stored."""

    def text(self) -> str:
        """The µGraph: a block for each tile."""
        graph = Graph()
        chosen = graph.input(self.count, element="i32")
        x = graph.input(self.tiles, self.rows, self.width, element=self.element)
        lists = [(self.count,), (self.count,), (EXPERTS,)]
        _, places, _ = graph.op_of_many("sort_groups", [chosen], lists, elements=["i32"] * 3)
        table = graph.op("invert_places", [places], (self.tiles, self.rows))
        if not self.columns:
            body = graph.customized((self.tiles, 1, 1), (64, 1, 1))
            made = body.unary("exp", body.input(x, (0, -1, -1)))
        else:
            w = graph.input(1, self.width, self.columns, element=self.element)
            body = graph.customized((self.tiles, 1, 1), (128, 1, 1), 2)
            rows, matrix = body.input(x, (0, -1, -1), 2), body.input(w, fordim=1)
            made = body.accumulate("none", body.matmul(rows, matrix))
        shape = self.count, made.shape[-1]
        body.output(made, (0, -1, -1), shape=shape, through=table)
        return graph.text(*body.close())

    def reference(self, chosen: Array, x: Array, *w: Array) -> Array:
        """What is computed of all rows, taken from the places that the sorted ones have."""
        made = x @ w[0] if w else np.exp(x)
        order = np.argsort(chosen.astype(int), kind="stable")
        return made.reshape(-1, made.shape[-1])[np.argsort(order)]


STORED = {
    "stored": Stored(4, 16, 64, ""),
    "stored-uneven": Stored(12, 5, 37, ""),
}
"""Rows that go through shared memory, of any type."""
STORED_PRODUCTS = {
    "stored-product": (Stored(4, 16, 64, "", 32), AS_WRITTEN),
    "stored-product-by-quads": (Stored(2, 64, 128, "", 64), AS_WRITTEN),
    "stored-product-of-groups": (Stored(2, 64, 128, "", 128), replace(AS_WRITTEN, loads="tma")),
}


def cases() -> Iterator[Case]:
    """Every case of these tables."""
    named = Range(0, ROWS - 1)
    for element in ("i32", "i64"):
        yield Case(
            *("indirect", f"tables-of-groups-{element}", tables(element)),
            *((Range(0, EXPERTS - 1),), tables_reference),
            sanitize=True,
        )
    for element in ("f16", "bf16"):
        yield Case(
            *("indirect", f"experts-in-bulk-{element}", experts(element, 64, 128)),
            *((Range(), Range(), named), lambda x, w, numbers: x @ w[numbers.astype(int)]),
            plan=replace(AS_WRITTEN, loads="tma"),
            sanitize=True,
        )
        yield Case(
            *("indirect", f"groups-in-bulk-{element}", groups(element)),
            *((Range(), Range(), Range(0, 136), named), groups_reference),
            plan=replace(AS_WRITTEN, loads="tma"),
            sanitize=True,
        )
        yield Case(
            *("indirect", f"experts-{element}", experts(element)),
            *((Range(), Range(), named), lambda x, w, numbers: x @ w[numbers.astype(int)]),
            sanitize=True,
        )
        for page in (64, 128):
            paged = Paged(page, element)
            yield Case(
                *("indirect", f"paged-in-bulk-{page}-{element}", paged.text()),
                *((SMALL, SMALL, Range(), named), paged.reference),
                plan=replace(ONLINE, loads="tma"),
                sanitize=True,
            )
        for page in (16, 64):
            paged = Paged(page, element)
            yield Case(
                *("indirect", f"paged-{page}-{element}", paged.text()),
                *((SMALL, SMALL, Range(), named), paged.reference),
                plan=replace(ONLINE, loads="cp_async"),
                sanitize=True,
            )
        for name, (product, plan) in STORED_PRODUCTS.items():
            stored = replace(product, element=element)
            yield Case(
                *("indirect", f"{name}-{element}", stored.text()),
                *((Range(0, EXPERTS - 1), Range(), Range()), stored.reference),
                plan=plan,
                sanitize=True,
            )
    for element in ("f16", "bf16", "f32", "f8E4M3FN"):
        for name, rows in STORED.items():
            stored = replace(rows, element=element)
            yield Case(
                *("indirect", f"{name}-{element}", stored.text()),
                *((Range(0, EXPERTS - 1), SMALL), stored.reference),
                sanitize=True,
            )
        for name, (tokens, width, blocks) in EMBEDDINGS.items():
            yield Case(
                *("indirect", f"{name}-{element}", embedding(tokens, width, blocks, element)),
                *((Range(), named), embedding_reference),
                sanitize=True,
            )
        for width, forloop in ((80, 4), (69, 4)):
            yield Case(
                *("indirect", f"columns-{width}-{element}", columns(width, forloop, element)),
                (Range(), named),
                lambda x, numbers: x[numbers.astype(int)].sum(axis=-1, keepdims=True),
                sanitize=True,
            )


EMBEDDINGS = {
    "embedding": ((128,), 64, 2),
    "embedding-of-two": ((3, 40), 24, 5),
    "embedding-uneven": ((12,), 37, 3),
}
"""Extents of the tokens' numbers, elements of an embedding, and blocks."""
