"""Proofs of functions that move elements: slices, concatenations and what is made of them."""

from collections.abc import Callable
from typing import Any

import pytest
from equivalence_programs import subject
from xdsl.dialects.func import FuncOp

import mugraph.build as mi
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence.prove import prove

Shapes = tuple[tuple[int, ...], ...]
HEADS: Shapes = ((4, 6, 16), (4, 1, 16), (4, 1, 16))
SQUARES: Shapes = ((8, 8), (8, 8))
PAIR: Shapes = ((4, 12), (4, 4))
FACTORS: Shapes = ((4, 8), (4, 8), (8, 5), (8, 5))


def function(body: Callable[..., Any], shapes: Shapes) -> FuncOp:
    graph = mi.new_kernel_graph("moves")
    graph.mark_output(body(*(graph.new_input(shape) for shape in shapes)))
    return only_function(graph.module())


def rotary(x: Any, cos: Any, sin: Any) -> Any:
    return mi.rotary(x, cos, sin)


def of_slices(x: Any, cos: Any, sin: Any) -> Any:
    return x * cos + mi.concat(-x[:, :, 8:], x[:, :, :8], -1) * sin


def by_halves(x: Any, cos: Any, sin: Any) -> Any:
    (a, b), (c, d), (s, t) = ((each[:, :, :8], each[:, :, 8:]) for each in (x, cos, sin))
    return mi.concat(a * c - b * s, b * d + a * t, -1)


def in_quarters(x: Any, cos: Any, sin: Any) -> Any:
    a, b, c, d = (x[:, :, start : start + 4] for start in (8, 12, 0, 4))
    return x * cos + mi.concat(mi.concat(-a, -b, -1), mi.concat(c, d, -1), -1) * sin


def with_wrong_sign(x: Any, cos: Any, sin: Any) -> Any:
    return x * cos + mi.concat(x[:, :, 8:], -x[:, :, :8], -1) * sin


def with_halves_swapped(x: Any, cos: Any, sin: Any) -> Any:
    return x * cos + mi.concat(-x[:, :, :8], x[:, :, 8:], -1) * sin


def shifted(x: Any, cos: Any, sin: Any) -> Any:
    return x * cos + mi.concat(-x[:, :, 7:15], x[:, :, :8], -1) * sin


@pytest.mark.parametrize("other", [of_slices, by_halves, in_quarters])
def test_a_rotary_embedding_is_proved_however_it_is_written(other: Callable[..., Any]) -> None:
    assert prove(function(rotary, HEADS), function(other, HEADS)).holds


@pytest.mark.parametrize("other", [with_wrong_sign, with_halves_swapped, shifted])
def test_another_rotary_embedding_is_not_proved(other: Callable[..., Any]) -> None:
    assert not prove(function(rotary, HEADS), function(other, HEADS)).holds


def part_of_both(x: Any, y: Any) -> Any:
    return mi.concat(x, y, 1)[:, 4:16]


def both_in_part(x: Any, y: Any) -> Any:
    return mi.concat(x[:, 4:], y, 1)


def of_pieces(x: Any, y: Any) -> Any:
    return mi.exp(mi.concat(x[:, :8], x[:, 8:], 1)) + y[:, :1]


def of_the_whole(x: Any, y: Any) -> Any:
    return mi.exp(x) + y[:, :1]


def product_of_both(a: Any, b: Any, c: Any, d: Any) -> Any:
    return mi.concat(a, b, 1) @ mi.concat(c, d, 0)


def sum_of_products(a: Any, b: Any, c: Any, d: Any) -> Any:
    return a @ c + b @ d


def largest_of_both(a: Any, b: Any, c: Any, d: Any) -> Any:
    return mi.reduction_max(mi.concat(a, b, 1), 1)


def largest_the_other_way(a: Any, b: Any, c: Any, d: Any) -> Any:
    return mi.reduction_max(mi.concat(b, a, 1), 1)


@pytest.mark.parametrize(
    ("shapes", "one", "other"),
    [
        (PAIR, part_of_both, both_in_part),
        (PAIR, of_pieces, of_the_whole),
        (FACTORS, product_of_both, sum_of_products),
        (FACTORS, largest_of_both, largest_the_other_way),
    ],
)
def test_moves_are_proved(
    shapes: Shapes, one: Callable[..., Any], other: Callable[..., Any]
) -> None:
    assert prove(function(one, shapes), function(other, shapes)).holds


def test_whole_tensors_are_not_compared_element_by_element() -> None:
    def places(x: Any) -> Any:
        return mi.cast(mi.arg_max(x, 1), mi.float32)

    def first_or_second(x: Any, y: Any) -> Any:
        return places(x) + places(y)

    def mixed(x: Any, y: Any) -> Any:
        one, other = mi.concat(x[:, :4], y[:, 4:], 1), mi.concat(y[:, :4], x[:, 4:], 1)
        return places(one) + places(other)

    shapes = ((4, 8), (4, 8))
    assert not prove(function(first_or_second, shapes), function(mixed, shapes)).holds

    # Nor is a function of what they give computed for each of their parts.
    def relu(x: Any, y: Any) -> Any:
        return mi.relu(first_or_second(x, y))

    def relu_mixed(x: Any, y: Any) -> Any:
        return mi.relu(mixed(x, y))

    assert not prove(function(relu, shapes), function(relu_mixed, shapes)).holds


COLUMNS = "tensor<4x8xf16, #cute.layout<(4,8):(1,4)>>"
PARTS = "tensor<2x4x4xf16, #cute.layout<(2,4,4):(16,4,1)>>"


@pytest.mark.parametrize(("dims", "holds"), [("0, 1, 2", True), ("0, 2, 1", False)])
def test_a_view_of_what_lies_in_columns(dims: str, holds: bool) -> None:
    one = f"%r = kn.view %x : {COLUMNS} -> {PARTS} func.return %r : {PARTS}"
    rows = "tensor<8x4xf16, #cute.layout<(8,4):(4,1)>>"
    other = (
        f"%t = kn.transpose %x dims [1, 0] : {COLUMNS} -> {rows} "
        f"%p = kn.reshape %t : {rows} -> {PARTS} "
        f"%r = kn.transpose %p dims [{dims}] : {PARTS} -> tensor<2x4x4xf16> "
        "func.return %r : tensor<2x4x4xf16>"
    )
    signature = f"func.func @f(%x: {COLUMNS}) ->"
    first = subject(f"{signature} {PARTS} {{ {one} }}")
    second = subject(f"{signature} tensor<2x4x4xf16> {{ {other} }}")
    assert prove(first.function, second.function).holds is holds


ROWS = "tensor<4x6xf16, #cute.layout<(4,6):(6,1)>>"
NESTED = "tensor<6x4xf16, #cute.layout<((3,2),4):((1,12),3)>>"


@pytest.mark.parametrize(("dims", "holds"), [("0, 2, 1", True), ("2, 0, 1", False)])
def test_a_view_with_nested_modes_in_another_order(dims: str, holds: bool) -> None:
    one = f"%r = kn.view %x : {ROWS} -> {NESTED} func.return %r : {NESTED}"
    parts = "tensor<2x4x3xf16>"
    moved = "tensor<2x3x4xf16>" if holds else "tensor<3x2x4xf16>"
    other = (
        f"%p = kn.reshape %x : {ROWS} -> {parts} "
        f"%t = kn.transpose %p dims [{dims}] : {parts} -> {moved} "
        f"%r = kn.reshape %t : {moved} -> tensor<6x4xf16> func.return %r : tensor<6x4xf16>"
    )
    signature = f"func.func @f(%x: {ROWS}) ->"
    first = subject(f"{signature} {NESTED} {{ {one} }}")
    second = subject(f"{signature} tensor<6x4xf16> {{ {other} }}")
    assert prove(first.function, second.function).holds is holds


def test_sums_so_far_are_linear() -> None:
    def apart(x: Any, y: Any) -> Any:
        return mi.cumsum(x, 1) + mi.cumsum(y, 1) * 2.0

    def together(x: Any, y: Any) -> Any:
        return mi.transpose(mi.cumsum(mi.transpose(x + y * 2.0), 0))

    def later(x: Any, y: Any) -> Any:
        return mi.cumsum(x, 0) + mi.cumsum(y, 1) * 2.0

    assert prove(function(apart, SQUARES), function(together, SQUARES)).holds
    assert not prove(function(apart, SQUARES), function(later, SQUARES)).holds


def test_recurrences_are_linear_in_what_is_added() -> None:
    def apart(x: Any, y: Any) -> Any:
        return mi.scan(x, y, 1) + mi.scan(y, y, 1)

    def together(x: Any, y: Any) -> Any:
        return mi.scan(x + y, y, 1)

    def swapped(x: Any, y: Any) -> Any:
        return mi.scan(y, x, 1) + mi.scan(y, y, 1)

    assert prove(function(apart, SQUARES), function(together, SQUARES)).holds
    assert not prove(function(apart, SQUARES), function(swapped, SQUARES)).holds


def test_decays_of_decays_are_not_confused() -> None:
    def nested(x: Any, y: Any) -> Any:
        return mi.scan(x, mi.transpose(mi.scan(x, y, 1)), 1)

    def transposed(x: Any, y: Any) -> Any:
        return mi.scan(x, mi.transpose(mi.scan(x, mi.transpose(y), 1)), 1)

    assert prove(function(nested, SQUARES), function(nested, SQUARES)).holds
    assert not prove(function(nested, SQUARES), function(transposed, SQUARES)).holds
