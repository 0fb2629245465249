"""A picture of times against the floor, as SVG."""

from __future__ import annotations

import math
from html import escape

from benchmarks.h200.records import READ, Record, Records
from benchmarks.h200.report import best_peer, goal_of, in_order, number
from mugraph.tools.svg import document, line, text

LEFT, RIGHT_MARGIN, TOP, ROW = 170, 90, 76, 30
WIDTH = 980
GREY, DARK, OURS_COLOUR, PEER_COLOUR, GOAL_COLOUR = (
    "#d8d8d8", "#333333", "#0a6ebd", "#d1632b", "#3a8f3a",
)  # fmt: skip


def svg(records: Records, title: str) -> str:
    """One line a workload: time over floor of ours, the best peer, the goal, the read kernel."""
    rows = [record for record in in_order(records) if record.floor > 0]
    ratios = [ratio for record in rows for _, _, ratio in _marks(record)]
    highest = max([4.0, *ratios]) * 1.1
    height = TOP + ROW * len(rows) + 56

    def place(ratio: float) -> float:
        span = WIDTH - LEFT - RIGHT_MARGIN
        return LEFT + span * math.log(max(ratio, 0.9) / 0.9) / math.log(highest / 0.9)

    parts = [text(16, 26, title, 16, font_weight="bold", fill=DARK), *_legend()]
    bottom = TOP + ROW * len(rows)
    for tick in _ticks(highest):
        x = place(tick)
        parts.append(line(x, TOP - 6, x, bottom, f'stroke="{GREY}"'))
        parts.append(text(x, bottom + 18, f"{tick:g}×", 12, text_anchor="middle"))
    middle = (LEFT + WIDTH - RIGHT_MARGIN) / 2
    parts.append(text(middle, bottom + 40, "time / floor", 13, text_anchor="middle"))
    for index, record in enumerate(rows):
        y = TOP + ROW * index + ROW / 2
        parts.append(text(LEFT - 12, y + 4, record.workload, 13, text_anchor="end"))
        marks = _marks(record)
        if marks:
            low, high = (place(f(r for _, _, r in marks)) for f in (min, max))
            parts.append(line(low, y, high, y, f'stroke="{GREY}" stroke-width="3"'))
        for kind, time, ratio in marks:
            parts.append(_mark(kind, place(ratio), y, f"{kind}: {number(time)} µs"))
        ours = record.ours
        shown = "no time" if ours is None else f"{number(ours)} µs"
        colour = "#b00020" if ours is None else OURS_COLOUR
        parts.append(text(WIDTH - 12, y + 4, shown, 12, text_anchor="end", fill=colour))
    return document(WIDTH, height, parts) + "\n"


def _marks(record: Record) -> list[tuple[str, float, float]]:
    """Kind, time, and time over floor of what is known of a workload; ours last, on top."""
    peer = best_peer(record)
    times = {
        "read": record.time_of(READ),
        "goal": goal_of(record),
        "peer": None if peer is None else peer[1],
        "ours": record.ours,
    }
    return [(kind, time, time / record.floor) for kind, time in times.items() if time is not None]


def _mark(kind: str, x: float, y: float, title: str) -> str:
    shape = {
        "ours": f'<circle cx="{x:.1f}" cy="{y}" r="6" fill="{OURS_COLOUR}">',
        "peer": f'<path d="M{x:.1f} {y - 7}l7 7l-7 7l-7 -7z" fill="{PEER_COLOUR}">',
        "goal": f'<path d="M{x:.1f} {y - 9}V{y + 9}" stroke="{GOAL_COLOUR}" stroke-width="3">',
        "read": f'<path d="M{x:.1f} {y - 9}V{y + 9}" stroke="{DARK}" stroke-width="1.5">',
    }[kind]
    element = shape[1:].split(" ", 1)[0]
    return f"{shape}<title>{escape(title)}</title></{element}>"


def _legend() -> list[str]:
    entries = (
        ("ours", "mugraph"),
        ("peer", "best peer"),
        ("goal", "goal"),
        ("read", "kernel that only reads"),
    )
    parts: list[str] = []
    x = 24.0
    for kind, label in entries:
        parts.append(_mark(kind, x, 48, label))
        parts.append(text(x + 12, 52, label, 12))
        x += 40 + 7 * len(label)
    return parts


def _ticks(highest: float) -> list[float]:
    steps = (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
    return [float(step) for step in steps if step <= highest]
