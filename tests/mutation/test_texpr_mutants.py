"""Mutants of the synchronisation of tensor expressions are reported; here some of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from texpr_mutants import PROGRAMS, lowered, mutants_of, score, what_runs_show
from thorough import THOROUGH

from mugraph.dialects import te
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards


@pytest.mark.parametrize(("name", "every"), [("transpose", 1), ("scan", 1), ("gemm_sm90", 7)])
def test_no_mutant_is_missed(name: str, every: int) -> None:
    (kernel,) = (op for op in lowered(name, PROGRAMS[name]).walk() if isinstance(op, te.KernelOp))
    assert find_texpr_hazards(kernel) == []
    tried = 0
    for number, mutant in enumerate(mutants_of(kernel)):
        if number % every or mutant.kind.startswith("moved"):
            continue
        tried += 1
        assert mutant.is_reported, f"{mutant.kind}: {mutant.op}"
    assert tried


@pytest.mark.skipif(not THOROUGH, reason="compiles every mutant: make fuzz")
@pytest.mark.parametrize("name", ["transpose", "scan"])
def test_what_is_reported_is_harmful(name: str, needs_emulator: None, tmp_path: Path) -> None:
    module = lowered(name, PROGRAMS[name])
    scored = list(score(name, module, control=1))
    programs = [one.module for one in scored if one.module is not None]
    shown = what_runs_show(module, programs, 8, tmp_path)
    assert [bool(harm) for harm in shown] == [one.is_reported for one in scored]
