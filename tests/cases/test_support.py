"""The support matrix is what the code accepts, and no pair in it goes without a case."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from thorough import inputs

from cases.case import coverage
from cases.catalogue import all_cases
from mugraph.dialects.kn import Kn
from mugraph.dialects.tb import Tb
from mugraph.passes.targets import default_targets
from mugraph.tools.support import NOT_RUN_YET, TYPES, answers, head, line, probes

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GPU_RUN = ROOT / "benchmarks" / "results" / "cases.json"
"""What ``python -m cases run --output benchmarks/results/cases`` wrote on a GPU."""

SEVERAL = "is of several devices, which tests of a mesh run"
WITHOUT_ROW = {
    "kn.all_gather": SEVERAL,
    "kn.all_reduce": SEVERAL,
    "kn.all_slice": SEVERAL,
    "kn.all_to_all": SEVERAL,
    "kn.peer": SEVERAL,
    "kn.reduce_scatter": SEVERAL,
    "kn.customized": "holds a threadblock graph; every tb row is in one",
    "kn.extent": "is a number of a call, in i32 alone; tests of named extents run it",
    "kn.view": "runs no kernel, on elements of any type",
    "kn.recurrence": "is a loop of tb.matmul and tb.carry",
    "kn.row_windows": "is a kn.view",
    "kn.windows": "is read by a product where it lies, or copied; tests of windows run both",
    "tb.carried": "is in the row of tb.carry",
    "tb.input": "is in every tb row",
    "tb.output": "is in every tb row",
    "tb.custom": "computes what its te function says, on the types that this names",
}


ASKED = list(probes())[:: inputs(24, 1)]
"""The rows that are asked for again; the page has what all of them were."""


def accepted_by(arch: str) -> set[tuple[str, str]]:
    """The operators and element types of which the page says that a target takes them."""
    rows = (DOCS / "support.md").read_text(encoding="utf-8").splitlines()[len(head()) :]
    accepted: set[tuple[str, str]] = set()
    for row in rows:
        name, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        assert len(cells) == len(TYPES)
        accepted |= {
            (name.strip("`"), element)
            for element, cell in zip(TYPES, cells, strict=True)
            if cell == "yes" or arch in cell.split(", ")
        }
    return accepted


def missing_from_run(run: dict[str, Any], accepted: Iterable[tuple[str, str]]) -> list[str]:
    """What a run on a GPU leaves open: cases that were not right, and pairs that none covers."""
    covered = {tuple(pair) for pair in run["covered"]}
    wrong = [f"{case['id']}: {case['error']}" for case in run["cases"] if case["error"]]
    open_pairs = sorted(set(accepted) - covered)
    return [*wrong, *(f"{name} of {element} did not run" for name, element in open_pairs)]


def test_the_page_is_up_to_date() -> None:
    hint = "run `python -m mugraph.tools.support docs`"
    found = (DOCS / "support.md").read_text(encoding="utf-8").splitlines()
    rows = dict(zip(probes(), found[len(head()) :], strict=True))
    assert found[: len(head())] == head(), hint
    assert {name: rows[name] for name in ASKED} == {name: line(name) for name in ASKED}, hint
    assert all(row.startswith(f"| `{name}` |") for name, row in rows.items()), hint


def test_every_operator_has_a_row() -> None:
    rows = {name.split()[0] for name in probes()} | set(WITHOUT_ROW)
    assert {op.name for dialect in (Kn, Tb) for op in dialect.operations} == rows


def test_every_pair_that_is_accepted_has_a_case() -> None:
    covered = {pair for case in all_cases() for pair in coverage(case.text)}
    accepted = {pair for arch in default_targets() for pair in accepted_by(arch)}
    assert sorted(accepted - covered) == []


def test_what_is_refused_says_why() -> None:
    for name in ASKED:
        row = answers(name)
        assert any(answer.targets for answer in row.values()), name
        for element, answer in row.items():
            if not answer.targets:
                assert answer.reason and "internal error" not in answer.reason, (name, element)


def test_every_pair_that_sm_90a_takes_ran_on_a_gpu() -> None:
    if not GPU_RUN.exists():
        pytest.skip(f"{GPU_RUN.name} is missing: no run of the cases on a GPU has been committed")
    run = json.loads(GPU_RUN.read_text(encoding="utf-8"))
    missing = missing_from_run(run, accepted_by(run["arch"]))
    known = {
        f"{name} of {type_} did not run" for name, types in NOT_RUN_YET.items() for type_ in types
    }
    assert [line for line in missing if line not in known] == []
    assert known == {*missing}, "these have run: take out"


def test_a_pair_that_did_not_run_is_found() -> None:
    accepted = accepted_by("sm_90a")
    covered = [pair for case in all_cases() for pair in coverage(case.text)]
    assert missing_from_run({"covered": covered, "cases": []}, accepted) == []
    covered = [pair for pair in covered if pair != ("tb.exp", "bf16")]
    assert missing_from_run({"covered": covered, "cases": []}, accepted) == [
        "tb.exp of bf16 did not run"
    ]
    failed = {"covered": [*accepted], "cases": [{"id": "types/a", "error": "result 0 is nan"}]}
    assert missing_from_run(failed, accepted) == ["types/a: result 0 is nan"]
