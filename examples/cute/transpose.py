"""B = A^T through shared memory: rows are read, rows are written, without bank conflicts."""

import sys

from mugraph import cute

TILE = (32, 32)
ROWS = cute.Layout(TILE, (32, 1))


@cute.kernel(results=["b"])
def transpose(a, b, swizzle):
    """A tile a block, which lies swizzled in shared memory."""
    thread, _y, _z = cute.arch.thread_idx()
    row, column, _z = cute.arch.block_idx()
    tile = cute.SmemAllocator().allocate_tensor("f32", cute.composition(swizzle, ROWS))
    threads = cute.Layout((8, 32), (32, 1))

    def mine(tensor, coord=(0, 0)):
        return cute.local_partition(cute.local_tile(tensor, TILE, coord), threads, thread)

    def exists(tensor, coord):
        coords = mine(cute.make_identity_tensor(tensor.shape), coord)
        return cute.transform(coords, lambda at: cute.elem_less(at, tensor.shape))

    there, back = (row, column), (column, row)
    cute.copy_if(exists(a, there), mine(a, there), mine(tile))
    cute.arch.sync_threads()
    cute.copy_if(exists(b, back), mine(tile.compose(ROWS)), mine(b, back))


def launch(a, b, bits=5):
    """The kernel on matrices of f32; ``bits`` is 0 for a tile without a swizzle."""
    grid = [-(-extent // step) for extent, step in zip(a.shape, TILE, strict=True)]
    return transpose(a, b, cute.Swizzle(bits, 0, 5)).launch(grid=grid, block=(256,))


if __name__ == "__main__":
    m, n = (int(extent) for extent in sys.argv[1:] or (1000, 1000))
    print(launch(*(cute.make_fake_tensor("f32", shape) for shape in ((m, n), (n, m)))).text())
