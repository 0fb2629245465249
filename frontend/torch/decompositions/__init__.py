"""Operators of ATen that are made of others: torch's own decompositions, and ours.

Ours make views, products and rows of tables of convolutions, paddings and indices.  One that gives
``NotImplemented`` leaves the call as it is.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

from mugraph.torch.decompositions import (
    elementwise,
    layers,
    packed_weights,
    reductions,
    tables,
    windows,
)
from mugraph.torch.decompositions.table import OWN, Decomposition
from mugraph.torch.operator import import_torch

__all__ = [
    "decompositions",
    "elementwise",
    "layers",
    "packed_weights",
    "reductions",
    "tables",
    "windows",
]

KEPT = (
    "silu.default",
    "gelu.default",
    "addmm.default",
    "softplus.default",
    "baddbmm.default",
)
"""Operators that torch would take apart, and mugraph has as one."""


def decompositions(*, whole_views: bool = False) -> dict[Any, Decomposition]:
    """What each operator of ATen is made of, for ``aot_autograd``.

    ``whole_views`` leaves out those by which a view would be a tensor of its own.
    """
    registrations = import_torch()._C._dispatch_get_registrations_for_dispatch_key
    table = _decompositions(frozenset(registrations("CompositeImplicitAutograd")))
    owned = {*OWN.values()} if whole_views else set[Decomposition]()
    return {op: made for op, made in table.items() if not (made in owned and op.is_view)}


@lru_cache(1)
def _decompositions(_registered: frozenset[str]) -> dict[Any, Decomposition]:
    """The same, as long as no further operators are registered: torch looks at all of them."""
    aten = import_torch().ops.aten

    def operator(name: str) -> Any:
        packet, overload = name.split(".")
        return getattr(getattr(aten, packet), overload)

    table = dict(import_module("torch._decomp").core_aten_decompositions())
    for name in KEPT:
        table.pop(operator(name), None)
    return table | {operator(name): made for name, made in OWN.items()}
