"""The CuTe layout algebra in plain Python.

Layouts, swizzles and their algebra as immutable, hashable values; see ``docs/cute.md``.
This package does not import xDSL: the attributes around layouts are in
:mod:`mugraph.dialects.cute.attributes`, the dialect in :mod:`mugraph.dialects.cute.dialect`.
"""

from mugraph.dialects.cute.algebra import coalesce, composition, filter_layout, filter_zeros
from mugraph.dialects.cute.basis import E, ScaledBasis
from mugraph.dialects.cute.errors import LayoutError, NotationError
from mugraph.dialects.cute.int_tuple import (
    Coord,
    IntTuple,
    _,
    compact_col_major,
    compact_order,
    compact_row_major,
    compatible,
    congruent,
    coordinates,
    crd2crd,
    crd2idx,
    idx2crd,
    shape_div,
    weakly_compatible,
    weakly_congruent,
)
from mugraph.dialects.cute.inverses import (
    complement,
    is_bijective,
    is_injective,
    left_inverse,
    nullspace,
    right_inverse,
)
from mugraph.dialects.cute.layout import (
    Layout,
    Tiler,
    make_identity_layout,
    make_layout,
    make_ordered_layout,
    make_row_major_layout,
)
from mugraph.dialects.cute.notation import (
    parse_layout,
    static_text,
)
from mugraph.dialects.cute.pictures import picture_of
from mugraph.dialects.cute.swizzle import AnyLayout, ComposedLayout, Swizzle, make_swizzle
from mugraph.dialects.cute.tiling import (
    blocked_product,
    flat_divide,
    flat_product,
    logical_divide,
    logical_product,
    raked_product,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)

__all__ = [
    "AnyLayout",
    "ComposedLayout",
    "Coord",
    "E",
    "IntTuple",
    "Layout",
    "LayoutError",
    "NotationError",
    "ScaledBasis",
    "Swizzle",
    "Tiler",
    "_",
    "blocked_product",
    "coalesce",
    "compact_col_major",
    "compact_order",
    "compact_row_major",
    "compatible",
    "complement",
    "composition",
    "congruent",
    "coordinates",
    "crd2crd",
    "crd2idx",
    "filter_layout",
    "filter_zeros",
    "flat_divide",
    "flat_product",
    "idx2crd",
    "is_bijective",
    "is_injective",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "make_identity_layout",
    "make_layout",
    "make_ordered_layout",
    "make_row_major_layout",
    "make_swizzle",
    "nullspace",
    "parse_layout",
    "picture_of",
    "raked_product",
    "right_inverse",
    "shape_div",
    "static_text",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "weakly_compatible",
    "weakly_congruent",
    "zipped_divide",
    "zipped_product",
]
