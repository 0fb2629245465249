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


exp = partial(_function, "exp", np.exp)
"""``e ** x``."""
exp2 = partial(_function, "exp2", np.exp2)
"""``2 ** x``."""
log = partial(_function, "log", np.log)
"""The natural logarithm."""
log2 = partial(_function, "log2", np.log2)
"""The logarithm to base 2."""
sqrt = partial(_function, "sqrt", np.sqrt)
"""The square root."""
rsqrt = partial(_function, "rsqrt", _reciprocal_root)
"""``1 / sqrt(x)``."""
tanh = partial(_function, "tanh", np.tanh)
"""The hyperbolic tangent."""
sin = partial(_function, "sin", np.sin)
"""The sine."""
cos = partial(_function, "cos", np.cos)
"""The cosine."""
maximum = partial(_function, "max", np.maximum)
"""The greater of two numbers; NaN where one is."""
minimum = partial(_function, "min", np.minimum)
"""The lesser of two numbers; NaN where one is."""


def where(condition: Any, x: Any, y: Any) -> Any:
    """``x`` where a comparison of elements holds, ``y`` elsewhere; both are computed."""
    return _function("select", np.where, condition, x, y)


def full_like(values: Values, number: Any) -> Values:
    """As many values, all of them the number."""
    return Values.each(lambda *_value: number, values)


class ReductionOp:
    """What combines the elements of a vector: ``a.load().reduce(ReductionOp.MAX, 0.0)``."""

    ADD = staticmethod(operator.add)
    MUL = staticmethod(operator.mul)
    MAX = staticmethod(maximum)
    MIN = staticmethod(minimum)
