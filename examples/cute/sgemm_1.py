"""C = alpha A B^T + beta C in f32: tiles through shared memory, threads laid over them.

Who loads what and who computes what are layouts of threads, and partitions by them.
"""

import sys

from mugraph import cute
from mugraph.cute import _


@cute.kernel
def sgemm_1(a, b, c, tiler, threads_a, threads_b, threads_c, alpha, beta):
    """A tile of C a block; its threads load tiles of A and B, step by step."""
    thread, _y, _z = cute.arch.thread_idx()
    m, n, _z = cute.arch.block_idx()
    coord = (m, n, _)
    ga = cute.local_tile(a, tiler, coord, (1, _, 1))  # (BM, BK, k)
    gb = cute.local_tile(b, tiler, coord, (_, 1, 1))  # (BN, BK, k)
    gc = cute.local_tile(c, tiler, coord, (1, 1, _))  # (BM, BN)
    memory = cute.SmemAllocator()
    sa = memory.allocate_tensor("f32", cute.Layout((tiler[0], tiler[2])), name="sa")
    sb = memory.allocate_tensor("f32", cute.Layout((tiler[1], tiler[2])), name="sb")
    from_a, to_a = (cute.local_partition(one, threads_a, thread) for one in (ga, sa))
    from_b, to_b = (cute.local_partition(one, threads_b, thread) for one in (gb, sb))
    # Threads with one row read the same of A, those with one column the same of B.
    rows = cute.local_partition(sa, threads_c, thread, (1, _))  # (TM, BK)
    columns = cute.local_partition(sb, threads_c, thread, (_, 1))  # (TN, BK)
    result = cute.local_partition(gc, threads_c, thread)  # (TM, TN)
    sums = cute.make_fragment_like(result)
    cute.clear(sums)
    for k in cute.dynamic_range(from_a.shape[2]):
        cute.copy(from_a[_, _, k], to_a)
        cute.copy(from_b[_, _, k], to_b)
        cute.arch.sync_threads()
        cute.gemm(rows, columns, sums)
        cute.arch.sync_threads()
    cute.axpby(alpha, sums, beta, result)


def launch(a, b, c, alpha=1.0, beta=0.0, tiler=(128, 128, 8)):
    """The kernel on A (M,K), B (N,K) and C (M,N) of any majors: 256 threads a block."""
    (m, n), (_m, k) = c.shape, a.shape
    if m % tiler[0] or n % tiler[1] or k % tiler[2]:
        sys.exit(f"tiles of {tiler} do not divide a product of {m} x {n} x {k}")
    loads, computes = cute.Layout((256 // tiler[2], tiler[2])), cute.Layout((16, 16))
    call = sgemm_1(a, b, c, tiler, loads, loads, computes, alpha, beta)
    return call.launch(grid=(m // tiler[0], n // tiler[1]), block=(256,))


if __name__ == "__main__":
    m, n, k = (int(size) for size in sys.argv[1:] or (4096, 4096, 4096))
    tensors = [cute.make_fake_tensor("f32", shape) for shape in ((m, k), (n, k), (m, n))]
    print(launch(*tensors, alpha=2.0, beta=0.5).text())
