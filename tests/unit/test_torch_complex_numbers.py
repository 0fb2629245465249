"""Complex numbers of a model: pairs of real tensors in programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
mugraph_torch: Any = pytest.importorskip("mugraph.torch")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def compiled(function: Callable[..., Any], *inputs: Any) -> tuple[Any, Any]:
    """What a function gives, and the report of its compilation; checked against eager."""
    report = mugraph_torch.Report()
    torch._dynamo.reset()

    def compiler(graph: Any, given: Any) -> Any:
        return mugraph_torch.backend(graph, given, report=report)

    with torch.no_grad():
        expected = function(*inputs)
        result = torch.compile(function, backend=compiler)(*inputs)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    assert result.stride() == expected.stride()
    return result, report


def rotary(x: Any, angles: Any) -> Any:
    """As Llama's first code has it: neighbours are a complex number, which is turned."""
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[:, None, :]).flatten(-2).type_as(x)


@pytest.mark.parametrize(("rows", "width"), [(1, 2), (5, 6), (7, 64)])
def test_a_rotary_of_complex_numbers_is_one_program(rows: int, width: int) -> None:
    x, angles = torch.randn(2, rows, 3, width), torch.randn(rows, width // 2)
    _, report = compiled(rotary, x, angles)
    assert not report.stayed and len(report.islands) == 1, str(report)


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sums": lambda x, y: (x - y) + x.conj() * 2.5,
    "views": lambda x, y: (torch.cat([x.mT, y.mT])[1:, None] * y[0, 0]).reshape(-1),
    "turned back": lambda x, y: x * x.conj() - y,
    "from parts": lambda x, y: torch.complex(torch.view_as_real(x)[..., 1], x[:1].abs()) * y,
    "a real factor": lambda x, y: torch.view_as_real(x)[..., 0] * y,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_complex_inputs_and_results_are_complex(name: str) -> None:
    """Torch takes inputs apart and puts results together."""
    x, y = (torch.randn(4, 4, dtype=torch.complex64) for _ in range(2))
    result, report = compiled(FUNCTIONS[name], x, y)
    assert result.is_complex() and report.islands


WITHOUT_A_RULE: dict[str, Callable[[Any], Any]] = {
    "a number added": lambda x: x + 1,
    "an imaginary number": lambda x: x * 1j,
    "a function": lambda x: (x * 2).exp(),
    "another precision": lambda x: x.to(torch.complex128),
}


@pytest.mark.parametrize("name", WITHOUT_A_RULE)
def test_what_has_no_rule_is_torchs(name: str) -> None:
    compiled(WITHOUT_A_RULE[name], torch.randn(3, 5, dtype=torch.complex64))


def test_parts_of_a_number_may_have_symbols_as_extents() -> None:
    def function(x: Any, y: Any) -> Any:
        return torch.view_as_real(torch.complex(x, x) * torch.complex(x, y))

    x, y = torch.randn(3, 4), torch.randn(1, 4)
    torch._dynamo.reset()
    torch._dynamo.mark_dynamic(x, 0)
    with torch.no_grad():
        made = torch.compile(function, backend="mugraph")(x, y)
    torch.testing.assert_close(made, function(x, y))
