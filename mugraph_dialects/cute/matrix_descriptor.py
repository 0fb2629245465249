"""Which matrices in shared memory the products of warp groups can read, by descriptor.

The hardware reads *rows* of 32, 64 or 128 bytes, swizzled in units of 16 bytes: eight rows make a
pattern that repeats.  Rows hold neighbours along k (the matrix is *k-major*) or along m or n (it is
*transposed*).  A matrix wider than a row is boxes of whole rows side by side.  Source: PTX ISA,
"Shared Memory Matrix Layout" of ``wgmma``; twin of ``runtime/include/mugraph/arch/warpgroup.h``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mugraph.dialects.cute.algebra import coalesced_modes
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.cute.swizzle import ComposedLayout, Swizzle

ROW_BYTES = (128, 64, 32)
"""How long a row can be."""
UNIT_BYTES = 16
"""What a swizzle keeps together."""
TRANSPOSED_BYTES = 2
"""The size of elements of which rows may be those along m or n."""
PATTERN_ROWS = 8
"""Rows after which the pattern of a swizzle repeats."""


class MatrixDescriptor(NamedTuple):
    """How the hardware walks a matrix: ``row_bytes`` of a row, and ``transposed``."""

    transposed: bool
    row_bytes: int


class SharedMatrix(NamedTuple):
    """A part of a matrix as an instruction reads it, twin of ``SharedMatrix`` of the header.

    Rows of ``row_bytes`` hold neighbours along k, or along the lines where ``transposed``.  Eight
    rows make a group; groups lie ``group_bytes`` apart, and rows side by side ``side_bytes``.
    """

    transposed: bool
    row_bytes: int
    group_bytes: int
    side_bytes: int

    @property
    def swizzle_bits(self) -> int:
        """The bits of an address that the swizzle changes."""
        return (self.row_bytes // UNIT_BYTES).bit_length() - 1


def shared_matrix(layout: Layout[int], swizzle: Swizzle | None, element_bytes: int) -> SharedMatrix:
    """How the hardware walks a part (lines along m or n, k) of a swizzled buffer.

    ``layout`` is that of the part before the swizzle, in elements.  The part may begin inside of a
    row.  Raises ``LayoutError`` with a sentence where there is no descriptor.
    """
    unit = UNIT_BYTES // element_bytes
    row_bytes = 0 if swizzle is None else UNIT_BYTES << swizzle.bits
    wanted = (unit.bit_length() - 1, 3)
    if swizzle is None or row_bytes not in ROW_BYTES or (swizzle.base, swizzle.shift) != wanted:
        names = ", ".join(f"S<{bits},{wanted[0]},3>" for bits in (3, 2, 1))
        raise LayoutError(f"the products of warp groups read buffers swizzled by {names}")
    span = row_bytes // element_bytes
    lines, depth = coalesced_modes(layout[0]), coalesced_modes(layout[1])
    transposed = bool(lines) and lines[0][1] == 1
    along, rows = (lines, depth) if transposed else (depth, lines)
    if not along or along[0][1] != 1:
        raise LayoutError("neither k nor the lines are contiguous")
    if along[0][0] > span or (len(along) > 1 and along[0][0] != span) or len(along) > 2:
        raise LayoutError(f"rows of {span} elements must lie side by side")
    groups = _groups_of_rows(rows, span)
    if groups is None:
        raise LayoutError(
            f"rows of {span} elements must follow each other in groups of {PATTERN_ROWS}"
        )
    side = along[1][1] if len(along) > 1 else unit
    pattern = PATTERN_ROWS * span
    if groups % pattern or (len(along) > 1 and side % pattern):
        raise LayoutError(f"boxes must start at multiples of {PATTERN_ROWS} rows")
    return SharedMatrix(transposed, row_bytes, groups * element_bytes, side * element_bytes)


def _groups_of_rows(rows: Sequence[tuple[int, int]], span: int) -> int | None:
    """How far groups of eight rows are apart; ``None`` where rows are none."""
    if not rows or rows[0][1] != span or rows[0][0] % PATTERN_ROWS:
        return None
    if len(rows) == 1:
        return PATTERN_ROWS * span
    return rows[1][1] if len(rows) == 2 and rows[0][0] == PATTERN_ROWS else None


def matrix_descriptor(layout: Layout[int] | ComposedLayout, element_bytes: int) -> MatrixDescriptor:
    """The descriptor of a matrix with this layout, (lines along m or n, k), in elements.

    Raises ``LayoutError`` with a sentence where there is none.
    """
    plain = layout.layout if isinstance(layout, ComposedLayout) else layout
    lines, depth = coalesced_modes(plain[0]), coalesced_modes(plain[1])
    transposed = bool(lines) and lines[0][1] == 1
    if transposed and element_bytes != TRANSPOSED_BYTES:
        raise LayoutError(
            "its elements are neighbours along m or n, and warp groups take those of "
            f"{element_bytes * 8} bits only as neighbours along k"
        )
    along, rows = (lines, depth) if transposed else (depth, lines)
    if not along or along[0][1] != 1:
        raise LayoutError("neither k nor the lines are contiguous")
    span = along[0][0]
    row_bytes = span * element_bytes
    if row_bytes not in ROW_BYTES:
        raise LayoutError(
            f"rows have {row_bytes} bytes; the products of warp groups read rows of "
            f"{', '.join(map(str, sorted(ROW_BYTES)))}, and wider matrices as boxes of them"
        )
    if len(rows) != 1 or rows[0][1] != span:
        raise LayoutError(f"rows of {span} elements must follow each other")
    swizzle = layout.swizzle if isinstance(layout, ComposedLayout) else None
    offset = layout.offset if isinstance(layout, ComposedLayout) else 0
    unit = UNIT_BYTES // element_bytes
    bits = (row_bytes // UNIT_BYTES).bit_length() - 1
    wanted = (bits, unit.bit_length() - 1, 3)
    given = None if swizzle is None else (swizzle.bits, swizzle.base, swizzle.shift)
    if given != wanted or offset:
        raise LayoutError(
            f"rows of {row_bytes} bytes must be swizzled by S<{','.join(map(str, wanted))}>"
        )
    pattern = PATTERN_ROWS * span
    if any(stride % pattern for _, stride in along[1:]):
        raise LayoutError(f"boxes must start at multiples of {PATTERN_ROWS} rows")
    return MatrixDescriptor(transposed, row_bytes)
