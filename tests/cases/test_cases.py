"""The cases of the tables, as far as their size lets a CPU take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from schedules import AS_WRITTEN

from cases.case import Case, Level, coverage
from cases.catalogue import BRANCHES, all_cases, select, usual_cases, variant
from cases.check import budgets_of, expected_of, judge, parse, real_share, transpile
from mugraph.runtime.interpreter import run_function

COUNTS = {
    "elemwise": 10,
    "elemwise_bcast": 1,
    "matmul": 2,
    "tb_elemwise": 13,
    "tb_bcast": 20,
    "tb_input_output": 80,
    "tb_matmul": 224,
    "tb_reduction": 28,
}
"""Rows of the tables that Mirage's transpiler tests have, with both of the sums to groups."""

TOO_LARGE = (
    "elemwise/performance",
    "matmul/performance",
    "tb_input_output/large-*",
    "tb_matmul/4096x4096x1024-*",
    "softmax/gqa-online",
    "softmax/by-hand-gqa",
    "graphs/*-4096",
    "graphs/rmsnorm-[0-9]*",
    "graphs/qwen_mlp-3584",
    "graphs/attention-gqa",
    "graphs/matmul-*",
)
"""What runs on a GPU only; on a CPU these cases are transpiled."""


@pytest.mark.parametrize("case", usual_cases(), ids=lambda case: case.id)
def test_case(case: Case) -> None:
    module = parse(case)
    if case.level is Level.TRANSPILED:
        transpile(case, module, "sm_90a")
        return
    expected = expected_of(case, module)
    assert real_share(case, module, expected) <= 1
    transpile(case, module, "sm_90a")
    budgets = budgets_of(case, module, expected)
    levels = ["logical"] if case.level is Level.LOGICAL else ["logical", "address"]
    for level in levels:
        outputs = run_function(module, None, expected.inputs, level=level)
        verdict = judge(outputs, expected.results, budgets)
        assert not verdict.message, f"{level}: {verdict.message}"


def test_the_tables_are_complete() -> None:
    families = [case.family for case in all_cases()]
    assert {name: families.count(name) for name in COUNTS} == COUNTS


def test_what_is_left_out_is_another_size_or_type() -> None:
    def covered(cases: Sequence[Case]) -> set[tuple[str, str]]:
        return {
            (case.family, part) for case in cases for pair in coverage(case.text) for part in pair
        }

    assert covered(usual_cases()) == covered(all_cases())
    assert set(BRANCHES) <= {case.id for case in usual_cases()}
    for_sanitizers = {variant(case) for case in all_cases() if case.sanitize}
    assert for_sanitizers <= {variant(case) for case in usual_cases()}


def test_every_operator_is_in_several_types() -> None:
    types: dict[str, dict[str, bool]] = {}
    usual = set(usual_cases())
    for case in all_cases():
        for operator, element in coverage(case.text):
            found = types.setdefault(operator, {})
            found[element] = found.get(element, False) or case in usual
    for operator, found in types.items():
        assert sum(found.values()) >= min(2, len(found)), operator


def test_names_are_unique() -> None:
    ids = [case.id for case in all_cases()]
    assert len(set(ids)) == len(ids)


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    with pytest.raises(LookupError, match="no case matches softmax/none-such"):
        select(["softmax/*", "softmax/none-such"])


def test_what_no_cpu_runs_is_listed() -> None:
    left_out = [case.id for case in all_cases() if case.level is not Level.ADDRESSES]
    assert left_out == [case.id for case in select(TOO_LARGE)]


def test_the_set_under_sanitizers_is_large_enough() -> None:
    chosen = [case for case in all_cases() if case.sanitize]
    assert len(chosen) >= 60
    assert all(case.level is not Level.TRANSPILED for case in chosen)
    by_all, by_chosen = (
        {pair for case in cases for pair in coverage(case.text)} for cases in (all_cases(), chosen)
    )
    for part in (0, 1):
        assert {pair[part] for pair in by_all} == {pair[part] for pair in by_chosen}


def test_a_wrong_element_is_found() -> None:
    (case,) = select(["tb_bcast/12x15-row-12x15-row"])
    module = parse(case)
    expected = expected_of(case, module)
    outputs = run_function(transpile(case, module, "sm_90a"), None, expected.inputs)
    budgets = budgets_of(case, module, expected)
    assert not judge(outputs, expected.results, budgets).message
    outputs[0][3, 4] *= 1.01
    assert "at [3, 4]" in judge(outputs, expected.results, budgets).message
    outputs[0][3, 4] = float("nan")
    assert "at [3, 4]" in judge(outputs, expected.results, budgets).message


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "case",
    select(["softmax/online-large-*", "softmax/online-two-places-*16"]),
    ids=lambda case: case.id,
)
def test_large_scores_need_the_running_maximum(case: Case) -> None:
    module = parse(case)
    expected = expected_of(case, module)
    with np.errstate(all="ignore"):
        outputs = run_function(
            transpile(replace(case, plan=AS_WRITTEN), module, "sm_90a"), None, expected.inputs
        )
    assert not np.isfinite(outputs[0].astype(np.float64)).all()
