"""Proofs of functions of concatenations whose parts have no common extent of many elements."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from xdsl.dialects.func import FuncOp

import mugraph.build as mi
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.targets import target_named
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence.prove import prove

LONG, SHORT, WIDTH = 133, 1, 8
Body = Callable[..., Any]

larger: Body = cast(Any, mi.max)


def function(body: Body) -> FuncOp:
    """Of scores and a column, of two matrices of values, and of a row for each element."""
    graph = mi.new_kernel_graph("concatenations")
    shapes = ((4, LONG), (4, SHORT), (LONG, WIDTH), (SHORT, WIDTH), (1, LONG + SHORT))
    graph.mark_output(body(*(graph.new_input(shape) for shape in shapes)))
    return only_function(graph.module())


def softmax_of_both(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.softmax(mi.concat(x, y, 1)) @ mi.concat(v, w, 0)


def sums_of_both(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    largest = larger(mi.reduction_max(x, 1), y)
    one, other = mi.exp(x - largest), mi.exp(y - largest)
    return (one @ v + other * w) / (mi.reduction(one, 1) + other)


def column_cut_off(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    both = mi.concat(x, y, 1)
    return mi.softmax(both - mi.reduction_max(both, 1))[:, :LONG] @ v


def column_in_the_sum(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    largest = larger(mi.reduction_max(x, 1), y)
    p = mi.exp(x - largest)
    return p @ v / (mi.reduction(p, 1) + mi.exp(y - largest))


def weighed_by_places(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.reduction(mi.square(mi.concat(y, x, 1)) * row, 1)


def each_weighed(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.reduction(mi.square(x) * row[:, 1:], 1) + mi.square(y) * row[:, :1]


def function_of_both(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.silu(mi.concat(x, y, 1)) * row


def functions_of_each(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.concat(mi.silu(x) * row[:, :LONG], mi.silu(y) * row[:, LONG:], 1)


def largest_of_both(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.reduction_max(mi.concat(x, y, 1) + row, 1)


def larger_of_each(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return larger(mi.reduction_max(x + row[:, :LONG], 1), y + row[:, LONG:])


def product_of_both(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.exp(mi.concat(x, y, 1)) @ mi.concat(v, w, 0)


def products_of_each(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.exp(x) @ v + mi.exp(y) * w


def sum_across(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.reduction(mi.concat(y, x, 1)[:, 10:-20], 1)


def sum_of_one(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.reduction(x[:, 9:-20], 1)


PAIRS = [
    (softmax_of_both, sums_of_both),
    (column_cut_off, column_in_the_sum),
    (weighed_by_places, each_weighed),
    (function_of_both, functions_of_each),
    (largest_of_both, larger_of_each),
    (product_of_both, products_of_each),
    (sum_across, sum_of_one),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_what_is_computed_of_all_is_what_is_computed_of_each_part(one: Body, other: Body) -> None:
    proof = prove(function(one), function(other))
    assert proof.holds, proof.reason


def column_not_in_the_sum(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    largest = larger(mi.reduction_max(x, 1), y)
    p = mi.exp(x - largest)
    return p @ v / mi.reduction(p, 1)


def column_twice(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    largest = larger(mi.reduction_max(x, 1), y)
    p = mi.exp(x - largest)
    return p @ v / (mi.reduction(p, 1) + mi.exp(y - largest) * 2.0)


def first_cut_off(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.softmax(mi.concat(x, y, 1))[:, 1:] @ v


def weighed_at_the_other_end(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.reduction(mi.square(x) * row[:, :LONG], 1) + mi.square(y) * row[:, LONG:]


def functions_swapped(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.concat(mi.silu(y) * row[:, :1], mi.silu(x) * row[:, 1:], 1)


def larger_shifted(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return larger(mi.reduction_max(x + row[:, 1:], 1), y + row[:, :1])


def larger_but_for_one(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return larger(mi.reduction_max((x + row[:, :LONG])[:, 1:], 1), y + row[:, LONG:])


def product_swapped(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.exp(mi.concat(x, y, 1)) @ mi.concat(w, v, 0)


def sum_one_further(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.reduction(mi.concat(y, x, 1)[:, 11:-19], 1)


def sum_of_one_more(x: Any, y: Any, v: Any, w: Any, row: Any) -> Any:
    return mi.reduction(x[:, 9:-19], 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (largest_of_both, larger_shifted),
        (largest_of_both, larger_but_for_one),
        (product_of_both, product_swapped),
        (sum_across, sum_one_further),
        (sum_across, sum_of_one_more),
        (column_cut_off, column_not_in_the_sum),
        (column_cut_off, column_twice),
        (column_cut_off, first_cut_off),
        (weighed_by_places, weighed_at_the_other_end),
        (function_of_both, functions_swapped),
    ],
)
def test_other_functions_are_not_proved(one: Body, other: Body) -> None:
    proof = prove(function(one), function(other))
    assert not proof.holds
    assert proof.reason == "the normal forms of result 0 differ"


def test_a_loop_over_two_long_parts_has_a_running_maximum_of_both() -> None:
    """Tiles of the loop lie across the place where one part ends."""
    graph = mi.new_kernel_graph("joint")
    shapes = [(4, extent, 64) for extent in (77, 256) * 3]
    parts = [graph.new_input(shape) for shape in shapes]
    q, k, v = (mi.concat(parts[place], parts[place + 1], 1) for place in (0, 2, 4))
    graph.mark_output(mi.softmax(q @ mi.transpose(k) * 0.125) @ v)
    module = graph.module()
    fused = module.clone()
    fuse_program(only_function(fused), target_named("h200"))
    proof = prove(only_function(module), only_function(fused))
    assert proof.holds, proof.reason
