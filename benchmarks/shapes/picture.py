"""A picture of peers beside ours over the rows of a layer, a panel for each layer.

The height of a point is a peer's time over ours, on a scale of logarithms: above the line at 1 ours
is faster.  ``python -m benchmarks.shapes run --seed 0 --count 24`` measures what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import drawsvg

from benchmarks import pages
from benchmarks.h200.peers import COMPILED, EAGER
from benchmarks.h200.records import Record, Records
from benchmarks.h200.report import number
from benchmarks.shapes.draw import LAYERS_SEED, Shape, shape_named
from benchmarks.shapes.peers import CUBLASLT
from benchmarks.shapes.report import gain

LINES: Mapping[str, Sequence[str]] = {
    "cuBLAS and kernels of torch": (EAGER, CUBLASLT, "addmm"),
    "torch.compile": (COMPILED,),
}
"""Peers; of several that share a line the fastest one counts."""
COLORS = ("#0072b2", "#d55e00")
WIDTH, HEIGHT = 300, 220
"""Of a panel's axes, in units of the picture."""
LEFT, TOP, BETWEEN, BOTTOM = 52, 64, 40, 48
GRID, INK = "#d8d8d8", "#202020"
TICKS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0)
"""Of the vertical axis, as far as points reach."""


@dataclass(frozen=True)
class Panel:
    """A layer: what it is called, and each line's points by rows."""

    title: str
    points: Mapping[str, Sequence[tuple[int, float]]]


def panels_of(records: Records) -> list[Panel]:
    """A panel for each layer of seed 0 that was measured beside a peer."""
    layers: dict[str, list[tuple[Shape, Record]]] = {}
    for shape, record in layers_in(records):
        layers.setdefault(title_of(shape), []).append((shape, record))
    panels = (Panel(title, lines_of(rows)) for title, rows in layers.items())
    return [panel for panel in panels if panel.points]


def layers_in(records: Records) -> list[tuple[Shape, Record]]:
    """The records of shapes of seed 0."""
    found = [(shape_named(record.workload), record) for record in records.values()]
    return [(shape, record) for shape, record in found if shape.seed == LAYERS_SEED]


def title_of(shape: Shape) -> str:
    """A layer in words, without its rows."""
    sizes = shape.drawn.sizes
    said = ", ".join(each for each in shape.drawn.options if not each.startswith("weights"))
    return f"{shape.kind.name}, {said}: {sizes['k']} to {sizes['n']}, {shape.element_type}"


def lines_of(rows: Iterable[tuple[Shape, Record]]) -> dict[str, list[tuple[int, float]]]:
    """A peer's time over ours by rows, for each line that has one."""
    ordered = sorted(
        ((shape.drawn.sizes["m"], record) for shape, record in rows), key=lambda pair: pair[0]
    )
    found: dict[str, list[tuple[int, float]]] = {}
    for name, systems in LINES.items():
        for m, record in ordered:
            time = fastest(record, systems)
            if time is not None and record.ours is not None:
                found.setdefault(name, []).append((m, time / record.ours))
    return found


def fastest(record: Record, systems: Sequence[str]) -> float | None:
    """The least time of some systems."""
    times = [time for each in systems if (time := record.time_of(each)) is not None]
    return min(times, default=None)


def picture(panels: Sequence[Panel]) -> str:
    """The picture as an SVG document."""
    values = [v for panel in panels for line in panel.points.values() for _, v in line]
    low, high = min([*values, 0.9]) / 1.05, max([*values, 1.1]) * 1.05
    width = LEFT + len(panels) * (WIDTH + BETWEEN)
    drawing = drawsvg.Drawing(width, TOP + HEIGHT + BOTTOM, font_family="sans-serif")
    drawing.append(drawsvg.Rectangle(0, 0, width, TOP + HEIGHT + BOTTOM, fill="white"))
    for place, name in enumerate(LINES):
        x = LEFT + 250 * place
        drawing.append(drawsvg.Line(x, 16, x + 24, 16, stroke=COLORS[place], stroke_width=2))
        drawing.append(_text(name, x + 30, 16))
    for place, panel in enumerate(panels):
        group = drawsvg.Group(transform=f"translate({LEFT + place * (WIDTH + BETWEEN)}, {TOP})")
        _draw_panel(group, panel, low, high)
        drawing.append(group)
    text = drawing.as_svg()
    assert text is not None
    return text


def _draw_panel(group: drawsvg.Group, panel: Panel, low: float, high: float) -> None:
    """The axes and the lines of a panel, whose upper left corner is at 0, 0."""
    rows = sorted({m for line in panel.points.values() for m, _ in line})
    first, last = math.log2(rows[0]), math.log2(max(rows[-1], 2 * rows[0]))

    def across(m: int) -> float:
        return WIDTH * (math.log2(m) - first) / (last - first)

    def up(value: float) -> float:
        return HEIGHT * (1 - math.log(value / low) / math.log(high / low))

    group.append(_text(panel.title, 0, -18))
    for tick in TICKS:
        if low <= tick <= high:
            color, thick = (INK, 1.2) if tick == 1 else (GRID, 0.8)
            group.append(
                drawsvg.Line(0, up(tick), WIDTH, up(tick), stroke=color, stroke_width=thick)
            )
            group.append(_text(f"{tick:g}", -6, up(tick), anchor="end"))
    for m in rows:
        group.append(
            drawsvg.Line(across(m), HEIGHT, across(m), HEIGHT + 4, stroke=INK, stroke_width=0.8)
        )
        group.append(_text(str(m), across(m), HEIGHT + 14, anchor="middle"))
    group.append(_text("rows M; above 1 ours is faster", WIDTH / 2, HEIGHT + 34, anchor="middle"))
    for color, name in zip(COLORS, LINES, strict=True):
        places = [(across(m), up(value)) for m, value in panel.points.get(name, ())]
        corners = [each for place in places for each in place]
        if len(places) > 1:
            group.append(drawsvg.Lines(*corners, fill="none", stroke=color, stroke_width=2))
        for x, y in places:
            group.append(drawsvg.Circle(x, y, 3, fill=color))


def _text(text: str, x: float, y: float, anchor: str = "start") -> drawsvg.DrawingElement:
    return drawsvg.Text(text, 11, x, y, fill=INK, text_anchor=anchor, dominant_baseline="middle")


COLUMNS = ("layer", "M:", "ours:", *(f"{name}:" for name in LINES), "best peer / ours:")


def page(records: Records, image: str) -> list[str]:
    """The lines of the page that shows the picture, with the times that it is drawn from."""
    layers = layers_in(records)
    facts = layers[0][1].facts
    rows: list[list[object]] = []
    for shape, record in layers:
        times = [fastest(record, systems) for systems in LINES.values()]
        found = gain(record, record.ours)
        rows.append(
            [
                *(title_of(shape), shape.drawn.sizes["m"], number(record.ours)),
                *map(number, times),
                None if found is None else f"{found:.2f}",
            ]
        )
    of_run = {name: facts[name] for name in ("gpu", "date", "nvcc", "torch")}
    of_run["commit"] = ", ".join(sorted({record.facts["commit"] for _, record in layers}))
    return [
        *pages.head("Three layers over rows", {"model": facts["model"], **of_run}),
        f"![A peer's time over ours, for each layer over rows]({image})",
        "",
        "A peer's time over ours; how a time is taken: `docs/benchmarks.md`. Of cuBLAS, which",
        "torch calls, the fastest of eager, cublasLt and `addmm` counts. In µs a call:",
        "",
        *pages.table(COLUMNS, rows),
    ]
