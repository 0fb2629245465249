"""How the examples of products cut M, N and K, each of which may have several modes."""

import sys
from itertools import product
from math import log2, prod

from mugraph import cute


def as_they_are(*tensors):
    """A (M,K), B (N,K) and C (M,N) of one mode each."""
    return tensors


def matrices_of(views, *tensors):
    """The layouts of row-major tensors that ``views`` makes matrices of.

    An extent that a call says is taken for one with the same powers of two.
    """

    def known(extent):
        return extent if isinstance(extent, int) else 3 * cute.divisibility(extent)

    shapes = (one.shape if isinstance(one.shape, tuple) else (one.shape,) for one in tensors)
    layouts = (cute.make_row_major_layout(tuple(map(known, shape))) for shape in shapes)
    return views(*(cute.make_counting_tensor(layout) for layout in layouts))


def tiles_of(shape, tile):
    """How many tiles there are along a mode, those of its modes multiplied."""
    if not isinstance(shape, (tuple, list)):
        return -(-shape // tile)
    return prod(tiles_of(*pair) for pair in zip(shape, tile, strict=True))


def tile_of(extents, elements, allowed=lambda tile: True):
    """Powers of two along each mode, so many elements in all, that leave the fewest out.

    Long ones along the first modes where several do; ``None`` where none is ``allowed``.
    """
    powers = [1 << bits for bits in range(elements.bit_length())]
    tiles = (tile for tile in product(powers, repeat=len(extents)) if prod(tile) == elements)
    return min(
        filter(allowed, tiles),
        key=lambda tile: (tiles_of(extents, tile), [-extent for extent in tile]),
        default=None,
    )


def exists_in(shape):
    """What says whether coordinates are those of an element."""
    before = (-1,) * (len(shape) if isinstance(shape, tuple) else 1)
    return lambda at: cute.elem_less(before, at) & cute.elem_less(at, shape)


def neighbours(matrix, mode, tile):
    """How many elements along the first one of a matrix's modes 0 or 1 may be moved at once."""
    (extent, *_), (step, *_) = matrix.layout[mode].flat_shape, matrix.layout[mode].flat_stride
    first = cute.Layout(tile[mode]).flat_shape[0]
    others = [one for one in matrix.layout.flat_stride if one != 1]
    numbers = (extent, first, matrix.offset, *others)
    widths = (8, 4, 2) if step == 1 else ()
    return next((width for width in widths if not any(one % width for one in numbers)), 1)


def swizzled(rows: int, columns: int, *stages: int) -> cute.AnyLayout:
    """Rows of 16 bits an element without bank conflicts, as TMA writes and WGMMA reads them."""
    line = min(columns, 64)
    atom = cute.Layout((8, line), (line, 1))
    swizzle = cute.Swizzle(int(log2(line // 8)), 3, 3)
    return cute.tile_to_shape(cute.composition(swizzle, atom), (rows, columns, *stages))


def print_product(launch, *sizes):
    """Prints the kernel of a product of M, N and K: those of the command line, or ``sizes``."""
    m, n, k = (int(size) for size in sys.argv[1:] or sizes)
    tensors = [cute.make_fake_tensor("f16", shape) for shape in ((m, k), (n, k), (m, n))]
    print(launch(*tensors).text())
