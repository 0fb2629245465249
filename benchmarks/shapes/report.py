"""The page of a run: geometric means by kind of layer, and each shape."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from benchmarks import pages
from benchmarks.h200.checking import RIGHT
from benchmarks.h200.pipelines import OURS
from benchmarks.h200.records import Record, Records
from benchmarks.h200.report import number
from benchmarks.shapes.draw import Shape
from benchmarks.shapes.peers import COPY

TUNED = "mugraph tuned"
"""Ours under the plans of a database."""
PLANS = "plans"
"""The fact that says which database that is."""

SUMMARY = (
    "layers", "shapes:", "right:", "geometric mean:", "least:", "most:", "below 0.90:",
    "tuned:", "geometric mean:", "least:",
)  # fmt: skip
COLUMNS = (
    "shape", "model", "options", "ours:", "tuned:", "floor:", "best peer", "its time:",
    "peer / ours:", "copy / ours:", "error", "commit", "not right",
)  # fmt: skip


def gain(record: Record, time: float | None) -> float | None:
    """The best peer's time over one of ours: more than 1 where ours is faster."""
    peer = record.best_peer
    if time is None or peer is None or peer.microseconds is None:
        return None
    return peer.microseconds / time


def worst_first(shapes: Sequence[Shape], records: Records) -> list[Shape]:
    """Shapes by what was measured of them: first those on which a peer is the fastest.

    Those that were not measured are last.
    """

    def measured(shape: Shape) -> float:
        record = records.get(shape.name)
        found = None if record is None else gain(record, record.ours)
        return math.inf if found is None else found

    return sorted(shapes, key=measured)


def tuned_time(record: Record) -> float | None:
    """Ours under measured plans, if there are some; where they change nothing it is ours."""
    if PLANS not in record.facts:
        return None
    return record.time_of(TUNED) if TUNED in record.systems else record.ours


def page(records: Records) -> list[str]:
    """The lines of the page."""
    facts = next(iter(records.values())).facts
    of_run = {name: facts[name] for name in ("gpu", "date", "arch", "python", "nvcc", "torch")}
    groups = sorted({record.facts["group"] for record in records.values()})
    lines = [
        summary_of(group, [one for one in records.values() if one.facts["group"] == group])
        for group in groups
    ]
    return [
        *pages.head("Drawn shapes", of_run),
        "The best peer's time over ours, both of one process in an order that is drawn anew in",
        "each round; more than 1 is where ours is faster. How a time is taken:",
        "`docs/benchmarks.md`. What is not right has no time.",
        "",
        *pages.table(SUMMARY, [*lines, summary_of("all", [*records.values()])]),
        "",
        "µs a call:",
        "",
        *pages.table(COLUMNS, map(cells, records.values())),
    ]


def summary_of(group: str, records: list[Record]) -> list[object]:
    """A line of the summary."""
    gains = [found for record in records if (found := gain(record, record.ours)) is not None]
    tuned = [found for one in records if (found := gain(one, tuned_time(one))) is not None]
    right = sum(record.ours is not None for record in records)
    counts: list[object] = [group, len(records), right]
    numbers: list[object] = [None] * 4
    if gains:
        mean, below = statistics.geometric_mean(gains), sum(one < 0.90 for one in gains)
        numbers = [f"{mean:.2f}", f"{min(gains):.2f}", f"{max(gains):.2f}", below]
    if not tuned:
        return [*counts, *numbers, None, None, None]
    mean = statistics.geometric_mean(tuned)
    return [*counts, *numbers, len(tuned), f"{mean:.2f}", f"{min(tuned):.2f}"]


def cells(record: Record) -> list[object]:
    """A line of the table."""
    peer, ours, copy = record.best_peer, record.ours, record.time_of(COPY)
    found = gain(record, ours)
    own = record.systems.get(OURS)
    error = None if own is None else own.relative_error
    return [
        record.workload,
        record.facts["model"],
        record.facts["options"],
        number(ours),
        number(tuned_time(record)),
        number(record.floor),
        None if peer is None else peer.name,
        None if peer is None else number(peer.microseconds),
        None if found is None else f"{found:.2f}",
        None if copy is None or ours is None else f"{copy / ours:.2f}",
        None if error is None else f"{error:.1e}",
        record.facts["commit"],
        "; ".join(wrong(record)),
    ]


def wrong(record: Record) -> Iterable[str]:
    """Why ours has no time, and which peers' results are wrong; other peers just refuse."""
    for system in record.systems.values():
        if system.status != RIGHT and (system.name == OURS or system.status.startswith("wrong")):
            yield f"{system.name}: {system.status}".replace("|", "/")[:120]
