"""Masks of padded batches, and slices of all rows, where an extent is a symbol."""

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

arange = torch.arange


def whole(mask: Any, q: Any) -> Any:
    """As transformers writes it, of a batch of two."""
    rows = arange(mask.shape[0], device=q.device)[:, None, None, None]
    keys = (arange(mask.shape[1], device=q.device) + 0)[None, None, None, :]
    return mask.to(torch.bool)[rows, keys]


def unsqueezed(mask: Any, q: Any) -> Any:
    """The row of one sequence, by an index of one element."""
    return mask[:1][arange(1)[:, None, None], arange(mask.shape[1]).unsqueeze(0).unsqueeze(0)] > 0


def swapped(mask: Any, q: Any) -> Any:
    """Each key's row, keys outside: no view in the same order."""
    return (mask[arange(2)[None], arange(mask.shape[1])[:, None]] > 0).T[:, None, None]


def beside(mask: Any, q: Any) -> Any:
    """Rows of which the first is picked twice."""
    return mask[arange(2)[:, None] // 2, arange(mask.shape[1])][:, None, None] > 0


def earlier(mask: Any, q: Any) -> Any:
    """The place before each key."""
    return mask[arange(2)[:, None], arange(mask.shape[1]) - 1][:, None, None] > 0


@pytest.mark.parametrize(
    "picked, is_view",
    [(whole, True), (unsqueezed, True), (swapped, False), (beside, False), (earlier, False)],
)
def test_indices_of_all_places_are_views(picked: Callable[..., Any], is_view: bool) -> None:
    report = mugraph_torch.Report()

    def function(mask: Any, q: Any) -> Any:
        kept = picked(mask, q).expand(2, 1, q.shape[2], q.shape[2])
        attended = torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=kept)
        # As models keep the logits of all places.
        return attended[:, :, slice(0, None), :] * 2

    def backend(graph: Any, inputs: Any) -> Any:
        return mugraph_torch.backend(graph, inputs, report=report)

    torch._dynamo.reset()
    made = torch.compile(function, backend=backend)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for tokens in (5, 9, 3):
            mask = torch.ones(2, tokens, dtype=torch.int64)
            mask[1, : tokens // 2] = 0
            q = torch.randn(2, 2, tokens, 8, generator=generator)
            torch._dynamo.mark_dynamic(q, 2)
            torch._dynamo.mark_dynamic(mask, 1)
            torch.testing.assert_close(made(mask, q), function(mask, q))
    names = {name for name, _ in report.stayed}
    assert is_view == (not names and len(report.islands) == 1), str(report)
    assert is_view == ("aten.index_select.default" not in names)


def places(x: Any) -> tuple[Any, Any]:
    """All places of a matrix."""
    return arange(x.shape[0])[:, None], arange(x.shape[1])[None, :]


def with_a_written_result(x: Any) -> Any:
    picked = x[places(x)]
    picked += 1
    return picked * x


def with_a_written_operand(x: Any) -> Any:
    picked = x[places(x)]
    x.add_(1)
    return picked * 2


def with_a_written_place(x: Any) -> Any:
    rows, columns = arange(x.shape[0]), arange(x.shape[1])
    columns[0] = 1
    return x[rows[:, None], columns[None, :]] * 2


def with_zeroed_places(x: Any) -> Any:
    rows, columns = arange(x.shape[0]), arange(x.shape[1])
    rows.mul_(0)
    return x[rows[:, None], columns[None, :]] * 2


def with_zeroed_lists(x: Any) -> Any:
    rows, columns = arange(x.shape[0]), arange(x.shape[1])
    torch._foreach_mul_([rows, columns], 0)
    return x[rows[:, None], columns[None, :]] * 2


def returned(x: Any) -> Any:
    return x[places(x)]


def from_the_first_element(x: Any) -> Any:
    return x[1:].as_strided((1, x.shape[1]), (x.shape[1], 1), 0) * 2


def with_the_other_sign(x: Any) -> Any:
    return torch._neg_view(x) * 2


@pytest.mark.parametrize(
    "function",
    [
        with_a_written_result,
        with_a_written_operand,
        with_a_written_place,
        with_zeroed_places,
        with_zeroed_lists,
        returned,
        from_the_first_element,
        with_the_other_sign,
    ],
)
def test_what_indices_pick_is_memory_of_its_own(function: Callable[[Any], Any]) -> None:
    """Also views of other elements, and of others' signs, are no more than views."""
    torch._dynamo.reset()
    made = torch.compile(function, backend="mugraph")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for tokens in (5, 9):
            x = torch.randn(2, tokens)
            same = x.clone()
            torch._dynamo.mark_dynamic(x, 1)
            found = made(x)
            torch.testing.assert_close(found, function(same))
            found.add_(1)
            torch.testing.assert_close(x, same)
