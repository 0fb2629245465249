"""C = alpha A B^T + beta C in f32: a tiled copy, a tiled MMA, and registers between them.

As sgemm_1, but instructions are named: 16 bytes a copy where A and B allow it, and fused
multiply-adds.  The next tiles are on their way to registers while a block multiplies.
"""

import sys

from mugraph import cute
from mugraph.cute import _


@cute.kernel
def sgemm_2(a, b, c, tiler, load_a, load_b, mma, alpha, beta):
    """A tile of C a block; its threads load tiles of A and B, a step ahead."""
    thread, _y, _z = cute.arch.thread_idx()
    m, n, _z = cute.arch.block_idx()
    coord = (m, n, _)
    ga = cute.local_tile(a, tiler, coord, (1, _, 1))  # (BM, BK, k)
    gb = cute.local_tile(b, tiler, coord, (_, 1, 1))  # (BN, BK, k)
    gc = cute.local_tile(c, tiler, coord, (1, 1, _))  # (BM, BN)
    memory = cute.SmemAllocator()
    sa = memory.allocate_tensor("f32", cute.Layout((tiler[0], tiler[2])), name="sa")
    sb = memory.allocate_tensor("f32", cute.Layout((tiler[1], tiler[2])), name="sb")
    copy_a, copy_b = load_a.get_slice(thread), load_b.get_slice(thread)
    from_a, to_a = copy_a.partition_S(ga), copy_a.partition_D(sa)
    from_b, to_b = copy_b.partition_S(gb), copy_b.partition_D(sb)
    next_a, next_b = cute.make_fragment_like(to_a, "f32"), cute.make_fragment_like(to_b, "f32")

    product = mma.get_slice(thread)
    rows, columns = product.partition_A(sa), product.partition_B(sb)
    result = product.partition_C(gc)
    sums = product.make_fragment_C(result, "f32")
    cute.clear(sums)
    steps = from_a.shape[3]
    cute.copy(load_a, from_a[_, _, _, 0], next_a)
    cute.copy(load_b, from_b[_, _, _, 0], next_b)
    for k in cute.dynamic_range(steps):
        cute.arch.sync_threads()
        cute.copy(next_a, to_a)
        cute.copy(next_b, to_b)
        cute.arch.sync_threads()
        with cute.when(k + 1 < steps):
            cute.copy(load_a, from_a[_, _, _, k + 1], next_a)
            cute.copy(load_b, from_b[_, _, _, k + 1], next_b)
        cute.gemm(mma, rows, columns, sums)
    cute.axpby(alpha, sums, beta, result)


def launch(a, b, c, alpha=1.0, beta=0.0, tiler=(128, 128, 8)):
    """The kernel on A (M,K) and B (N,K), both of dense columns, and C (M,N)."""
    (m, n), (_m, k) = c.shape, a.shape
    if m % tiler[0] or n % tiler[1] or k % tiler[2]:
        sys.exit(f"tiles of {tiler} do not divide a product of {m} x {n} x {k}")
    threads = cute.Layout((256 // tiler[2], tiler[2]))
    load = cute.make_tiled_copy("UniversalCopy_U128", 32, threads, cute.Layout((4, 1)))
    mma = cute.TiledMma("UniversalFMA_F32", (16, 16, 1))
    call = sgemm_2(a, b, c, tiler, load, load, mma, alpha, beta)
    return call.launch(grid=(m // tiler[0], n // tiler[1]), block=(256,))


if __name__ == "__main__":
    m, n, k = (int(size) for size in sys.argv[1:] or (4096, 4096, 4096))
    columns = [cute.make_fake_tensor("f32", (rows, k), (1, rows)) for rows in (m, n)]
    print(launch(*columns, cute.make_fake_tensor("f32", (m, n)), 2.0, 0.5).text())
