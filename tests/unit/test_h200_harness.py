"""The harness of the benchmarks: statistics, verdicts, variants, results, tables, the picture."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from benchmarks.h200 import records as results
from benchmarks.h200.__main__ import chosen, shard_of
from benchmarks.h200.building import Build, Prepared, Task, build
from benchmarks.h200.checking import RIGHT, judge
from benchmarks.h200.compile_time import phase_seconds
from benchmarks.h200.measure import status_with
from benchmarks.h200.peers import Level, peers_of
from benchmarks.h200.pipelines import OURS, Variant, flat_passes, tried
from benchmarks.h200.records import Record, Records, System
from benchmarks.h200.report import best_peer, markdown, table_row
from benchmarks.h200.run import compiled, write
from benchmarks.h200.statistics import Samples, call_count, set_count
from benchmarks.h200.workloads import WORKLOADS
from benchmarks.references import FP32_EXPONENT, LARGEST_EXPONENT
from mugraph.errors import UserError

TOLERANCE = 2e-3
FACTS = {"gpu": "GPU, 1", "date": "2026-11-21", "commit": "abc"}


def some_results() -> Records:
    record = Record("rmsnorm_bs8", dict(FACTS), 50_659_328, 11.95)
    for name, time, is_peer in (
        (OURS, 14.0, False),
        ("torch eager", 20.0, True),
        ("torch.compile", 16.0, True),
        ("cuBLAS alone", 15.0, False),
        ("read-k", 13.0, False),
    ):
        record.add(System(name, RIGHT, is_peer=is_peer)).set_samples(Samples((time,) * 40))
    failed = Record("lora", dict(FACTS), 10**6, 0.56)
    failed.add(System(OURS, "wrong: 3 elements are not finite", pipeline="transpile"))
    return {record.workload: record, failed.workload: failed}


def test_median_and_quartiles() -> None:
    samples = Samples((5.0, 1.0, 2.0, 3.0, 4.0))
    assert samples.median == 3.0
    assert samples.quartiles == (2.0, 4.0)


@pytest.mark.parametrize("values", [(), (1.0, float("nan")), (0.0,), (-1.0, 2.0)])
def test_no_statistics_of_what_is_no_time(values: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="positive times"):
        Samples(values)


def test_sets_add_up_and_calls_go_round_them() -> None:
    assert set_count(50_000_000) == 4
    assert set_count(400_000_000) == 1
    assert set_count(1) == 1024
    assert call_count(1) == 16
    assert call_count(3) == 18
    assert call_count(700) == 700
    assert call_count(4, 10.0) == 52
    assert call_count(4, 1000.0) == 16


def test_right_result() -> None:
    expected = np.array([1.0, 2.0, 2.0])
    verdict = judge(np, expected.astype(np.float16), expected, TOLERANCE)
    assert verdict.right and verdict.relative_error == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_never_passes(bad: float) -> None:
    expected = np.ones(1000)
    output = np.ones(1000, np.float16)
    output[17] = bad
    assert not judge(np, output, expected, TOLERANCE).right
    # Not even with a tolerance without bound, nor where the reference has it, too.
    assert not judge(np, output, expected, float("inf")).right
    assert not judge(np, output, output.astype(np.float64), float("inf")).right


def test_wrong_shape_error_and_runs() -> None:
    expected = np.ones(8)
    assert not judge(np, np.ones((2, 4)), expected, TOLERANCE).right
    assert "error 1.0e-02" in judge(np, expected * 1.01, expected, TOLERANCE).status
    assert "2 of 20 runs differ" in judge(np, expected, expected, TOLERANCE, [3, 9]).status


def test_what_is_wrong_has_no_time() -> None:
    system = System(OURS, "wrong: error")
    with pytest.raises(ValueError, match="no time"):
        system.set_samples(Samples((1.0,)))


def test_build_reports_its_error() -> None:
    workload = WORKLOADS["lora"]
    done = build(Task(workload, Variant(OURS, "resolve-layout{solver=none}"), "sm_90a"))
    assert isinstance(done, Build)
    assert done.library is None and done.error is not None and "solver" in done.error


def test_variants_with_the_same_file_are_built_once() -> None:
    workload = WORKLOADS["lora"]
    files: list[Prepared | Build] = []
    for name, source in (("first", "a"), ("second", "b"), ("third", "a")):
        task = Task(workload, Variant(name, "transpile"), "sm_90a")
        files.append(Prepared(task, source, Build(task)))
    files.append(Build(Task(workload, Variant("fails", "transpile"), "sm_90a"), error="no"))
    with ThreadPoolExecutor(1) as pool:
        pool.submit = lambda _, one: Future()  # type: ignore[assignment]
        built = compiled(files, pool)
    assert [isinstance(one, Future) for one in built] == [True, True, False, False]
    assert isinstance(built[2], Build) and built[2].same_as == "first"


def test_pipelines_take_the_architecture() -> None:
    steps = flat_passes("plan{stages=2},transpile", "sm_80")
    names = [step.name for step in steps]
    assert names[:4] == ["plan", "unfold-modes", "read-windows", "bucket-extents"]
    at = names.index("factor-products")
    assert names[at + 1 : at + 7] == ["pad-rows", "separate-halves", *["plan", "retile"] * 2]
    assert {getattr(step, "arch", "sm_80") for step in steps} == {"sm_80"}
    with pytest.raises(UserError, match="unknown pass 'faster'"):
        flat_passes("faster", "sm_80")


def test_tried_pipelines() -> None:
    text = "# first\nlora: transpile\n\nlora: plan{split-k=2},transpile  # second\n"
    assert tried(text) == {
        "lora": (Variant("try 1", "transpile"), Variant("try 2", "plan{split-k=2},transpile"))
    }
    with pytest.raises(UserError, match="line 1 is 'lora transpile'"):
        tried("lora transpile")


def test_phases_of_nvcc() -> None:
    table = (
        "source file name , phase name , arch , metric , unit\n"
        "a.cu , cicc , compute_90a , 1500.0 , ms\n"
        "a.cu , ptxas , sm_90a , 0.25 , s\n"
        " , nvcc (driver) , , 0.3 , ms\n"
    )
    assert phase_seconds(table) == {"cicc": 1.5, "ptxas": 0.25}


def test_results_survive_json(tmp_path: Path) -> None:
    records = some_results()
    assert results.known(tmp_path / "h200") == {}
    write(records, tmp_path / "h200")
    assert results.known(tmp_path / "h200") == records


def test_merge_keeps_the_last() -> None:
    first, second = some_results(), some_results()
    second.pop("lora")
    second["rmsnorm_bs8"].floor = 1.0
    merged = results.merged([first, second])
    assert list(merged) == ["rmsnorm_bs8", "lora"]
    assert merged["rmsnorm_bs8"].floor == 1.0


def test_table() -> None:
    records = some_results()
    row = table_row(records["rmsnorm_bs8"])
    assert row[3] == "**14.00**"
    # cuBLAS alone is faster, but does not compute the function.
    assert best_peer(records["rmsnorm_bs8"]) == ("torch.compile", 16.0)
    assert row[-1] == "0.88"
    failed = table_row(records["lora"])
    assert failed[3] == "**wrong**" and failed[-1] == ""
    assert best_peer(records["lora"]) is None
    text = "\n".join(markdown(records, "Title"))
    assert "- commit: abc" in text and "1 of 2 workloads are right" in text


def test_results_are_written_together(tmp_path: Path) -> None:
    write(some_results(), tmp_path / "new" / "h200")
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["h200.json", "h200.md"]


def test_peers_by_level() -> None:
    workload = WORKLOADS["gqa_bs1"]
    assert peers_of(workload, Level.NONE) == ()
    fast = [peer.name for peer in peers_of(workload, Level.FAST)]
    every = [peer.name for peer in peers_of(workload, Level.ALL)]
    assert "SDPA flash" in fast and "max-autotune" not in fast
    assert set(every) - set(fast) == {"max-autotune"}
    assert all(peers_of(workload, Level.FAST) for workload in WORKLOADS.values())


def test_workloads_by_name() -> None:
    assert len(chosen("first")) == 14
    assert [workload.name for workload in chosen("gqa,lora")] == ["gqa_bs8", "gqa_bs1", "lora"]
    with pytest.raises(UserError, match="no workload is called 'gpt'"):
        chosen("gpt")


def test_shards_are_all_workloads_once() -> None:
    every = chosen("all")
    shards = [shard_of(every, f"{part}/3") for part in (1, 2, 3)]
    assert sorted(w.name for shard in shards for w in shard) == sorted(w.name for w in every)
    assert all(6 <= len(shard) <= 7 for shard in shards)
    for wrong in ("0/3", "4/3", "3", "a/b"):
        with pytest.raises(UserError, match="expected a part"):
            shard_of(every, wrong)


@pytest.mark.parametrize("name", [n for n, w in WORKLOADS.items() if w.overflowing is not None])
def test_inputs_that_overflow_do(name: str) -> None:
    """In every row, so that no result is right without the running maximum."""
    workload = WORKLOADS[name]
    assert workload.overflowing is not None
    generator = np.random.default_rng(1)
    depth = 128 if name == "prefill" else 64
    q, k, v = (
        generator.standard_normal(shape) * scale + shift
        for shape, scale, shift in zip(
            ((64, depth), (depth, 512), (512, depth)),
            workload.overflowing.scales,
            workload.overflowing.shifts,
            strict=True,
        )
    )
    largest = LARGEST_EXPONENT[workload.reference]
    assert all(largest(np, row[None], k, v) > FP32_EXPONENT for row in q)
    assert np.isfinite(workload.reference(np, q, k, v)).all()


def test_what_is_wrong_on_inputs_that_overflow_is_wrong() -> None:
    assert status_with("") == RIGHT
    assert status_with("right, error 3.0e-04, exponents up to 130") == RIGHT
    said = status_with("wrong: 5 elements are not finite")
    assert said == "overflowing inputs: wrong: 5 elements are not finite"


def test_every_attention_is_checked_on_inputs_that_overflow() -> None:
    checked = [name for name, workload in WORKLOADS.items() if workload.overflowing is not None]
    assert len(checked) == 9 and all("qa" in n or "mha" in n or n == "prefill" for n in checked)
