"""A product by TMA, mbarriers and WGMMA: C = A B^T, f16, sums in f32 (sm_90a).

One warp loads tiles of A and B through a ring of stages; warp groups multiply and store by TMA.
``full`` says that a stage is there, ``empty`` that all warps have read it.  M, N and K may have
several modes: ``contraction.py`` and ``convolution.py`` are this kernel on other layouts.
"""

from tiles import as_they_are, matrices_of, print_product, swizzled, tiles_of

from mugraph import cute
from mugraph.cute import _, arch


@cute.kernel(results=["c"])
def gemm_sm90(a, b, c, tiler, stages, rows, mma, part, views=as_they_are):
    """Each block computes several tiles of C; those of one time share ``rows`` tiles of A."""
    a, b, c = views(a, b, c)
    m, n, k = (cute.Layout(tile).size() for tile in tiler)
    thread, block, blocks = arch.thread_idx()[0], arch.block_idx()[0], arch.grid_dim()[0]
    memory = cute.SmemAllocator()
    sa = memory.allocate_tensor("f16", swizzled(m, k, stages), name="sa")
    sb = memory.allocate_tensor("f16", swizzled(n, k, stages), name="sb")
    sc = memory.allocate_tensor("f16", swizzled(m, part.tile_extent(1)), name="sc")
    full = memory.allocate_array("i64", stages, name="full")
    empty = memory.allocate_array("i64", stages, name="empty")
    load_a = cute.make_tma_copy("SM90_TMA_LOAD", a, sa[_, _, 0].layout)
    load_b = cute.make_tma_copy("SM90_TMA_LOAD", b, sb[_, _, 0].layout)
    box = (64, part.tile_extent(1))  # what a warp group stores at once, as far as C reaches
    store = cute.make_tma_copy("SM90_TMA_STORE", c, swizzled(*box))
    down, across, steps = map(tiles_of, (*c.shape, a.shape[1]), tiler)
    tiles, consumers = down * across, mma.threads // 32
    turns = -(-tiles // blocks)

    def place(tile):  # where it lies
        return (tile // (rows * across) * rows + tile % rows, tile // rows % across, _)

    with cute.when(thread == 0):
        for stage in range(stages):
            arch.mbarrier_init(full + stage, 1)
            arch.mbarrier_init(empty + stage, consumers)
        arch.mbarrier_init_fence()
    arch.sync_threads()
    with cute.when(thread == mma.threads):  # the producer
        for turn in cute.dynamic_range(turns, "turn"):
            tile = block + turn * blocks
            with cute.when(tile < tiles):
                ga = cute.local_tile(a, tiler, place(tile), (1, _, 1))  # (BM, BK, k)
                gb = cute.local_tile(b, tiler, place(tile), (_, 1, 1))  # (BN, BK, k)
                to_a, from_a = cute.tma_partition(load_a, 0, cute.Layout(1), sa, ga)
                to_b, from_b = cute.tma_partition(load_b, 0, cute.Layout(1), sb, gb)
                for k in cute.dynamic_range(steps):
                    count = turn * steps + k
                    stage, phase = count % stages, count // stages % 2
                    arch.mbarrier_wait(empty + stage, 1 - phase)
                    arch.mbarrier_arrive_and_expect_tx(full + stage, load_a.bytes + load_b.bytes)
                    cute.copy(load_a, from_a[_, k], to_a[_, stage], tma_bar_ptr=full + stage)
                    cute.copy(load_b, from_b[_, k], to_b[_, stage], tma_bar_ptr=full + stage)

    def store_tile(parts, staged, gc):
        """Each warp group stores its 64 rows of a tile, as many columns as ``box`` has at once."""
        for number in range(n // box[1]):
            for group in range(m // 64):
                with cute.when(thread // 128 == group):
                    with cute.when(thread == 128 * group):  # what was stored before has been read
                        arch.cp_async_bulk_wait_group(0)
                    arch.barrier(1 + group, 128)
                    cute.copy(parts[(_, number), 0, 0], staged)
                    arch.fence_proxy("async.shared", space="cta")
                    arch.barrier(1 + group, 128)
                    source = cute.local_tile(sc, box, (group, 0))
                    to = cute.local_tile(gc, box, (group, number))
                    with cute.when(thread == 128 * group):
                        cute.copy(store, *cute.tma_partition(store, 0, cute.Layout(1), source, to))
                        arch.cp_async_bulk_commit_group()

    with cute.when(arch.warp_idx() < consumers):
        mine = mma.get_slice(thread)
        ra = mine.make_fragment_A(mine.partition_A(sa))
        rb = mine.make_fragment_B(mine.partition_B(sb))
        staged = part.get_slice(thread).partition_C(sc)
        sums = cute.make_fragment_of_shape((mma.atom.values_of_c, 1, 1), "f32")
        parts = sums.apply(cute.logical_divide, (staged.size(),))
        for turn in cute.dynamic_range(turns, "turn"):
            tile = block + turn * blocks
            with cute.when(tile < tiles):
                cute.clear(sums)
                for k in cute.dynamic_range(steps):
                    count = turn * steps + k
                    stage, phase = count % stages, count // stages % 2
                    arch.mbarrier_wait(full + stage, phase)
                    cute.warpgroup.fence()
                    cute.gemm(mma, ra[_, _, _, stage], rb[_, _, _, stage], sums)
                    cute.warpgroup.commit_group()
                    cute.warpgroup.wait_group(1)  # the stage of the product before has been read
                    arch.sync_warp()
                    with cute.when(k > 0), arch.elect_one():
                        arch.mbarrier_arrive(empty + (count + stages - 1) % stages)
                cute.warpgroup.wait_group(0)
                with arch.elect_one():
                    arch.mbarrier_arrive(empty + (turn * steps + steps - 1) % stages)
                store_tile(parts, staged, cute.local_tile(c, tiler, place(tile), (1, 1, _)))
        arch.cp_async_bulk_wait_group(0)


def launch(a, b, c, tiler=(128, 256, 64), stages=4, rows=8, blocks=132, views=as_they_are):
    """The kernel on f16 (M,K), (N,K) and (M,N), row-major, in ``views``: 64 rows a warp group."""
    m, n, _k = (cute.Layout(tile).size() for tile in tiler)
    mma = cute.TiledMma(f"SM90_64x{n}x16_F32F16F16_SS", (m // 64, 1, 1))
    part = cute.TiledMma(f"SM90_64x{min(n, 128)}x16_F32F16F16_SS", (m // 64, 1, 1))
    extents = c.shape if views is as_they_are else matrices_of(views, a, b, c)[2].shape
    down, across = map(tiles_of, extents, tiler[:2])
    is_known = isinstance(down, int)  # where a call says M, all blocks are launched
    rows = next(count for count in range(rows if is_known else 1, 0, -1) if down % count == 0)
    blocks = min(blocks, down * across) if is_known else blocks
    call = gemm_sm90(a, b, c, tiler, stages, rows, mma, part, views)
    return call.launch(grid=(blocks,), block=(mma.threads + 32,))


if __name__ == "__main__":
    print_product(launch, 4096, 4096, 4096)
