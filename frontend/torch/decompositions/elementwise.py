"""Functions of numbers and truths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mugraph.torch.decompositions.table import decomposes
from mugraph.torch.operator import import_torch


@decomposes("logical_not.default")
def _logical_not(x: Any) -> Any:
    """Of a number, whether it is 0."""
    return NotImplemented if x.dtype == import_torch().bool else x == 0


def _of_truths(name: str) -> None:
    @decomposes(f"logical_{name}.default")
    def of_truths(x: Any, y: Any) -> Any:
        """Of two numbers, each true where it is not 0."""
        torch = import_torch()
        if x.dtype == y.dtype == torch.bool:
            return NotImplemented
        x, y = (each if each.dtype == torch.bool else each != 0 for each in (x, y))
        return getattr(torch, f"logical_{name}")(x, y)

    _ = of_truths


for _name in ("and", "or", "xor"):
    _of_truths(_name)


def _in_fp32(name: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Registers a function of fp32; that of whole numbers is of fp32, that of others as theirs."""

    def register(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @decomposes(name)
        def rounded(x: Any) -> Any:
            torch = import_torch()
            if x.is_complex():
                return NotImplemented
            return function(x.float()).to(x.dtype if x.is_floating_point() else torch.float32)

        return rounded

    return register


@_in_fp32("expm1.default")
def _expm1(x: Any) -> Any:
    """tanh(x / 2) (e^x + 1), which loses nothing near 0."""
    return (x / 2).tanh() * (x.exp() + 1)


NEAR_ZERO = 0.4


@_in_fp32("log1p.default")
def _log1p(x: Any) -> Any:
    """2 artanh(x / (x + 2)) by its series near 0, elsewhere the logarithm of 1 + x."""
    ratio = x.clamp(-NEAR_ZERO, NEAR_ZERO) / (x.clamp(-NEAR_ZERO, NEAR_ZERO) + 2)
    square, total = ratio * ratio, 1 / 11
    for power in (9, 7, 5, 3, 1):
        total = total * square + 1 / power
    near = x.abs() < NEAR_ZERO
    return import_torch().where(near, 2 * ratio * total, (x + 1).log())
