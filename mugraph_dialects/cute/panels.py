"""What pictures are made of: grids of coloured cells, with no drawing in them."""

from __future__ import annotations

from typing import NamedTuple


class Cell(NamedTuple):
    """One cell: up to two lines of text and a fill colour such as ``#ffeecc``."""

    lines: tuple[str, ...]
    fill: str


class Panel(NamedTuple):
    """A grid of cells with a caption, and its place (column, row) among the panels."""

    caption: str
    cells: list[list[Cell]]
    place: tuple[int, int] = (0, 0)
    row_labels: list[str] | None = None
    column_labels: list[str] | None = None
