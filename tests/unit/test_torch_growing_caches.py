"""Attention over keys that a call adds to, by ``torch.compile`` on a CPU."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
mugraph_torch: Any = import_module("mugraph.torch")

pytestmark = [
    # torch's own, of its version and the interpreter's.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

functional = torch.nn.functional


class Layer(torch.nn.Module):
    """Attention of 4 heads of 8, pairs of which share keys, behind a cache that it makes longer."""

    def __init__(self, *, masked: bool = False) -> None:
        super().__init__()
        self.q, self.kv, self.out = (torch.nn.Linear(32, 32) for _ in range(3))
        self.masked = masked

    def forward(self, x: Any, cache: Any) -> tuple[Any, Any]:
        rows, keys = x.shape[1], x.shape[1] + cache[0].shape[2]
        new = self.kv(x).view(1, rows, 2, 2, 8).permute(2, 0, 3, 1, 4)
        k, v = (torch.cat([old, one], -2) for old, one in zip(cache, new, strict=True))
        q = self.q(x).view(1, rows, 4, 8).transpose(1, 2)
        mask = None
        if self.masked:
            places = torch.arange(rows)[:, None] + cache[0].shape[2]
            mask = (torch.arange(keys)[None] <= places)[None, None]
        mixed = functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
        return self.out(mixed.transpose(1, 2).reshape(1, rows, 32)), (k, v)


class Layers(torch.nn.Module):
    """Several of them, each with a cache."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(count))

    def forward(self, x: Any, caches: Any) -> Any:
        kept: list[Any] = []
        for layer, cache in zip(self.layers, caches, strict=True):
            made, cache = layer(x, cache)
            x = x + made
            kept.append(cache)
        return x, kept


def cache_of(keys: int) -> tuple[Any, ...]:
    return tuple(torch.randn(2, 1, 2, keys, 8).unbind())


def grown(model: Any, cache: Any, counts: Sequence[int]) -> list[Any]:
    """The reports of what is compiled, where each call is right and adds to the last one's keys."""
    reports: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        reports.append(mugraph_torch.Report())
        return mugraph_torch.backend(graph, inputs, report=reports[-1])

    torch._dynamo.reset()
    made, plain = torch.compile(model.eval(), backend=backend), cache
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for count in counts:
            x = torch.randn(1, count, 32)
            (ours, cache), (eager, plain) = made(x, cache), model(x, plain)
            torch.testing.assert_close((ours, cache), (eager, plain), rtol=5e-5, atol=5e-5)
    return reports


def attentions(report: Any) -> int:
    return sum(island.operators["mugraph.attention.default"] for island in report.islands)


def test_steps_behind_a_cache_that_grows_are_compiled_twice() -> None:
    first, every = grown(Layer(), cache_of(5), [1] * 20)
    assert attentions(first) == attentions(every) == 1
    # Keys and values are copied to where there is room for one more.
    (((name, reason), count),) = every.stayed.items()
    assert (name, count) == ("grown_cache", 2) and reason.startswith("a cache grows")


def test_prompts_behind_a_cache_are_programs_of_two_extents() -> None:
    counts = [4, 7, 3, 12, 5, 2, 9, 17, 6, 8, 3, 11, 2, 14, 4, 10, 13, 5, 3, 6]
    reports = grown(Layer(masked=True), cache_of(5), counts)
    assert [attentions(each) for each in reports] == [1, 1]
    assert {name for name, _ in reports[-1].stayed} == {"grown_cache"}


def test_layers_with_as_many_keys_share_an_extent_until_they_differ() -> None:
    alike = grown(Layers(2), [cache_of(5)] * 2, [1] * 3)
    other = grown(Layers(2), [cache_of(5), cache_of(9)], [1] * 3)
    assert [attentions(reports[-1]) for reports in (alike, other)] == [2, 2]


def test_a_cache_is_given_back_with_what_grows_first_in_memory() -> None:
    torch._dynamo.reset()
    made = torch.compile(Layer().eval(), backend="mugraph")
    with torch.no_grad():
        _, (keys, _) = made(torch.randn(1, 1, 32), cache_of(5))
    assert keys.shape == (1, 2, 6, 8) and keys.movedim(2, 0).is_contiguous()


def test_queries_without_a_key_give_zeros_where_a_call_has_fewer_keys() -> None:
    def attention(q: Any, k: Any) -> Any:
        rows, keys = q.shape[2], k.shape[2]
        seen = torch.arange(keys)[None] <= torch.arange(rows)[:, None] + (keys - rows)
        return functional.scaled_dot_product_attention(q, k, k, seen)

    torch._dynamo.reset()
    made = torch.compile(attention, backend="mugraph")
    for rows, keys in ((3, 5), (4, 7), (7, 4)):
        q, k = torch.randn(1, 2, rows, 8), torch.randn(1, 2, keys, 8)
        torch.testing.assert_close(made(q, k), attention(q, k), rtol=5e-5, atol=5e-5)
