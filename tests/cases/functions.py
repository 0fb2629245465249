"""Functions of references and budgets, in numpy's float64 and independent of the interpreter."""

from __future__ import annotations

import math

import numpy as np

from cases.case import Array

HALF_UNIT = 2.0**-11
"""The largest relative error of rounding to f16."""
SUM_UNIT = 2.0**-22
"""The largest relative error of one addition on tensor cores, which truncate, in fp32."""


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
