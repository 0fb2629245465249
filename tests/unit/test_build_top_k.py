"""The largest elements and their places: what routers of experts and samplers are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulated_programs import emulated, graph_of

import mugraph.build as mi
from mugraph.codegen.cuda.cpp import CodegenError
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda, only_function
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.interpreter.run import bound_rounding

RANDOM = np.random.default_rng(8)


def largest(x: Any, k: int, axis: int) -> Any:
    """By numpy: of equal elements the first, and NaN first of all."""
    order = np.lexsort((-x, ~np.isnan(x)), axis).take(range(k), axis)
    return np.take_along_axis(x, order, axis), order


@pytest.mark.parametrize(
    ("shape", "k", "dim"),
    [((5, 33), 33, -1), ((3, 7, 11), 2, 1), ((1, 700), 65, 1), ((257, 2), 3, 0), ((4, 1), 1, -1)],
)
def test_elements_and_places(shape: tuple[int, ...], k: int, dim: int) -> None:
    """Many are equal, some NaN or infinite, and zeros have both signs."""
    x = np.round(RANDOM.standard_normal(shape) * 2).astype(np.float32)
    x[RANDOM.random(shape) < 0.1] = np.nan
    x[RANDOM.random(shape) < 0.1] = -np.inf
    values, places = emulated(lambda x: mi.top_k(x, k, dim, dtype=mi.int64), x)
    expected_values, expected_places = largest(x, k, dim)
    np.testing.assert_array_equal(values, expected_values)
    np.testing.assert_array_equal(places, expected_places)


def test_a_router_takes_the_rows_of_its_experts() -> None:
    """Weights of the best experts, whose rows of a table are then taken."""
    scores = RANDOM.standard_normal((6, 16)).astype(np.float16)
    table = RANDOM.standard_normal((16, 4)).astype(np.float16)

    def program(scores: Any, table: Any) -> Any:
        best, experts = mi.top_k(scores, 3)
        return [mi.gather(table, experts), best]

    rows, best = emulated(program, scores, table)
    values, places = largest(scores, 3, 1)
    np.testing.assert_array_equal(rows, table[places])
    np.testing.assert_array_equal(best, values)


def test_what_stands_where_does_not_depend_on_how_many_there_are() -> None:
    x = np.zeros((4, 9), np.float16)

    def function(program: Any) -> Any:
        return only_function(graph_of(program, x).module())

    few = function(lambda x: mi.top_k(x, 2))
    assert prove(few, function(lambda x: [each[:, :2] for each in mi.top_k(x, 5)])).holds
    assert not prove(few, function(lambda x: [each[:, 1:3] for each in mi.top_k(x, 5)])).holds
    first = function(lambda x: mi.arg_max(x))
    assert prove(first, function(lambda x: mi.top_k(x, 3)[1][:, :1])).holds
    assert not prove(first, function(lambda x: mi.top_k(x, 3)[1][:, 1:2])).holds
    assert not prove(first, function(lambda x: mi.top_k(x, 1, 1)[0])).holds


def test_rows_may_be_searched_by_themselves_but_no_parts_of_a_row() -> None:
    x = np.zeros((4, 8), np.float16)

    def function(program: Any) -> Any:
        return only_function(graph_of(program, x).module())

    def places(*parts: Any) -> Any:
        return mi.concat(*(mi.arg_max(part, 1) for part in parts), 0)

    whole = function(lambda x: mi.arg_max(x, 1))
    assert prove(whole, function(lambda x: places(x[:1], x[1:]))).holds
    assert not prove(whole, function(lambda x: places(x[1:], x[:1]))).holds
    assert not prove(whole, function(lambda x: mi.arg_max(x[:, :4], 1))).holds

    halves = function(lambda x: mi.arg_max(mi.concat(x[:, :4], x[:, 4:], 1), 1))
    swapped = function(lambda x: mi.arg_max(mi.concat(x[:, 4:], x[:, :4], 1), 1))
    assert prove(whole, halves).holds
    assert not prove(whole, swapped).holds


def test_elements_and_places_are_as_sure_as_what_they_are_found_in() -> None:
    """Rounding may swap two elements of 3; what is far from them stays where it is."""
    graph = graph_of(lambda x: mi.top_k(x * (1 / 3) + 5.0, 3), np.zeros((1, 9), np.float16))
    x = np.zeros((1, 9), np.float16)
    x[0, 2], x[0, 6], x[0, 7] = 8.0, 8.0078125, 100.0
    values, places = bound_rounding(graph.module(), None, [x])
    assert (values > 0).all() and values.max() < 0.1
    np.testing.assert_allclose(places, [[0.0, 4.0, 4.0]], rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((8,), "'kn.top_k': .* has 4x8, expected 4x6 with 1 to 6 elements along dimension 1"),
        ((0,), "top_k: k is 0; expected a number of at least 1"),
        ((2, 2), "top_k: dimension 2 does not exist in a tensor of rank 2: expected -2 to 1"),
        ((1.5,), r"top_k: \[1.5\]; expected integers"),
    ],
)
def test_mistakes_are_sentences(arguments: Any, message: str) -> None:
    with pytest.raises(mi.BuildError, match=message):
        graph_of(lambda x: mi.top_k(x, *arguments), np.zeros((4, 6), np.float16))


def test_more_than_a_block_sorts_is_a_sentence() -> None:
    module = graph_of(lambda x: mi.top_k(x, 5000), np.zeros((2, 6000), np.float16)).module()
    with pytest.raises(CodegenError, match="finds 5000 elements of a run; kn::TopK sorts at most"):
        generate_cuda(module, make_context(), "sm_90a")
