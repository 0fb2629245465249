"""Along which dimensions functions can be cut, and that the parts compute what the whole does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from mugraph.dialects.te.cutting import cut_function, find_cuts
from mugraph.runtime.interpreter.arithmetic import Precision
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import read_texpr

M, N = 8, 12


def function_of(body: str, parameters: str = "x: f32[8, 12]", result: str = "f32[8, 12]") -> FuncOp:
    module = read_texpr(f"fn f({parameters}): {result} {{ {body} }}", "f.te", {})
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    return function


ROWS = [{0: 0, 1: 0}]


@pytest.mark.parametrize(
    ("body", "cuts"),
    [
        ("par 8 i { par 12 j { result[i, j] = x[i, j] } }", [{0: 0, 1: 0}, {0: 1, 1: 1}]),
        ("par 12 j { seq 8 i { result[i, j] = x[i, j] } }", [{0: 1, 1: 1}]),
        ("par 8 i { reg s = 0.0 seq 12 j { s += x[i, j] result[i, j] = s } }", ROWS),
        (
            "new t: f32[8] par 8 i { t[i] = x[i, 3] } "
            "par 8 k { par 12 j { result[k, j] = t[k] + x[k, 11 - j] } }",
            ROWS,
        ),
        # What another row has, what all rows add up to, and the number of the row.
        ("par 8 i { par 12 j { result[i, j] = x[7 - i, j] } }", [{0: 1, 1: 1}]),
        (
            "new t: f32[12] par 12 j { t[j] = 0.0 } par 8 i { par 12 j { red t[j] += x[i, j] } } "
            "par 8 i { par 12 j { result[i, j] = t[j] } }",
            [{0: 1, 1: 1}, {1: 0}],
        ),
        ("par 8 i { par 12 j { result[i, j] = x[i, j] + f32(i) } }", [{0: 1, 1: 1}]),
        (
            "par 8 i { par 12 j { result[i, j] = 0.0 if i > 2 { result[i, j] = x[i, j] } } }",
            [{0: 1, 1: 1}],
        ),
        ("par 8 i { par 12 j { result[i, j] = x[i * 12 + j] } }", []),
        ("par 96 n { result[n] = x[n] }", []),
    ],
)
def test_cuts_follow_from_the_accesses(body: str, cuts: Sequence[dict[int, int]]) -> None:
    assert [dict(cut.places) for cut in find_cuts(function_of(body))] == cuts


def test_loops_of_one_dimension_in_each_other_are_not_cut() -> None:
    body = (
        "new t: f32[8] par 8 i { t[i] = x[i, 0] result[i, 0] = x[i, 0] } "
        "par 8 i { seq 8 k { result[i, 1] = t[k] } par 10 j { result[i, j + 2] = 0.0 } }"
    )
    assert find_cuts(function_of(body)) == []


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_parts_compute_what_the_whole_does(parts: int) -> None:
    function = function_of(
        "new s: f32[8] par 8 i { s[i] = 0.0 } par 8 i { par 12 j { red s[i] += x[i, j] } } "
        "par 8 i { par 12 j { result[i, j] = x[i, j] / s[i] + w[j] } }",
        "x: f32[8, 12], w: f32[12]",
    )
    (cut,) = [cut for cut in find_cuts(function) if 0 in cut.places and cut.places[0] == 0]
    assert dict(cut.places) == {0: 0, 2: 0}
    part = cut_function(function, cut, M // parts, "part")
    part.verify()
    random = np.random.default_rng(parts)
    x, w = random.uniform(1, 2, (M, N)), random.uniform(1, 2, N)
    (whole,) = run_texpr(function, [x, w], precision=Precision.FLOAT64).outputs.values()
    found = [
        next(iter(run_texpr(part, [rows, w], precision=Precision.FLOAT64).outputs.values()))
        for rows in np.split(x, parts)
    ]
    np.testing.assert_allclose(np.concatenate(found), whole, rtol=1e-12)
