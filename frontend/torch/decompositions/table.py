"""The table of our decompositions: what each operator of ATen is made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from mugraph.torch.operator import import_torch

Decomposition = Callable[..., Any]

D = TypeVar("D", bound=Decomposition)

OWN: dict[str, Decomposition] = {}
"""By the name of the operator and its overload, ``max.dim`` for instance."""


def decomposes(*names: str) -> Callable[[D], D]:
    """Registers a function as what ATen's operators are made of.

    A call whose first operand has no elements, such as a batch of none, or elements of fp64, which
    no program computes with, is left as it is.
    """

    def register(decomposition: D) -> D:
        @wraps(decomposition)
        def unless_left(*args: Any, **kwargs: Any) -> Any:
            torch, first = import_torch(), args[0]
            is_tensor = isinstance(first, torch.Tensor)
            if is_tensor and (not first.numel() or first.dtype == torch.float64):
                return NotImplemented
            return decomposition(*args, **kwargs)

        OWN.update(dict.fromkeys(names, unless_left))
        return decomposition

    return register
