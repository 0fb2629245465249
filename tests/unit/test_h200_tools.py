"""What the harness makes of compute-sanitizer's and Nsight Compute's output."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from benchmarks.h200 import counters, sanitize
from benchmarks.h200.building import TensorOf
from benchmarks.h200.checking import RIGHT
from benchmarks.h200.counters import Kernel, parse, reason
from benchmarks.h200.pipelines import OURS
from benchmarks.h200.programs import argument_of
from benchmarks.h200.records import Record, Records, System
from benchmarks.h200.report import in_order, missed
from benchmarks.h200.sanitize import Finding, summarize
from benchmarks.h200.statistics import Samples

CSV = """\
==PROF== Connected
"ID","Kernel Name","gpu__time_duration.sum",\
"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",\
"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",\
"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
"","","ns","%","inst","inst"
"0","void custom_kernel_0(Params)","12,345","91.5","1.0","3.0"
"1","combine","2000","12","","2.0"
"""


def records_of(name: str, ours: float, peer: float) -> Records:
    record = Record(name, {"gpu": "GPU", "date": "d", "commit": "c"}, 10, 1.0)
    record.add(System(OURS, RIGHT)).set_samples(Samples((ours,)))
    record.add(System("torch eager", RIGHT, is_peer=True)).set_samples(Samples((peer,)))
    return {name: record}


def test_counters_of_each_kernel() -> None:
    first, second = parse(CSV, "lora")
    assert (first.name, first.microseconds) == ("void custom_kernel_0", 12.345)
    assert first.waits == [("loads from device memory or L2", 75.0), ("a barrier of the block", 25)]
    assert reason(first).startswith(
        "limited by DRAM 92 % of peak; warps wait for loads from device"
    )
    assert reason(second).startswith("no unit is busy (DRAM 12 % is the most): latency")
    assert reason(Kernel("lora", "k")) == "no counter could be read"


def test_tables_of_counters_survive_json(tmp_path: Path) -> None:
    kernels = parse(CSV, "lora")
    counters.write(kernels, {"gqa_bs8": "ncu printed no kernel"}, {"gpu": "GPU"}, tmp_path / "p")
    found = json.loads((tmp_path / "p.json").read_text())["kernels"]
    assert [Kernel(**kernel) for kernel in found] == kernels
    text = (tmp_path / "p.md").read_text()
    assert "| lora | combine | 2.00 | 12 |" in text and "- gqa_bs8: ncu printed no kernel" in text


def test_what_is_slower_than_its_best_peer() -> None:
    assert missed(records_of("lora", 3.4, 9.0)) == []
    assert [record.workload for record in missed(records_of("lora", 3.4, 3.3))] == ["lora"]


def test_only_a_program_that_ran_is_silent() -> None:
    ran = "ran 2 calls\n"
    assert summarize(ran + "========= ERROR SUMMARY: 0 errors\n") == sanitize.SILENT
    assert summarize("========= ERROR SUMMARY: 0 errors\n") == "did not run"
    assert summarize(ran + "========= ERROR SUMMARY: 3 errors\n") == "3 errors"
    hazards = "========= RACECHECK SUMMARY: 12 hazards displayed (12 errors, 0 warnings)\n"
    assert summarize(ran + hazards) == "12 hazards"
    assert summarize(ran) == "no summary"


def test_table_of_the_sanitizers() -> None:
    found = [Finding("lora", tool, sanitize.SILENT, 1.0) for tool in sanitize.TOOLS[:3]]
    found.append(Finding("lora", "initcheck", "2 errors", 1.0, "========= an address"))
    planted = [Finding("plain-race", "racecheck", "1 hazards", 1.0)]
    text = "\n".join(sanitize.page(found, planted, {"gpu": "GPU"}))
    assert "3 of 4 runs are silent" in text
    assert "| lora | silent | silent | silent | 2 errors | 4 |" in text
    assert "| plain-race |  | 1 hazards |  |  | 1 |" in text
    assert "========= an address" in text


def test_every_planted_fault_is_there() -> None:
    source = (Path(sanitize.__file__).parent / "planted_faults.cu").read_text()
    assert all(f'is("{name}")' in source for name in sanitize.PLANTED)


def test_arguments_of_a_call() -> None:
    assert argument_of(TensorOf((16, 4), "bf16", 2), 1 / 64) == "128:bf16:0.015625"


def test_records_are_in_the_order_of_the_workloads() -> None:
    later = Record("gemm_silu_mul_k512", {"gpu": "GPU"}, 10, 44.7)
    known = replace(later, workload="lora")
    assert in_order({"b": later, "a": known}) == [known, later]
