"""Memory plans as pictures: buffers as rectangles of time and bytes, loads, peaks and bounds.

What a plan says is a :class:`MemoryChart`; :func:`to_svg` draws charts one below the other.  Time
runs to the right, in regions between barriers for shared memory and in kernels for the workspace;
bytes run upwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from colorsys import hls_to_rgb
from dataclasses import dataclass, field
from html import escape

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.ancestors import ancestors
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.interfaces import HasWorkspace
from mugraph.dialects.kn.overlap import launches_of
from mugraph.dialects.kn.workspace import tensor_bytes
from mugraph.dialects.sched.mbarriers import KeepsMbarriers
from mugraph.dialects.tensor_types import type_text
from mugraph.passes.memory.lifetimes import (
    Lifetime,
    buffer_lifetimes,
    tensor_lifetimes,
    workspace_values,
)
from mugraph.passes.memory.packing.certificate import (
    SHARED_MEMORY_CERTIFICATE,
    WORKSPACE_CERTIFICATE,
)
from mugraph.tools.svg import document, fitted, line, text


@dataclass(frozen=True)
class Box:
    """A buffer: its name and type, where it lies in bytes, and when it lives, in columns.

    A value that has no name in the text has none here.
    """

    name: str
    type: str
    offset: int
    size: int
    life: Lifetime
    stages: int = 1

    @property
    def label(self) -> str:
        """What names it in the picture."""
        stages = f" x {self.stages}" if self.stages > 1 else ""
        return f"{self.name} {self.type}{stages}".lstrip()


@dataclass(frozen=True)
class MemoryChart:
    """One plan: its boxes, a label a column of time, and what the certificate says."""

    title: str
    boxes: Sequence[Box]
    columns: Sequence[str]
    peak: int
    bound: int | None = None
    method: str = ""
    gaps: Sequence[str] = field(default_factory=tuple[str, ...])
    """What stands between two columns, such as a barrier."""

    def load(self, column: int) -> int:
        """The bytes alive in a column; those that two buffers share count once."""
        spans = sorted(
            (box.offset, box.offset + box.size)
            for box in self.boxes
            if box.life.first <= column <= box.life.last
        )
        total = end = 0
        for start, stop in spans:
            total += max(0, stop - max(start, end))
            end = max(end, stop)
        return total

    def verdict(self) -> str:
        """The peak and the bound in words."""
        if self.bound is None:
            return f"peak {self.peak:,} bytes"
        if self.bound >= self.peak:
            return f"peak {self.peak:,} bytes, optimal ({self.method})"
        missing = 100 * (self.peak - self.bound) / self.peak
        return (
            f"peak {self.peak:,} bytes, bound {self.bound:,}, at most {missing:.1f} % from optimal "
            f"({self.method})"
        )


def _certificate(attribute: Attribute | None) -> tuple[int | None, str]:
    """Bound and method of a recorded certificate."""
    if not isinstance(attribute, DictionaryAttr):
        return None, ""
    bound, method = attribute.data.get("bound"), attribute.data.get("method")
    return (
        bound.value.data if isinstance(bound, IntegerAttr) else None,
        method.data if isinstance(method, StringAttr) else "",
    )


def _region_labels(kernel: sched.KernelOp) -> list[str]:
    """For every region the phases that run in it."""
    found: list[list[str]] = [[]]
    for op in kernel.body.walk():
        if isinstance(op, sched.BarrierOp):
            found.append([])
        phase = _phase_of(op)
        if phase and phase not in found[-1]:
            found[-1].append(phase)
    return [" + ".join(phases) for phases in found]


def _phase_of(op: Operation) -> str:
    names: dict[type[Operation], str] = {
        sched.PrologueOp: "before",
        sched.ForloopOp: "loop",
        sched.EpilogueOp: "after",
    }
    phases = (names[type(one)] for one in ancestors(op) if type(one) in names)
    return next(phases, "")


def kernel_chart(kernel: sched.KernelOp, limit: int | None = None) -> MemoryChart | None:
    """The shared memory of a planned kernel; ``None`` where it uses none or has no plan yet."""
    boxes: list[Box] = []
    for buffer, life in buffer_lifetimes(kernel).items():
        if buffer.byte_offset is None:
            return None
        boxes.append(
            Box(
                _name(buffer.result),
                type_text(buffer.result),
                buffer.byte_offset,
                buffer.total_bytes(),
                life,
                buffer.stage_count,
            )
        )
    whole = Lifetime(0, max(len(_region_labels(kernel)) - 1, 0))
    for op in kernel.body.block.ops:
        if isinstance(op, KeepsMbarriers) and op.byte_offset is not None:
            boxes.append(
                Box(
                    _name(op.results[0]),
                    f"{op.barrier_count()} mbarriers",
                    op.byte_offset,
                    op.barrier_bytes(),
                    whole,
                )
            )
    if not boxes:
        return None
    bound, method = _certificate(kernel.attributes.get(SHARED_MEMORY_CERTIFICATE))
    labels = _region_labels(kernel)
    peak = kernel.smem_bytes or max(box.offset + box.size for box in boxes)
    of = f", of the {limit:,} bytes that a block can have" if limit else ""
    title = f"shared memory of @{kernel.sym_name.data}{of}"
    return MemoryChart(title, boxes, labels, peak, bound, method, ["barrier"] * (len(labels) - 1))


def workspace_chart(function: FuncOp) -> MemoryChart | None:
    """The workspace of a planned function; ``None`` where it has none."""
    values = workspace_values(function)
    if not values:
        return None
    places = dict(zip(values, tensor_lifetimes(function, values), strict=True))
    moments = sorted({at for life in places.values() for at in (life.first, life.last)})
    column = {at: index for index, at in enumerate(moments)}
    launches = launches_of(function.walk())
    boxes: list[Box] = []
    for value, life in places.items():
        owner = value.owner
        offsets = owner.workspace_offsets() if isinstance(owner, HasWorkspace) else None
        if offsets is None or not isinstance(owner, Operation):
            return None
        offset = offsets[owner.results.index(value)]
        span = Lifetime(column[life.first], column[life.last])
        boxes.append(Box(_name(value), type_text(value), offset, tensor_bytes(value), span))
    bound, method = _certificate(function.attributes.get(WORKSPACE_CERTIFICATE))
    peak = max(box.offset + box.size for box in boxes)
    labels = [", ".join(map(_kernel_label, launches[at])) for at in moments]
    title = f"workspace of @{function.sym_name.data} in device memory"
    return MemoryChart(title, boxes, labels, peak, bound, method)


def _name(value: SSAValue) -> str:
    return f"%{value.name_hint}" if value.name_hint else ""


def _kernel_label(op: Operation) -> str:
    symbol = op.properties.get("kernel")
    name = getattr(symbol, "string_value", None)
    return f"@{name()}" if callable(name) else op.name


def memory_charts(module: ModuleOp, limit: int | None = None) -> list[MemoryChart]:
    """The charts of all functions and kernels of a module that have a memory plan."""
    charts = [workspace_chart(op) for op in module.walk() if isinstance(op, FuncOp)]
    charts += [kernel_chart(op, limit) for op in module.walk() if isinstance(op, sched.KernelOp)]
    return [chart for chart in charts if chart is not None]


# --- drawing ---

_MARGIN = 16
_LEFT = 74
_TOP = 60
_BOTTOM = 40
_HEIGHT = 320
_MIN_COLUMN, _MAX_COLUMN = 56, 150
_ROW = 15
_TABLE = 400


def _colour(index: int) -> str:
    """A light colour; neighbouring numbers are far apart in hue."""
    hue, lightness = index * 0.618033988749895 % 1.0, (0.80, 0.86, 0.74)[index % 3]
    red, green, blue = (round(255 * part) for part in hls_to_rgb(hue, lightness, 0.62))
    return f"#{red:02x}{green:02x}{blue:02x}"


@dataclass(frozen=True)
class _Frame:
    """Where a chart lies on the page."""

    chart: MemoryChart
    left: float
    top: float
    column: float

    @property
    def width(self) -> float:
        return self.column * len(self.chart.columns)

    @property
    def ceiling(self) -> float:
        """The bytes at the top of the plot."""
        return 1.06 * max(self.chart.peak, 1)

    def x(self, column: float) -> float:
        return self.left + column * self.column

    def y(self, byte: float) -> float:
        return self.top + _HEIGHT * (1 - byte / self.ceiling)


def _height(chart: MemoryChart) -> float:
    return max(_TOP + _HEIGHT + _BOTTOM, _TOP + _ROW * (len(chart.boxes) + 2))


def _tick(peak: int) -> int:
    """A round number of bytes between lines of the scale: at most eight of them."""
    step = 128
    while peak / step > 8:
        step *= 2
    return step


def _draw_scale(frame: _Frame) -> list[str]:
    chart = frame.chart
    drawn: list[str] = []
    step = _tick(chart.peak)
    for byte in range(0, chart.peak + 1, step):
        y = frame.y(byte)
        drawn.append(line(frame.left, y, frame.left + frame.width, y, 'stroke="#e4e4e4"'))
        drawn.append(text(frame.left - 6, y + 3.5, f"{byte:,}", 9, text_anchor="end", fill="#555"))
    bottom = frame.y(0)
    for index, label in enumerate(chart.columns):
        middle = frame.x(index + 0.5)
        shown = fitted(label, frame.column - 4, 9)
        drawn.append(text(middle, bottom + 14, str(index), 9, text_anchor="middle", fill="#555"))
        drawn.append(text(middle, bottom + 26, shown, 9, text_anchor="middle", fill="#555"))
        if index:
            barrier = index <= len(chart.gaps)
            style = 'stroke="#9a9a9a" stroke-dasharray="2 3"' if barrier else 'stroke="#e4e4e4"'
            drawn.append(line(frame.x(index), frame.top, frame.x(index), bottom, style))
    return drawn


def _draw_box(frame: _Frame, box: Box, index: int) -> list[str]:
    x, y = frame.x(box.life.first) + 1, frame.y(box.offset + box.size)
    width = frame.column * (box.life.last - box.life.first + 1) - 2
    height = frame.y(box.offset) - y
    drawn = [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(height, 1):.1f}" '
        f'fill="{_colour(index)}" fill-opacity="0.9" stroke="#333" stroke-width="0.8">'
        f"<title>{escape(f'{box.label}, {box.size:,} bytes at {box.offset:,}')}</title>"
        "</rect>"
    ]
    for stage in range(1, box.stages):
        at = frame.y(box.offset + box.size * stage / box.stages)
        drawn.append(line(x, at, x + width, at, 'stroke="#333" stroke-width="0.5" opacity="0.5"'))
    if height >= 10:
        size = min(11, max(8, height - 3))
        label = fitted(box.label, width - 6, size)
        # In the middle of a stage, not on the line between two.
        middle = y + height * (box.stages // 2 + 0.5) / box.stages
        drawn.append(text(x + width / 2, middle + size / 3, label, size, text_anchor="middle"))
    return drawn


def _draw_levels(frame: _Frame) -> list[str]:
    """The load of every column, the peak and the bound."""
    chart = frame.chart
    steps = [
        f"{frame.x(column):.1f},{frame.y(chart.load(column)):.1f} "
        f"{frame.x(column + 1):.1f},{frame.y(chart.load(column)):.1f}"
        for column in range(len(chart.columns))
    ]
    right = frame.left + frame.width
    drawn = [
        f'<polyline points="{" ".join(steps)}" fill="none" stroke="#1f4e9e" stroke-width="1.6" '
        'stroke-dasharray="5 3"/>',
        line(frame.left, frame.y(chart.peak), right, frame.y(chart.peak), 'stroke="#222"'),
    ]
    if chart.bound is not None:
        y = frame.y(chart.bound)
        drawn.append(line(frame.left, y, right, y, 'stroke="#c62828" stroke-width="1.8"'))
    return drawn


def _draw_table(frame: _Frame, left: float) -> list[str]:
    """Every buffer with its colour, bytes, place and lifetime, from the top of memory down."""
    drawn = [
        text(left + x, frame.top - 6, head, 9, fill="#555", text_anchor=anchor)
        for x, head, anchor in (
            (16, "buffer", "start"),
            (250, "bytes", "end"),
            (320, "offset", "end"),
            (384, "lives", "end"),
        )
    ]
    ordered = sorted(enumerate(frame.chart.boxes), key=lambda item: (-item[1].offset, item[0]))
    for row, (index, box) in enumerate(ordered):
        y = frame.top + _ROW * row + 8
        drawn.append(
            f'<rect x="{left}" y="{y - 8:.1f}" width="10" height="10" fill="{_colour(index)}" '
            'stroke="#333" stroke-width="0.6"/>'
        )
        drawn.append(text(left + 16, y + 1, fitted(box.label, 180, 10)))
        life = f"{box.life.first} to {box.life.last}"
        for x, shown in ((250, f"{box.size:,}"), (320, f"{box.offset:,}"), (384, life)):
            drawn.append(text(left + x, y + 1, shown, 10, text_anchor="end"))
    return drawn


def _draw_key(frame: _Frame, left: float) -> list[str]:
    """What the lines mean."""
    y = frame.top - 9
    drawn: list[str] = []
    for style, name in (
        ('stroke="#222"', "peak"),
        ('stroke="#c62828" stroke-width="1.8"', "lower bound"),
        ('stroke="#1f4e9e" stroke-width="1.6" stroke-dasharray="5 3"', "bytes alive"),
    ):
        drawn.append(line(left, y, left + 20, y, style))
        drawn.append(text(left + 24, y + 3, name, 9, fill="#555"))
        left += 36 + 5.4 * len(name)
    return drawn


def to_svg(charts: Sequence[MemoryChart]) -> str:
    """The charts one below the other, as an SVG document.

    Raises LayoutError where there is none.
    """
    if not charts:
        raise LayoutError(
            "There is no memory plan to draw: no kernel uses shared memory and no function has "
            "intermediates in device memory."
        )
    columns = [min(_MAX_COLUMN, max(_MIN_COLUMN, 640 / len(chart.columns))) for chart in charts]
    widest = max(column * len(chart.columns) for column, chart in zip(columns, charts, strict=True))
    table = _MARGIN + _LEFT + widest + 24
    width = table + _TABLE + _MARGIN
    drawn: list[str] = []
    top = float(_MARGIN)
    for chart, column in zip(charts, columns, strict=True):
        frame = _Frame(chart, _MARGIN + _LEFT, top + _TOP, column)
        drawn.append(text(_MARGIN, top + 12, chart.title, 13, font_weight="bold"))
        drawn.append(text(_MARGIN, top + 27, chart.verdict(), 11, fill="#333"))
        drawn += _draw_scale(frame)
        for index, box in enumerate(chart.boxes):
            drawn += _draw_box(frame, box, index)
        drawn += _draw_levels(frame)
        drawn += _draw_key(frame, frame.left)
        drawn += _draw_table(frame, table)
        top += _height(chart) + _MARGIN
    return document(width, top, drawn)
