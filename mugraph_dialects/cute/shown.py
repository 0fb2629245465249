"""What Jupyter shows of a layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class Shown:
    """A value that Jupyter shows as a picture; :mod:`mugraph.dialects.cute.pictures` draws it."""

    __slots__ = ()

    drawn: ClassVar[Callable[[Any], str | None]]
    """Draws a value as SVG; ``None`` where it cannot be drawn."""

    def _repr_svg_(self) -> str | None:
        """The picture that Jupyter shows; none where drawsvg is not installed."""
        return Shown.drawn(self)
