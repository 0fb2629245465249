"""Mutants of a schedule written by hand, and the verdict of the interpreter on each."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from address_programs import PIPELINE
from harm import RUNS, Judge
from interpreter_programs import parse
from mutants import Mutant, mutants_of
from schedules import passes_as_written
from thorough import inputs
from xdsl.dialects.builtin import ModuleOp

from mugraph.dialects import sched
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function
from mugraph.tools.random_inputs import random_inputs

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.mlir"))


FULL_SIZE = {"6144": "256", "4096": "512", "[96": "[4", "loop 32": "loop 4"}
"""What is smaller in the reduced form of the examples with long loops and many blocks."""


def reduced(text: str) -> str:
    for full, small in FULL_SIZE.items():
        text = re.sub(rf"{re.escape(full)}(?!\d)", small, text)
    return text


def judge_of(module: ModuleOp, runs: int = len(RUNS)) -> Judge:
    """By the first so many runs; inputs are small, so that exp stays finite in fp16."""
    operands = random_inputs(only_function(module), [0.1], seed=0)
    return Judge(module, operands, runs=RUNS[:runs])


@cache
def pipeline() -> ModuleOp:
    return parse(PIPELINE)


@cache
def pipeline_mutants() -> list[Mutant]:
    return list(mutants_of(pipeline()))


@cache
def judge() -> Judge:
    return judge_of(pipeline())


def test_the_runs_are_those_that_count() -> None:
    orders = {order for order, _ in RUNS}
    assert orders == {"forward", "reversed", *range(16)}
    assert len(RUNS) == len(set(RUNS)) == 36


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_right_in_every_run(path: Path) -> None:
    module = parse(reduced(path.read_text(encoding="utf-8")))
    verifying(passes_as_written()).apply(make_context(), module)
    assert [str(evidence) for evidence in judge_of(module, inputs(8, len(RUNS))).unmutated()] == []


def test_mutants_differ_from_the_schedule_in_one_place() -> None:
    text = str(pipeline())
    texts = [str(mutant.module) for mutant in pipeline_mutants()]
    assert str(pipeline()) == text
    assert text not in texts
    counts = Counter(mutant.kind for mutant in pipeline_mutants())
    barriers = sum(isinstance(op, sched.BarrierOp) for op in pipeline().walk())
    waits = sum(isinstance(op, sched.WaitOp) for op in pipeline().walk())
    assert counts["barrier removed"] == barriers == 3
    assert counts["wait removed"] == counts["wait weakened"] == waits == 1
    assert counts["loop bound"] == 2
    assert min(counts[kind] for kind in ("barrier moved", "wait moved", "offset", "swizzle")) > 1
    assert counts["stages"] == 4
    removed = next(mutant for mutant in pipeline_mutants() if mutant.kind == "barrier removed")
    assert len(text.splitlines()) - len(str(removed.module).splitlines()) == 1


def test_harmful_mutants_come_with_evidence() -> None:
    by_kind: dict[str, list[Mutant]] = {}
    for mutant in pipeline_mutants():
        by_kind.setdefault(mutant.kind, []).append(mutant)
    for kind in ("wait removed", "wait weakened", "stages", "loop bound", "ahead"):
        for mutant in by_kind[kind]:
            evidence = judge().evidence(mutant)
            assert evidence is not None, mutant.description
            assert "elements differ" in evidence.what or "touches bytes" in evidence.what
    assert judge().harmful(by_kind["wait removed"][0])


def test_which_mutants_of_the_pipeline_do_no_harm() -> None:
    counts: Counter[str] = Counter()
    harmless: list[str] = []
    for mutant in pipeline_mutants():
        if judge().harmful(mutant):
            counts[mutant.kind] += 1
        else:
            harmless.append(mutant.description)
    # The result may take any part of the stages, all of which have been read by then.
    elsewhere = (0, 3968, 4080, 4112, 4224, 6144)
    assert sorted(harmless) == [f"%so at {offset}, not 4096" for offset in elsewhere]
    assert counts == {
        "offset": 6,
        "stages": 4,
        "swizzle": 12,
        "commit removed": 3,
        "loop bound": 2,
        "wait removed": 1,
        "wait moved": 2,
        "wait weakened": 1,
        "barrier removed": 3,
        "barrier moved": 8,
        "ahead": 4,
    }


def test_mutants_that_the_verifier_refuses() -> None:
    refused = Counter(mutant.kind for mutant in pipeline_mutants() if not mutant.verifies)
    assert refused == {"stages": 4, "loop bound": 2, "ahead": 2}
