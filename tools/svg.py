"""Text of SVG documents: what pictures of memory plans and of schedules are drawn with."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_FONT = "Helvetica, Arial, sans-serif"


def text(x: float, y: float, shown: str, size: float = 10, **style: str) -> str:
    """Text that begins at a point; ``style`` are attributes, with ``_`` for ``-``."""
    extra = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" font-family="{_FONT}"{extra}>'
        f"{escape(shown)}</text>"
    )


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    """A straight line; ``style`` are attributes as they stand in SVG."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def fitted(shown: str, width: float, size: float) -> str:
    """As much of a text as fits into a width, with dots for the rest."""
    most = int(width / (0.56 * size))
    if len(shown) <= most:
        return shown
    return shown[: most - 1] + "…" if most > 2 else ""


def document(width: float, height: float, drawn: Sequence[str]) -> str:
    """A document of drawn parts on white."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="#ffffff"/>', *drawn, "</svg>"])
