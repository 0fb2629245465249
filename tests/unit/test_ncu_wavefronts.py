"""The comparison with Nsight Compute, as far as it goes without a GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import ncu_wavefronts, wavefront_cases

ROOT = Path(__file__).parents[2]
CASES = {case.name: case for case in wavefront_cases.all_cases()}


def predicted(name: str) -> dict[str, int]:
    return ncu_wavefronts.predictions([CASES[name]], "sm_90a")[name]


def test_every_case_has_a_prediction() -> None:
    kernels = ncu_wavefronts.predictions(list(CASES.values()), "sm_90a")
    assert len(kernels) >= len(CASES) >= 12
    names = {row.name for row in ncu_wavefronts.ROWS}
    for name, counts in kernels.items():
        assert counts["stg sectors"] > 0 and counts["load wavefronts"] > 0, name
        assert counts.keys() <= names


# Two blocks each, patterns as `about` says; numbers counted by hand.
@pytest.mark.parametrize(
    ("name", "row", "count"),
    [
        ("scalar_plain", "lds wavefronts", 2 * 32 * 64 // 32),
        ("scalar_conflicts", "lds wavefronts", 2 * 32 * 64),
        ("scalar_conflicts", "stg sectors", 2 * 32 * 64),
        ("scalar_padded", "lds wavefronts", 2 * 32 * 64 // 32),
        ("half_columns", "lds wavefronts", 2 * 64 * 64),
        ("ldmatrix_plain", "ldmatrix wavefronts", 8 * 2 * (2 + 2) * 64 * 64 // 64),
        ("ldmatrix_swizzled", "ldmatrix wavefronts", 2 * (2 + 2) * 64 * 64 // 64),
        ("async_far_rows", "cp.async wavefronts", 2 * 2 * 64 * 32 // 64),
        ("async_16_bytes", "cp.async sectors, past L1", 2 * 64 * 64 // 16),
        ("async_16_bytes", "ldg sectors", 2 * 64 * 64 // 16),
        ("async_conflicts", "cp.async sectors, past L1", 2 * 256),
        # Two vectors a thread, of one column: the second load of the broadcast row goes.
        ("broadcast_halves", "lds instructions", 2 * 4 * (2 + 1 + 16)),
        ("broadcast_halves", "lds wavefronts", 2 * 4 * (2 * 4 + 4 + 16)),
    ],
)
def test_predictions(name: str, row: str, count: int) -> None:
    assert predicted(name)[row] == count


CSV = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","launch__x","smsp__inst_executed_op_ldsm.sum","l1tex__y.sum"
"","","","","inst",""
"0","7","scalar_plain(float const*, float*)","1","1,024","n/a"
"1","7","void other<3>(int)","1","5","6"
"2","7","scalar_plain(float const*, float*)","1","9","9"
"""


def test_reading_and_comparing_counters() -> None:
    measured = ncu_wavefronts.parse_csv(CSV)
    values = ncu_wavefronts.measurement("scalar_plain", measured)
    assert values == {"launch__x": 1.0, "smsp__inst_executed_op_ldsm.sum": 1024.0}
    assert ncu_wavefronts.measurement("scalar", measured) == {}
    kernels = ncu_wavefronts.predictions([CASES["scalar_plain"]], "sm_90a")
    comparisons = ncu_wavefronts.compare(kernels, measured)
    by_row = {comparison.row.name: comparison for comparison in comparisons}
    assert by_row["ldmatrix instructions"].measured == 1024
    assert not by_row["ldmatrix instructions"].agrees
    assert by_row["lds wavefronts"].measured is None and by_row["lds wavefronts"].agrees
    text = ncu_wavefronts.summary(comparisons)
    assert "ldmatrix instructions: 0 of 1 agree; the counter also counts instructions" in text
    assert "0 predicted, 1024" not in text
    assert ncu_wavefronts.verdict(comparisons) == 2
    table = ncu_wavefronts.as_table(comparisons, [CASES["scalar_plain"]])
    assert "|  | ldmatrix instructions | 0 | 1024 | (counts more) |" in table


@pytest.mark.parametrize(
    ("measured", "status"), [({"lds": 128.0, "stores": 7.0}, 0), ({"lds": 129.0}, 1), ({}, 2)]
)
def test_the_verdict_is_about_wavefronts_and_sectors(
    measured: dict[str, float], status: int
) -> None:
    counters = {
        "lds": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        "stores": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    }
    values = {counters[name]: value for name, value in measured.items()}
    kernels = ncu_wavefronts.predictions([CASES["scalar_plain"]], "sm_90a")
    comparisons = ncu_wavefronts.compare(kernels, {"scalar_plain": values})
    assert ncu_wavefronts.verdict(comparisons) == status
    expected = "scalar_plain, lds wavefronts: 128 predicted, 129"
    assert (expected in ncu_wavefronts.summary(comparisons)) == (status == 1)
    assert "scalar_plain, store wavefronts" not in ncu_wavefronts.summary(comparisons)


def test_repeated_loads_go_only_before_a_write() -> None:
    # Four vectors a thread in the second case: two batches, each of which loads the row once.
    for height, loads in ((16, 1), (32, 2)):
        case = wavefront_cases.elementwise(
            "rows_of_one", "", [wavefront_cases.rows(height, 128), wavefront_cases.rows(1, 128)],
            wavefront_cases.rows(height, 128), "128, vector 8, order [1, 0]",
        )  # fmt: skip
        counts = ncu_wavefronts.predictions([case], "sm_90a")["rows_of_one"]
        assert counts["lds instructions"] == 2 * 4 * (height // 8 + loads + height)


def test_predict_needs_no_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["ncu_wavefronts.py", "--predict", "--only", "scalar_padded"]
    monkeypatch.setattr(sys, "argv", command)
    assert ncu_wavefronts.main() == 0
    said = capsys.readouterr().out
    assert "| **scalar_padded** | the same, rows padded by one word |  |  |  |" in said
    assert "|  | lds wavefronts | 128 | - |  |" in said
    command[-1] = "none"
    assert ncu_wavefronts.main() == 2
    assert "no such case; there are: " in capsys.readouterr().out


FAKE_NCU = """#!/bin/sh
for argument; do
  case "$previous" in --log-file) log=$argument ;; --metrics) metrics=$argument ;; esac
  previous=$argument
done
case ",$metrics," in
  *,a__x_op_ldsm.sum,*) echo "==ERROR== Failed to find metric a__x_op_ldsm.sum" > "$log"; exit 1 ;;
esac
printf '"ID","Kernel Name","a__x_op_ld.sum"\\n"0","k(int)","3"\\n' > "$log"
"""


def test_counters_that_ncu_refuses_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text(FAKE_NCU)
    ncu.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    measured = ncu_wavefronts.profile(["true"], ["a__x_op_ld.sum", "a__x_op_ldsm.sum"])
    assert measured == {"k": {"a__x_op_ld.sum": 3.0}}
    assert "left out, as ncu refuses them: a__x_op_ldsm.sum\n" in capsys.readouterr().err
    with pytest.raises(ncu_wavefronts.UserError, match="ncu measured nothing; it said:"):
        ncu_wavefronts.profile(["true"], ["a__x_op_ldsm.sum"])
