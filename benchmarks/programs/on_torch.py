"""The operators of programs in PyTorch, as its users write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

clamp = torch.clamp
gelu = functional.gelu
relu = torch.relu
reshape = torch.reshape
rsqrt = torch.rsqrt
sigmoid = torch.sigmoid
silu = functional.silu
sqrt = torch.sqrt
tanh = torch.tanh


def reduction(x: Any, dim: int) -> Any:
    """The sum; the dimension stays."""
    return x.sum(dim, keepdim=True)


def mean(x: Any, dim: int = -1) -> Any:
    """The mean; the dimension stays."""
    return x.mean(dim, keepdim=True)


def log_sum_exp(x: Any) -> Any:
    """The logarithm of the last dimension's sum of exponentials."""
    return torch.logsumexp(x, -1, keepdim=True)


def softmax(x: Any) -> Any:
    """Along the last dimension."""
    return torch.softmax(x, -1)


def causal_mask(scores: Any) -> Any:
    """Scores of keys up to each query's place, and -inf for later ones."""
    ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
    return scores.masked_fill(~ones.tril(), float("-inf"))


def rms_norm(x: Any, weight: Any = None, eps: float = 0.0) -> Any:
    """Along the last dimension."""
    return functional.rms_norm(x, x.shape[-1:], weight, eps)


def layer_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 0.0) -> Any:
    """Along the last dimension."""
    return functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def transpose(x: Any, dims: Sequence[int] | None = None) -> Any:
    """The dimensions in another order; the last two change places without one."""
    return x.transpose(-1, -2) if dims is None else x.permute(tuple(dims))


def concat(a: Any, b: Any, dim: int) -> Any:
    """One after the other."""
    return torch.cat((a, b), dim)


def gather(table: Any, rows: Any) -> Any:
    """The rows of a table that numbers name."""
    return table[rows]
