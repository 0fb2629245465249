"""The table of our decompositions: what each operator of ATen is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Decomposition = Callable[..., Any]

D = TypeVar("D", bound=Decomposition)

OWN: dict[str, Decomposition] = {}
"""By the name of the operator and its overload, ``max.dim`` for instance."""


def decomposes(*names: str) -> Callable[[D], D]:
    """Registers a function as what ATen's operators are made of."""

    def register(decomposition: D) -> D:
        OWN.update(dict.fromkeys(names, decomposition))
        return decomposition

    return register
