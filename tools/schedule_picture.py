"""Pictures of schedules as SVG: what :mod:`mugraph.tools.schedule_chart` says of a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

from mugraph.dialects.cute.errors import LayoutError
from mugraph.tools.schedule_chart import Arrow, Box, Fill, Kind, Ring, ScheduleChart
from mugraph.tools.svg import document, fitted, line, text

_MARGIN = 16
_LEFT = 168
_TOP = 74
_LANE = 100
_BOX = 40
_GAP = 16
_COLUMN_GAP = 26
_STAGE = 14
_RING_GAP = 16
_BAR = 15
_LONGEST = 170
_COLOURS = {
    Kind.WAIT: "#f6d5a8",
    Kind.SIGNAL: "#c5e3c0",
    Kind.COPY: "#bcd7f2",
    Kind.COMPUTE: "#e6e3ee",
    Kind.BARRIER: "#55535c",
}
_LINE, _BEFORE = "#2f6b3a", "#a04a9c"
_MARKERS = "".join(
    f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
    f'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{colour}"/></marker>'
    for name, colour in (("waits", _LINE), ("before", _BEFORE))
)


def _box_width(box: Box) -> float:
    if box.kind is Kind.BARRIER:
        return _BAR
    small = max((len(shown) for shown in (*box.details, _outside(box))), default=0)
    return max(30.0, min(_LONGEST, 6.3 * len(box.label) + 12), 4.6 * small + 10)


def _outside(box: Box) -> str:
    return f"← {box.waits_outside}" if box.waits_outside else ""


@dataclass(frozen=True)
class _Frame:
    """Where a chart lies on the page."""

    chart: ScheduleChart
    top: float

    @cached_property
    def edges(self) -> list[tuple[float, list[float], float]]:
        """Of each column where it begins, where each of its slots does, and where it ends."""
        found: list[tuple[float, list[float], float]] = []
        x = float(_MARGIN + _LEFT)
        for number, column in enumerate(self.chart.columns):
            begin, starts = x, list[float]()
            for slot in range(self.chart.slots(number)):
                starts.append(x)
                x += _GAP + max(
                    _box_width(box)
                    for box in self.chart.boxes
                    if (box.column, box.slot) == (number, slot)
                )
            end = max(x - _GAP, begin + 6.0 * len(column.title))
            found.append((begin, starts, end))
            x = end + _COLUMN_GAP
        return found

    @property
    def lanes_end(self) -> float:
        """The bottom of the lanes of roles."""
        return self.top + _TOP + _LANE * len(self.chart.lanes)

    @property
    def right(self) -> float:
        return self.edges[-1][2]

    @property
    def bottom(self) -> float:
        heights = (ring.stages * _STAGE + _RING_GAP for ring in self.chart.rings)
        return self.lanes_end + sum(heights)

    def left_of(self, box: Box) -> float:
        return self.edges[box.column][1][box.slot]

    def middle_of(self, box: Box) -> float:
        return self.left_of(box) + _box_width(box) / 2

    def y(self, lane: int) -> float:
        """The middle of a lane."""
        return self.top + _TOP + _LANE * (lane + 0.5)


def _draw_columns(frame: _Frame) -> Iterator[str]:
    top, bottom = frame.top + _TOP - 8, frame.bottom
    for column, (begin, _, end) in zip(frame.chart.columns, frame.edges, strict=True):
        fill = "#fff8e6" if column.steady else "#f7f7f8"
        yield (
            f'<rect x="{begin - 9:.1f}" y="{top:.1f}" width="{end - begin + 18:.1f}" '
            f'height="{bottom - top:.1f}" fill="{fill}"/>'
        )
        middle = (begin + end) / 2
        yield text(middle, top - 6, column.title, 11, text_anchor="middle", fill="#333")


def _draw_lanes(frame: _Frame) -> Iterator[str]:
    for lane, name in enumerate(frame.chart.lanes):
        y = frame.y(lane)
        role, _, who = name.partition(" (")
        yield text(_MARGIN, y, fitted(role, _LEFT - 16, 11), 11, font_weight="bold")
        yield text(_MARGIN, y + 13, who.rstrip(")"), 9.5, fill="#555")
        yield line(_MARGIN + _LEFT - 9, y, frame.right + 9, y, 'stroke="#c9c9cf"')


def _draw_barrier(frame: _Frame, box: Box) -> Iterator[str]:
    """A bar through all lanes that arrive."""
    lanes, x = frame.chart.arriving(box), frame.left_of(box)
    top, bottom = frame.y(lanes[0]) - _LANE / 2 + 8, frame.y(lanes[-1]) + _LANE / 2 - 8
    yield (
        f'<rect x="{x:.1f}" y="{top:.1f}" width="{_BAR}" height="{bottom - top:.1f}" rx="2" '
        f'fill="{_COLOURS[box.kind]}"/>'
    )
    for lane in lanes:
        y = frame.y(lane)
        turned = {"transform": f"rotate(-90 {x + 11:.1f} {y:.1f})", "text_anchor": "middle"}
        yield text(x + 11, y, box.label, 9, fill="#ffffff", **turned)


def _draw_box(frame: _Frame, box: Box) -> Iterator[str]:
    if box.kind is Kind.BARRIER:
        yield from _draw_barrier(frame, box)
        return
    x, y, width = frame.left_of(box), frame.y(box.lane), _box_width(box)
    whole = "; ".join(filter(None, (box.label, *box.details, box.waits_outside)))
    yield (
        f'<rect x="{x:.1f}" y="{y - _BOX / 2:.1f}" width="{width:.1f}" height="{_BOX}" rx="3" '
        f'fill="{_COLOURS[box.kind]}" stroke="#444" stroke-width="0.7">'
        f"<title>{escape(whole)}</title></rect>"
    )
    middle = x + width / 2
    label = fitted(box.label, width - 6, 10)
    base = y + 3.5 - 5.5 * len(box.details)
    yield text(middle, base, label, 10, text_anchor="middle")
    for number, shown in enumerate(box.details, 1):
        yield text(middle, base + 11 * number, shown, 8.5, text_anchor="middle", fill="#444")
    if box.waits_outside:
        yield text(x, y + _BOX / 2 + 10, _outside(box), 8.5, fill=_BEFORE)


def _draw_arrow(frame: _Frame, arrow: Arrow) -> Iterator[str]:
    source, target = frame.chart.boxes[arrow.source], frame.chart.boxes[arrow.target]
    start, end = frame.middle_of(source), frame.middle_of(target)
    label, colour, marker = arrow.label, _LINE, "waits"
    dashes = ""
    if arrow.distance:
        label = f"{label} of k{-arrow.distance:+}" if label else f"k{-arrow.distance:+}"
        colour, marker, dashes = _BEFORE, "before", ' stroke-dasharray="5 3"'
    if source.lane == target.lane:
        # An arc over the boxes between.
        from_y = to_y = frame.y(source.lane) - _BOX / 2
        lift = to_y - 22
        path = f"M{start:.1f},{from_y:.1f} C{start:.1f},{lift:.1f} {end:.1f},{lift:.1f}"
        at, label_y = (start + end) / 2, to_y - 19
        anchor = "middle"
    else:
        down = 1 if source.lane < target.lane else -1
        from_y = frame.y(source.lane) + down * _BOX / 2
        to_y = frame.y(target.lane) - down * _BOX / 2
        bend = (to_y - from_y) * 0.55
        path = (
            f"M{start:.1f},{from_y:.1f} C{start:.1f},{from_y + bend:.1f} "
            f"{end:.1f},{to_y - bend:.1f}"
        )
        # Beside the head, where the line does not come from.
        at, anchor = (end + 7, "start") if start < end else (end - 7, "end")
        label_y = to_y - (6 if down > 0 else -14)
    yield (
        f'<path d="{path} {end:.1f},{to_y:.1f}" fill="none" stroke="{colour}" stroke-width="1.2" '
        f'marker-end="url(#{marker})"{dashes}/>'
    )
    if label:
        yield text(at, label_y, label, 8.5, fill=colour, text_anchor=anchor)


def _draw_fill(frame: _Frame, fill: Fill, y: float) -> Iterator[str]:
    begin, starts, end = frame.edges[fill.column]
    left = begin - 9
    if fill.first is not None:
        left = starts[fill.first] if fill.first < len(starts) else end
    right = end + 9 if fill.last is None else _slot_end(frame, fill.column, fill.last)
    yield (
        f'<rect x="{left:.1f}" y="{y + 1:.1f}" width="{max(right - left, 2):.1f}" '
        f'height="{_STAGE - 2}" fill="#9cc3e6"/>'
    )
    label = fitted(fill.label, right - left, 9)
    yield text((left + right) / 2, y + _STAGE - 4, label, 9, text_anchor="middle", fill="#1c3d5a")


def _slot_end(frame: _Frame, column: int, slot: int) -> float:
    _, starts, end = frame.edges[column]
    return starts[slot + 1] - _GAP if slot + 1 < len(starts) else end


def _draw_rings(frame: _Frame) -> Iterator[str]:
    y = frame.lanes_end
    for ring in frame.chart.rings:
        yield from _draw_ring(frame, ring, y)
        y += ring.stages * _STAGE + _RING_GAP


def _draw_ring(frame: _Frame, ring: Ring, y: float) -> Iterator[str]:
    middle = y + ring.stages * _STAGE / 2 + 4
    name = fitted(ring.label, _LEFT - 60, 11)
    yield text(_MARGIN, middle, name, 11, font_weight="bold")
    for stage in range(ring.stages):
        top = y + stage * _STAGE
        shown = f"stage {stage}"
        yield text(_MARGIN + _LEFT - 14, top + 11, shown, 8.5, text_anchor="end", fill="#555")
        for begin, _, end in frame.edges:
            style = 'stroke="#d4d4da" stroke-width="0.6"'
            yield line(begin - 9, top + _STAGE, end + 9, top + _STAGE, style)
    for fill in ring.fills:
        yield from _draw_fill(frame, fill, y + fill.stage * _STAGE)


def _draw_key(frame: _Frame) -> Iterator[str]:
    """What colours and lines mean."""
    x, y = float(_MARGIN), frame.top + 28
    for kind, colour in _COLOURS.items():
        yield f'<rect x="{x:.1f}" y="{y - 8}" width="11" height="10" fill="{colour}"/>'
        yield text(x + 15, y + 1, kind.value, 9.5, fill="#444")
        x += 30 + 5.2 * len(kind.value)
    for colour, dashes, meaning in (
        (_LINE, "", "is waited for"),
        (_BEFORE, ' stroke-dasharray="5 3"', "in another iteration"),
    ):
        yield line(x, y - 3, x + 22, y - 3, f'stroke="{colour}" stroke-width="1.2"{dashes}')
        yield text(x + 27, y + 1, meaning, 9.5, fill="#444")
        x += 42 + 5.2 * len(meaning)


def _draw(frame: _Frame) -> Iterator[str]:
    yield text(_MARGIN, frame.top + 12, frame.chart.title, 13, font_weight="bold")
    yield from _draw_key(frame)
    yield from _draw_columns(frame)
    yield from _draw_lanes(frame)
    for arrow in frame.chart.arrows:
        yield from _draw_arrow(frame, arrow)
    for box in frame.chart.boxes:
        yield from _draw_box(frame, box)
    yield from _draw_rings(frame)


def to_svg(charts: Sequence[ScheduleChart]) -> str:
    """The charts one below the other, as an SVG document.

    Raises LayoutError where there is none.
    """
    if not charts:
        raise LayoutError("There is no schedule to draw: the module has no kernel.")
    drawn = [f"<defs>{_MARKERS}</defs>"]
    top, width = float(_MARGIN), 0.0
    for chart in charts:
        frame = _Frame(chart, top)
        drawn += _draw(frame)
        top = frame.bottom + 2 * _MARGIN
        width = max(width, frame.right + _MARGIN + 9, 720.0)
    return document(width, top, drawn)
