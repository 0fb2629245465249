"""How many stages rings should have.

Each workload is timed with other numbers of stages than follow from the target's
``bulk_bytes_in_flight`` (``passes/targets/h200.py``), which is what is best over the workloads.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from benchmarks.h200.pipelines import OURS, TRY, Variant, with_parts
from benchmarks.h200.records import Records
from benchmarks.h200.report import number
from benchmarks.pages import head, table

STAGES = (2, 3, 4, 5, 6, 8)


def name_of(stages: int) -> str:
    """The system of one choice."""
    return f"{TRY}{stages} stages"


def variants(pipeline: str) -> tuple[Variant, ...]:
    """A pipeline with each number of stages."""
    return tuple(
        Variant(name_of(n), with_parts(f"stages={n} preferred=stages", pipeline)) for n in STAGES
    )


def markdown(records: Records) -> str:
    """A line a workload, a column a choice; times over the fastest, whose mean is the last line."""
    facts = next(iter(records.values())).facts
    names = [OURS, *map(name_of, STAGES)]
    heads = ["chosen", *(f"at most {stages}" for stages in STAGES)]
    lines = [
        *head("Stages of rings", facts),
        "µs a call, and stages of the rings. The last line is the geometric mean of the times over",
        "the fastest of each workload.",
        "",
    ]
    rows: list[list[str]] = []
    ratios: dict[str, list[float]] = {}
    for record in records.values():
        systems = [record.systems.get(name) for name in names]
        times = [None if system is None else system.microseconds for system in systems]
        known = [time for time in times if time is not None]
        cells: list[str] = []
        for choice, system, time in zip(heads, systems, times, strict=True):
            if system is None or time is None:
                cells.append("" if system is None else system.status.partition(":")[0])
                continue
            ratios.setdefault(choice, []).append(time / min(known))
            cells.append(f"{number(time)} ({_stages(system.progress)})")
        rows.append([record.workload, *cells])
    means = [
        f"{statistics.geometric_mean(ratios[one]):.3f}" if one in ratios else "" for one in heads
    ]
    rows.append(["over the fastest", *means])
    columns = ("workload", *(f"{choice}:" for choice in heads))
    return "\n".join([*lines, *table(columns, rows)]) + "\n"


def _stages(progress: list[str]) -> str:
    """The stages in what the certificates of kernels say: ``32 of 5`` fills has 5."""
    words = " ".join(progress).replace(",", " ").replace(":", " ").split()
    found = [words[place + 1] for place, word in enumerate(words[:-1]) if word == "of"]
    return "+".join(word for word in found if word.isdecimal())


def write(records: Records, output: Path) -> None:
    """Writes OUTPUT.md beside what the run wrote."""
    measured = {n: record for n, record in records.items() if OURS in record.systems}
    output.with_suffix(".md").write_text(markdown(measured), encoding="utf-8")
