"""Routers, places and counts by ``torch.compile``: whole numbers whose bounds are known."""

from __future__ import annotations

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


def compiled(function: Callable[..., Any], *inputs: Any) -> tuple[Any, Any]:
    """What the compiled form of a function gives, and the report."""
    report = mugraph_torch.Report()

    def backend(graph: Any, examples: Any) -> Any:
        return mugraph_torch.backend(graph, examples, report=report)

    torch._dynamo.reset()
    with torch.no_grad():
        return torch.compile(function, backend=backend)(*inputs), report


EXPERTS, WIDTH, INNER = 5, 16, 24


def experts(x: Any, router: Any, up: Any, down: Any) -> Any:
    """Two experts for each token, in grouped products, as models write them for compilers."""
    scores, chosen = torch.topk((x @ router).softmax(-1), 2)
    chosen, order = torch.sort(chosen.reshape(-1))
    counts = torch.histc(chosen.float(), bins=EXPERTS, min=0, max=EXPERTS - 1)
    ends = counts.cumsum(0, dtype=torch.int32)
    missing = (chosen >= EXPERTS).unsqueeze(-1)
    rows = x[order // 2].masked_fill(missing, 0.0)
    inner = torch.nn.functional.grouped_mm(rows, up, offs=ends).relu()
    rows = torch.nn.functional.grouped_mm(inner, down, offs=ends)
    rows = rows.masked_fill(missing, 0.0) * scores.reshape(-1)[order].unsqueeze(-1)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order))
    return rows[back].view(len(x), 2, WIDTH).sum(1)


def every_expert(x: Any, router: Any, up: Any, down: Any) -> Any:
    """The same, each token times each expert."""
    scores = (x @ router).softmax(-1)
    kept = torch.zeros_like(scores).scatter(1, torch.topk(scores, 2).indices, 1.0)
    made = (x @ up).relu() @ down
    return (made * (scores * kept).T.unsqueeze(-1)).sum(0)


def test_tokens_and_their_experts_are_one_program() -> None:
    torch.manual_seed(0)
    shapes = (11, WIDTH), (WIDTH, EXPERTS), (EXPERTS, WIDTH, INNER), (EXPERTS, INNER, WIDTH)
    inputs = [(torch.randn(shape) / 2).bfloat16() for shape in shapes]
    ours, report = compiled(experts, *inputs)
    exact = every_expert(*(each.double() for each in inputs))
    assert (ours - exact).norm() <= 1.1 * (experts(*inputs) - exact).norm() < 0.05 * exact.norm()
    assert not report.stayed and len(report.islands) == 1, str(report)
    called = report.islands[0].operators
    # What bounds decide is gone: rows without an expert, places before the first one.
    assert called["mugraph.sort_groups.default"] == 1 and called["aten._grouped_mm.default"] == 2
    assert not {"aten.histc.default", "aten.where.self", "aten.ge.Scalar"} & {*called}, called


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "positions": lambda x: (x > 0).int().cumsum(-1).long() * 3,
    "counts": lambda x: (x > 0).sum(-1) + (x < 0).long().sum((0, 1)),
    "quotients": lambda x: (x.argmax(-1) - 4) // 3 + (x.argmax(0) % 4).sum(),
    "bounded": lambda x: (x * 9).long().clamp(-3, 5).cumsum(0),
    "cut off": lambda x: ((x * 9).int(), (x * 9).long().bool(), (x > 1).to(x.dtype).bool()),
    "truths": lambda x: (x.relu().bool(), (x / 9).bool().long()),
    "first": lambda x: (x > 0).int().argmax(-1),
    "chosen": lambda x: torch.nn.functional.one_hot(torch.topk(x, 2).indices, 10),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whole_numbers_are_exact(name: str) -> None:
    x = torch.randn(3, 9, generator=torch.Generator().manual_seed(1))
    ours, report = compiled(FUNCTIONS[name], x)
    eager = FUNCTIONS[name](x)
    pairs = [(ours, eager)] if isinstance(ours, torch.Tensor) else zip(ours, eager, strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert not report.stayed, str(report)


def test_numbers_that_fp32_may_not_have_are_added_up_by_torch() -> None:
    def function(x: Any) -> Any:
        return x.cumsum(0), (x // 3).sum(), x.sort().values

    x = torch.tensor([1 << 40, 1, 1 << 24, 3])
    ours, report = compiled(function, x)
    assert ours[0].tolist() == x.cumsum(0).tolist() and ours[1] == (x // 3).sum()
    assert ours[2].tolist() == sorted(x.tolist())
    assert {name for name, _ in report.stayed} >= {"aten.cumsum.default", "aten.sum.dim_IntList"}


def test_a_sort_from_the_largest_is_right() -> None:
    x = torch.randn(4, 7, generator=torch.Generator().manual_seed(2))

    def function(x: Any) -> Any:
        return [x.argmax(0).sort(descending=falls, stable=True) for falls in (False, True)]

    ours, _ = compiled(function, x)
    for one, other in zip(ours, function(x), strict=True):
        assert torch.equal(one.values, other.values) and torch.equal(one.indices, other.indices)


def test_a_bound_that_is_an_extent_of_a_call_is_kept() -> None:
    def function(x: Any) -> Any:
        return torch.arange(x.shape[0]).clamp(max=x.shape[0] - 2)

    torch._dynamo.reset()
    made = torch.compile(function, backend="mugraph", dynamic=True)
    with pytest.warns(UserWarning, match=r"keep 1 aten.clamp.default in torch"):
        assert all(made(torch.zeros(n, 2))[-1] == n - 2 for n in (5, 9))
