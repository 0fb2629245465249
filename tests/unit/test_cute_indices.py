"""Indices of recorded kernels: what they simplify to is what they were."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from thorough import inputs
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block

from mugraph.cute import KernelError
from mugraph.cute.indices import Index, Predicate, Variable, affine_map, as_index

EXTENTS = (8, 3, 12)
BLOCK = Block(arg_types=[IndexType()] * len(EXTENTS))
VARIABLES = [
    Index(0, ((Variable(value, extent, name), 1),))
    for value, extent, name in zip(BLOCK.args, EXTENTS, "txk", strict=True)
]


def drawn(rng: np.random.Generator, depth: int) -> tuple[Any, Any]:
    """A random expression as an index and as a function of the variables."""
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.2:
            constant = int(rng.integers(-9, 10))
            return constant, lambda _point: constant
        which = int(rng.integers(len(VARIABLES)))
        return VARIABLES[which], lambda point: point[which]
    left, of_left = drawn(rng, depth - 1)
    factor = int(rng.choice([2, 3, 4, 6, 8, 16]))
    match int(rng.integers(5)):
        case 0:
            right, of_right = drawn(rng, depth - 1)
            return left + right, lambda point: of_left(point) + of_right(point)
        case 1:
            right, of_right = drawn(rng, depth - 1)
            return left - right, lambda point: of_left(point) - of_right(point)
        case 2:
            return left * factor, lambda point: of_left(point) * factor
        case 3:
            return left // factor, lambda point: of_left(point) // factor
        case _:
            return left % factor, lambda point: of_left(point) % factor


@pytest.mark.parametrize("seed", range(inputs(60, 3000)))
def test_random_expressions(seed: int) -> None:
    """Values, bounds, common divisors and decided conditions, at all points."""
    index, function = drawn(np.random.default_rng(seed), 5)
    operands, map_ = affine_map([index])
    places = [BLOCK.args.index(value) for value in operands]
    values: list[int] = []
    for point in itertools.product(*map(range, EXTENTS)):
        (found,) = map_.eval([point[place] for place in places], [])
        values.append(function(point))
        assert found == values[-1]
    low, high = as_index(index).bounds
    assert low <= min(values) and max(values) <= high
    step = as_index(index).multiple
    assert all(value % step == 0 for value in values) if step else set(values) == {0}
    for bound in (-3, 0, 5):
        condition = as_index(index) < bound
        if not isinstance(condition, Predicate):
            assert condition == all(value < bound for value in values)
            assert condition == any(value < bound for value in values)


def test_digits_become_the_number_again() -> None:
    t, x, k = VARIABLES
    assert str(t // 4 * 4 + t % 4) == "t" and str((t + 8 * k) // 8) == "k"
    assert t % 8 is not t and str(t % 8) == "t" and t // 8 == 0
    assert str((t + 8 * x) % 8 + 3) == "t + 3" and str(k // 2 // 3) == "k // 6"
    assert (t * 4 + k * 6).multiple == 2 and (k % 4 * 8).multiple == 8


def test_what_is_no_index_is_refused() -> None:
    t = VARIABLES[0]
    for attempt in (lambda: t * t, lambda: t // 0, lambda: t // t, lambda: t != 3, lambda: t & 3):
        with pytest.raises(KernelError):
            attempt()
    with pytest.raises(KernelError, match="asks for the condition"):
        bool(t < 4)
