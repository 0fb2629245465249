"""A product on tensor cores with cp.async, ldmatrix and mma.sync: C = A B^T, f16, sums in f32.

Tiles of later steps are on their way to shared memory while a block multiplies, and fragments are
loaded while those before them are multiplied.  Shared memory is swizzled, so that neither copies
nor ldmatrix have bank conflicts.
"""

import sys

from tiles import print_product, swizzled

from mugraph import cute
from mugraph.cute import _


@cute.kernel(results=["c"])
def gemm_sm80(a, b, c, tiler, stages, mma):
    """A tile of C a block; blocks of one time share rows of A.  Loads are ``stages`` - 1 ahead."""
    thread, _y, _z = cute.arch.thread_idx()
    row, n, rows = cute.arch.block_idx()
    m = rows * cute.arch.grid_dim()[0] + row
    coord = (m, n, _)
    ga = cute.local_tile(a, tiler, coord, (1, _, 1))  # (BM, BK, k)
    gb = cute.local_tile(b, tiler, coord, (_, 1, 1))  # (BN, BK, k)
    gc = cute.local_tile(c, tiler, coord, (1, 1, _))  # (BM, BN)
    memory = cute.SmemAllocator()
    sa = memory.allocate_tensor("f16", swizzled(tiler[0], tiler[2], stages), name="sa")
    sb = memory.allocate_tensor("f16", swizzled(tiler[1], tiler[2], stages), name="sb")

    # From device to shared memory: 16 bytes a thread, several threads a row.
    across = tiler[2] // 8
    rows = cute.Layout((mma.threads // across, across), (across, 1))
    load = cute.make_tiled_copy("SM80_CP_ASYNC_CACHEGLOBAL_U128", 16, rows, cute.Layout((1, 8)))
    mine = load.get_slice(thread)
    from_a, to_a = mine.partition_S(ga), mine.partition_D(sa)
    from_b, to_b = mine.partition_S(gb), mine.partition_D(sb)

    # From shared memory to the fragments of the product.
    product = mma.get_slice(thread)
    ra = cute.make_fragment_like(product.partition_A(sa[_, _, 0]))
    rb = cute.make_fragment_like(product.partition_B(sb[_, _, 0]))
    sums = cute.make_fragment_of_shape(product.partition_C(gc).shape, "f32")
    load_a = cute.make_tiled_copy_for("SM75_U32x4_LDSM_N", 16, mma, "A")
    load_b = cute.make_tiled_copy_for("SM75_U32x4_LDSM_N", 16, mma, "B")
    lines_a, lines_b = load_a.get_slice(thread), load_b.get_slice(thread)
    shared_a, shared_b = lines_a.partition_S(sa), lines_b.partition_S(sb)
    held_a, held_b = lines_a.retile_D(ra), lines_b.retile_D(rb)

    steps = from_a.shape[3]
    is_known = isinstance(steps, int)  # then loads behind the last step begin again: no condition

    def next_tiles():
        cute.arch.cp_async_wait_group(stages - 2)
        cute.arch.sync_threads()

    def send(step):
        with cute.when(is_known or step < steps):
            source = step % steps if is_known else step
            cute.copy(load, from_a[_, _, _, source], to_a[_, _, _, step % stages])
            cute.copy(load, from_b[_, _, _, source], to_b[_, _, _, step % stages])
        cute.arch.cp_async_commit_group()

    def fetch(block, step):
        cute.copy(load_a, shared_a[_, _, block, step % stages], held_a[_, _, block])
        cute.copy(load_b, shared_b[_, _, block, step % stages], held_b[_, _, block])

    for step in range(stages - 1):
        send(step)
    cute.clear(sums)
    blocks = ra.layout[2].size()
    send_at = 1 if blocks > 2 else 0
    next_tiles()
    fetch(0, 0)
    for k in cute.dynamic_range(steps):
        for block in range(blocks):
            if block + 1 < blocks:
                fetch(block + 1, k)
            else:
                next_tiles()
                with cute.when(is_known or k + 1 < steps):
                    fetch(0, k + 1)
            if block == send_at:
                send(k + stages - 1)
            cute.gemm(mma, ra[_, _, block], rb[_, _, block], sums)
    cute.arch.cp_async_wait_group(0)
    cute.copy(sums, product.partition_C(gc))


def launch(a, b, c, tiler=(128, 256, 64), stages=4, warps=(2, 4)):
    """The kernel on tensors of f16, (M,K), (N,K) and (M,N)."""
    rows, columns = warps
    permutation = (16 * rows, 16 * columns, 16)
    mma = cute.TiledMma("SM80_16x8x16_F32F16F16F32_TN", (rows, columns, 1), permutation)
    (m, n), (_m, k) = c.shape, a.shape
    if m % tiler[0] or n % tiler[1] or k % tiler[2]:
        sys.exit(f"tiles of {tiler} do not divide a product of {m} x {n} x {k}")
    down = cute.divisibility(m) // tiler[0]
    together = next(rows for rows in (8, 4, 2, 1) if down % rows == 0)
    return gemm_sm80(a, b, c, tiler, stages, mma).launch(
        grid=(together, n // tiler[1], m // (tiler[0] * together)), block=(mma.threads,)
    )


if __name__ == "__main__":
    print_product(launch, 4096, 4096, 4096)
