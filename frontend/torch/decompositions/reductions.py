"""Reductions that are made of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mugraph.torch.decompositions.table import decomposes
from mugraph.torch.operator import import_torch


@decomposes("var_mean.correction")
def _var_mean(
    x: Any, dims: Sequence[int] | None = None, *, correction: float | None = None,
    keepdim: bool = False,
) -> Any:  # fmt: skip
    """The variance and the mean, each by itself."""
    mean = x.mean(dim=dims, keepdim=keepdim)
    return x.var(dim=dims, correction=correction, keepdim=keepdim), mean


@decomposes("argmin.default")
def _argmin(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The place of the largest of the numbers with the other sign; of whole numbers it stays."""
    return (-x).argmax(dim, keepdim) if x.is_floating_point() else NotImplemented


@decomposes("any.default", "any.dim", "any.dims")
def _any(x: Any, *dims: Any, **named: Any) -> Any:
    """Of numbers, whether one is not 0; torch's answer of uint8 is one of uint8."""
    torch = import_torch()
    if x.dtype in (torch.bool, torch.uint8):
        return NotImplemented
    return (x != 0).any(*dims, **named)


@decomposes("logsumexp.default")
def _logsumexp(x: Any, dims: Sequence[int], keepdim: bool = False) -> Any:
    """Over several dimensions that over one."""
    return over_one(x, dims, keepdim, lambda rows: rows.logsumexp(-1))


@decomposes("var.correction")
def _var(
    x: Any, dims: Sequence[int] | None = None, *, correction: float | None = None,
    keepdim: bool = False,
) -> Any:  # fmt: skip
    """Over several dimensions that over one."""
    return over_one(x, dims, keepdim, lambda rows: rows.var(-1, correction=correction))


def over_one(
    x: Any, dims: Sequence[int] | None, keepdim: bool, reduction: Callable[[Any], Any]
) -> Any:
    """What a reduction gives over one dimension that has the elements of several.

    All of them where none is named.  ``NotImplemented`` where it is over one dimension already.
    """
    reduced = sorted(dim % max(x.dim(), 1) for dim in dims or range(x.dim()))
    if len(reduced) < 2:
        return NotImplemented
    first = x.dim() - len(reduced)
    result = reduction(x.movedim(reduced, tuple(range(first, x.dim()))).flatten(first))
    for dim in reduced if keepdim else ():
        result = result.unsqueeze(dim)
    return result


@decomposes("linalg_vector_norm.default")
def _vector_norm(
    x: Any, order: float = 2, dims: Sequence[int] | None = None, keepdim: bool = False, *,
    dtype: Any = None,
) -> Any:  # fmt: skip
    """By torch's own reference, whose result has the type of ``x``."""
    norm = import_torch()._refs.linalg.vector_norm
    return norm(x, order, dims, keepdim, dtype=dtype)
