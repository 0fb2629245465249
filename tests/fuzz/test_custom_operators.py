"""Custom operators against numpy, at every level and in several orders of warps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from schedules import passes_as_written

from fuzz.custom_operators import Tile, graph_of, parse
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context
from mugraph.runtime.interpreter import run_function

Array = npt.NDArray[Any]


def rope(x: Array, cos: Array, sin: Array) -> Array:
    half = x.shape[1] // 2
    a, b = x[:, :half], x[:, half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=1)


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def top1(x: Array) -> Array:
    return (np.arange(x.shape[1]) == x.argmax(axis=1)[:, None]).astype(np.float64)


def smooth(x: Array) -> Array:
    for _ in range(4):
        y = x.copy()
        y[:, 1:-1] = 0.25 * (x[:, :-2] + x[:, 2:]) + 0.5 * x[:, 1:-1]
        x = y
    return x


@dataclass(frozen=True)
class Example:
    operator: str
    operands: Sequence[Tile]
    result: Tile
    expected: Callable[..., Array]
    threads: int = 128


EXAMPLES = [
    Example("rope", [Tile(16, 64), *[Tile(16, 32, "f32")] * 2], Tile(16, 64), rope),
    Example("rope", [Tile(5, 24), *[Tile(5, 12, "f32")] * 2], Tile(5, 24), rope, 96),
    Example("gelu_tanh", [Tile(16, 64)], Tile(16, 64), gelu),
    Example("row_softmax", [Tile(16, 64, "f32")], Tile(16, 64), softmax),
    Example("row_softmax", [Tile(3, 40, "f32")], Tile(3, 40), softmax, 64),
    Example("top1", [Tile(8, 32)], Tile(8, 32), top1),
    Example("cumsum", [Tile(8, 64)], Tile(8, 64), lambda x: np.cumsum(x, axis=1)),
    Example("smooth", [Tile(4, 64, "f32")], Tile(4, 64, "f32"), smooth),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.operator)
def test_operators_compute_what_they_say_at_every_level(example: Example) -> None:
    text = graph_of(example.operator, example.operands, example.result, threads=example.threads)
    module = parse(text)
    random = np.random.default_rng(7)
    inputs = [
        random.normal(size=(2 * tile.rows, tile.columns)).astype(
            np.float16 if tile.element == "f16" else np.float32
        )
        for tile in example.operands
    ]
    exact = example.expected(*(one.astype(np.float64) for one in inputs))
    (real,) = run_function(module, None, inputs, "float64")
    np.testing.assert_allclose(real, exact, rtol=1e-6, atol=1e-6)
    (stored,) = run_function(module, None, inputs)
    np.testing.assert_allclose(stored.astype(np.float64), exact, rtol=5e-3, atol=5e-3)
    verifying(passes_as_written("sm_90a")).apply(make_context(), module)
    (scheduled,) = run_function(module, None, inputs)
    np.testing.assert_allclose(scheduled.astype(np.float64), exact, rtol=5e-3, atol=5e-3)
    for order in ("together", "reversed", 3):
        (found,) = run_function(module, None, inputs, level="address", order=order)
        np.testing.assert_array_equal(found, scheduled)
