"""Every harmful mutant is reported, and no schedule that is right.

A slice of what ``score.py`` does: all mutants of the smallest example, and for the other examples
and a few saved µGraphs all that nothing reported.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from score import (
    MISSED,
    REFUSED,
    REPORTED,
    REPORTED_HARMFUL,
    Score,
    kernels_of,
    saved_modules,
    scheduled,
    score_of,
)

from mugraph.passes.analysis.hazards import find_hazards
from mugraph.passes.transpile import TranspilePass
from mugraph.tools.modules import make_context, read_module

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))
SAVED = Path(os.environ.get("MUGRAPH_SAVED_MUGRAPHS", ROOT.parent / "shared" / "mugraphs"))
SAMPLED = 21
"""One in so many saved µGraphs has its mutants run."""


def require_saved() -> None:
    if not SAVED.is_dir():
        pytest.skip(f"no saved µGraphs in {SAVED}; MUGRAPH_SAVED_MUGRAPHS names another folder")


def score_example(path: Path, *, unreported_only: bool) -> Score:
    module, inputs = scheduled(read_module(str(path), make_context()))
    return score_of(module, inputs, name=path.name, unreported_only=unreported_only)


def test_every_harmful_mutant_of_an_example_is_reported() -> None:
    score = score_example(ROOT / "examples" / "attention_split_kv.mlir", unreported_only=False)
    assert score.missed == []
    # The mutants do harm, in every way but one: a swizzle stands in a type.
    assert score.total(REPORTED_HARMFUL) > 100 and score.total(REFUSED) > 0
    kinds = {kind for kind, outcome in score.counts if outcome == REPORTED_HARMFUL}
    assert {"barrier removed", "wait weakened", "offset", "commit removed", "swizzle"} <= kinds


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_no_mutant_of_an_example_is_missed(path: Path) -> None:
    score = score_example(path, unreported_only=True)
    assert score.missed == [] and score.total(REPORTED) > 0


def test_no_mutant_of_saved_mugraphs_is_missed() -> None:
    require_saved()
    total = Score()
    for name, module in saved_modules(SAVED, SAMPLED):
        schedule, inputs = scheduled(module)
        total.add(score_of(schedule, inputs, name=name, unreported_only=True))
    assert total.missed == [] and total.total(MISSED) == 0 and total.total(REPORTED) > 0


def test_no_saved_mugraph_is_reported() -> None:
    require_saved()
    checked = 0
    for name, module in saved_modules(SAVED, 1):
        TranspilePass(check_hazards=False).apply(make_context(), module)
        for kernel in kernels_of(module):
            assert find_hazards(kernel) == [], name
            checked += 1
    assert checked > 0
