"""The plain programs of the benchmarks: what they compute, and what ``--fuse-kernels`` finds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from benchmarks.h200.building import Prepared, mugraph_of, prepare
from benchmarks.h200.checking import RIGHT, judge_each
from benchmarks.h200.pipelines import OURS
from benchmarks.h200.records import Record, System
from benchmarks.h200.statistics import Samples
from benchmarks.programs import FAMILIES, PROGRAMS
from benchmarks.programs.__main__ import main
from benchmarks.programs.families import Family, Program, several
from benchmarks.programs.measure import BY_HAND, MAX_AUTOTUNE, WRITTEN, page, tasks_of
from benchmarks.programs.search import PROVED, search
from mugraph.passes.program.fuse_kernels import FuseKernelsPass
from mugraph.reading import make_context
from mugraph.runtime.compare import TOLERANCE, compare
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.interpreter import run_function

ARCH = "sm_90a"
CONSTANTS = 1e-7
"""Factors and epsilons are rounded to fp32."""

by_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def expect_right(module: ModuleOp, program: Program) -> None:
    """Compares what a module computes, in float64 and rounded, with the reference."""
    inputs = program.random_inputs(7)
    expected = list(program.reference(*inputs))
    for precision, tolerance in (("float64", CONSTANTS), ("storage", TOLERANCE)):
        results = run_function(module, None, inputs, precision)
        for comparison in compare(results, expected):
            assert comparison.holds(tolerance), (precision, comparison)


@by_family
def test_programs_and_their_kernels_compute_the_reference(family: Family) -> None:
    module = family.least.module()
    module.verify()
    expect_right(module, family.least)
    FuseKernelsPass(ARCH).apply(make_context(), module)
    module.verify()
    expect_right(module, family.least)


@pytest.mark.one_in(3)
@by_family
def test_search(family: Family) -> None:
    found = search(family.least, ARCH)
    assert found.error == ""
    assert found.proof == PROVED
    assert found.launches < found.written and found.launches <= found.planned_launches


def test_torch_computes_the_reference() -> None:
    torch = pytest.importorskip("torch")
    for program in (family.least for family in FAMILIES):
        inputs = program.random_inputs(7)
        results = several(program.torch_function()(*map(torch.from_numpy, inputs)))
        compared = compare([each.numpy() for each in results], [*program.reference(*inputs)])
        assert all(one.holds(TOLERANCE) for one in compared), (program.name, compared)


@pytest.mark.parametrize("name", [name for name, each in PROGRAMS.items() if each.by_hand])
def test_mugraphs_by_hand_are_the_same_functions(name: str) -> None:
    program = PROGRAMS[name]
    assert program.by_hand is not None
    by_hand = only_function(mugraph_of(program.by_hand))
    assert prove(only_function(program.module()), by_hand).holds
    assert program.by_hand.scales == tuple(each.scale for each in program.inputs)


@pytest.mark.parametrize(("name", "builds"), [("lora", 3), ("residual_rms_norm_1", 2)])
def test_what_is_measured_becomes_cuda(name: str, builds: int, tmp_path: Path) -> None:
    prepared = [prepare(task) for task in tasks_of(PROGRAMS[name], ARCH, tmp_path)]
    assert len(prepared) == builds
    sources = [one.source if isinstance(one, Prepared) else one.error for one in prepared]
    assert all(isinstance(one, Prepared) for one in prepared), sources
    assert "__global__" in (sources[0] or "") and len({*sources}) == builds


def test_each_result_is_judged() -> None:
    good, bad = np.ones(1000), np.ones(10)
    verdict = judge_each(np, [good, bad * 1.01], [good, bad], TOLERANCE)
    assert verdict.status.startswith("wrong: error 1.0e-02")
    verdict = judge_each(np, [good, bad * 1.001], [good, bad], TOLERANCE)
    assert verdict.right and verdict.relative_error == pytest.approx(1e-3)


def test_table_of_a_run() -> None:
    record = Record("lora", {"gpu": "GPU", "date": "d", "commit": "c"}, 10, 1.0)
    for name, time in ((OURS, 5.0), (BY_HAND, 4.0), (MAX_AUTOTUNE, 10.0)):
        record.add(System(name, RIGHT, kernels=["k"])).set_samples(Samples((time,)))
    record.add(System(WRITTEN, "wrong: error 1.0e+00"))
    cells = "| lora | 5.00 | 4.00 | 1.25 |  | 10.00 | 0.50 |  | c | as written: wrong"
    assert any(line.startswith(cells) for line in page({"lora": record}))


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Runs ``python -m benchmarks.programs``."""
    monkeypatch.setattr(sys, "argv", ["programs", *arguments])
    return main()


def test_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(monkeypatch, "list", "--programs", "cosine_similarity_16,lora") == 0
    first, *_, last, _ = capsys.readouterr().out.splitlines()
    assert first == "lora (16x256, 256x4096, 256x16, 16x4096): X · W + X · A · B."
    assert last.startswith("cosine_similarity_16 (16x2048, 16x2048): ")
    assert command(monkeypatch, "list", "--programs", "nothing") == 1
    assert "error: no program is called 'nothing'" in capsys.readouterr().err


def test_search_writes_a_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    output = tmp_path / "found"
    assert command(monkeypatch, "search", "--programs", "lora", "--output", str(output)) == 0
    (row,) = json.loads(output.with_suffix(".json").read_text(encoding="utf-8"))["rows"]
    assert (row["name"], row["written"], row["launches"]) == ("lora", 4, 1)
    text = output.with_suffix(".md").read_text(encoding="utf-8")
    assert "1 programs: 1 have the fewest launches, 1 where only launches count, 1 are" in text
