"""Sums of rows, a thread each, from a tile in shared memory that names a swizzle, or none.

Rows of 128 bytes begin in the same banks: eight threads that read 16 bytes each of rows of their
own take turns.  The swizzle moves the vectors of row r by r mod 8.
"""

import sys

from mugraph import cute
from mugraph.cute import _

PLAIN = cute.Layout((128, 64), (64, 1))
SWIZZLED = cute.composition(cute.Swizzle(3, 3, 3), PLAIN)


@cute.kernel(results=["sums"])
def row_sums(x, sums, load, layout):
    """128 rows a block."""
    thread, _y, _z = cute.arch.thread_idx()
    block, _y, _z = cute.arch.block_idx()
    tile = cute.SmemAllocator().allocate_tensor("f16", layout)
    rows = cute.local_tile(x, layout.shape, (block, 0))
    mine = load.get_slice(thread)
    cute.copy(load, mine.partition_S(rows), mine.partition_D(tile))
    cute.arch.sync_threads()
    row = cute.make_fragment_like(tile[thread, _])
    cute.copy("UniversalCopy_U128", tile[thread, _], row)
    sums[block * 128 + thread] = row.load().reduce(cute.ReductionOp.ADD, 0.0)


def launch(x, sums, layout=SWIZZLED):
    """The kernel on rows of 64 elements of f16, a multiple of 128 rows, and their sums."""
    threads, values = cute.Layout((16, 8), (8, 1)), cute.Layout((1, 8))
    load = cute.make_tiled_copy("UniversalCopy_U128", 16, threads, values)
    return row_sums(x, sums, load, layout).launch(grid=(x.shape[0] // 128,), block=(128,))


if __name__ == "__main__":
    tensors = [cute.make_fake_tensor("f16", shape) for shape in ((4096, 64), (4096,))]
    print(launch(*tensors, PLAIN if "plain" in sys.argv else SWIZZLED).text())
