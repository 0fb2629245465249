"""Mutants of the synchronisation of tensor expressions are reported; here some of them."""

from __future__ import annotations

import pytest
from texpr_mutants import PROGRAMS, lowered, mutants_of

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
        assert mutant.is_reported, f"{mutant.kind}: {mutant.what}"
    assert tried
