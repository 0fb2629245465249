"""What ``planning.py`` measures, and its tables in Markdown."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

WHOLE_PLANS = 150
"""Operators up to which a graph is also planned by the seeds' schedule and with less memory."""


@dataclass
class GraphResult:
    """One µGraph: seconds a pass, and ours against the seeds' rules."""

    name: str
    operators: int
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    barriers: int = 0
    seed_barriers: int = 0
    peak: int = 0
    peak_bound: int = 0
    seed_peak: int = 0
    level_peak: int = 0
    wavefronts: int = 0
    seed_wavefronts: int = 0
    ideal_wavefronts: int = 0
    buffers: int = 0
    certified_layouts: int = 0
    wall: float | None = None
    cpu: float | None = None


@dataclass
class PackingResult:
    """One packing instance."""

    name: str
    buffers: int
    peak: int
    bound: int
    seed_peak: int
    seconds: float


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _head(names: Sequence[str]) -> list[str]:
    return [_row(names), _row(["---"] * len(names))]


def _group(name: str) -> str:
    return name.rsplit(" ", 1)[0]


def _quality(results: Sequence[GraphResult]) -> list[str]:
    """Ours against the seeds' rules, a line a group of graphs."""
    lines = _head(
        (
            "graphs",
            "count",
            "barriers: fewer / equal / more",
            "sum, ours : seeds' rule",
            "peak: less / equal / more",
            "sum of bytes, ours : best fit",
            "plans proved optimal",
            "largest gap",
            "wavefronts: fewer / equal / more",
            "sum, ours : seeds' rule : ideal",
            "layouts proved best",
        )
    )
    groups = list(dict.fromkeys(_group(result.name) for result in results))
    for group in [*groups, "all"]:
        own = [r for r in results if group in ("all", _group(r.name))]
        gap = max(r.peak / max(r.peak_bound, 1) - 1 for r in own)
        lines.append(
            _row(
                (
                    group,
                    len(own),
                    _compared([(r.barriers, r.seed_barriers) for r in own]),
                    f"{sum(r.barriers for r in own)} : {sum(r.seed_barriers for r in own)}",
                    _compared([(r.peak, r.seed_peak) for r in own]),
                    f"{sum(r.peak for r in own)} : {sum(r.seed_peak for r in own)}",
                    f"{sum(r.peak <= r.peak_bound for r in own)} of {len(own)}",
                    f"{100 * gap:.1f} %",
                    _compared([(r.wavefronts, r.seed_wavefronts) for r in own]),
                    f"{sum(r.wavefronts for r in own)} : {sum(r.seed_wavefronts for r in own)} : "
                    f"{sum(r.ideal_wavefronts for r in own)}",
                    f"{sum(r.certified_layouts for r in own)} of {sum(r.buffers for r in own)}",
                )
            )
        )
    return lines


def _schedules(results: Sequence[GraphResult]) -> list[str]:
    """Whole plans: the seeds' schedule packed by the best of their fits, and ours."""
    lines = _head(
        (
            "graphs",
            "seeds: barriers, bytes",
            "ours: barriers, bytes",
            "bytes: less / equal / more than the seeds'",
        )
    )
    groups = list(dict.fromkeys(_group(result.name) for result in results))
    for group in [*groups, "all"]:
        own = [r for r in results if group in ("all", _group(r.name))]
        lines.append(
            _row(
                (
                    group,
                    f"{sum(r.seed_barriers for r in own)}, {sum(r.level_peak for r in own)}",
                    f"{sum(r.barriers for r in own)}, {sum(r.peak for r in own)}",
                    _compared([(r.peak, r.level_peak) for r in own]),
                )
            )
        )
    return lines


def _compared(pairs: Sequence[tuple[int, int]]) -> str:
    less = sum(ours < theirs for ours, theirs in pairs)
    more = sum(ours > theirs for ours, theirs in pairs)
    return f"{less} / {len(pairs) - less - more} / {more}"


def _times(results: Sequence[GraphResult]) -> list[str]:
    """Mean and greatest seconds a pass, a line a group of graphs."""
    passes = list(dict.fromkeys(name for r in results for name in r.seconds))
    lines = _head(("graphs", "operators", *passes))
    for group in dict.fromkeys(_group(result.name) for result in results):
        own = [r for r in results if _group(r.name) == group]
        cells: list[str] = []
        for name in passes:
            seconds = [r.seconds.get(name, 0.0) for r in own]
            cells.append(f"{sum(seconds) / len(seconds):.3f} ({max(seconds):.3f})")
        operators = f"{min(r.operators for r in own)} to {max(r.operators for r in own)}"
        lines.append(_row((group, operators, *cells)))
    return lines


def _packing(results: Sequence[PackingResult]) -> list[str]:
    lines = _head(
        (
            "instances",
            "count",
            "proved optimal",
            "largest gap to the bound",
            "best of the seeds' fits, over the bound",
            "better than those",
            "seconds, mean (most)",
        )
    )
    for name in dict.fromkeys(result.name for result in results):
        own = [r for r in results if r.name == name]
        gap = max(r.peak / r.bound - 1 for r in own)
        seed = max(r.seed_peak / r.bound - 1 for r in own)
        seconds = [r.seconds for r in own]
        lines.append(
            _row(
                (
                    name,
                    len(own),
                    sum(r.peak <= r.bound for r in own),
                    f"{100 * gap:.1f} %",
                    f"{100 * seed:.1f} %",
                    sum(r.peak < r.seed_peak for r in own),
                    f"{sum(seconds) / len(seconds):.3f} ({max(seconds):.3f})",
                )
            )
        )
    return lines


def report(
    saved: Sequence[GraphResult],
    random: Sequence[GraphResult],
    packing: Sequence[PackingResult],
    notes: Sequence[str],
) -> str:
    """The tables in Markdown."""
    lines = [
        "# Planning passes",
        "",
        f"{date.today().isoformat()}, Python {platform.python_version()}, {platform.machine()}. "
        "Seconds are CPU seconds of one process, mean and in brackets the most.",
        "",
        *[f"- {note}" for note in notes],
        "",
    ]
    for title, results in (("Saved µGraphs", saved), ("Random µGraphs", random)):
        if results:
            lines += [f"## {title}", "", *_quality(results), ""]
            lines += [
                "Whole plans, where the seeds' have a barrier between successive depths and the "
                "best of their three fits for the lifetimes that follow from it:",
                "",
                *_schedules([r for r in results if r.operators <= WHOLE_PLANS]),
                "",
                *_times(results),
                "",
            ]
        walls = [r for r in results if r.wall is not None and r.cpu is not None]
        if walls:
            most = max(walls, key=lambda r: r.wall or 0)
            lines += [
                f"`mg-opt --transpile -t cuda` as a process, {len(walls)} graphs: wall mean "
                f"{sum(r.wall or 0 for r in walls) / len(walls):.2f} s, most {most.wall:.2f} s "
                f"({most.name}); CPU mean {sum(r.cpu or 0 for r in walls) / len(walls):.2f} s, "
                f"most {max(r.cpu or 0 for r in walls):.2f} s.",
                "",
            ]
    lines += ["## Packing", "", *_packing(packing), ""]
    return "\n".join(lines)
