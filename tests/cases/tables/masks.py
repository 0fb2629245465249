"""Masks of places: of tiles that are loaded, and of the scores of attention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cases.case import Array, Case, Range
from cases.graph import Graph
from cases.tables.softmax import LARGE, normalised, scores_of
from mugraph.dialects.plan import Plan

FLOATS = ("f16", "bf16", "f32", "f8E4M3FN", "f8E5M2")


def band(element: str) -> str:
    """A band of a matrix, of which each block has some rows and each iteration some columns."""
    graph = Graph()
    x = graph.input(48, 96, element=element)
    body = graph.customized((3, 1, 1), (64, 1, 1), 4)
    tile = body.input(x, (0, -1, -1), 1)
    where = "affine_set<(i, j) : (2 * i - j >= 0, j - 2 * i + 30 >= 0)>"
    kept = f" with 0.0 where {where} of [48, 96] imap [0, -1, -1] fordim 1"
    body.output(body.accumulate("sum", body.unary("mask", tile, kept)), (0, -1, -1))
    return graph.text(*body.close())


def band_reference(x: Array) -> Array:
    """The sum of each row of the band."""
    below = 2 * np.arange(48)[:, None] - np.arange(96)
    return np.where((below >= 0) & (below <= 30), x, 0).sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Attention:
    """Attention of two heads; queries see keys up to ``offset`` behind their place, or the last."""

    queries: int
    keys: int
    width: int
    element: str
    window: int | None = None

    @property
    def offset(self) -> int:
        """The last query sees the last key."""
        return self.keys - self.queries

    def text(self) -> str:
        """The µGraph, of one block for 64 queries of a head, whose loop its plan cuts."""
        rows, keys, inner, element = self.queries, self.keys, self.width, self.element
        graph = Graph()
        q, k = (
            graph.input(2, rows, inner, element=element),
            graph.input(2, inner, keys, element=element),
        )
        v = graph.input(2, keys, inner, element=element)
        body = graph.customized((2, -(-rows // 64), 1), (128, 1, 1), 1)
        tiles = body.input(q, (0, 1, -1)), body.input(k, (0, -1, -1)), body.input(v, (0, -1, -1))
        forms = [f"i - j + {self.offset} >= 0"]
        if self.window is not None:
            forms.append(f"j - i + {self.window - 1 - self.offset} >= 0")
        scores = body.unary(
            "mask",
            scores_of(body, tiles[0], tiles[1]),
            f" with -inf where affine_set<(h, i, j) : ({', '.join(forms)})> "
            f"of [2, {rows}, {keys}] imap [0, 1, -1]",
        )
        weights = body.unary("exp", scores, element=element)
        body.output(normalised(body, weights, tiles[2]), (0, 1, -1))
        return graph.text(*body.close())

    def reference(self, q: Array, k: Array, v: Array) -> Array:
        """softmax of the scores that are kept, times the values."""
        below = np.arange(self.queries)[:, None] + self.offset - np.arange(self.keys)
        kept = (below >= 0) & (below < (self.keys if self.window is None else self.window))
        scores = np.where(kept, q @ k, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True) @ v


ATTENTION = {
    "causal": (128, 256, None),
    "shorter": (64, 320, None),
    "window": (192, 256, 70),
    "uneven": (64, 197, None),
    "uneven-window": (128, 197, 40),
}
"""Queries, keys, and how many keys a query sees."""


def cases() -> Iterator[Case]:
    """Every case of these tables."""
    for element in FLOATS:
        yield Case(
            *("masks", f"band-{element}", band(element), (Range(),), band_reference), sanitize=True
        )
    for element in ("f16", "bf16"):
        for width in (64, 128):
            for name, (queries, keys, window) in ATTENTION.items():
                attention = Attention(queries, keys, width, element, window)
                yield Case(
                    *("masks", f"{name}-{width}-{element}", attention.text()),
                    *((LARGE, LARGE, Range()), attention.reference),
                    plan=Plan(loop_tile=64, block=(128,)),
                    sanitize=True,
                )
