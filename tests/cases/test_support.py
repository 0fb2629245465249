"""The support matrix is what the code accepts, and no pair in it goes without a case."""

from __future__ import annotations

from pathlib import Path

from cases.case import coverage
from cases.catalogue import all_cases
from mugraph.dialects.kn import Kn
from mugraph.dialects.tb import Tb
from mugraph.tools.support import matrix, page, probes

DOCS = Path(__file__).resolve().parents[2] / "docs"

WITHOUT_ROW = {
    "kn.customized": "holds a threadblock graph; every tb row is in one",
    "kn.view": "runs no kernel, on elements of any type",
    "tb.input": "is in every tb row",
    "tb.output": "is in every tb row",
    "tb.mask": "is put in by a pass where tiles are ragged",
}


def test_the_page_is_up_to_date() -> None:
    hint = "run `python -m mugraph.tools.support docs`"
    assert (DOCS / "support.md").read_text(encoding="utf-8") == page(), hint


def test_every_operator_has_a_row() -> None:
    rows = {name.split()[0] for name in probes()} | set(WITHOUT_ROW)
    assert {op.name for dialect in (Kn, Tb) for op in dialect.operations} == rows


def test_every_pair_that_is_accepted_has_a_case() -> None:
    covered = {pair for case in all_cases() for pair in coverage(case.text)}
    accepted = {
        (name, element)
        for name, row in matrix().items()
        for element, answer in row.items()
        if answer.targets
    }
    assert sorted(accepted - covered) == []


def test_what_is_refused_says_why() -> None:
    for name, row in matrix().items():
        assert any(answer.targets for answer in row.values()) or name == "kn.all_reduce", name
        for element, answer in row.items():
            if not answer.targets:
                assert answer.reason and "internal error" not in answer.reason, (name, element)
