"""Which matrices in shared memory the products of warp groups can read, by descriptor.

The hardware reads *rows* of 32, 64 or 128 bytes, swizzled in units of 16 bytes: eight rows make a
pattern that repeats.  Rows hold neighbours along k (the matrix is *k-major*) or along m or n (it is
*transposed*).  A matrix wider than a row is boxes of whole rows side by side.  Source: PTX ISA,
"Shared Memory Matrix Layout" of ``wgmma``; twin of ``runtime/include/mugraph/arch/warpgroup.h``.
"""

from __future__ import annotations

from typing import NamedTuple

from mugraph.dialects.cute.algebra import coalesced_modes
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.cute.swizzle import ComposedLayout

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

    @property
    def pattern_bytes(self) -> int:
        """What the matrix must start at a multiple of."""
        return PATTERN_ROWS * self.row_bytes


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
