"""Pictures of layouts: what CuTe's ``print_latex`` gives, as SVG and as LaTeX.

A :class:`Picture` is a list of panels (:mod:`~mugraph.dialects.cute.panels`): what the picture
says, with no drawing in it.  ``to_svg`` draws with drawsvg (the extra ``mugraph[viz]``),
``to_latex`` writes TikZ.  In Jupyter a picture shows itself, and so do layouts.
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Sequence
from typing import Any

from mugraph.dialects.cute.atoms.copy import CopyAtom
from mugraph.dialects.cute.banks import BANK_BYTES, BANKS, Wavefront, wavefronts
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.int_tuple import is_tuple, product_each, size, to_text
from mugraph.dialects.cute.layout import Layout, is_layout
from mugraph.dialects.cute.panels import Cell, Panel
from mugraph.dialects.cute.picture_latex import write
from mugraph.dialects.cute.picture_svg import draw
from mugraph.dialects.cute.shown import Shown
from mugraph.dialects.cute.swizzle import ComposedLayout
from mugraph.dialects.cute.tiled import TiledCopy, TiledMma

MOST_CELLS = 16384
"""The largest picture drawn; a larger one would be unreadable and slow to show."""

_MOST_LISTED = 8
"""Numbers that a message names."""


def _require_drawable(title: str, cells: int) -> None:
    """Raises LayoutError for a picture of too many cells."""
    if cells > MOST_CELLS:
        raise LayoutError(
            f"The picture of {title} would have {cells} cells; at most {MOST_CELLS} are drawn. "
            "Take a tile or a slice of the layout."
        )


class Picture:
    """A title and panels, drawn by ``to_svg`` or ``to_latex``."""

    def __init__(self, title: str, panels: Sequence[Panel]):
        self.title = title
        self.panels = list(panels)
        _require_drawable(title, sum(len(row) for panel in panels for row in panel.cells))

    def to_svg(self) -> str:
        """The picture as an SVG document.  Raises LayoutError if drawsvg is not installed."""
        return draw(self.title, self.panels)

    def to_latex(self) -> str:
        """The picture as a LaTeX document (TikZ)."""
        return write(self.title, self.panels)

    def _repr_svg_(self) -> str:
        return self.to_svg()


# --- colours ---


def thread_colour(thread: int) -> str:
    """A light colour for a thread; neighbouring numbers are far apart in hue."""
    hue = (thread * 0.618033988749895) % 1.0
    lightness = (0.80, 0.87, 0.74)[thread // 8 % 3]
    return _rgb(hue, lightness, 0.75)


def bank_colour(bank: int) -> str:
    """A light colour for a bank, around the colour circle."""
    return _rgb(bank / BANKS, 0.82, 0.85)


def heat_colour(conflicts: int, most: int) -> str:
    """White for none, pale green for one word, then yellow to red up to ``most``."""
    if conflicts == 0:
        return "#ffffff"
    if conflicts == 1:
        return "#cdebc5"
    share = 1.0 if most <= 2 else (conflicts - 2) / (most - 2)
    return _rgb(0.15 * (1 - share), 0.78 - 0.2 * share, 0.95)


def group_colour(group: int) -> str:
    """A light colour for the number of a run of indices."""
    return ("#e8f1fa", "#fdeeda", "#e6f5e4", "#fbe4e6", "#efe6f7", "#fbf8d9", "#e0f4f4", "#f3ece3")[
        group % 8
    ]


def _rgb(hue: float, lightness: float, saturation: float) -> str:
    red, green, blue = colorsys.hls_to_rgb(hue, lightness, saturation)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


# --- grids ---


def _grid_shape(layout: Layout[Any] | ComposedLayout) -> tuple[int, int]:
    """Rows and columns: mode 0, and all the others; one row for a layout of rank 1."""
    if not is_tuple(layout.shape) or layout.rank < 2:
        return 1, layout.size()
    rows, *columns = product_each(layout.shape)
    return rows, size(tuple(columns))


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def _layout_panel(
    layout: Layout[Any] | ComposedLayout,
    colour: Callable[[int], str],
    caption: str,
    place: tuple[int, int] = (0, 0),
) -> Panel:
    rows, columns = _grid_shape(layout)
    cells: list[list[Cell]] = []
    for i in range(rows):
        line: list[Cell] = []
        for j in range(columns):
            index: Any = layout(i + rows * j)
            fill = colour(index) if isinstance(index, int) else "#ffffff"
            line.append(Cell((to_text(index),), fill))
        cells.append(line)
    return Panel(caption, cells, place, _numbers(rows), _numbers(columns))


def _colour_of(colour: str, element_bits: int) -> Callable[[int], str]:
    """How to colour an index: by thread (the index is one), by bank, by run of 8, or not."""
    if colour == "thread":
        return thread_colour
    if colour == "bank":
        return lambda index: bank_colour(index * element_bits // (8 * BANK_BYTES) % BANKS)
    if colour == "run":
        return lambda index: group_colour(index // 8)
    if colour == "none":
        return lambda index: "#ffffff"
    raise LayoutError(f"There is no colouring {colour!r}; there are thread, bank, run and none.")


def layout_picture(
    layout: Layout[Any] | ComposedLayout, colour: str = "run", element_bits: int = 16
) -> Picture:
    """The grid of a layout's indices: mode 0 down, the other modes across.

    ``colour``: "run" (every 8 indices), "bank" (of shared memory, for elements of
    ``element_bits``), "thread" (the indices are threads) or "none".
    """
    colour_of = _colour_of(colour, element_bits)
    # Before a million cells are made for nothing.
    _require_drawable(str(layout), layout.size())
    panel = _layout_panel(layout, colour_of, "")
    return Picture(str(layout), [panel])


def swizzle_picture(layout: ComposedLayout, element_bits: int = 16) -> Picture:
    """A layout before and after its swizzle, coloured by bank."""
    colour = _colour_of("bank", element_bits)
    before = _layout_panel(layout.layout, colour, f"before: {layout.layout}", (0, 0))
    after = _layout_panel(layout, colour, f"after: {layout}", (1, 0))
    return Picture(f"{layout}, coloured by bank, {element_bits}-bit elements", [before, after])


def _tv_cells(layout_tv: Layout[Any], shape: tuple[int, int], lane: Callable[[int], int]) -> Any:
    """The grid of "T0" over "V0" of a thread-value layout; a cell shared by threads says so."""
    rows, columns = shape
    owners: dict[int, list[tuple[int, int]]] = {cell: [] for cell in range(rows * columns)}
    for thread in range(layout_tv[0].size()):
        for value in range(layout_tv[1].size()):
            index: Any = layout_tv(thread, value)
            if not 0 <= index < rows * columns:
                raise LayoutError(
                    f"The thread-value layout {layout_tv} reaches element {index}, outside the "
                    f"tile of {rows} x {columns}."
                )
            owners[index].append((lane(thread), value))
    cells: list[list[Cell]] = []
    for i in range(rows):
        line: list[Cell] = []
        for j in range(columns):
            owned = sorted(owners[i + rows * j])
            if not owned:
                line.append(Cell((), "#ffffff"))
                continue
            thread, value = owned[0]
            more = "+" if len({owner for owner, _value in owned}) > 1 else ""
            line.append(Cell((f"T{thread}{more}", f"V{value}"), thread_colour(thread)))
        cells.append(line)
    return cells


def _identity(thread: int) -> int:
    return thread


def tv_picture(layout_tv: Layout[int], shape: tuple[int, int]) -> Picture:
    """The table of a thread-value layout over a (column-major) tile; "T0+" is shared by threads."""
    if not is_tuple(layout_tv.shape) or layout_tv.rank != 2:
        raise LayoutError(f"A thread-value layout has two modes, (thread, value); not {layout_tv}.")
    cells = _tv_cells(layout_tv, shape, _identity)
    panel = Panel("", cells, (0, 0), _numbers(shape[0]), _numbers(shape[1]))
    return Picture(f"{layout_tv} over {shape[0]} x {shape[1]}", [panel])


def mma_picture(mma: TiledMma) -> Picture:
    """A tiled MMA as ``print_latex`` shows it: A on the left, B above, C between them."""
    panels: list[Panel] = []
    for operand, place in (("A", (0, 1)), ("B", (1, 0)), ("C", (1, 1))):
        rows, columns = mma.tile_shape(operand)
        if mma.atom.thr_id.size() == mma.threads and mma.threads < mma.thread_span:
            layout, lane = mma.atom.layout(operand), mma.atom.thr_id
        else:
            layout, lane = mma.layout_tv(operand), _identity
        cells = _tv_cells(layout, (rows, columns), lane)
        if operand == "B":
            cells = [list(line) for line in zip(*cells, strict=True)]
            rows, columns = columns, rows
        axes = {"A": "M x K", "B": "K x N", "C": "M x N"}[operand]
        shared = any(cell.lines and "+" in cell.lines[0] for line in cells for cell in line)
        caption = f"{operand} ({axes})" + (", + shared by threads" if shared else "")
        panels.append(Panel(caption, cells, place, _numbers(rows), _numbers(columns)))
    return Picture(str(mma), panels)


def copy_picture(atom: CopyAtom, element_bits: int = 16) -> Picture:
    """A copy atom: which thread reads (left) and writes (right) each element of the data."""
    source, destination, reference = atom.value_layouts(element_bits)
    count = max(layout.cosize() for layout in (source, destination, reference))
    columns = min(count, 8)
    panels: list[Panel] = []
    for column, (name, layout) in enumerate((("reads", source), ("writes", destination))):
        # Elements in order, row by row.
        cells = _tv_cells(layout, (count, 1), _identity)
        grid = [
            [line[0] for line in cells[first : first + columns]]
            for first in range(0, count, columns)
        ]
        labels = [str(first) for first in range(0, count, columns)]
        panels.append(Panel(name, grid, (column, 0), labels, _numbers(columns)))
    return Picture(f"{atom.name}, {element_bits}-bit elements", panels)


def tiled_copy_picture(tiled: TiledCopy) -> Picture:
    """A tiled copy: which thread reads (left) and writes (right) each element of its tile."""
    rows, columns = (*tiled.tile_shape, 1)[:2]
    panels: list[Panel] = []
    for column, (name, side) in enumerate((("reads", "S"), ("writes", "D"))):
        cells = _tv_cells(tiled.layout_tv(side), (rows, columns), _identity)
        panels.append(Panel(name, cells, (column, 0), _numbers(rows), _numbers(columns)))
    return Picture(f"{tiled.atom.name}, {tiled.tiled_layout_tv} over {rows} x {columns}", panels)


def _first(numbers: Sequence[int]) -> str:
    """The numbers, or the first of many."""
    shown = ", ".join(map(str, numbers[:_MOST_LISTED]))
    return f"{shown} ..." if len(numbers) > _MOST_LISTED else shown


def access_addresses(
    layout: Layout[int] | ComposedLayout, access: Layout[int], element_bits: int
) -> tuple[list[int], int]:
    """The byte address of every lane and the bytes a lane accesses.

    ``access`` maps (lane, value) to 1-D coordinates of ``layout``; a lane's values must lie one
    after another in memory.  Raises LayoutError, naming the lane, if they do not.
    """
    if not is_tuple(access.shape) or access.rank != 2:
        raise LayoutError(f"An access has two modes, (lane, value); not {access}.")
    lanes, values = access[0].size(), access[1].size()
    if element_bits * values % 8:
        raise LayoutError(f"{values} elements of {element_bits} bits are not whole bytes.")
    addresses: list[int] = []
    for lane in range(lanes):
        indices = [layout(access(lane, value)) for value in range(values)]
        if indices != list(range(indices[0], indices[0] + values)):
            raise LayoutError(
                f"Lane {lane} accesses the elements {_first(indices)}, which are not one vector."
            )
        addresses.append(indices[0] * element_bits // 8)
    return addresses, element_bits * values // 8


def banks_picture(
    layout: Layout[int] | ComposedLayout, access: Layout[int], element_bits: int = 16
) -> Picture:
    """The bank conflicts of a warp's access to shared memory, as a heat map.

    One panel shows the layout's cells coloured by bank and marked with the lane that accesses
    them; the next, for every part of the access that is served at once, how many distinct words
    each bank must give.  A swizzled layout is shown without its swizzle, too.
    """
    forms: list[tuple[str, Layout[int] | ComposedLayout]] = [(str(layout), layout)]
    if isinstance(layout, ComposedLayout):
        forms.insert(0, (f"without swizzle: {layout.layout}", layout.layout))
    parts: list[tuple[str, Any, list[Wavefront]]] = []
    for name, form in forms:
        addresses, width = access_addresses(form, access, element_bits)
        parts.append((name, form, wavefronts(addresses, width)))
    most = max([part.conflicts() for _n, _f, waves in parts for part in waves], default=1)
    panels: list[Panel] = []
    for position, (name, form, waves) in enumerate(parts):
        degree = max(part.conflicts() for part in waves)
        panels.append(_accessed_panel(form, access, element_bits, name, (0, 2 * position)))
        cells = [
            [
                Cell((str(len(words)) if words else "",), heat_colour(len(words), most))
                for words in part.words
            ]
            for part in waves
        ]
        labels = [f"T{part.lanes[0]}-{part.lanes[-1]}" for part in waves]
        verdict = "no conflicts" if degree == 1 else f"{degree}-way conflicts"
        caption = f"distinct words of each bank: {verdict}"
        panels.append(Panel(caption, cells, (0, 2 * position + 1), labels, _numbers(BANKS)))
    return Picture(f"Bank conflicts of {access}, {element_bits}-bit elements", panels)


def _accessed_panel(
    layout: Layout[int] | ComposedLayout,
    access: Layout[int],
    element_bits: int,
    caption: str,
    place: tuple[int, int],
) -> Panel:
    """The layout's grid by bank; accessed cells have the lane's number."""
    lanes: dict[int, int] = {}
    for lane in range(access[0].size()):
        for value in range(access[1].size()):
            lanes.setdefault(access(lane, value), lane)
    colour = _colour_of("bank", element_bits)
    rows, columns = _grid_shape(layout)
    cells: list[list[Cell]] = []
    for i in range(rows):
        line: list[Cell] = []
        for j in range(columns):
            point = i + rows * j
            text = (f"T{lanes[point]}",) if point in lanes else ()
            line.append(Cell(text, colour(layout(point)) if point in lanes else "#ffffff"))
        cells.append(line)
    return Panel(caption, cells, place, _numbers(rows), _numbers(columns))


def picture_of(value: Any) -> Picture:
    """The natural picture of a layout, a swizzled one, a tiled MMA or copy, or a copy atom."""
    if isinstance(value, ComposedLayout):
        return swizzle_picture(value)
    if is_layout(value):
        return layout_picture(value)
    if isinstance(value, TiledMma):
        return mma_picture(value)
    if isinstance(value, TiledCopy):
        return tiled_copy_picture(value)
    if isinstance(value, CopyAtom):
        return copy_picture(value)
    raise LayoutError(f"There is no picture of a {type(value).__name__}.")


def jupyter_picture(value: Any) -> str | None:
    """The SVG of :func:`picture_of`, or None where it is too large or drawsvg is not installed."""
    try:
        return picture_of(value).to_svg()
    except LayoutError:
        return None


Shown.drawn = jupyter_picture
