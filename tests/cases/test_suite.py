"""The harness that builds and runs cases on a GPU, where there is none: on the CPU's emulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cases.build import Built, Settings, budget_key, build, data_key, load_built
from cases.case import Case, coverage
from cases.catalogue import select
from cases.check import parse, transpile
from cases.device import Outcome, run_all
from cases.report import covered, failures, write
from cases.sanitize import command_of, summarize
from mugraph.runtime.batch import batch_source

EMULATED = (
    "elemwise/2d-column-odd",
    "matmul/3x6x9x4",
    "tb_elemwise/large",
    "tb_bcast/12x1-row-1x15-column",
    "tb_input_output/random-m-exact-8x8x4",
    "tb_matmul/15x15x15-tile5x5x5-mk-8x8x4",
    "tb_matmul/92x94x64-tile46x47x32-mn-*",
    "tb_reduction/strided-dim1-to6-16x4x2",
    "alignment/tiles-f16-both-2",
    "indirect/experts-in-bulk-f16",
    "indirect/groups-in-bulk-bf16",
    "indirect/paged-16-f16",
    "indirect/paged-in-bulk-64-f16",
    "indirect/embedding-f16",
    "indirect/embedding-uneven-bf16",
    "indirect/stored-uneven-bf16",
    "indirect/columns-69-f32",
)


@pytest.fixture(scope="module")
def built(
    needs_emulator: None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[Built], Path]:
    folder = tmp_path_factory.mktemp("cases")
    settings = Settings(folder, jobs=2, batch=24, emulate=True)
    return build(select(EMULATED), settings, say=lambda _: None), folder


def test_emulated_cases_are_right(built: tuple[list[Built], Path]) -> None:
    outcomes = list(run_all(*built))
    assert failures(outcomes) == []
    assert all(0 < outcome.share <= 1 for outcome in outcomes)


def test_a_case_that_fails_does_not_hide_the_others(built: tuple[list[Built], Path]) -> None:
    cases, folder = built
    broken = replace(cases[0], library=folder / "none.so")
    unbuilt = Built(cases[1].id, "nvcc refused it")
    outcomes = list(run_all([broken, unbuilt, *cases[2:4]], folder))
    assert [bool(outcome.error) for outcome in outcomes] == [True, True, False, False]
    assert outcomes[1].error == "not built: nvcc refused it"


def test_what_was_built_is_there_for_another_process(built: tuple[list[Built], Path]) -> None:
    assert load_built(built[1]) == built[0]


def test_kernels_of_a_batch_have_names_of_their_own() -> None:
    source = '#include "runtime.h"\nusing namespace cute;\nint f();\nstatic void _init() {}\n'
    text = batch_source([source, source])
    assert text.count('#include "runtime.h"') == 1
    assert "namespace member_0 {\nint f();" in text and "namespace member_1 {\nint f();" in text
    assert "case 1: return member_1::_execute_mugraph(" in text


def test_coverage_names_operators_with_their_types() -> None:
    text = "\n".join(
        (
            "  %a = kn.exp %x : tensor<4x8xf16, #cute.layout<(4,8):(8,1)>> -> tensor<4x8xf32>",
            "    %b = tb.forloop_accum rms %s : !tb.stensor<8x4xbf16> -> !tb.stensor<8x1xbf16>",
            "    tb.output %b omap [0, -1, -1] : !tb.stensor<8x1xf16> -> tensor<16x1xf16>",
        )
    )
    assert coverage(text) == {
        ("kn.exp", "f16"),
        ("kn.exp", "f32"),
        ("tb.forloop_accum rms", "bf16"),
        ("tb.output", "f16"),
    }


def case_of(id_: str) -> Case:
    (case,) = select([id_])
    return case


def test_budgets_that_are_kept_are_those_of_the_schedule() -> None:
    derived = case_of("tb_matmul/16x8x16-tile16x8x16-kk-32x1x1")
    keys = [
        budget_key(derived, transpile(derived, parse(derived), arch))
        for arch in ("sm_80", "sm_90a", "sm_90a")
    ]
    assert keys[0] != keys[1] == keys[2]
    given = replace(derived, budget=derived.reference)
    assert budget_key(given, parse(given)) == data_key(given)


def test_the_report_counts_failures(tmp_path: Path) -> None:
    good = Outcome("tb_bcast/12x15-row-12x15-row", share=0.5, relative_error=1e-4)
    bad = Outcome("tb_bcast/12x15-row-12x15-column", "result 0 is nan")
    write(tmp_path / "report", [good, bad], {"gpu": "none"})
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| tb_bcast | 2 | 1 | 0.500 | 1.00e-04 |" in text
    assert "1 cases are not right." in text and "result 0 is nan" in text
    assert ("tb.add", "f16") in covered([good]) and covered([bad]) == []


def test_sanitizers_are_silent_only_where_they_say_so() -> None:
    silent = "case a\nlaunched 1 cases\n========= ERROR SUMMARY: 0 errors\n"
    assert summarize("memcheck", silent, 0, 1.0).is_silent
    assert not summarize("memcheck", silent.replace("launched 1 cases\n", ""), 0, 1.0).is_silent
    assert not summarize("memcheck", silent, 86, 1.0).is_silent
    found = (
        "========= Invalid __global__ read\nlaunched 1 cases\n========= ERROR SUMMARY: 1 error\n"
    )
    finding = summarize("memcheck", found, 86, 1.0)
    assert not finding.is_silent and "Invalid __global__ read" in finding.summary
    racecheck = "launched 3 cases\n========= RACECHECK SUMMARY: 0 hazards displayed\n"
    assert summarize("racecheck", racecheck, 0, 1.0).summary == "silent over 3 cases"
    assert command_of("racecheck", Path("x"), "cs", "0/4")[:3] == ["cs", "--tool", "racecheck"]
