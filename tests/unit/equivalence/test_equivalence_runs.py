"""Places of largest elements of runs that are put together: what is no proof about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.func import FuncOp

import mugraph.build as mi
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence.prove import prove


def function(body: Callable[[Any], Any], shape: tuple[int, ...]) -> FuncOp:
    graph = mi.new_kernel_graph("runs")
    graph.mark_output(body(graph.new_input(shape)))
    return only_function(graph.module())


def each_once(x: Any) -> Any:
    return mi.arg_max(mi.concat(x[:, :1], x[:, 1:], 1), 1)


def each_twice(x: Any) -> Any:
    first, second = (mi.broadcast_to(each, (1, 2)) for each in (x[:, :1], x[:, 1:]))
    return mi.arg_max(mi.concat(first, second, 1), 1)


def both_twice(x: Any) -> Any:
    both = mi.broadcast_to(mi.concat(x[:, :1], x[:, 1:], 1), (2, 2))
    return mi.arg_max(mi.reshape(both, (1, 4)), 1)


@pytest.mark.parametrize(
    ("one", "other"), [(each_once, each_twice), (each_once, both_twice), (each_twice, both_twice)]
)
def test_runs_of_the_same_elements_have_them_at_other_places(
    one: Callable[[Any], Any], other: Callable[[Any], Any]
) -> None:
    assert prove(function(one, (1, 2)), function(one, (1, 2))).holds
    assert not prove(function(one, (1, 2)), function(other, (1, 2))).holds


def of_rows(x: Any) -> Any:
    largest, _ = mi.top_k(mi.concat(x[:, :4], x[:, 4:], 1), 1, 1)
    return mi.arg_max(largest, 0)


def of_columns(x: Any) -> Any:
    largest, _ = mi.top_k(mi.concat(x[:4], x[4:], 0), 1, 0)
    return mi.arg_max(largest, 1)


def test_the_row_of_the_largest_element_is_not_its_column() -> None:
    """Places in a run inside another one are others, also where both have the same digits."""
    assert not prove(function(of_rows, (8, 8)), function(of_columns, (8, 8))).holds
