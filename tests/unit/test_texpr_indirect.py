"""Numbers as indices: what is taken to be touched, what is refused, and bit operators."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import ParseError

from mugraph.dialects.te import ApplyOp, KernelOp, LoadOp
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import build_module, read_texpr, texpr_text

FUNCTION = "fn f(p: i32[8], x: f32[8, 4]): f32[8, 4] {{ {} }}"


def run(text: str, *inputs: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> object:
    module = read_texpr(text, "f.te", {})
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    (before,) = run_texpr(function, list(inputs)).outputs.values()
    TeLowerPass().apply(Context(), module)
    for kernel in [op for op in module.walk() if isinstance(op, KernelOp)]:
        assert find_texpr_hazards(kernel) == []
    (after,) = run_texpr(function, list(inputs)).outputs.values()
    np.testing.assert_array_equal(before, after)
    return after


PLACES = np.array([3, 1, 0, 2, 7, 6, 5, 4], np.int32)
X = np.arange(32, dtype=np.float32).reshape(8, 4)


def test_rows_are_gathered() -> None:
    text = FUNCTION.format("par 8 i { par 4 j { result[i, j] = x[p[i], j] } }")
    np.testing.assert_array_equal(run(text, PLACES, X), X[PLACES])


def test_rows_are_gathered_through_a_table_in_shared_memory() -> None:
    body = """par 2 b #grid {
        new t: f32[8, 4]
        par 8 i #block { par 4 j #block { t[i, j] = x[i, j] } }
        par 4 i #block { par 4 j #block { result[b * 4 + i, j] = t[p[b * 4 + i], j] } }
    }"""
    np.testing.assert_array_equal(run(FUNCTION.format(body), PLACES, X), X[PLACES])


@pytest.mark.parametrize(
    ("statement", "is_right"),
    [
        ("result[p[i], j] = x[i, j]", False),
        ("result[distinct p[i], j] = x[i, j]", True),
        # The other index keeps iterations apart.
        ("result[p[i], j] = x[0, j]", False),
        ("atomic result[p[i], j] += x[i, j]", True),
        ("result[distinct p[i], j] = x[i, j]; anchor result[0, 0]", False),
    ],
)
def test_what_may_be_written_is_distinct_or_atomic(statement: str, is_right: bool) -> None:
    text = FUNCTION.format(f"par 8 i {{ par 4 j {{ {statement} }} }}")
    if is_right:
        read_texpr(text, "f.te", {})
        return
    with pytest.raises(ParseError, match="both touch result"):
        read_texpr(text, "f.te", {})


@pytest.mark.parametrize(
    ("statement", "is_right"),
    [
        ("result[distinct p[i], 0] = x[i, j]", False),
        ("let k = p[i] + 1; result[distinct k - 1, 0] = x[i, j]", False),
        ("if j == 1 { result[distinct p[i], 0] = x[i, j] }", True),
        ("if x[i, j] > 0.0 { result[distinct p[i], 0] = x[i, j] }", True),
        ("result[distinct p[i % 2 * 4 + j], 0] = x[i, j]", True),
        ("seq 2 s { result[distinct p[i], j] = x[i, j] }", True),
        ("new t: i32[1]\n t[0] = j\n result[distinct t[0], 0] = x[i, j]", True),
    ],
)
def test_what_is_distinct_depends_on_the_iteration(statement: str, is_right: bool) -> None:
    text = FUNCTION.format(f"par 8 i {{ par 4 j {{ {statement} }} }}")
    if is_right:
        read_texpr(text, "f.te", {})
        return
    with pytest.raises(ParseError, match="over j all write the same element of result"):
        read_texpr(text, "f.te", {})


def test_indices_of_loops_keep_iterations_apart_exactly() -> None:
    """A column of its own for each iteration, whichever rows it has."""
    text = FUNCTION.format(
        "par 4 j { seq 8 i { result[i, j] = 0.0 } seq 8 i { result[p[i], j] += x[i, j] } }"
    )
    np.testing.assert_array_equal(run(text, PLACES, X)[PLACES], X)  # type: ignore[index]


def test_an_index_outside_is_an_error_of_the_run() -> None:
    text = FUNCTION.format("par 8 i { par 4 j { result[i, j] = x[p[i], j] } }")
    with pytest.raises(ExecutionError, match="x is accessed at index 8"):
        run(text, PLACES + 1, X)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("par 8 i { result[x[i, 0], 0] = 1.0 }", "a whole number, an i32, not a f32"),
        ("par 8 i { result[i, 0] += distinct }", "'distinct' is not defined"),
        ("par 8 i { result[distinct p[i], 0] += 1.0 }", "is only written, by '='"),
        ("par 8 i { result[i, 0] = x[i, 0] & x[i, 1] }", "'&' takes i32, not floating-point"),
    ],
)
def test_what_cannot_be_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ParseError, match=sentence):
        read_texpr(FUNCTION.format(text), "f.te", {})


def test_bits_bind_tighter_than_comparisons_and_looser_than_sums() -> None:
    text = """fn f(a: i32[64], b: i32[64]): i32[64] {
        par 64 i {
            result[i] = select(a[i] & 7 == 3, a[i] ^ b[i] | 1 << i % 5 + 1, (a[i] | 3) >> 2 & b[i])
        }
    }"""
    module = build_module(text, "f.te", {})
    assert str(build_module(texpr_text(module), "g.te", {})) == str(module)
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-100, 100, 64).astype(np.int32) for _ in range(2))
    i = np.arange(64)
    wanted = np.where(a & 7 == 3, (a ^ b) | (1 << (i % 5 + 1)), ((a | 3) >> 2) & b)
    np.testing.assert_array_equal(run(text, a, b), wanted)


def mapped(text: str) -> list[KernelOp]:
    module = read_texpr(text, "f.te", {})
    TeLowerPass().apply(Context(), module)
    return [op for op in module.walk() if isinstance(op, KernelOp)]


def test_neighbours_of_a_row_that_contents_name_are_loaded_at_once() -> None:
    body = """par 8 b #grid {{
        par 64 i #block {{ par 64 j #block {{ result[b * 64 + i, j] = x[{}] }} }}
    }}"""
    head = "fn f(p: i32[512], x: f32[4096, 64]): f32[512, 64] {{ {} }}"
    for place, loads in (("p[b * 64 + i], j", 1), ("p[b * 64 + j], j", 0)):
        (kernel,) = mapped(head.format(body.format(place)))
        vectors = [op for op in kernel.walk() if isinstance(op, LoadOp) and op.is_indirect]
        assert len(vectors) == loads
        assert all(op.width == 4 for op in vectors)


def test_rows_that_contents_name_are_read_along_lanes() -> None:
    text = """fn f(p: i32[16], x: f16[64, 32]): f16[16, 32] {
        par 1 b #grid { par 16 i #block { par 32 j #block {
            result[i, j] = exp(x[p[i], j] - x[p[i], 31 - j])
        } } }
    }"""
    (kernel,) = mapped(text)
    (column,) = (
        op for op in kernel.walk() if isinstance(op, ApplyOp) and op.result.name_hint == "j"
    )
    assert "mod 32" in str(column.expression) and "floordiv" not in str(column.expression)


@pytest.mark.parametrize(
    "condition", ["p[i] > 3", "x[i, 0] < 9.0 and p[i] != 2", "i > 2 and p[i - 3] < 5"]
)
def test_conditions_on_numbers(condition: str) -> None:
    body = f"""par 8 i {{
        result[i, 0] = 1.0
        seq 3 k {{
            result[i, k + 1] = x[i, k]
            if {condition} {{ result[i, k + 1] += 1.0 }}
        }}
    }}"""
    expected = np.concatenate([np.ones((8, 1), np.float32), X[:, :3]], axis=1)
    before = np.concatenate([[9, 9, 9], PLACES[:-3]])
    holds = {
        "p[i] > 3": PLACES > 3,
        "x[i, 0] < 9.0 and p[i] != 2": (X[:, 0] < 9) & (PLACES != 2),
        "i > 2 and p[i - 3] < 5": (np.arange(8) > 2) & (before < 5),
    }[condition]
    expected[holds, 1:] += 1
    np.testing.assert_array_equal(run(FUNCTION.format(body), PLACES, X), expected)


def test_a_condition_on_numbers_is_text_again() -> None:
    body = """par 8 i {
        let large = x[i, 0] > 2.0
        if large and p[i] < 4 { result[i, 0] = select(large, x[i, 0], 0.0) }
    }"""
    module = build_module(FUNCTION.format(body), "f.te", {})
    assert str(build_module(texpr_text(module), "f.te", {})) == str(module)
    assert "if large {" in texpr_text(module)
