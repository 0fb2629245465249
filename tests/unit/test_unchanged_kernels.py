"""Passes leave kernels of which they change nothing as they are: nothing is verified again."""

from __future__ import annotations

from cases.catalogue import select
from cases.check import parse

from mugraph.passes.sequence import VerifiedChanges, flattened
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context

LEAVE_IT = {"use-warpgroups", "pipeline-products", "bulk-stores", "unroll-products"}


def test_a_kernel_without_products_of_warp_groups_is_left_alone() -> None:
    (case,) = select(["tb_bcast/12x15-row-12x15-row"])
    module, changes = parse(case), VerifiedChanges()
    changed: dict[str, bool] = {}
    for step in flattened(transpile_pipeline("sm_90a", case.plan)):
        step.apply(make_context(), module)
        changed[step.name] = changes.verify(module) or changed.get(step.name, False)
    assert {name for name in LEAVE_IT if not changed[name]} == LEAVE_IT
    assert changed["pipeline-loads"]
