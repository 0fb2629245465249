"""The numbers by which a program has few kernels or many, and what they were fitted to."""

from __future__ import annotations

from pathlib import Path

import pytest

import benchmarks
from benchmarks.programs import PROGRAMS
from benchmarks.programs.pairs import best, loss, measured
from benchmarks.programs.search import launches_of
from mugraph.passes.mugraph.plan.division import PART_NS
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.program.fuse_kernels.times import HIDDEN_NS
from mugraph.passes.targets import target_named
from mugraph.runtime.cuda import only_function

PAIRS = Path(benchmarks.__file__).parent / "results" / "fused_pairs_h200.json"


def test_numbers_of_the_fusion_lose_little_on_what_was_measured() -> None:
    pairs = measured(PAIRS)
    least = loss(pairs, *best(pairs)[0])
    assert loss(pairs, HIDDEN_NS, PART_NS) < least + 0.005
    assert loss(pairs, HIDDEN_NS, PART_NS) < 0.6 * loss(pairs, HIDDEN_NS, 0.0)


@pytest.mark.parametrize(
    ("name", "kernels"),
    [("low_rank_product_64", 1), ("low_rank_product_16", 1), ("gated_attention_output_64", 2)],
)
def test_the_form_that_was_faster_is_found(name: str, kernels: int) -> None:
    function = only_function(PROGRAMS[name].module())
    fuse_program(function, target_named("h200"))
    assert launches_of(function) == kernels
