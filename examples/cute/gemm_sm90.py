"""A product by TMA, mbarriers and WGMMA: C = A B^T, f16, sums in f32 (sm_90a).

One warp loads tiles of A and B through a ring of stages; two warp groups multiply what has come.
``full`` says that the bytes of a stage are there, ``empty`` that all warps have read it.
"""

import sys

from mugraph import cute
from mugraph.cute import _


def swizzled(rows: int, columns: int, stages: int) -> cute.AnyLayout:
    """Rows of 64 elements of 16 bits, as TMA writes and WGMMA reads them."""
    atom = cute.composition(cute.Swizzle(3, 3, 3), cute.Layout((8, 64), (64, 1)))
    return cute.tile_to_shape(atom, (rows, columns, stages))


@cute.kernel(results=["c"])
def gemm_sm90(a, b, c, tiler, stages, rows, mma):
    """Each block computes a row of tiles of C, one after another.

    Tiles that are computed at the same time have ``rows`` tiles of A in common.
    """
    thread, _y, _z = cute.arch.thread_idx()
    block, _y, _z = cute.arch.block_idx()
    blocks, _y, _z = cute.arch.grid_dim()
    memory = cute.SmemAllocator()
    sa = memory.allocate_tensor("f16", swizzled(tiler[0], tiler[2], stages), name="sa")
    sb = memory.allocate_tensor("f16", swizzled(tiler[1], tiler[2], stages), name="sb")
    full = memory.allocate_array("i64", stages, name="full")
    empty = memory.allocate_array("i64", stages, name="empty")
    load_a = cute.make_tma_copy("SM90_TMA_LOAD", a, sa[_, _, 0].layout)
    load_b = cute.make_tma_copy("SM90_TMA_LOAD", b, sb[_, _, 0].layout)
    across, tiles = c.shape[1] // tiler[1], c.shape[0] // tiler[0] * (c.shape[1] // tiler[1])
    steps, consumers = a.shape[1] // tiler[2], mma.threads // 32

    def place(tile):
        """Where the tile of a number lies."""
        return (tile // (rows * across) * rows + tile % rows, tile // rows % across, _)

    with cute.when(thread == 0):
        for stage in range(stages):
            cute.arch.mbarrier_init(full + stage, 1)
            cute.arch.mbarrier_init(empty + stage, consumers)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()

    with cute.when(thread == mma.threads):  # the producer
        for turn in cute.dynamic_range(-(-tiles // blocks), "turn"):
            tile = block + turn * blocks
            with cute.when(tile < tiles):
                ga = cute.local_tile(a, tiler, place(tile), (1, _, 1))  # (BM, BK, k)
                gb = cute.local_tile(b, tiler, place(tile), (_, 1, 1))  # (BN, BK, k)
                to_a, from_a = cute.tma_partition(load_a, 0, cute.Layout(1), sa, ga)
                to_b, from_b = cute.tma_partition(load_b, 0, cute.Layout(1), sb, gb)
                for k in cute.dynamic_range(steps):
                    stage = (turn * steps + k) % stages
                    phase = (turn * steps + k) // stages % 2
                    ready = full + stage
                    cute.arch.mbarrier_wait(empty + stage, 1 - phase)
                    cute.arch.mbarrier_arrive_and_expect_tx(ready, load_a.bytes + load_b.bytes)
                    cute.copy(load_a, from_a[_, k], to_a[_, stage], tma_bar_ptr=ready)
                    cute.copy(load_b, from_b[_, k], to_b[_, stage], tma_bar_ptr=ready)

    with cute.when(cute.arch.warp_idx() < consumers):
        mine = mma.get_slice(thread)
        ra = mine.make_fragment_A(mine.partition_A(sa))
        rb = mine.make_fragment_B(mine.partition_B(sb))
        for turn in cute.dynamic_range(-(-tiles // blocks), "turn"):
            tile = block + turn * blocks
            with cute.when(tile < tiles):
                result = mine.partition_C(cute.local_tile(c, tiler, place(tile), (1, 1, _)))
                sums = mine.make_fragment_C(result, "f32")
                cute.clear(sums)
                for k in cute.dynamic_range(steps):
                    stage = (turn * steps + k) % stages
                    phase = (turn * steps + k) // stages % 2
                    cute.arch.mbarrier_wait(full + stage, phase)
                    cute.warpgroup.fence()
                    cute.gemm(mma, ra[_, _, _, stage], rb[_, _, _, stage], sums)
                    cute.warpgroup.commit_group()
                    # One product stays under way; the stage of the one before has been read.
                    cute.warpgroup.wait_group(1)
                    cute.arch.sync_warp()
                    with cute.when(k > 0), cute.arch.elect_one():
                        cute.arch.mbarrier_arrive(empty + (turn * steps + k + stages - 1) % stages)
                cute.warpgroup.wait_group(0)
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive(empty + (turn * steps + steps - 1) % stages)
                cute.copy(sums, result)


def launch(a, b, c, tiler=(128, 256, 64), stages=4, rows=8, blocks=132):
    """The kernel on tensors of f16, (M,K), (N,K) and (M,N): a warp group for 64 rows."""
    mma = cute.TiledMma(f"SM90_64x{tiler[1]}x16_F32F16F16_SS", (tiler[0] // 64, 1, 1))
    (m, n), (_m, k) = c.shape, a.shape
    if m % tiler[0] or n % tiler[1] or k % tiler[2]:
        sys.exit(f"tiles of {tiler} do not divide a product of {m} x {n} x {k}")
    rows = next(count for count in range(rows, 0, -1) if m // tiler[0] % count == 0)
    grid = (min(blocks, m // tiler[0] * (n // tiler[1])),)
    call = gemm_sm90(a, b, c, tiler, stages, rows, mma)
    return call.launch(grid=grid, block=(mma.threads + 32,))


if __name__ == "__main__":
    m, n, k = (int(size) for size in sys.argv[1:] or (4096, 4096, 4096))
    tensors = [cute.make_fake_tensor("f16", shape) for shape in ((m, k), (n, k), (m, n))]
    print(launch(*tensors).text())
