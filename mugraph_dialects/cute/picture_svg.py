"""Draws pictures as SVG, with drawsvg."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.panels import Panel

_MARGIN = 12.0
_GAP = 30.0
_CAPTION = 22.0
_LABEL = 14.0
_FONT = "Helvetica, Arial, sans-serif"


def _cell_size(panel: Panel) -> tuple[float, float]:
    """Width and height of a cell, by its longest line and the most lines."""
    lines = [line for row in panel.cells for cell in row for line in cell.lines]
    longest = max([len(line) for line in lines], default=1)
    most = max([len(cell.lines) for row in panel.cells for cell in row], default=1)
    return max(22.0, 8.0 + 6.2 * longest), 30.0 if most > 1 else 22.0


def _label_width(panel: Panel) -> float:
    longest = max([len(label) for label in panel.row_labels or []], default=0)
    return max(_LABEL, 4.0 + 5.6 * longest)


def _extent(panel: Panel) -> tuple[float, float]:
    """Width and height of a panel with its caption and labels."""
    width, height = _cell_size(panel)
    columns = max([len(row) for row in panel.cells], default=0)
    grid = _label_width(panel) + columns * width
    caption = _CAPTION if panel.caption else 0.0
    return max(grid, 6.6 * len(panel.caption)), caption + _LABEL + len(panel.cells) * height


def _text(drawing: Any, text: str, size: float, x: float, y: float, **style: Any) -> None:
    import drawsvg  # pyright: ignore[reportMissingTypeStubs]

    drawing.append(drawsvg.Text(text, size, x, y, dominant_baseline="middle", **style))


def _draw_panel(drawing: Any, panel: Panel, left: float, top: float) -> None:
    import drawsvg  # pyright: ignore[reportMissingTypeStubs]

    width, height = _cell_size(panel)
    if panel.caption:
        _text(drawing, panel.caption, 12, left, top + _CAPTION / 2, font_weight="bold")
        top += _CAPTION
    x0, y0 = left + _label_width(panel), top + _LABEL
    for column, label in enumerate(panel.column_labels or []):
        x = x0 + (column + 0.5) * width
        _text(drawing, label, 9, x, y0 - _LABEL / 2, text_anchor="middle", fill="#666666")
    for row, cells in enumerate(panel.cells):
        y = y0 + row * height
        if panel.row_labels:
            label = panel.row_labels[row]
            _text(drawing, label, 9, x0 - 4, y + height / 2, text_anchor="end", fill="#666666")
        for column, cell in enumerate(cells):
            x = x0 + column * width
            drawing.append(
                drawsvg.Rectangle(
                    x, y, width, height, fill=cell.fill, stroke="#444444", stroke_width=0.6
                )
            )
            for number, line in enumerate(cell.lines):
                middle = y + height * (number + 1) / (len(cell.lines) + 1)
                _text(drawing, line, 10, x + width / 2, middle, text_anchor="middle")


def draw(heading: str, panels: Sequence[Panel]) -> str:
    """Panels under a heading as an SVG document.

    Raises LayoutError if drawsvg is not installed.
    """
    try:
        import drawsvg  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise LayoutError(
            "Drawing SVG needs the package drawsvg: pip install 'mugraph[viz]'."
        ) from None
    columns = max(panel.place[0] for panel in panels) + 1
    rows = max(panel.place[1] for panel in panels) + 1
    widths, heights = [0.0] * columns, [0.0] * rows
    for panel in panels:
        width, height = _extent(panel)
        column, row = panel.place
        widths[column] = max(widths[column], width)
        heights[row] = max(heights[row], height)
    title = 26.0
    total_width = max(sum(widths) + _GAP * (columns - 1), 8.4 * len(heading))
    total_height = sum(heights) + _GAP * (rows - 1) + title
    drawing: Any = drawsvg.Drawing(total_width + 2 * _MARGIN, total_height + 2 * _MARGIN)
    drawing.append(drawsvg.Rectangle(0, 0, "100%", "100%", fill="#ffffff"))
    # The font is named once: pictures have a text a cell.
    content: Any = drawsvg.Group(font_family=_FONT)
    drawing.append(content)
    _text(content, heading, 14, _MARGIN, _MARGIN + title / 2 - 4, font_weight="bold")
    for panel in panels:
        column, row = panel.place
        left = _MARGIN + sum(widths[:column]) + _GAP * column
        top = _MARGIN + title + sum(heights[:row]) + _GAP * row
        _draw_panel(content, panel, left, top)
    return str(drawing.as_svg())
