"""Programs of integers and truths: numbers of tokens, masks and positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from emulated_programs import emulated, graph_of, interpreted
from xdsl.passes import PassPipeline

import mugraph
import mugraph.build as mi
from mugraph.jit.arguments import view_of
from mugraph.passes.program.fuse_kernels import FuseKernelsPass
from mugraph.passes.transpile import TranspilePass
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.arithmetic import convert
from mugraph.runtime.interpreter.run import bound_rounding, random_elements

RANDOM = np.random.default_rng(64)
WIDE = RANDOM.integers(-(2**62), 2**62, (5, 7))
"""Of which fp32, and float64, hold few."""
SEEN = RANDOM.random((5, 7)) < 0.5
HALVES = RANDOM.standard_normal((5, 7)).astype(np.float16)


def test_tokens_of_i64_name_rows() -> None:
    table, tokens = RANDOM.standard_normal((11, 9)).astype(np.float16), WIDE % 11
    (rows,) = emulated(mi.gather, table, tokens)
    np.testing.assert_array_equal(rows, table[tokens])


def test_rows_are_put_where_numbers_say() -> None:
    """Those below 0 count from the end; the emulator leaves out what names no row."""
    table = RANDOM.standard_normal((3, 9, 16)).astype(np.float16)
    new, rows = RANDOM.standard_normal((3, 2, 16)).astype(np.float16), np.array([4, -1])
    (result,) = emulated(lambda *given: mi.scatter(*given, 1), new, table, rows)
    expected = table.copy()
    expected[:, rows] = new
    np.testing.assert_array_equal(result, expected)


def test_rows_are_put_into_the_table_itself_where_nothing_else_reads_it() -> None:
    table, rows = np.zeros((9, 4), np.float16), np.array([7])
    new = np.ones((1, 4), np.float16)

    def program(new: Any, table: Any, rows: Any) -> list[Any]:
        return [mi.scatter(new, table, rows, 0)]

    kernel = mugraph.compile(graph_of(program, new, table, rows), "cpu")
    assert kernel.interface.in_place == {0: 1}
    kernel(new, table, rows, out=table)
    np.testing.assert_array_equal(table[:, 0], np.arange(9) == 7)
    copies = graph_of(lambda v, x, i: [*program(v, x, i), x + x], new, table, rows)
    assert not mugraph.compile(copies, "cpu").interface.in_place


def test_what_is_made_of_integers_alone_is_exact() -> None:
    other = np.roll(WIDE, 1, 0)

    def program(x: Any, y: Any, where: Any = mi.where) -> list[Any]:
        return [x + y, x - y, x * y, -x, 5 - x, x * 3 + 1, where(x < y, x, y)]

    results = emulated(lambda x, y: [*program(x, y), mi.max(x, y), mi.min(x, 7)], WIDE, other)
    expected = [*program(WIDE, other, np.where), np.maximum(WIDE, other), np.minimum(WIDE, 7)]
    for result, exact in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, exact)


def test_neighbours_of_large_numbers_are_not_equal() -> None:
    def program(x: Any, y: Any) -> list[Any]:
        return [x < y, x <= y, x == y, x != y, x > y, ~(x >= y) | (x == y)]

    near = WIDE + (np.arange(35).reshape(5, 7) % 3 - 1)
    for result, expected in zip(emulated(program, WIDE, near), program(WIDE, near), strict=True):
        assert result.dtype == np.bool_
        np.testing.assert_array_equal(result, expected)


def test_integers_become_others_modulo_their_bits() -> None:
    def program(x: Any) -> list[Any]:
        narrow = mi.cast(x, mi.int32)
        return [narrow, mi.cast(x, mi.bool_), mi.cast(narrow, mi.int64)]

    (narrow, bits, wide) = emulated(program, WIDE * (WIDE % 3 > 0))
    np.testing.assert_array_equal(narrow, (WIDE * (WIDE % 3 > 0)).astype(np.int32))
    np.testing.assert_array_equal(bits, WIDE % 3 > 0)
    np.testing.assert_array_equal(wide, narrow)


def test_numbers_become_integers_that_are_nearest() -> None:
    x = np.array([[1e30, -1e30, math.inf, math.nan, 2.5, 0.0]], np.float32)
    most = 2**63 - 1
    (whole, truths) = emulated(lambda x: [mi.cast(x, mi.int64), mi.cast(x, mi.bool_)], x)
    assert whole.tolist() == [[most, -most - 1, most, 0, 2, 0]]
    assert truths.tolist() == [[True, True, True, True, True, False]]


def test_truths_choose() -> None:
    def program(x: Any, seen: Any) -> list[Any]:
        held = mi.less(x, 0.25, dtype=mi.bool_)
        return [
            mi.where(seen, x, -1.0),
            mi.mask(x, seen),
            mi.where(~seen & held, 1.0, 0.5),
            mi.mask(x, seen[:, :1], 2.0),
            mi.where(seen & (x < 0.5), x, 0.0),
            mi.where((x < 0.5) | seen, x, 0.0),
        ]

    results = emulated(program, HALVES, SEEN)
    expected = (
        np.where(SEEN, HALVES, -1),
        np.where(SEEN, HALVES, -np.inf),
        np.where(~SEEN & (HALVES < 0.25), 1, 0.5),
        np.where(SEEN[:, :1], HALVES, 2),
        np.where(SEEN & (HALVES < 0.5), HALVES, 0),
        np.where(SEEN | (HALVES < 0.5), HALVES, 0),
    )
    for result, exact in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, exact)


def attention(mask: Any) -> Any:
    """Of scores that a mask of truths leaves, or of what ``where`` makes of them."""
    return lambda q, k, v, m: mi.softmax(mask(q @ mi.transpose(k) * 0.25, m)) @ v


def attention_inputs() -> list[Any]:
    q, k, v = (RANDOM.standard_normal((2, 9, 16)).astype(np.float16) for _ in range(3))
    seen = RANDOM.random((1, 9, 9)) < 0.5
    seen[..., 4] = True
    return [q, k, v, seen]


def test_attention_with_a_mask_of_truths_is_one_kernel() -> None:
    inputs = attention_inputs()
    module = graph_of(attention(mi.mask), *inputs).module()
    (exact,) = run_function(module, None, inputs, "float64")
    (bound,) = bound_rounding(module, None, inputs)
    mugraph = module.clone()
    PassPipeline((FuseKernelsPass(), TranspilePass())).apply(make_context(), module)
    assert str(module).count("sched.launch") == 1
    (result,) = run_function(module, None, inputs, level="address")
    q, k, v, seen = (each.astype(np.float64) for each in inputs)
    powers = np.exp(q @ k.transpose(0, 2, 1) * 0.25) * seen
    np.testing.assert_allclose(exact, powers / powers.sum(-1, keepdims=True) @ v, rtol=1e-9)
    assert (np.abs(result.astype(np.float64) - exact) <= bound * 2).all()
    other = graph_of(attention(lambda x, m: mi.where(m, x, -math.inf)), *inputs).module()
    assert prove(only_function(mugraph), only_function(other)).holds
    swapped = graph_of(attention(lambda x, m: mi.where(~m, x, -math.inf)), *inputs).module()
    assert not prove(only_function(mugraph), only_function(swapped)).holds


def test_places_may_be_i64() -> None:
    (places,) = emulated(lambda x: mi.arg_max(x, dtype=mi.int64), HALVES)
    np.testing.assert_array_equal(places, HALVES.argmax(-1, keepdims=True))
    assert places.dtype == np.int64


def test_truths_of_rounded_numbers_are_unsure_near_0() -> None:
    graph = graph_of(lambda x: mi.cast(x + 5.0 - 5.0, mi.bool_), HALVES)
    x = np.zeros_like(HALVES)
    x[0, 0], x[1, 1] = 1e-4, 1.0
    (bound,) = bound_rounding(graph.module(), None, [x])
    assert bound[0, 0] >= 1.0 and bound[1, 1] == 0.0


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda x, m: x * m, "computes on floating-point numbers, but .* elements of i1; insert"),
        (lambda x, m: mi.cast(m, mi.int64) / 2, "'kn.div' computes on floating-point numbers"),
        (lambda x, m: mi.cast(m, mi.int64) + 0.5, "0.5 is no number of i64"),
        (lambda x, m: mi.gather(x, m), "numbers of rows are of i32 or i64, but"),
        (lambda x, m: mi.scatter(x, x, m, 0), "numbers of rows have one dimension, not "),
        (lambda x, m: mi.softmax(m), "computes on floating-point numbers, but .* elements of i1"),
    ],
)
def test_what_integers_are_not_for(program: Any, message: str) -> None:
    with pytest.raises(mi.BuildError, match=message):
        graph_of(program, HALVES, SEEN)


def test_arrays_of_truths_and_of_i64_are_arguments() -> None:
    for array, element in ((SEEN, "i1"), (WIDE, "i64")):
        assert view_of("input", 0, None, array, None).element_type == element  # type: ignore[arg-type]


def test_random_truths_hold_and_do_not() -> None:
    assert set(random_elements(HALVES, np.dtype(np.bool_)).flat) == {True, False}
    assert convert(SEEN, np.dtype(np.int64)).sum() == SEEN.sum()
    assert interpreted(lambda m: mi.where(m, 1.0, 0.0), SEEN)[0].sum() == SEEN.sum()
