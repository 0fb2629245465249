"""Ragged tiles: those of which some elements do not exist in some blocks and iterations.

A partition that does not divide leaves the last tile smaller.  The elements past its end do not
exist: no result depends on them.  Where a tile lies in memory it has its full extents all the
same, so a schedule says with :class:`RaggedAttr` which elements are real.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from mugraph.dialects.maps import AXES, Bound

Bounds = tuple[Bound | None, ...]
"""For each dimension of a tile which elements exist; ``None`` where all of them always do."""

Padding = Mapping[int, float]
"""What stands in memory where no element exists: by dimension, where it is known."""


@dataclass(frozen=True)
class RaggedDim:
    """Which elements of a tile exist along one dimension."""

    dim: int
    bound: Bound

    def __str__(self) -> str:
        bound = self.bound
        moves = ", loop" if bound.moves else ""
        if bound.stride is not None:
            moves += f", stride {bound.stride}"
        return (
            f"dim {self.dim}, extent {bound.extent}, step {bound.step}, blocks "
            f"{list(bound.blocks)}, tile {bound.tile}{moves}"
        )


def ragged_dims(bounds: Bounds) -> list[RaggedDim]:
    """The dimensions along which some elements do not exist."""
    return [RaggedDim(dim, bound) for dim, bound in enumerate(bounds) if bound is not None]


@irdl_attr_definition
class RaggedAttr(Data[RaggedDim]):
    """Which elements exist: ``#tb.ragged<dim 0, extent 99, step 33, blocks [3, 1, 1], tile 17>``.

    Block b of the three, counted in row-major order over the axes that have blocks, owns elements
    33 b to 33 b + 32 of the 99.  With ``, loop`` at the end iteration i has the i-th 17 of them,
    otherwise every iteration has the first 17.  With ``, loop, stride 51`` tiles of blocks are
    interleaved, and those of one block 51 elements apart.
    """

    name = "tb.ragged"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> RaggedDim:
        """Parses the part in angle brackets."""

        def number(keyword: str) -> int:
            position = parser.pos
            parser.parse_keyword(keyword)
            value = parser.parse_integer()
            if value < (0 if keyword == "dim" else 1):
                parser.raise_error(f"{keyword} {value} is too small", position, parser.pos)
            parser.parse_optional_punctuation(",")
            return value

        with parser.in_angle_brackets():
            dim, extent, step = number("dim"), number("extent"), number("step")
            parser.parse_keyword("blocks")
            position = parser.pos
            blocks = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
            if len(blocks) != len(AXES) or min(blocks) < 1:
                parser.raise_error(
                    f"blocks {blocks} must be three counts of at least 1, for x, y and z",
                    position,
                    parser.pos,
                )
            parser.parse_punctuation(",")
            tile = number("tile")
            moves = parser.parse_optional_keyword("loop") is not None
            apart = moves and parser.parse_optional_punctuation(",") is not None
            stride = number("stride") if apart else None
        return RaggedDim(dim, Bound(extent, tuple(blocks), step, tile, moves, stride))

    def print_parameter(self, printer: Printer) -> None:
        """Prints the part in angle brackets."""
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))


def ragged_error(
    ragged: Sequence[RaggedDim], shape: Sequence[int], grid: Sequence[int]
) -> str | None:
    """What is wrong with a description of a tile of these extents; ``None`` where nothing is."""
    seen: set[int] = set()
    for entry in ragged:
        dim, bound = entry.dim, entry.bound
        if not dim < len(shape) or dim in seen:
            return f"names dimension {dim} of {len(shape)} dimensions, each of which may stand once"
        seen.add(dim)
        if bound.tile != shape[dim]:
            return f"counts tiles of {bound.tile} along dimension {dim}, which has {shape[dim]}"
        for axis, blocks, extent in zip(AXES, bound.blocks, grid, strict=True):
            if blocks not in (1, extent):
                return f"counts {blocks} blocks along grid axis {axis}, which has {extent}"
    return None
