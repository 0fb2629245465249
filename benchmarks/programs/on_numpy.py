"""The operators of programs in numpy, in the type of the arrays, float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

clamp = np.clip
reshape = np.reshape
sqrt = np.sqrt
tanh = np.tanh


def relu(x: Array) -> Array:
    """Elements, 0 where they are less."""
    return np.maximum(x, 0.0)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + np.exp(-x))


def silu(x: Array) -> Array:
    """x times its sigmoid."""
    return x * sigmoid(x)


def gelu(x: Array) -> Array:
    """x times the probability that a normal number is less."""
    return x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0))) / 2.0


def rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    return 1.0 / np.sqrt(x)


def reduction(x: Array, dim: int) -> Array:
    """The sum; the dimension stays."""
    return x.sum(dim, keepdims=True)


def mean(x: Array, dim: int = -1) -> Array:
    """The mean; the dimension stays."""
    return x.mean(dim, keepdims=True)


def log_sum_exp(x: Array) -> Array:
    """The logarithm of the last dimension's sum of exponentials."""
    largest = x.max(-1, keepdims=True)
    return largest + np.log(np.exp(x - largest).sum(-1, keepdims=True))


def softmax(x: Array) -> Array:
    """Along the last dimension."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def causal_mask(scores: Array) -> Array:
    """Scores of keys up to each query's place, and -inf for later ones."""
    return np.where(np.tril(np.ones(scores.shape[-2:], np.bool_)), scores, -np.inf)


def rms_norm(x: Array, weight: Array | None = None, eps: float = 0.0) -> Array:
    """Along the last dimension."""
    normal = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return normal if weight is None else normal * weight


def layer_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, eps: float = 0.0
) -> Array:
    """Along the last dimension; a bias needs a weight."""
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    normal = normal if weight is None else normal * weight
    return normal if bias is None else normal + bias


def transpose(x: Array, dims: Sequence[int] | None = None) -> Array:
    """The dimensions in another order; the last two change places without one."""
    return np.swapaxes(x, -1, -2) if dims is None else np.transpose(x, tuple(dims))


def concat(a: Array, b: Array, dim: int) -> Array:
    """One after the other."""
    return np.concatenate((a, b), dim)


def gather(table: Array, rows: Array) -> Array:
    """The rows of a table that numbers name."""
    return table[rows]
