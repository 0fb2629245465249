"""Batch and tokens that both change from call to call, by ``torch.compile`` on a CPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
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
CALLS = ((4, 5, 16), (2, 17, 16), (5, 3, 16))


def compiled(function: Callable[..., Any]) -> Any:
    """The report of a function that is compiled once, and right for each call."""
    report, graphs = mugraph_torch.Report(), list[Any]()

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return mugraph_torch.backend(graph, inputs, report=report)

    torch._dynamo.reset()
    made = torch.compile(function, backend=backend)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shape in CALLS:
            x = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))
            torch._dynamo.mark_dynamic(x, 0)
            torch._dynamo.mark_dynamic(x, 1)
            torch.testing.assert_close(made(x), function(x), rtol=5e-5, atol=5e-5)
    assert len(graphs) == 1
    return report


class Layer(torch.nn.Module):
    """A norm, attention of heads of 8, and a gated MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.qkv, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)
        self.gate, self.up, self.down = (torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: Any) -> Any:
        batch, tokens, width = x.shape
        heads = self.qkv(self.norm(x)).view(batch, tokens, 3, 2, 8).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.silu(self.gate(x)) * self.up(x))


def test_rows_of_both_are_programs_around_attention() -> None:
    report = compiled(Layer().eval())
    assert {name for name, _ in report.stayed} == {"mugraph.attention.default"}
    linear = [island.operators["aten.linear.default"] for island in report.islands]
    assert len(linear) == 2 and all(linear)


APART: list[Callable[..., Any]] = [
    lambda x: x.softmax(1),
    lambda x: x.softmax(0),
    lambda x: x.cumsum(1),
    lambda x: x.sum(1),
    lambda x: x.mean((0, 1)),
    lambda x: x.amax(1, keepdim=True) + x,
    lambda x: x.flip(1),
    lambda x: x.tril(),
    lambda x: x * torch.arange(x.shape[1])[:, None],
    lambda x: x.transpose(1, 2).relu(),
    lambda x: x[:, -1] * 2,
    lambda x: x @ x.transpose(1, 2),
    lambda x: torch.cat([x, x], 1),
    lambda x: x * x.shape[1],
]
ALIKE: list[Callable[..., Any]] = [
    lambda x: x.softmax(-1),
    lambda x: x.sum(-1, keepdim=True) * x,
    lambda x: x.view(*x.shape[:2], 2, 8).softmax(-1).flatten(2),
    lambda x: torch.cat([x, x * 2], -1),
    lambda x: x[..., :5] + x[..., 5:10],
    lambda x: torch.topk(x, 3).values,
    lambda x: (x > 0).float() * x,
]


def test_what_is_not_the_same_for_each_row_is_right() -> None:
    compiled(lambda x: [function(x.sin() * 2) + 1 for function in APART])


def test_what_is_the_same_for_each_row_is_one_program() -> None:
    report = compiled(lambda x: [function(x.sin() * 2) + 1 for function in ALIKE])
    assert len(report.islands) == 1 and not report.stayed


@pytest.mark.parametrize("dims, programs", [((1,), 1), ((0, 1), 2)])
def test_a_model_is_explained_at_the_largest_extents(dims: tuple[int, ...], programs: int) -> None:
    x = torch.randn(4, 5, 16)
    for dim in dims:
        torch._dynamo.mark_dynamic(x, dim)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = mugraph_torch.explain(Layer().eval(), (x,))
    assert len(report.islands) == programs
    assert all(island.kernels.count for island in report.islands)
