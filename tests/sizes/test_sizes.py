"""The programs that a GPU runs at extreme sizes, by the interpreter at sizes that this takes."""

from __future__ import annotations

import pytest

import mugraph
from sizes.check import check
from sizes.programs import PROGRAMS

pytest.importorskip("torch", reason="torch is not installed")

CHOSEN = {"held product": 63, "put rows": 0, "paged 16": 0, "grouped 100": 3}


@pytest.mark.parametrize("name", CHOSEN)
def test_references_are_what_programs_compute(name: str) -> None:
    (program,) = (each for each in PROGRAMS if each.name == name)
    kernel = mugraph.compile(program.graph(), "cpu", plan=program.plan)
    _, wrong = check(program, kernel, CHOSEN[name], "cpu")
    assert wrong == []


def test_a_wrong_result_is_found() -> None:
    (program,) = (each for each in PROGRAMS if each.name == "grouped 6")
    kernel = mugraph.compile(program.graph(), "cpu")

    def wrong(*inputs: object, out: list[object]) -> None:
        kernel(*inputs, out=out)
        out[0][2, 5] += 1.0  # type: ignore[index]

    _, sentences = check(program, wrong, 0, "cpu")
    assert len(sentences) == 1 and "result 0: it is off by" in sentences[0]
