"""How wide a copy between a DTensor and its tile in shared memory may be.

Source: Mirage's document "The CUDA Transpiler", "How to Check Whether or Not We Can Use Chunked
Copy".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mugraph.dialects.maps import Slicing
from mugraph.dialects.partition import VECTOR_BYTES, PartitionedOperand, vector_fits
from mugraph.dialects.tensor_types import innermost_dimension

ASYNC_BYTES = (4, 8, 16)
"""The sizes, in bytes, that one ``cp.async`` can move."""


@dataclass(frozen=True)
class TileCopy:
    """A copy between the tile of a DTensor and an STensor; strides are in elements.

    ``slicing`` says which tile it is.
    """

    slicing: Slicing
    strides: tuple[int, ...]
    tile_strides: tuple[int, ...]
    element_bytes: int
    alignment: int = VECTOR_BYTES
    """The bytes that the DTensor's first element is aligned to."""
    numbered: int = 0
    """How many dimensions, the first ones, count rows that numbers in memory name; ``strides`` are
    those of the gathered tensor (:mod:`mugraph.dialects.indirect`)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The DTensor's extents."""
        return self.slicing.shape

    @cached_property
    def tile(self) -> tuple[int, ...]:
        """The tile's extents."""
        return self.slicing.tile_shape()

    def view_strides(self) -> tuple[int, ...]:
        """The strides of the tile as a view: 0 along the dimensions of numbers of rows."""
        return (*[0] * self.numbered, *self.strides[self.numbered :])

    def block_strides(self) -> tuple[int, ...]:
        """How far the tile's start moves with each block index, in elements."""
        return self.slicing.block_strides(self.strides)

    def iteration_stride(self) -> int:
        """How far the tile's start moves from one iteration to the next, in elements."""
        fordim = self.slicing.fordim
        return 0 if fordim < 0 else self.slicing.iteration_step() * self.strides[fordim]


def global_innermost(copy: TileCopy) -> int:
    """The dimension along which threads should walk so that device memory is coalesced.

    The real innermost dimension of the tile in the DTensor; where no dimension has stride 1, the
    one of least stride.
    """
    wide = [dim for dim, extent in enumerate(copy.tile) if extent > 1]
    if not wide:
        return len(copy.tile) - 1
    inner = innermost_dimension(copy.tile, copy.strides)
    if inner is not None:
        return inner
    return min(wide, key=lambda dim: copy.strides[dim])


def copy_vector(copy: TileCopy) -> int:
    """The widest vector, in elements, that the copy may move along its innermost dimension.

    Rows that numbers in memory name are apart.  Else it must be contiguous and aligned on both
    sides for every block and iteration, the DTensor being aligned as it promises and the tile to 16
    bytes.
    """
    inner = global_innermost(copy)
    if inner < copy.numbered:
        return 1
    if innermost_dimension(copy.tile, copy.tile_strides) != inner or copy.strides[inner] != 1:
        return 1
    sides = (
        PartitionedOperand(copy.tile, copy.strides, copy.element_bytes),
        PartitionedOperand(copy.tile, copy.tile_strides, copy.element_bytes),
    )
    rows = copy.strides[: copy.numbered]  # also where a tile has a single one
    starts: Sequence[int] = (*copy.block_strides(), copy.iteration_stride(), *rows)
    vector = 1
    for width in (2, 4, 8, 16):
        aligned = all(start % width == 0 for start in starts)
        aligned = aligned and width * copy.element_bytes <= copy.alignment
        if aligned and all(vector_fits(side, copy.tile, inner, width) for side in sides):
            vector = width
    return vector
