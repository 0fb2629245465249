"""Functions of elements, computed in f32: of numbers of a kernel, or of numpy's."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np

from mugraph.cute.numbers import computed
from mugraph.dialects.cute.values import Values


def _function(name: str, of_arrays: Any, *arguments: Any) -> Any:
    if any(isinstance(one, Values) for one in arguments):
        return Values.each(partial(_function, name, of_arrays), *arguments)
    found = computed(name, *arguments)
    return of_arrays(*arguments) if found is None else found


def _reciprocal_root(x: Any) -> Any:
    return 1 / np.sqrt(x)


def exp(x: Any) -> Any:
    """``e ** x``."""
    return _function("exp", np.exp, x)


def exp2(x: Any) -> Any:
    """``2 ** x``."""
    return _function("exp2", np.exp2, x)


def log(x: Any) -> Any:
    """The natural logarithm."""
    return _function("log", np.log, x)


def log2(x: Any) -> Any:
    """The logarithm to base 2."""
    return _function("log2", np.log2, x)


def sqrt(x: Any) -> Any:
    """The square root."""
    return _function("sqrt", np.sqrt, x)


def rsqrt(x: Any) -> Any:
    """``1 / sqrt(x)``."""
    return _function("rsqrt", _reciprocal_root, x)


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return _function("tanh", np.tanh, x)


def sin(x: Any) -> Any:
    """The sine."""
    return _function("sin", np.sin, x)


def cos(x: Any) -> Any:
    """The cosine."""
    return _function("cos", np.cos, x)


def maximum(x: Any, y: Any) -> Any:
    """The greater of two numbers; NaN where one is."""
    return _function("max", np.maximum, x, y)


def minimum(x: Any, y: Any) -> Any:
    """The lesser of two numbers; NaN where one is."""
    return _function("min", np.minimum, x, y)


def where(condition: Any, x: Any, y: Any) -> Any:
    """``x`` where a comparison of elements holds, ``y`` elsewhere; both are computed."""
    return _function("select", np.where, condition, x, y)


def full_like(values: Values, number: Any) -> Values:
    """As many values, all of them the number."""

    def of(_value: Any) -> Any:
        return number

    return Values.each(of, values)


class ReductionOp:
    """What combines the elements of a vector: ``a.load().reduce(ReductionOp.MAX, 0.0)``."""

    ADD = staticmethod(operator.add)
    MUL = staticmethod(operator.mul)
    MAX = staticmethod(maximum)
    MIN = staticmethod(minimum)
