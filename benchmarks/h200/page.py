"""The tables of the docs: the times, and what each pass bought (``run --ablate``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.h200.checking import RIGHT
from benchmarks.h200.counters import Kernel, reason
from benchmarks.h200.pipelines import OURS, TRY
from benchmarks.h200.records import READ, SAME_AS, Record, Records, System
from benchmarks.h200.repetition import apart
from benchmarks.h200.report import best_peer, goal_of, in_order, number
from mugraph.errors import UserError

_BY = "written by python -m benchmarks.h200 page"
ABLATION = (f"<!-- what each pass bought: {_BY} -->", "<!-- end of what each pass bought -->")
RESULTS = (f"<!-- times: {_BY} -->", "<!-- end of times -->")
REASONS = (f"<!-- reasons: {_BY} -->", "<!-- end of reasons -->")
"""The lines that a table stands between."""


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
    if system.status.startswith(SAME_AS):
        return "the same"
    if system.status == RIGHT:
        return f"{number(system.microseconds)}"
    return system.status.partition(":")[0] if system.status.startswith("wrong") else "fails"


def table(records: Records) -> str:
    """A line a workload, a column for each thing that is switched off."""
    everywhere = variants_in(records)
    idle = [variant for variant in everywhere if _changes_nothing(records, variant)]
    variants = [variant for variant in everywhere if variant not in idle]
    lines = [
        "| workload | " + " | ".join(["all passes", *(f"`{name}`" for name in variants)]) + " |",
        "|---" + "|---:" * (len(variants) + 1) + "|",
    ]
    for record in in_order(records):
        cells = [number(record.ours), *(bought(record, variant) for variant in variants)]
        lines.append(f"| {record.workload} | " + " | ".join(cells) + " |")
    lines += _same_files(records, idle)
    return "\n".join([*lines, "", _measured(records)])


def _same_files(records: Records, idle: Sequence[str]) -> list[str]:
    """What changed no file, and for which workloads it was tried."""
    tried: dict[tuple[str, ...], list[str]] = {}
    for variant in idle:
        names = tuple(record.workload for record in in_order(records) if variant in record.systems)
        tried.setdefault(names, []).append(f"`{variant}`")
    lines: list[str] = []
    for names, variants in tried.items():
        where = ", ".join(names) + " (tried for these alone)"
        if len(names) == len(records):
            where = "all workloads"
        lines += ["", f"The same files for {where}: {', '.join(variants)}."]
    return lines


def _changes_nothing(records: Records, variant: str) -> bool:
    found = [record.systems[variant] for record in records.values() if variant in record.systems]
    return all(system.status.startswith(SAME_AS) for system in found)


def times_table(records: Records) -> str:
    """A line a workload: our time beside floor, peers and goal."""
    lines = [
        "| workload | ours | runs apart | floor | read-k | best peer | Mirage | goal | |"
        " ours / best peer |",
        "|---|---:|---:|---:|---:|---|---:|---:|---|---:|",
    ]
    for record in in_order(records):
        peer, ours, goal = best_peer(record), record.ours, goal_of(record)
        runs = record.systems[OURS].runs if OURS in record.systems else ()
        cells = [
            record.workload,
            f"**{number(ours)}**" if ours is not None else "no time",
            apart(runs) if runs else "",
            number(record.floor),
            number(record.time_of(READ)),
            "" if peer is None else f"{number(peer[1])} {peer[0]}",
            number(record.anchor.mirage),
            number(goal),
            "" if ours is None or goal is None else "reached" if ours <= goal else "missed",
            "" if ours is None or peer is None else f"{ours / peer[1]:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", _measured(records)])


def _measured(records: Records) -> str:
    """On what, when and from which commit."""
    names = ("gpu", "date", "commit")
    gpus, dates, commits = (sorted({r.facts[name] for r in records.values()}) for name in names)
    return f"Measured on {', '.join(gpus)}, {', '.join(dates)}, commit {', '.join(commits)}."


def with_table(page: str, marks: tuple[str, str], text: str) -> str:
    """The page with a table between its two marks; ``UserError`` where it lacks them."""
    head, begin, rest = page.partition(marks[0])
    _, end, tail = rest.partition(marks[1])
    if not begin or not end:
        raise UserError(f"the page has no lines {marks[0]!r} and {marks[1]!r} to write between.")
    return f"{head}{marks[0]}\n\n{text}\n\n{marks[1]}{tail}"


def missed(records: Records) -> list[Record]:
    """The records that are not as fast as their goal or their best peer."""
    found: list[Record] = []
    for record in in_order(records):
        peer, goal, ours = best_peer(record), goal_of(record), record.ours
        bounds = [bound for bound in (goal, None if peer is None else peer[1]) if bound is not None]
        if ours is None or any(ours > bound for bound in bounds):
            found.append(record)
    return found


def reasons(records: Records, kernels: Sequence[Kernel]) -> str:
    """For each workload that misses something, what the counters of its kernels say."""
    rows = missed(records)
    if not rows:
        return "Every workload reaches its goal and is as fast as its best peer."
    lines = ["| workload | ours | goal | best peer | kernel | alone | limited by |"]
    lines += ["|---|---:|---:|---:|---|---:|---|"]
    for record in rows:
        peer = best_peer(record)
        cells = [number(record.ours), number(goal_of(record)), number(peer and peer[1])]
        of_this = [kernel for kernel in kernels if kernel.workload == record.workload]
        told = [[kernel.name, number(kernel.microseconds), reason(kernel)] for kernel in of_this]
        for of_kernel in told or [["not profiled", "", ""]]:
            lines.append(f"| {' | '.join([record.workload, *cells, *of_kernel])} |")
    return "\n".join(lines)


def update(
    path: Path,
    results: Records | None,
    ablation: Records | None,
    kernels: Sequence[Kernel] | None,
) -> None:
    """Writes the tables into a file."""
    page = path.read_text(encoding="utf-8")
    if results is not None:
        page = with_table(page, RESULTS, times_table(results))
    if ablation is not None:
        page = with_table(page, ABLATION, table(ablation))
    if kernels is not None and results is not None:
        page = with_table(page, REASONS, reasons(results, kernels))
    path.write_text(page, encoding="utf-8")
