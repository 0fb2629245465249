"""The table of the docs: what each pass bought, from the results of ``run --ablate``."""

from __future__ import annotations

from pathlib import Path

from benchmarks.h200.checking import RIGHT
from benchmarks.h200.pipelines import OURS, TRY
from benchmarks.h200.records import Record, Records, System
from benchmarks.h200.report import in_order, number
from mugraph.runtime.errors import UserError

BEGIN = "<!-- what each pass bought: written by python -m benchmarks.h200 page -->"
END = "<!-- end of what each pass bought -->"


def variants_in(records: Records) -> list[str]:
    """The names of the variants that any workload has, the most frequent first."""
    counts: dict[str, int] = {}
    for record in in_order(records):
        for system in record.systems.values():
            if system.pipeline and system.name != OURS and not system.name.startswith(TRY):
                counts[system.name] = counts.get(system.name, 0) + 1
    return sorted(counts, key=lambda name: -counts[name])


def bought(record: Record, variant: str) -> str:
    """What switching a thing off costs: its time and how much more that is, or why it has none."""
    system = record.systems.get(variant)
    if system is None:
        return ""
    if system.microseconds is None or record.ours is None:
        return _reason(system)
    return f"{number(system.microseconds)} ({system.microseconds / record.ours - 1:+.0%})"


def _reason(system: System) -> str:
    if system.status == RIGHT:
        return f"{number(system.microseconds)}"
    return system.status.partition(":")[0] if system.status.startswith("wrong") else "fails"


def table(records: Records) -> str:
    """A line a workload, a column for each thing that is switched off."""
    variants = variants_in(records)
    lines = [
        "| workload | " + " | ".join(["all passes", *(f"`{name}`" for name in variants)]) + " |",
        "|---" + "|---:" * (len(variants) + 1) + "|",
    ]
    for record in in_order(records):
        cells = [number(record.ours), *(bought(record, variant) for variant in variants)]
        lines.append(f"| {record.workload} | " + " | ".join(cells) + " |")
    commits = sorted({record.facts["commit"] for record in records.values()})
    gpus = sorted({record.facts["gpu"] for record in records.values()})
    lines += ["", f"Measured on {', '.join(gpus)} at commit {', '.join(commits)}."]
    return "\n".join(lines)


def with_table(page: str, records: Records) -> str:
    """The page with the table between its two marks; ``UserError`` where it lacks them."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise UserError(f"the page has no lines {BEGIN!r} and {END!r} to write between.")
    return f"{head}{BEGIN}\n\n{table(records)}\n\n{END}{tail}"


def update(path: Path, records: Records) -> None:
    """Writes the table into a file."""
    path.write_text(with_table(path.read_text(encoding="utf-8"), records), encoding="utf-8")
