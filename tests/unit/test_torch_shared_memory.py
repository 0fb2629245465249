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


def around_a_slice(x: Any) -> Any:
    return (x * 2)[1:, ::2].as_strided((3, 4), (5, 1), 0)


def test_views_by_strides_read_what_stands_around_a_slice() -> None:
    x = torch.randn(4, 4)
    with torch.no_grad():
        made = torch.compile(around_a_slice, backend="mugraph")
        torch.testing.assert_close(made(x), around_a_slice(x))


def doubled_and_squared(x: Any, z: Any) -> tuple[Any, Any]:
    return x * 2, (z * z).imag


def test_inputs_whose_sign_is_no_part_of_their_memory() -> None:
    x, y = torch.randn(2, 4, 4)
    numbers = torch.complex(x, y).conj()
    torch.compiler.reset()
    with torch.no_grad():
        made = torch.compile(doubled_and_squared, backend="mugraph")
        given = torch._neg_view(x), numbers
        torch.testing.assert_close(made(*given), doubled_and_squared(*given))
