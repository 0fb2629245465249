"""C = A + B on matrices of any extents: tiled copies, and predicates where a tile has an end."""

import sys

from mugraph import cute
from mugraph.cute import _


@cute.kernel(results=["c"])
def add(a, b, c, load, tile):
    """A tile a block, vectors a thread."""
    thread, _y, _z = cute.arch.thread_idx()
    row, column, _z = cute.arch.block_idx()
    mine = load.get_slice(thread)
    tensors = (a, b, c, cute.make_identity_tensor(c.shape))
    tiles = (cute.local_tile(one, tile, (row, column)) for one in tensors)
    from_a, from_b, to_c, coords = (mine.partition_S(one) for one in tiles)
    # One predicate for each vector, which exists whole or not at all.
    exists = cute.transform(coords[(0, _), _, _], lambda at: cute.elem_less(at, c.shape))
    left, right = cute.make_fragment_like(from_a), cute.make_fragment_like(from_b)
    for source, target in ((from_a, left), (from_b, right)):
        cute.clear(target)
        cute.copy_if(exists, load, source, target)
    cute.axpby(1, left, 1, right)
    cute.copy_if(exists, load, right, to_c)


def launch(a, b, c):
    """The kernel on matrices of f32: 128 threads a block, 4 x 4 elements a thread."""
    width = 4 if cute.divisibility(c.shape[1]) % 4 == 0 else 1
    tile = (16, 32 * width)
    threads, values = cute.Layout((4, 32), (32, 1)), cute.Layout((4, width), (width, 1))
    load = cute.make_tiled_copy(f"UniversalCopy_U{32 * width}", 32, threads, values)
    grid = [-(-extent // step) for extent, step in zip(c.shape, tile, strict=True)]
    return add(a, b, c, load, tile).launch(grid=grid, block=(128,))


if __name__ == "__main__":
    shape = tuple(int(extent) for extent in sys.argv[1:]) or (1000, 1000)
    print(launch(*[cute.make_fake_tensor("f32", shape)] * 3).text())
