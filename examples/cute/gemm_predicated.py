"""A product on tensor cores of whatever layouts say: C = A B^T, f16, sums in f32 (sm_80 and later).

M, N and K may have several modes, and matrices may begin outside of tensors, as windows do in a
padding: what lies there is zero.  The next tiles come to registers while a block multiplies.
"""

from tiles import as_they_are, matrices_of, print_product, swizzled, tiles_of

from mugraph import cute
from mugraph.cute import _


def exists_in(shape):
    """What says whether coordinates are those of an element."""
    before = (-1,) * (len(shape) if isinstance(shape, tuple) else 1)
    return lambda at: cute.elem_less(before, at) & cute.elem_less(at, shape)


@cute.kernel(results=["c"])
def gemm_predicated(a, b, c, tiler, mma, load_a, load_b, stored, views=as_they_are):
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
    sa = memory.allocate_tensor("f16", swizzled(rows, depth), name="sa")
    sb = memory.allocate_tensor("f16", swizzled(columns, depth), name="sb")
    # From device memory through registers to shared memory.
    moves = []
    for load, tile, where, shape, shared in (
        (load_a, ga, at_a, shapes[0], sa),
        (load_b, gb, at_b, shapes[1], sb),
    ):
        mine = load.get_slice(thread)
        source, target = mine.partition_S(tile), mine.partition_D(shared)
        exists = cute.transform(mine.partition_S(where)[(0, _), _, _, _], exists_in(shape))
        moves.append((load, source, exists, cute.make_fragment_like(source[_, _, _, 0]), target))

    def fetch(step):
        for load, source, exists, held, _target in moves:
            cute.clear(held)
            cute.copy_if(exists[_, _, _, step], load, source[_, _, _, step], held)

    product = mma.get_slice(thread)
    ra, rb = (
        cute.make_fragment_like(part) for part in (product.partition_A(sa), product.partition_B(sb))
    )
    result, at = product.partition_C(gc), product.partition_C(at_c)
    sums = cute.make_fragment_of_shape(result.shape, "f32")
    lines = [
        (cute.make_tiled_copy_for("SM75_U32x4_LDSM_N", 16, mma, side), shared, held)
        for side, shared, held in (("A", sa, ra), ("B", sb, rb))
    ]
    steps = cute.size(ga, [ga.rank - 1])
    cute.clear(sums)
    fetch(0)
    for k in cute.dynamic_range(steps):
        cute.arch.sync_threads()  # the tiles before have been read
        for _load, _source, _exists, held, target in moves:
            cute.copy(held, target)
        cute.arch.sync_threads()
        with cute.when(k + 1 < steps):
            fetch(k + 1)
        for block in range(ra.layout[2].size()):
            for load, shared, held in lines:
                mine = load.get_slice(thread)
                source, target = mine.partition_S(shared), mine.retile_D(held)
                cute.copy(load, source[_, _, block], target[_, _, block])
            cute.gemm(mma, ra[_, _, block], rb[_, _, block], sums)
    exists = cute.transform(at[(0, _), _, _] if stored == 2 else at, exists_in(shapes[2]))
    cute.copy_if(exists, sums, result)


def neighbours(matrix, mode, tile):
    """How many elements along the first one of a matrix's modes 0 or 1 may be moved at once."""
    (extent, *_), (step, *_) = matrix.layout[mode].flat_shape, matrix.layout[mode].flat_stride
    first = cute.Layout(tile[mode]).flat_shape[0]
    others = [one for one in matrix.layout.flat_stride if one != 1]
    numbers = (extent, first, matrix.offset, *others)
    widths = (8, 4, 2) if step == 1 else ()
    return next((width for width in widths if not any(one % width for one in numbers)), 1)


def tiled_load(matrix, tile, threads):
    """Loads of what lies together, along K or along the rows."""
    rows, depth = (cute.Layout(one).size() for one in tile)
    down, across = (neighbours(matrix, mode, tile) for mode in (0, 1))
    name = f"UniversalCopy_U{16 * max(down, across)}"
    if down > across:
        lanes = min(rows // down, threads)
        places = cute.Layout((lanes, threads // lanes))
        return cute.make_tiled_copy(name, 16, places, cute.Layout((down, 1)))
    lanes = min(depth // across, threads)
    places = cute.Layout((threads // lanes, lanes), (lanes, 1))
    return cute.make_tiled_copy(name, 16, places, cute.Layout((1, across)))


def launch(a, b, c, tiler=(64, 64, 32), views=as_they_are):
    """The kernel on row-major tensors of f16 and any extents, matrices in ``views``."""
    mma = cute.TiledMma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    (in_a, in_b, in_c), (m, n, k) = matrices_of(views, a, b, c), tiler
    loads = tiled_load(in_a, (m, k), mma.threads), tiled_load(in_b, (n, k), mma.threads)
    stored = min(2, neighbours(in_c, 1, (m, n)))
    call = gemm_predicated(a, b, c, tiler, mma, *loads, stored, views)
    extents = c.shape if views is as_they_are else in_c.layout.shape
    return call.launch(grid=[*map(tiles_of, extents, tiler[:2])], block=(mma.threads,))


if __name__ == "__main__":
    print_product(launch, 1000, 1000, 1000)
