"""Every harmful mutant is reported, and no schedule that is right.

A slice of what ``score.py`` does: some mutants of each example and of a few saved µGraphs.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest
from harm import RUNS, Judge
from interpreter_programs import parse
from mutants import mutants_of, random_mutant
from persistent_programs import ROWS
from schedules import passes_as_written
from score import (
    INPUT_SCALE,
    INPUT_SEED,
    REPORTED,
    REPORTED_HARMFUL,
    Score,
    is_reported,
    kernels_of,
    saved_modules,
    scheduled,
    score_of,
)
from thorough import inputs
from xdsl.dialects.builtin import ModuleOp

from mugraph.dialects.sched import WarpgroupWaitOp, ping_pong_roles, roles_of
from mugraph.passes.schedule.analysis.hazards import (
    HazardKind,
    find_hazards,
    find_workspace_hazards,
)
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context, read_module
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter.address_level import Landing
from mugraph.tools.random_inputs import random_inputs

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))
SAVED = Path(os.environ.get("MUGRAPH_SAVED_MUGRAPHS", ROOT.parent / "shared" / "mugraphs"))
SAMPLED_RUNS = RUNS[: inputs(8, len(RUNS))]
"""Forward, reversed, and two random orders of warps in place of 16."""
SAMPLED = inputs(140, 35)
"""One in so many saved µGraphs has its mutants run."""
SAMPLED_MUTANTS = 7
"""One in so many mutants is run, and every one of a schedule that has few: of a kernel that keeps
its tiles in registers, only the partial results of warps and their barriers can be wrong."""


def require_saved() -> None:
    if not SAVED.is_dir():
        pytest.skip(f"no saved µGraphs in {SAVED}; MUGRAPH_SAVED_MUGRAPHS names another folder")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_harmful_mutant_of_an_example_is_reported(path: Path) -> None:
    module, inputs = scheduled(read_module(str(path), make_context()))
    few = len(list(islice(mutants_of(module), 4 * SAMPLED_MUTANTS))) < 4 * SAMPLED_MUTANTS
    every = 1 if few else SAMPLED_MUTANTS
    score = score_of(module, inputs, name=path.name, every=every, runs=SAMPLED_RUNS)
    assert score.missed == []
    assert score.total(REPORTED_HARMFUL) > 5


INPUTS = ROOT / "tests" / "filecheck" / "passes" / "Inputs"


@pytest.mark.parametrize("name", ["channel-matmul", "channel-sum"])
def test_every_harmful_mutant_of_a_kernel_with_roles_is_reported(name: str) -> None:
    module = read_module(str(INPUTS / f"{name}.mlir"), make_context())
    inputs = random_inputs(only_function(module), [INPUT_SCALE], seed=INPUT_SEED)
    score = score_of(module, inputs, name=name, every=2 * SAMPLED_MUTANTS, runs=SAMPLED_RUNS)
    assert score.missed == []
    assert score.total(REPORTED_HARMFUL) > 5


@pytest.mark.parametrize("name", ["channel-matmul", "channel-sum"])
def test_several_changes_at_once(name: str) -> None:
    module = read_module(str(INPUTS / f"{name}.mlir"), make_context())
    inputs = random_inputs(only_function(module), [INPUT_SCALE], seed=INPUT_SEED)
    judge, random = Judge(module, inputs, runs=SAMPLED_RUNS), Random(5)
    silent = stuck = 0
    for _ in range(30):
        mutant = random_mutant(module, random, 2)
        if not mutant.verifies:
            continue
        (kernel,) = kernels_of(mutant.module)
        kinds = {finding.kind for finding in find_hazards(kernel)}
        if not kinds:
            silent += 1
            assert not judge.harmful(mutant), mutant.description
        elif kinds == {HazardKind.DEADLOCK}:
            # What is stuck in one order is stuck in each.
            stuck += 1
            for order in ("forward", "reversed", 1):
                evidence = judge.difference(mutant, order, Landing.LATEST)
                assert evidence is not None and "cannot go on" in evidence, mutant.description
    assert silent and stuck


def test_loads_by_a_role_of_their_own() -> None:
    path = ROOT / "examples" / "lora.mlir"
    module = read_module(str(path), make_context())
    module, inputs = scheduled(module, "sm_90a", "tma")
    assert any(roles_of(kernel) for kernel in kernels_of(module))
    score = score_of(
        module,
        inputs,
        name=path.name,
        unreported_only=True,
        every=4 * SAMPLED_MUTANTS,
        runs=SAMPLED_RUNS,
    )
    assert score.missed == [] and score.total(REPORTED) > 0


PRODUCTS = """
func.func @gemm(%a: tensor<128x256xf16>, %b: tensor<256x256xf16>) -> tensor<128x256xf16> {
  %o = kn.customized %a, %b grid [1, 1, 1] block [256, 1, 1] forloop 4 {
  ^bb0(%da: tensor<128x256xf16>, %db: tensor<256x256xf16>):
    %sa = tb.input %da imap [-1, -1, -1] fordim 1 : tensor<128x256xf16> -> !tb.stensor<128x64xf16>
    %sb = tb.input %db imap [-1, -1, -1] fordim 0 : tensor<256x256xf16> -> !tb.stensor<64x256xf16>
    %m = tb.matmul %sa, %sb
      : (!tb.stensor<128x64xf16>, !tb.stensor<64x256xf16>) -> !tb.stensor<128x256xf16>
    %sum = tb.forloop_accum none %m : !tb.stensor<128x256xf16> -> !tb.stensor<128x256xf16>
    tb.output %sum omap [-1, -1, -1] : !tb.stensor<128x256xf16> -> tensor<128x256xf16>
  } : (tensor<128x256xf16>, tensor<256x256xf16>) -> tensor<128x256xf16>
  func.return %o : tensor<128x256xf16>
}
"""


def test_products_of_warp_groups() -> None:
    module, inputs = scheduled(parse(PRODUCTS), "sm_90a", "tma")
    waits = [op for op in module.walk() if isinstance(op, WarpgroupWaitOp)]
    assert waits
    # Some BLAS adds up 64 rows in another order than 128; a lost stage is a hundred times this.
    judge = Judge(module, inputs, tolerance=1e-3, runs=SAMPLED_RUNS)
    assert not list(judge.unmutated())
    missed = [
        mutant.description
        for mutant in mutants_of(module)
        if mutant.kind.startswith(("warpgroup", "release"))
        and mutant.verifies
        and not is_reported(mutant)
        and judge.harmful(mutant)
    ]
    assert missed == []


PING_PONG = """
func.func @gemm(%a: tensor<64x256xf16>, %b: tensor<256x192xf16>) -> tensor<64x192xf16> {
  %o = kn.customized %a, %b grid [3, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%da: tensor<64x256xf16>, %db: tensor<256x192xf16>):
    %sa = tb.input %da imap [-1, -1, -1] fordim 1 : tensor<64x256xf16> -> !tb.stensor<64x64xf16>
    %sb = tb.input %db imap [1, -1, -1] fordim 0 : tensor<256x192xf16> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sa, %sb
      : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<64x64xf16>
    %sum = tb.forloop_accum none %m : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %sum omap [1, -1, -1] : !tb.stensor<64x64xf16> -> tensor<64x192xf16>
  } : (tensor<64x256xf16>, tensor<256x192xf16>) -> tensor<64x192xf16>
  func.return %o : tensor<64x192xf16>
}
"""
"""Three blocks of the grid for two roles, and three stages for four iterations."""


def alternating() -> ModuleOp:
    """One block of the launch takes the grid, two ping-pong roles."""
    module, context = parse(PING_PONG), make_context()
    steps = passes_as_written(loads="tma", stages=(3,), ping_pong=2, blocks=1, check_hazards=False)
    for step in steps:
        step.apply(context, module)
    return module


def test_ping_pong_roles() -> None:
    module = alternating()
    (kernel,) = kernels_of(module)
    assert len(ping_pong_roles(kernel)) == 2 and find_hazards(kernel) == []
    # Sums of products of these are exact, in whatever order.
    random, extents = np.random.default_rng(3), ((64, 256), (256, 192))
    inputs = [random.integers(-4, 5, extent).astype(np.float16) / 4 for extent in extents]
    judge = Judge(module, inputs)
    chosen = [mutant for mutant in mutants_of(module) if "order" in mutant.kind and mutant.verifies]
    assert len({mutant.kind for mutant in chosen}) == 7
    unreported = [mutant for mutant in chosen if not is_reported(mutant)]
    assert 0 < len(unreported) < len(chosen)
    orders: tuple[str | int, ...] = ("forward", "reversed", 1)
    missed = [
        mutant.description
        for mutant in unreported
        if any(judge.difference(mutant, order, Landing.LATEST) for order in orders)
    ]
    assert missed == []


@pytest.mark.parametrize("persistent", [0, 4])
def test_clusters_and_what_persistent_kernels_do_once(persistent: int) -> None:
    module, context = parse(ROWS), make_context()
    for step in passes_as_written(loads="tma", cluster=2, blocks=persistent):
        step.apply(context, module)
    (kernel,) = kernels_of(module)
    assert kernel.persistent_blocks == (persistent or None) and find_hazards(kernel) == []
    inputs = random_inputs(only_function(module), [INPUT_SCALE], seed=INPUT_SEED)
    judge = Judge(module, inputs, blocks=8)
    kinds = {"cluster", "persistent", "fill before the phases"}
    chosen = [mutant for mutant in mutants_of(module) if mutant.kind in kinds]
    assert {mutant.kind for mutant in chosen} == (kinds if persistent else {"cluster"})
    for mutant in chosen:
        assert not mutant.verifies or is_reported(mutant), mutant.description
        assert judge.harmful(mutant), mutant.description


def test_every_overlap_in_the_workspace_is_reported() -> None:
    path = ROOT / "examples" / "attention_split_kv.mlir"
    module, inputs = scheduled(read_module(str(path), make_context()))
    assert list(find_workspace_hazards(only_function(module))) == []
    judge = Judge(module, inputs)
    chosen = [mutant for mutant in mutants_of(module) if mutant.kind == "workspace"]
    assert any(mutant.verifies for mutant in chosen)
    assert not all(mutant.verifies for mutant in chosen)
    for mutant in chosen:
        reported = not mutant.verifies or is_reported(mutant)
        assert reported == judge.harmful(mutant), mutant.description


def test_chains_of_warp_groups() -> None:
    """Two products in flight, of which one reads its left operand from registers."""
    context = make_context()
    inputs_folder = ROOT / "tests" / "filecheck" / "passes" / "Inputs"
    module = read_module(str(inputs_folder / "warpgroup-attention.mlir"), context)
    for step in passes_as_written("sm_90a", loads="tma", online_softmax=True):
        step.apply(context, module)
    random = np.random.default_rng(0)
    shapes = (((1, 256, 64), 0.25), ((1, 64, 512), 0.25), ((1, 512, 64), 1.0))
    inputs = [(random.standard_normal(s) * scale).astype(np.float16) for s, scale in shapes]
    judge = Judge(module, inputs, blocks=1, tolerance=2e-3)
    chosen = [
        mutant
        for mutant in mutants_of(module)
        if mutant.kind.startswith("warpgroup") and mutant.verifies
    ]
    unreported = [mutant for mutant in chosen if not is_reported(mutant)]
    assert len(unreported) < len(chosen)
    orders: tuple[str | int, ...] = ("forward", 1)
    missed = [
        mutant.description
        for mutant in unreported
        if any(judge.difference(mutant, order, Landing.EARLIEST) for order in orders)
    ]
    assert missed == []


KINDS = {
    "ahead",
    "barrier moved",
    "barrier removed",
    "commit removed",
    "offset",
    "swizzle",
    "wait moved",
    "wait removed",
    "wait weakened",
    "workspace",
}
"""The kinds of mutants that the verifier lets through and that do harm."""


def test_every_kind_of_mutant_does_harm_and_is_reported() -> None:
    path = ROOT / "examples" / "attention_split_kv.mlir"
    module, inputs = scheduled(read_module(str(path), make_context()))
    judge = Judge(module, inputs)
    harmful: set[str] = set()
    for mutant in mutants_of(module):
        if mutant.kind not in harmful and mutant.verifies and judge.harmful(mutant):
            harmful.add(mutant.kind)
            assert is_reported(mutant), mutant.description
    assert harmful == KINDS


def test_no_harmful_mutant_of_saved_mugraphs_is_missed() -> None:
    require_saved()
    total = Score()
    for name, module in saved_modules(SAVED, SAMPLED):
        schedule, inputs = scheduled(module)
        total.add(
            score_of(
                schedule,
                inputs,
                name=name,
                unreported_only=True,
                every=SAMPLED_MUTANTS,
                runs=SAMPLED_RUNS,
            )
        )
    assert total.missed == [] and total.total(REPORTED) > 0


def test_no_saved_mugraph_is_reported() -> None:
    require_saved()
    checked = 0
    for name, module in saved_modules(SAVED, inputs(7, 1)):
        verifying(passes_as_written(check_hazards=False)).apply(make_context(), module)
        for kernel in kernels_of(module):
            assert find_hazards(kernel) == [], name
            checked += 1
    assert checked > 0
