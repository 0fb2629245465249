"""Into how many blocks one dimension of a kernel may be cut, and in which tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation

from mugraph.dialects import tb
from mugraph.dialects.programming_model import (
    GROUP_COLUMNS,
    GROUP_ROWS,
    MAX_GROUP_COLUMNS,
    SECTOR_BYTES,
)
from mugraph.dialects.tensor_types import bytes_of, element_bytes_of
from mugraph.passes.mugraph.plan.filled_rounds import Blocks
from mugraph.passes.mugraph.plan.narrow import is_narrow, summed_products
from mugraph.passes.mugraph.plan.operators import follows_product
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.partition import divisors

SHORTEST_TILE, SHORTEST_PRODUCT = 16, 32
"""Elements along what the loop cuts, at least: of all tiles, and of those of products.

With 16 an iteration has a step of tensor cores for each tile that is waited for; three products of
64 rows took 28 us on an H200, and 18 with 32 (``benchmarks/results/programs_h200.md``).
"""
LONGEST_TILE = 512
"""Elements along what the loop cuts, of all tiles but those of one iteration."""
LONGEST_ROW = 8192
"""The same in kernels without products."""
UNEVEN_TILES = (16, 32, 64, 128, 256)
"""Tiles of dimensions that they do not divide: whole for products and bulk copies but the last."""
LONG_UNEVEN_TILES = (*UNEVEN_TILES, 512, 1024, 2048, 4096, LONGEST_ROW)
"""The same in kernels without products."""
MOST_EVEN_PARTS = 4
"""Into how many nearly equal parts rows of products are cut.

Of more parts the last one of 128 rows is little of all, and products that need no swap run ahead
of each other: a gated MLP of 1636 rows took 249 us on an H200 in tiles of 152, cuBLAS 190.
"""
ROWS_OF_THREE_GROUPS = 3 * GROUP_ROWS
"""Attention of 12 heads of 8192 keys of depth 64 took 384 us on an H200 in tiles of so many rows,
428 in tiles of one group's rows, and 468 in tiles of two groups' rows."""
UNEVEN_ROWS = (2, 4, 8)
"""Rows of a block where their number is no multiple of that; the last block has fewer."""
SLICED_COLUMNS = 16
"""Of which tiles have a multiple where warps share the pairs of matrices of a product by numbers of
few bits, in place of what warp groups convert: each warp has all of them.

An instruction has as many with swapped operands: 4096 x 12288 weights of 4 bits and a row took 9.9
us on an H200 in 256 blocks of so many, and 10.9 in blocks of 32 that divide the loop."""
CACHED_BYTES = 2**16
"""Tensors of no more than this come from the second-level cache, but for one of many blocks."""
SMALLEST_ROW_BYTES = SECTOR_BYTES
"""Tiles have no shorter rows than this, unless the tensor has."""


def passes_products_on(space: TileSpace) -> bool:
    """Whether a left matrix of a product is what is computed of another product."""
    return any(follows_product(op.operands[0]) for op in space.products)


def uneven_tiles(extent: int, tiles: Sequence[int], shortest: int, longest: int) -> list[int]:
    """Those tiles that do not divide a dimension, and are shorter than it."""
    return [
        tile for tile in tiles if shortest <= tile <= longest and tile < extent and extent % tile
    ]


def loaded_products(space: TileSpace) -> list[Operation]:
    """The products whose right operand is loaded.

    What is computed before it is multiplied, such as weights of 4 bits, warps multiply.
    """
    return [op for op in space.products if isinstance(op.operands[-1].owner, tb.InputOp)]


def _of_loaded_products(space: TileSpace, number: int) -> bool:
    """Whether a dimension has the rows or columns of such a product."""
    return any(number in space.numbers[op.results[0]][-2:] for op in loaded_products(space))


def padded_tiles(space: TileSpace, number: int) -> list[int]:
    """Tiles of the whole of a dimension and some more, so that warp groups can have its products.

    Those take eight columns, or 64 rows, at a time, and 32 bytes of rows of a right matrix.  Of
    what is past the dimension nothing is loaded.  Tiles of just 60 rows took 108 us where those of
    64 took 60 (``benchmarks/results/shapes_h200_plans.md``).
    """
    extent, fixed = space.dimensions[number].extent, space.dimensions[number].fixed
    rows = [
        op.operands[-1]
        for op in loaded_products(space)
        if space.numbers[op.operands[-1]][-1] == number
    ]
    whole = GROUP_COLUMNS
    if extent % whole == 0:
        # Swizzles are of whole sectors of a row.
        whole = max([whole, *(SECTOR_BYTES // element_bytes_of(value.type) for value in rows)])
    if (
        fixed
        or not _of_loaded_products(space, number)
        or extent <= GROUP_COLUMNS
        or extent % whole == 0
    ):
        return []
    padded = {-(-extent // each) * each for each in (whole, GROUP_ROWS)}
    return [tile for tile in sorted(padded) if extent < tile <= max(UNEVEN_TILES)]


def group_tiles(space: TileSpace, number: int) -> list[int]:
    """A tile of a group's rows, where it holds all rows of products and these fill most of it.

    Single warps have most products of fewer rows in whole eights; groups need no swap then.
    """
    extent, fixed = space.dimensions[number].extent, space.dimensions[number].fixed
    rows = any(space.numbers[op.results[0]][-2] == number for op in loaded_products(space))
    if fixed or not rows or extent % GROUP_COLUMNS:  # :func:`padded_tiles`
        return []
    return [GROUP_ROWS] if GROUP_ROWS // 2 < extent < GROUP_ROWS else []


def even_row_tiles(space: TileSpace, number: int) -> list[int]:
    """Tiles that cut the rows of products into parts as equal as warp groups can have them.

    Those take eight rows at a time with swapped operands: 805 rows in four tiles of 208 are 3 %
    more than there are, in seven of 128 11 %.  Of one part :func:`padded_tiles` tells.  Products
    that pass on what they give have no swap.
    """
    extent = space.dimensions[number].extent
    if (
        extent % GROUP_ROWS == 0
        or passes_products_on(space)
        or all(space.numbers[op.results[0]][-2] != number for op in loaded_products(space))
    ):
        return []
    longest, shortest = max(UNEVEN_TILES), GROUP_ROWS + GROUP_ROWS // 2
    parts = range(max(-(-extent // longest), 2), MOST_EVEN_PARTS + 1)
    tiles = {-(-extent // (each * GROUP_COLUMNS)) * GROUP_COLUMNS for each in parts}
    return [
        tile
        for tile in sorted(tiles)
        if tile >= shortest and extent % tile and tile not in UNEVEN_TILES
    ]


def _needs_swap_in_parts(space: TileSpace, number: int) -> bool:
    """Whether a dimension has the rows of products whose tiles of no whole 64 need a swap.

    6000 x 5120 x 1280 with a residual took 198 us on an H200 in 25 tiles of 240 rows, and 156 in
    ragged ones of 128.
    """
    products = loaded_products(space)
    rows = any(space.numbers[op.results[0]][-2] == number for op in products)
    return rows and not passes_products_on(space)


def has_converted_columns(space: TileSpace, number: int) -> bool:
    """Whether a dimension has the columns of a product that are converted from few bits.

    Groups convert 64 at a time, and warps share so many evenly: 14336 x 4096 weights of 4 bits and
    16 rows took 23.8 us on an H200 in tiles of 224 columns and 16.5 in tiles of 128.
    """
    return any(
        space.numbers[op.results[0]][-1] == number and is_narrow(op.operands[-1])
        for op in space.products
    )


def numbers_matrices(space: TileSpace, number: int) -> bool:
    """Whether a dimension numbers the matrices of a product, of which it multiplies several."""
    return any(number in space.numbers[op.operands[0]][:-2] for op in space.products)


def is_sliced(space: TileSpace) -> bool:
    """Whether warps may share the matrices of all products, pair by pair."""
    ops = space.graph.body.block.ops
    sums = [op for op in ops if isinstance(op, tb.ReductionOp)]
    return set(space.products) == {product for op in sums for product in summed_products(op)}


def suits_products(extent: int, tile: int) -> bool:
    """Whether a product's rows or columns should be cut into equal tiles of so many.

    Tiles of 107 rows take instructions for 112, and have no swizzle where TMA loads them: on an
    H200 a product of 321 rows took 66 us with them, and 24 in ragged tiles of 32.  Tiles longer
    than an instruction are cut into a few equal ones: 128 x 18944 x 3584 took 110 us in tiles of
    296 columns, which 37 instructions of 8 compute.  A whole dimension may be padded
    (:func:`padded_tiles`).
    """
    instructions = math.ceil(tile / MAX_GROUP_COLUMNS)
    whole = tile < SHORTEST_TILE or tile % (GROUP_COLUMNS * instructions) == 0
    return whole or tile == extent <= max(UNEVEN_TILES)


def block_counts(
    space: TileSpace, number: int, *, of_rows: bool, as_they_lie: bool = False
) -> list[Blocks]:
    """Into how many blocks a dimension may be cut so that rows of tiles stay long enough.

    ``as_they_lie``: rows are those in memory, and not of the last dimension, of large tensors.
    """
    dimension = space.dimensions[number]
    if numbers_matrices(space, number):
        # Tiles of several matrices are cut into single ones at some cost.
        return [Blocks(dimension.extent)]
    smallest = 1
    for op in space.graph.body.block.ops:
        if not isinstance(op, tb.InputOp):
            continue
        if as_they_lie and bytes_of(op.dtensor.type) <= CACHED_BYTES:
            continue
        if space.numbers[op.result][op.contiguous_dim() if as_they_lie else -1] == number:
            smallest = max(smallest, SMALLEST_ROW_BYTES // 2)
    evenly = [
        Blocks(count)
        for count in divisors(dimension.extent)
        if dimension.extent // count >= smallest or count == 1
    ]
    if _of_loaded_products(space, number):
        evenly = [
            each
            for each in evenly
            if suits_products(dimension.extent, dimension.extent // each.blocks)
        ]
    if _needs_swap_in_parts(space, number):
        evenly = [
            each
            for each in evenly
            if each.blocks <= MOST_EVEN_PARTS
            or dimension.extent // each.blocks <= GROUP_ROWS
            or dimension.extent // each.blocks % GROUP_ROWS == 0
        ]
    if has_converted_columns(space, number):
        step = SLICED_COLUMNS if is_sliced(space) else GROUP_ROWS
        whole = [each for each in evenly if dimension.extent // each.blocks % step == 0]
        evenly = whole or evenly
    tiles = UNEVEN_TILES if space.products else LONG_UNEVEN_TILES
    uneven = uneven_tiles(dimension.extent, tiles, smallest, max(tiles))
    if of_rows and smallest == 1:
        uneven += uneven_tiles(dimension.extent, UNEVEN_ROWS, 1, max(UNEVEN_ROWS))
    if smallest == 1 and passes_products_on(space):
        extent = dimension.extent
        uneven += uneven_tiles(extent, (ROWS_OF_THREE_GROUPS,), 1, extent)
    uneven += padded_tiles(space, number) + group_tiles(space, number)
    uneven += even_row_tiles(space, number)
    return [*evenly, *(Blocks(-(-dimension.extent // tile), tile) for tile in uneven)]
