"""A softmax of no elements is 0 where lengths may be 0, and only there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mugraph.build as mi
from mugraph.dialects import kn, tb
from mugraph.dialects.linear_forms import LinearForm
from mugraph.passes.mugraph.plan.operators import special_of
from mugraph.reading import make_context, parse_text
from mugraph.runtime.interpreter import run_function

Form = LinearForm


def softmax_of(condition: Callable[..., Form | list[Form]], *, bias: bool = False) -> kn.SoftmaxOp:
    """The softmax of a program whose scores a mask with a length leaves some of."""
    graph = mi.new_kernel_graph("f")
    x = graph.new_input((8, 16), name="x")
    length = graph.new_input((1,), dtype=mi.int32, name="n")
    seen = graph.mask(x, condition, lengths=[(length, 16)])
    graph.mark_output(graph.softmax(seen + x if bias else seen, 1))
    (op,) = (op for op in graph.module().walk() if isinstance(op, kn.SoftmaxOp))
    return op


Condition = Callable[[Form, Form, Form], Form | list[Form]]
"""Of a row, a column and a length: what is at least 0 where a mask keeps."""

CONDITIONS: list[tuple[Condition, bool]] = [
    (lambda i, j, n: n - 1 - j, True),
    (lambda i, j, n: n - j, False),  # the first is always there
    (lambda i, j, n: n + i - j, False),  # queries behind a position
    (lambda i, j, n: [i - j, n - 1 - j], True),
    (lambda i, j, n: n + j - 16, True),  # the last n
    (lambda i, j, n: n + j - 15, False),
]


@pytest.mark.parametrize(("condition", "may_be_empty"), CONDITIONS)
def test_where_lengths_may_leave_nothing(condition: Condition, *, may_be_empty: bool) -> None:
    for bias in (False, True):
        assert (softmax_of(condition, bias=bias).or_zero is not None) == may_be_empty


View = Callable[[mi.KernelGraph, mi.DTensor], tuple[mi.DTensor, int]]
"""Of a graph and masked scores (2, 4, 16): what a softmax gets, and its dimension."""

VIEWS: list[View] = [
    lambda g, x: (g.reshape(x, (8, 16)), 1),
    lambda g, x: (g.transpose(x, [2, 0, 1]), 0),
    lambda g, x: (g.broadcast_to(g.reshape(x, (2, 1, 4, 16)), (2, 3, 4, 16)), 3),
    lambda _, x: (x[:, 1:3, :], 2),
    lambda g, x: (g.concat(x, x, dim=1) * 0.5, 2),
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kept", [0, 1])
def test_views_may_stand_between_a_mask_and_its_softmax(view: View, kept: int) -> None:
    graph = mi.new_kernel_graph("f")
    x = graph.new_input((2, 4, 16), name="x")
    length = graph.new_input((1,), dtype=mi.int32, name="n")

    def condition(b: Form, i: Form, j: Form, n: Form) -> Form:
        return n - 1 + kept - j

    seen = graph.mask(x, condition, lengths=[(length, 16)])
    graph.mark_output(graph.softmax(*view(graph, seen)))
    assert ("or_zero" in str(graph)) == (kept == 0)
    if not kept:
        numbers = np.random.default_rng(0).standard_normal((2, 4, 16)).astype(np.float16)
        (found,) = run_function(graph.module(), None, [numbers, np.zeros(1, np.int32)])
        np.testing.assert_array_equal(found, 0.0)


def test_elements_that_a_view_joins_are_no_row_of_a_mask() -> None:
    graph = mi.new_kernel_graph("f")
    x = graph.new_input((4, 16), name="x")
    length = graph.new_input((1,), dtype=mi.int32, name="n")
    seen = graph.mask(x, CONDITIONS[0][0], lengths=[(length, 16)])
    graph.mark_output(graph.softmax(graph.reshape(seen, (64,)), 0))
    assert "or_zero" not in str(graph)


def test_what_a_call_says_is_at_least_one() -> None:
    graph = mi.new_kernel_graph("f")
    q, k = (
        graph.new_input((mi.Extent("m", largest=64), 16), name="q"),
        graph.new_input((mi.Extent("n", largest=64), 16), name="k"),
    )
    graph.mark_output(graph.softmax(q @ graph.transpose(k), 1) @ k)
    assert "or_zero" not in str(graph)


def module(body: str) -> ModuleOp:
    text = f"""
    func.func @f(%x: tensor<4x8xf16>, %y: tensor<4x8xf16>) -> tensor<4x8xf32> {{
      {body}
      func.return %z : tensor<4x8xf32>
    }}"""
    return parse_text(make_context(), text, "text")


def test_a_row_of_minus_infinity_is_zero() -> None:
    both = module("%z = kn.softmax %x dim 1 or_zero : tensor<4x8xf16> -> tensor<4x8xf32>")
    x = np.full((4, 8), -np.inf, np.float16)
    x[1:, :3] = 1.0
    (found,) = run_function(both, None, [x, x])
    np.testing.assert_array_equal(found[0], 0.0)
    np.testing.assert_allclose(found[1:, :3], 1 / 3, rtol=1e-6)


@pytest.mark.parametrize("product", ["tb.matmul", "tb.add"])
def test_a_guarded_quotient_counts_as_one_that_is_not(product: str) -> None:
    tile = "!tb.stensor<16x16xf32>"
    row = "!tb.stensor<16x1xf32>"
    graph = f"""
    func.func @f(%x: tensor<16x16xf32>, %s: tensor<16x1xf32>) -> tensor<16x16xf32> {{
      %z = kn.customized %x, %s grid [1, 1, 1] block [32, 1, 1] forloop 1 {{
      ^bb0(%0: tensor<16x16xf32>, %1: tensor<16x1xf32>):
        %2 = tb.input %0 imap [-1] : tensor<16x16xf32> -> {tile}
        %3 = tb.input %1 imap [-1] : tensor<16x1xf32> -> {row}
        %4 = tb.div %2, %3 : ({tile}, {row}) -> {tile}
        %5 = tb.reciprocal_or_zero %3 : {row} -> {row}
        %6 = tb.mul %4, %5 : ({tile}, {row}) -> {tile}
        %7 = {product} %6, %2 : ({tile}, {tile}) -> {tile}
        tb.output %7 omap [-1] : {tile} -> tensor<16x16xf32>
      }} : (tensor<16x16xf32>, tensor<16x1xf32>) -> tensor<16x16xf32>
      func.return %z : tensor<16x16xf32>
    }}"""
    ops = [*parse_text(make_context(), graph, "text").walk()]
    (quotient,) = (op for op in ops if isinstance(op, tb.DivOp))
    (guarded,) = (op for op in ops if isinstance(op, tb.MulOp))
    assert special_of(quotient) == special_of(guarded) == int(product == "tb.matmul")
