"""A product on tensor cores of whatever layouts say: C = A B^T, f16, sums in f32 (sm_80 and later).

M, N and K may have several modes, and matrices may begin outside of tensors, as windows do in a
padding: what lies there is zero.  Tiles of later steps come by cp.async, which fills zeros, while a
block multiplies; those that have no neighbours along K come to registers, a step ahead.
"""

from tiles import as_they_are, exists_in, matrices_of, neighbours, print_product, swizzled, tiles_of

from mugraph import cute
from mugraph.cute import _


@cute.kernel(results=["c"])
def gemm_predicated(a, b, c, tiler, stages, mma, load_a, load_b, stored, views=as_they_are):
    """A tile of C a block; ``stored`` neighbours along N exist all or not at all."""
    thread, _y, _z = cute.arch.thread_idx()
    m, n, _z = cute.arch.block_idx()
    shapes = [one.shape for one in (a, b, c)]
    tensors = views(a, b, c)
    places = views(*(cute.make_identity_tensor(shape) for shape in shapes))

    def tile(tensor, projection):
        return cute.local_tile(tensor, tiler, (m, n, _), projection)

    (ga, gb, gc), (at_a, at_b, at_c) = (
        map(tile, ones, ((1, _, 1), (_, 1, 1), (1, 1, _))) for ones in (tensors, places)
    )
    rows, columns, depth = (cute.Layout(one).size() for one in tiler)
    memory = cute.SmemAllocator()
    sa = memory.allocate_tensor("f16", swizzled(rows, depth, stages), name="sa")
    sb = memory.allocate_tensor("f16", swizzled(columns, depth, stages), name="sb")
    moves = []  # to shared memory, some of them through registers
    for load, tile, where, shape, shared in (
        (load_a, ga, at_a, shapes[0], sa),
        (load_b, gb, at_b, shapes[1], sb),
    ):
        mine = load.get_slice(thread)
        source, target = mine.partition_S(tile), mine.partition_D(shared)
        exists = cute.transform(mine.partition_S(where)[(0, _), _, _, _], exists_in(shape))
        held = None if load.atom.fills_zeros else cute.make_fragment_like(source[_, _, _, 0])
        moves.append((load, source, exists, held, target))

    def send(step):
        for load, source, exists, held, target in moves:
            if held is not None:
                cute.clear(held)
            to = target[_, _, _, step % stages] if held is None else held
            cute.copy_if(exists[_, _, _, step], load, source[_, _, _, step], to)

    product = mma.get_slice(thread)
    ra, rb = (
        cute.make_fragment_like(part)
        for part in (product.partition_A(sa[_, _, 0]), product.partition_B(sb[_, _, 0]))
    )
    result, at = product.partition_C(gc), product.partition_C(at_c)
    sums = cute.make_fragment_of_shape(result.shape, "f32")
    lines = [
        (cute.make_tiled_copy_for("SM75_U32x4_LDSM_N", 16, mma, side), shared, held)
        for side, shared, held in (("A", sa, ra), ("B", sb, rb))
    ]
    steps = cute.size(ga, [ga.rank - 1])
    cute.clear(sums)
    ahead = stages - 1
    for step in range(ahead):
        with cute.when(step < steps):
            send(step)
        cute.arch.cp_async_commit_group()
    for k in cute.dynamic_range(steps):
        for _load, _source, _exists, held, target in moves:
            if held is not None:
                cute.copy(held, target[_, _, _, k % stages])
        cute.arch.cp_async_wait_group(ahead - 1)
        cute.arch.sync_threads()  # tiles are there, and those before have been read
        with cute.when(k + ahead < steps):
            send(k + ahead)
        cute.arch.cp_async_commit_group()
        for block in range(ra.layout[2].size()):
            for load, shared, held in lines:
                mine = load.get_slice(thread)
                source, target = mine.partition_S(shared), mine.retile_D(held)
                cute.copy(load, source[_, _, block, k % stages], target[_, _, block])
            cute.gemm(mma, ra[_, _, block], rb[_, _, block], sums)
    exists = cute.transform(at[(0, _), _, _] if stored == 2 else at, exists_in(shapes[2]))
    cute.copy_if(exists, sums, result)


def tiled_load(matrix, tile, threads):
    """Loads of what lies together, along the rows, or along K: then by cp.async."""
    rows, depth = (cute.Layout(one).size() for one in tile)
    down, across = (neighbours(matrix, mode, tile) for mode in (0, 1))
    if down > across:
        lanes = min(rows // down, threads)
        places = cute.Layout((lanes, threads // lanes))
        name = f"UniversalCopy_U{16 * down}"
        return cute.make_tiled_copy(name, 16, places, cute.Layout((down, 1)))
    lanes = min(depth // across, threads)
    places = cute.Layout((threads // lanes, lanes), (lanes, 1))
    cache = "GLOBAL" if across == 8 else "ALWAYS"
    name = f"SM80_CP_ASYNC_CACHE{cache}_ZFILL_U{16 * across}" if across > 1 else "UniversalCopy_U16"
    return cute.make_tiled_copy(name, 16, places, cute.Layout((1, across)))


def launch(a, b, c, tiler=(64, 64, 32), views=as_they_are, stages=3):
    """The kernel on row-major tensors of f16 and any extents, matrices in ``views``."""
    mma = cute.TiledMma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    (in_a, in_b, in_c), (m, n, k) = matrices_of(views, a, b, c), tiler
    loads = tiled_load(in_a, (m, k), mma.threads), tiled_load(in_b, (n, k), mma.threads)
    stored = min(2, neighbours(in_c, 1, (m, n)))
    stages = stages if all(load.atom.fills_zeros for load in loads) else 2
    call = gemm_predicated(a, b, c, tiler, stages, mma, *loads, stored, views)
    extents = c.shape if views is as_they_are else in_c.layout.shape
    return call.launch(grid=[*map(tiles_of, extents, tiler[:2])], block=(mma.threads,))


if __name__ == "__main__":
    print_product(launch, 1000, 1000, 1000)
