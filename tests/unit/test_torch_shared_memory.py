"""Results of compiled graphs that share memory, and writes to tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")


def transposed(x: Any) -> Any:
    y = x * 2
    view = y.t()
    torch._dynamo.graph_break()
    view.add_(1)
    return y


def split(x: Any) -> Any:
    y = x * 2
    first, second = y.split(2)
    torch._dynamo.graph_break()
    first.add_(1)
    return y, second


def diagonal(x: Any) -> Any:
    y = x * 2
    view = y.diagonal()
    torch._dynamo.graph_break()
    view.fill_(7)
    return y


def viewed_after_a_write_in_steps(x: Any) -> Any:
    y = (x + 1).t()
    y[::2] += 1
    return y.t().view(-1)


def numbers_over_integers(x: Any) -> Any:
    whole = torch.zeros(4, 4, dtype=torch.int32)
    whole.copy_(x * 10)
    return whole


@pytest.mark.parametrize(
    "function",
    [transposed, split, diagonal, viewed_after_a_write_in_steps, numbers_over_integers],
)
def test_writes_are_seen_as_in_torch(function: Callable[[Any], Any]) -> None:
    x = torch.randn(4, 4)
    torch.compiler.reset()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(function, backend="mugraph")(x), function(x))
