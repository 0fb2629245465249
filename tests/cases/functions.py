"""Functions of references and budgets, in numpy's float64 and independent of the interpreter."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cases.case import Array

HALF_UNIT = 2.0**-11
"""The largest relative error of rounding to f16."""
SUM_UNIT = 2.0**-22
"""The largest relative error of one addition on tensor cores, which truncate, in fp32."""


def philox4x32(counter: int, key: int) -> list[int]:
    """Ten rounds of Philox as its paper gives them, on a counter of 128 bits and a key of 64.

    Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 4.3.
    """
    left0, right0, left1, right1 = (counter >> 32 * word & 0xFFFFFFFF for word in range(4))
    low, high = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        product0, product1 = 0xD2511F53 * left0, 0xCD9E8D57 * left1
        left0, right0, left1, right1 = (
            product1 >> 32 ^ right0 ^ low,
            product1 & 0xFFFFFFFF,
            product0 >> 32 ^ right1 ^ high,
            product0 & 0xFFFFFFFF,
        )
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return [left0, right0, left1, right1]


def random_numbers(name: str, shape: Sequence[int], key: int, start: int) -> Array:
    """What becomes of the words of the counters from ``start`` on, in row-major order."""
    count = math.prod(shape)
    words = np.array([philox4x32(start + i, key) for i in range(-(-count // 4))], np.int64)
    if name == "bits":
        numbers = np.where(words < 2**31, words, words - 2**32) * 1.0
    elif name == "uniform":
        numbers = (words >> 8) * 2.0**-24
    else:
        size = np.sqrt(-2 * np.log(((words[:, ::2] >> 8) + 1) * 2.0**-24))
        angle = 2 * math.pi * (words[:, 1::2] >> 8) * 2.0**-24
        numbers = np.stack([size * np.cos(angle), size * np.sin(angle)], -1)
    return numbers.reshape(-1)[:count].reshape(shape)


def silu(x: Array) -> Array:
    """x / (1 + exp(-x))."""
    return x / (1 + np.exp(-x))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def erf(x: Array) -> Array:
    """The error function."""
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def gelu(x: Array) -> Array:
    """x Φ(x), Φ by the error function."""
    return x * 0.5 * (1 + erf(x / math.sqrt(2)))


def relu(x: Array) -> Array:
    """The larger of x and 0."""
    return np.maximum(x, 0)


def rms(x: Array) -> Array:
    """The root of the mean of the squares along the last dimension."""
    return np.sqrt(np.mean(x * x, axis=-1, keepdims=True))


def softmax_times(scores: Array, values: Array) -> Array:
    """softmax(scores) values."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)) @ values


def sum_contiguous(x: Array, dim: int, size: int) -> Array:
    """Result j along ``dim`` sums the j-th of ``size`` runs of neighbours."""
    shape = (*x.shape[:dim], size, x.shape[dim] // size, *x.shape[dim + 1 :])
    return x.reshape(shape).sum(axis=dim + 1)


def sum_strided(x: Array, dim: int, size: int) -> Array:
    """Result j along ``dim`` sums elements j, j + size, j + 2 size and so on."""
    shape = (*x.shape[:dim], x.shape[dim] // size, size, *x.shape[dim + 1 :])
    return x.reshape(shape).sum(axis=dim)


def summed_budget(count: int, size: Array, result: Array) -> Array:
    """Of a sum in fp32 of ``count`` terms whose magnitudes sum to ``size``, rounded to f16."""
    return count * SUM_UNIT * size + HALF_UNIT * 1.001 * np.abs(result) + 2.0**-24


def matmul_budget(x: Array, y: Array) -> Array:
    """Of a matrix product summed in fp32 and rounded to f16."""
    return summed_budget(x.shape[-1], np.abs(x) @ np.abs(y), x @ y)
