"""How many bytes channels should keep on their way, and when a stage's bytes are announced.

Each workload whose loads go through channels is timed with other numbers of bytes in flight, from
which the stages follow, and with the announcement before the copies in place of after them.  What
is best over the workloads is the target's ``bulk_bytes_in_flight`` (``passes/targets/h200.py``).
"""

from __future__ import annotations

import statistics
from pathlib import Path

from xdsl.utils.arg_spec import ArgSpec, parse_pipeline

from benchmarks.h200.pipelines import OURS, TRANSPILE, TRY, Variant
from benchmarks.h200.records import Records
from benchmarks.h200.report import number
from benchmarks.h200.workloads import PIPELINES

KILOBYTES = (32, 48, 64, 96, 128)
FIRST_AT = 64
"""The kilobytes at which announcements before the copies are timed, too."""

CHANNELS = tuple(name for name, pipeline in PIPELINES.items() if "pipeline=channels" in pipeline)
"""The workloads whose pipelines ask for channels."""


def with_options(pipeline: str, **options: str | int) -> str:
    """A pipeline with other options of ``transpile``; underscores stand for dashes."""
    changed = {name.replace("_", "-"): (value,) for name, value in options.items()}
    return ",".join(
        str(ArgSpec(spec.name, {**spec.parameters, **changed}) if spec.name == TRANSPILE else spec)
        for spec in parse_pipeline(pipeline)
    )


def name_of(kilobytes: int, publish: str) -> str:
    """The system of one choice."""
    return f"{TRY}{kilobytes} KB, published {publish}"


CHOICES = (*((kilobytes, "last") for kilobytes in KILOBYTES), (FIRST_AT, "first"))


def variants(pipeline: str) -> tuple[Variant, ...]:
    """A pipeline with each choice."""
    return tuple(
        Variant(
            name_of(kilobytes, publish),
            with_options(pipeline, bytes_in_flight=1024 * kilobytes, publish=publish),
        )
        for kilobytes, publish in CHOICES
    )


def markdown(records: Records) -> str:
    """A line a workload, a column a choice; times over the fastest, whose mean is the last line."""
    facts = next(iter(records.values())).facts
    lines = ["# Bytes in flight and stages", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    heads = [f"{kilobytes} KB {'' if p == 'last' else 'first'}".strip() for kilobytes, p in CHOICES]
    lines += [
        "",
        "µs a call, and stages of the rings; `first`: a stage's bytes are announced before its",
        "copies are issued, elsewhere after them. The last line is the geometric mean of the times",
        "over the fastest of each workload.",
        "",
        f"| workload | {' | '.join(heads)} |",
        "|---" + "|---:" * len(heads) + "|",
    ]
    ratios: dict[str, list[float]] = {}
    for record in records.values():
        systems = [record.systems.get(name_of(*choice)) for choice in CHOICES]
        times = [None if system is None else system.microseconds for system in systems]
        known = [time for time in times if time is not None]
        cells: list[str] = []
        for head, system, time in zip(heads, systems, times, strict=True):
            if system is None or time is None:
                cells.append("" if system is None else system.status.partition(":")[0])
                continue
            ratios.setdefault(head, []).append(time / min(known))
            cells.append(f"{number(time)} ({_stages(system.progress)})")
        lines.append(f"| {record.workload} | {' | '.join(cells)} |")
    means = [
        f"{statistics.geometric_mean(ratios[head]):.3f}" if head in ratios else "" for head in heads
    ]
    return "\n".join([*lines, f"| over the fastest | {' | '.join(means)} |"]) + "\n"


def _stages(progress: list[str]) -> str:
    """The stages in what the certificates of kernels say: ``32 of 5`` fills has 5."""
    words = " ".join(progress).replace(",", " ").replace(":", " ").split()
    found = [words[place + 1] for place, word in enumerate(words[:-1]) if word == "of"]
    return "+".join(word for word in found if word.isdecimal())


def write(records: Records, output: Path) -> None:
    """Writes OUTPUT.md beside what the run wrote."""
    measured = {n: record for n, record in records.items() if OURS in record.systems}
    output.with_suffix(".md").write_text(markdown(measured), encoding="utf-8")
