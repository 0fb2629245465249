"""Writes pictures as LaTeX, with TikZ: a document to compile alone or to cut the picture out of."""

from __future__ import annotations

from collections.abc import Sequence

from mugraph.dialects.cute.panels import Panel

_SPECIAL = {
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(character, character) for character in text)


def _panel(panel: Panel, left: float, top: float) -> list[str]:
    lines = [
        rf"\node[anchor=south west,font=\bfseries\small] at ({left:g},{top + 0.5:g}) "
        f"{{{_escaped(panel.caption)}}};"
    ]
    for column, label in enumerate(panel.column_labels or []):
        lines.append(rf"\node[label] at ({left + column + 0.5:g},{top + 0.25:g}) {{{label}}};")
    for row, cells in enumerate(panel.cells):
        y = top - row
        if panel.row_labels:
            text = _escaped(panel.row_labels[row])
            lines.append(rf"\node[label,anchor=east] at ({left - 0.1:g},{y - 0.5:g}) {{{text}}};")
        for column, cell in enumerate(cells):
            x = left + column
            lines.append(
                rf"\definecolor{{c}}{{HTML}}{{{cell.fill[1:].upper()}}}"
                rf"\draw[fill=c] ({x:g},{y - 1:g}) rectangle ({x + 1:g},{y:g});"
            )
            if cell.lines:
                text = r"\\".join(_escaped(line) for line in cell.lines)
                lines.append(rf"\node[cell] at ({x + 0.5:g},{y - 0.5:g}) {{{text}}};")
    return lines


def write(heading: str, panels: Sequence[Panel]) -> str:
    """Panels under a heading as a LaTeX document of one TikZ picture."""
    columns = max(panel.place[0] for panel in panels) + 1
    rows = max(panel.place[1] for panel in panels) + 1
    widths, heights = [0.0] * columns, [0.0] * rows
    for panel in panels:
        column, row = panel.place
        widths[column] = max(widths[column], max(len(line) for line in panel.cells) + 3.0)
        heights[row] = max(heights[row], len(panel.cells) + 2.0)
    body: list[str] = []
    for panel in panels:
        column, row = panel.place
        body += _panel(panel, sum(widths[:column]), -sum(heights[:row]))
    return "\n".join(
        [
            r"% " + heading,
            r"\documentclass{standalone}",
            r"\usepackage[T1]{fontenc}",
            r"\usepackage{tikz}",
            r"\begin{document}",
            r"\begin{tikzpicture}[x=1cm,y=1cm,",
            r"  cell/.style={font=\footnotesize,align=center,inner sep=0pt},",
            r"  label/.style={font=\scriptsize,text=gray}]",
            *body,
            r"\end{tikzpicture}",
            r"\end{document}",
            "",
        ]
    )
