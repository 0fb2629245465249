"""Kernels written with the names of NVIDIA's CuTe DSL, as its tutorials are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mugraph import cute
from mugraph.dialects.cute import LayoutError
from mugraph.dialects.te import KernelOp
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards

F16, F32 = np.float16, np.float32


@cute.kernel(results=["c"])
def add(a: Any, b: Any, c: Any, shape: Any, tv_layout: Any, tiler: Any) -> None:
    """Tiles by ``zipped_divide``, predicates in a fragment, values as vectors."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    tiles = [cute.zipped_divide(one, tiler)[(None, None), block] for one in (a, b, c)]
    coords = cute.zipped_divide(cute.make_identity_tensor(shape), tiler=tiler)
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), a.element_type, num_bits_per_copy=32)
    mine = cute.make_tiled_copy(atom, tv_layout, tiler).get_slice(thread)
    from_a, from_b, to_c = (mine.partition_S(one) for one in tiles)
    at = mine.partition_S(coords[(None, None), block])
    left, right = cute.make_fragment_like(from_a), cute.make_fragment_like(from_b)
    result = cute.make_rmem_tensor(to_c.shape, F32)
    exists = cute.make_fragment(at.shape, bool)
    for i in range(cute.size(exists)):
        exists[i] = cute.elem_less(at[i], shape)
    left.fill(0.0)
    right.fill(0.0)
    cute.copy(atom, from_a, left, pred=exists)
    cute.copy(atom, from_b, right, pred=exists)
    sums = cute.math.exp(left.load()) + 2 * right.load()
    left.fill(7.0)  # what was loaded stays
    result.store(1 - sums / 4)
    cute.copy(atom, result, to_c, pred=exists)


def launched_add(a: Any, b: Any, c: Any) -> cute.Launch:
    threads = cute.make_ordered_layout((2, 16), order=(1, 0))
    values = cute.make_layout((2, 4), stride=(4, 1))
    tiler, tv_layout = cute.make_layout_tv(threads, values)
    call = add(a, b, c, c.shape, tv_layout, tiler)
    blocks = [cute.ceil_div(extent, tile) for extent, tile in zip(c.shape, tiler, strict=True)]
    return call.launch(
        grid=[blocks[0] * blocks[1], 1, 1], block=[cute.size(tv_layout, mode=[0]), 1, 1]
    )


@pytest.mark.parametrize("shape", [(8, 128), (7, 100)])
def test_values_and_predicates_in_fragments(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    a, b = (random.random(shape, F32) for _ in range(2))
    c = np.full(shape, np.nan, F32)
    expected = 1 - (np.exp(a) + 2 * b) / 4
    launched_add(a, b, c).run()
    assert np.allclose(c, expected)


@cute.kernel(results=["c"])
def product(a: Any, b: Any, c: Any, tiler: Any, mma: Any, waits: bool) -> None:
    """A product by cp.async, ldmatrix and mma.sync, rows of A predicated."""
    thread, _, _ = cute.arch.thread_idx()
    x, y, _ = cute.arch.block_idx()
    coord = (x, y, None)
    ga = cute.local_tile(a, tiler=tiler, coord=coord, proj=(1, None, 1))
    gb = cute.local_tile(b, tiler=tiler, coord=coord, proj=(None, 1, 1))
    gc = cute.local_tile(c, tiler=tiler, coord=coord, proj=(1, 1, None))

    def shared(rows: int) -> Any:
        outer = cute.make_layout((8, tiler[2]), stride=(tiler[2], 1))
        atom = cute.make_composed_layout(cute.make_swizzle(2, 3, 3), 0, outer)
        return cute.tile_to_shape(atom, (rows, tiler[2]), order=(0, 1))

    memory = cute.SmemAllocator()
    sa = memory.allocate_tensor(a.element_type, shared(tiler[0]), 16)
    sb = memory.allocate_tensor(b.element_type, shared(tiler[1]), 16)
    op = cute.nvgpu.cpasync.CopyG2SOp(cute.nvgpu.cpasync.LoadCacheMode.GLOBAL)
    atom = cute.make_copy_atom(op, a.element_type, num_bits_per_copy=128)
    across = tiler[2] // 8
    threads = cute.make_layout((mma.size // across, across), stride=(across, 1))
    load = cute.make_tiled_copy_tv(atom, threads, cute.make_layout((1, 8)))
    mine = load.get_slice(thread)
    from_a, to_a = mine.partition_S(ga), mine.partition_D(sa)
    from_b, to_b = mine.partition_S(gb), mine.partition_D(sb)
    coords = cute.local_tile(cute.make_identity_tensor(a.shape), tiler, coord, (1, None, 1))
    at = mine.partition_S(coords)
    rows = cute.size(from_a, mode=[1])
    shape: Any = from_a.shape
    shape = (shape[0][1], rows, cute.size(from_a, mode=[2]))
    exists = cute.make_rmem_tensor(cute.make_layout(shape, stride=(rows, 1, 0)), bool)
    for row in range(rows):
        exists[0, row, 0] = cute.elem_less(at[(0, 0), row, 0, 0][0], a.shape[0])

    share = mma.get_slice(thread)
    ra = mma.make_fragment_A(share.partition_A(sa))
    rb = mma.make_fragment_B(share.partition_B(sb))
    result = share.partition_C(gc)
    sums = mma.make_fragment_C(result)
    sums.fill(0.0)
    lines = cute.make_copy_atom(cute.nvgpu.warp.LdMatrix8x8x16bOp(False, 4), a.element_type)
    copy_a, copy_b = cute.make_tiled_copy_A(lines, mma), cute.make_tiled_copy_B(lines, mma)
    lines_a, lines_b = copy_a.get_slice(thread), copy_b.get_slice(thread)
    for k in cute.dynamic_range(cute.size(from_a, mode=[3])):
        cute.arch.barrier()
        cute.copy(load, cute.slice_(from_a, (None, None, None, k)), to_a, pred=exists)
        cute.copy(load, from_b[None, None, None, k], to_b)
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        if waits:
            cute.arch.barrier()
        for block in range(cute.size(ra, mode=[2])):
            at_block = (None, None, block)
            cute.copy(copy_a, lines_a.partition_S(sa)[at_block], lines_a.retile(ra)[at_block])
            cute.copy(copy_b, lines_b.partition_S(sb)[at_block], lines_b.retile(rb)[at_block])
            cute.gemm(mma, sums, ra[at_block], rb[at_block], sums)
    rounded = cute.make_fragment_like(sums, c.element_type)
    rounded.store(sums.load().to(c.element_type))
    cute.autovec_copy(rounded, result)


def launched_product(a: Any, b: Any, c: Any, *, waits: bool = True) -> cute.Launch:
    op = cute.nvgpu.warp.MmaF16BF16Op(F16, F32, (16, 8, 16))
    mma = cute.make_tiled_mma(op, cute.make_layout((2, 2, 1)), permutation_mnk=(32, 32, 16))
    grid = [cute.ceil_div(extent, 64) for extent in c.shape]
    return product(a, b, c, (64, 64, 32), mma, waits).launch(grid=grid, block=(mma.size,))


def test_a_product_of_named_instructions() -> None:
    random = np.random.default_rng(1)
    a, b = ((random.random((rows, 64)) - 0.5).astype(F16) for rows in (128, 64))
    c = np.zeros((128, 64), F16)
    launched_product(a, b, c).run()
    expected = a.astype(F32) @ b.T.astype(F32)
    assert np.abs(c - expected).max() < 5e-3


@cute.kernel(results=["c"])
def hopper(
    a: Any, b: Any, c: Any, loads: Any, mma: Any, layouts: Any, tiler: Any, stages: int
) -> None:
    """A product by TMA and WGMMA, whose sums go through a ReLU: one thread loads."""
    thread, _, _ = cute.arch.thread_idx()
    m, n, _ = cute.arch.block_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    load_a, load_b = loads
    memory = cute.SmemAllocator()
    sa = memory.allocate_tensor(F16, layouts[0], 1024)
    sb = memory.allocate_tensor(F16, layouts[1], 1024)
    full = memory.allocate_array("i64", stages)
    with cute.when(warp == 0), cute.arch.elect_one():
        for stage in range(stages):
            cute.arch.mbarrier_init(full + stage, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    ga = cute.local_tile(a, tiler, (m, n, None), proj=(1, None, 1))
    gb = cute.local_tile(b, tiler, (m, n, None), proj=(None, 1, 1))
    gc = cute.local_tile(c, tiler, (m, n, None), proj=(1, 1, None))
    to_a, from_a = cute.nvgpu.cpasync.tma_partition(
        load_a, 0, cute.make_layout(1), cute.group_modes(sa, 0, 2), cute.group_modes(ga, 0, 2)
    )
    to_b, from_b = cute.nvgpu.cpasync.tma_partition(
        load_b, 0, cute.make_layout(1), cute.group_modes(sb, 0, 2), cute.group_modes(gb, 0, 2)
    )
    steps = cute.size(ga, mode=[2])
    with cute.when(warp == 0), cute.arch.elect_one():
        for k in range(steps):
            cute.arch.mbarrier_arrive_and_expect_tx(full + k, load_a.bytes + load_b.bytes)
            cute.copy(load_a, from_a[None, k], to_a[None, k], tma_bar_ptr=full + k)
            cute.copy(load_b, from_b[None, k], to_b[None, k], tma_bar_ptr=full + k)
    mine = mma.get_slice(thread)
    ra = mma.make_fragment_A(mine.partition_A(sa))
    rb = mma.make_fragment_B(mine.partition_B(sb))
    sums = cute.make_rmem_tensor(mma.partition_shape_C(tiler[:2]), F32)
    sums.fill(0.0)
    for k in range(steps):
        cute.arch.mbarrier_wait(full + k, 0)
        cute.nvgpu.warpgroup.fence()
        cute.gemm(mma, sums, ra[None, None, None, k], rb[None, None, None, k], sums)
        cute.nvgpu.warpgroup.commit_group()
    cute.nvgpu.warpgroup.wait_group(0)
    values = sums.load()
    result = cute.make_fragment_like(sums, F16)
    result.store(cute.where(values > 0, values, cute.full_like(values, 0)).to(F16))
    cute.basic_copy(result, mine.partition_C(gc))


def test_a_product_of_hopper_in_the_words_of_the_tutorials() -> None:
    random = np.random.default_rng(3)
    a, b = ((random.random((rows, 128)) - 0.5).astype(F16) for rows in (128, 64))
    c = np.zeros((128, 64), F16)
    tiler, stages = (64, 64, 64), 2
    group, tma = cute.nvgpu.warpgroup, cute.nvgpu.cpasync
    atom = group.make_smem_layout_atom(group.SmemLayoutAtomKind.K_SW128, F16)
    layouts = [cute.tile_to_shape(atom, (64, 64, stages), order=(0, 1, 2)) for _ in range(2)]
    (load_a, tma_a), (load_b, tma_b) = (
        tma.make_tiled_tma_atom(
            tma.CopyBulkTensorTileG2SOp(), one, cute.slice_(layout, (None, None, 0)), (64, 64)
        )
        for one, layout in zip((a, b), layouts, strict=True)
    )
    mma = cute.make_tiled_mma(group.MmaF16BF16Op(F16, F32, (64, 64, 16)))
    call = hopper(tma_a, tma_b, c, [load_a, load_b], mma, layouts, tiler, stages)
    launch = call.launch(grid=(2, 1), block=(mma.size,))
    (kernel,) = (op for op in launch.trace().walk() if isinstance(op, KernelOp))
    assert find_texpr_hazards(kernel) == []
    launch.run()
    expected = np.maximum(a.astype(F32) @ b.T.astype(F32), 0)
    assert np.abs(c - expected).max() < 5e-3


@pytest.mark.parametrize(
    ("made", "is_a"),
    [
        (lambda: cute.make_layout((4, 8), stride=(8, 1)), "(4,8):(8,1)"),
        (lambda: cute.make_layout((4, 8), (8, 1)), "(4,8):(8,1)"),
        (lambda: cute.make_layout(cute.Layout(4), cute.Layout(8, 4)), "(4,8):(1,4)"),
        (lambda: cute.group_modes(cute.Layout((2, 3, 5)), 0, 2), "((2,3),5):((1,2),6)"),
        (lambda: cute.select(cute.Layout((2, 3, 5)), mode=[2, 0]), "(5,2):(6,1)"),
        (lambda: cute.select((2, 3, 5), mode=[0, 2]), "(2, 5)"),
        (lambda: cute.slice_((2, (3, 5)), (0, (None, 1))), "(3,)"),
        (lambda: cute.slice_(cute.Layout((4, 8)), (0, None)), "(8):(4)"),
        (lambda: cute.cosize(cute.Layout((4, 8), (8, 1))), "32"),
        (lambda: (cute.rank(cute.Layout((4, 8))), cute.rank((1, 2, 3)), cute.rank(5)), "(2, 3, 1)"),
        (lambda: cute.make_swizzle(3, 4, 3), "S<3,4,3>"),
        (lambda: cute.nvgpu.MmaUniversalOp(F32), "UniversalFMA_F32"),
        (
            lambda: cute.nvgpu.warpgroup.MmaF16BF16Op("bf16", "f32", (64, 128, 16)),
            "SM90_64x128x16_F32BF16BF16_SS",
        ),
        (lambda: cute.nvgpu.cpasync.CopyBulkTensorTileS2GOp(), "SM90_TMA_STORE"),
        (
            lambda: cute.nvgpu.warpgroup.make_smem_layout_atom(
                cute.nvgpu.warpgroup.SmemLayoutAtomKind.MN_SW64, F16
            ),
            "S<2,3,3> o (32,8):(1,32)",
        ),
        (
            lambda: cute.make_tiled_mma(
                "SM80_16x8x16_F32F16F16F32_TN", (2, 1, 1)
            ).partition_shape_A((64, 32)),
            "((2, 2, 2), 2, 2)",
        ),
        (
            lambda: cute.tiled_divide(cute.make_fake_tensor("f32", (8, 8)), (4, 2)).layout,
            "((4,2),2,4):((8,1),32,2)",
        ),
    ],
)
def test_names(made: Any, is_a: str) -> None:
    assert str(made()) == is_a


def test_a_layout_that_is_no_tile_is_refused() -> None:
    tensor, layout = cute.make_fake_tensor(F16, (64, 64)), cute.make_layout((32, 64))
    with pytest.raises(LayoutError, match=r"\(32,64\):\(1,32\) is no tile of \(64, 64\)"):
        cute.nvgpu.cpasync.make_tiled_tma_atom("SM90_TMA_LOAD", tensor, layout, (64, 64))


def test_strides_stand_once() -> None:
    with pytest.raises(LayoutError, match="expected a shape and its strides, got 3 tuples"):
        cute.make_layout((4, 8), (8, 1), stride=(8, 1))


def test_basic_copies() -> None:
    a, b = np.arange(4, dtype=F32), np.zeros(4, F32)
    source, target = (cute.make_tensor(one, 4) for one in (a, b))
    cute.basic_copy_if(cute.make_tensor(np.array([True, False, True, False]), 4), source, target)
    assert b.tolist() == [0, 0, 2, 0]
    cute.basic_copy(source, target)
    assert b.tolist() == a.tolist()


def test_what_fragments_of_truths_hold() -> None:
    @cute.kernel
    def kernel(a: Any, how: str) -> None:
        thread, _, _ = cute.arch.thread_idx()
        flags = cute.make_fragment(2, bool)
        if how == "in a loop":
            for k in cute.dynamic_range(4):
                flags[0] = thread < k
        if how == "mixed":
            flags[0] = thread < 3
            flags[1] = a[thread] > 0
        if how == "missing":
            flags[0] = thread < 3
            cute.copy(a[thread, None], cute.make_fragment(2, F32), pred=flags)
        if how == "beyond":
            flags[2] = thread < 3
        if how == "elements":
            flags.fill(False)
            flags[0] = a[thread] > 0
            with cute.when(flags[0]):
                a[thread] = 1.0

    a = cute.make_fake_tensor("f32", (32, 2))
    for how, words in (
        ("in a loop", "holds conditions on indices"),
        ("mixed", "holds conditions on indices"),
        ("missing", "no condition was written to place 1"),
        ("beyond", "the index 2 is outside of 'fragment', which has 2 there"),
    ):
        with pytest.raises(cute.KernelError, match=words):
            kernel(a, how).launch(grid=(1,), block=(32,)).trace()
    kernel(a, "elements").launch(grid=(1,), block=(32,)).trace()


def test_what_is_no_vector_of_that_size_and_half_a_barrier_are_refused() -> None:
    @cute.kernel
    def kernel(a: Any, how: str) -> None:
        two, four = cute.make_fragment(2, F32), cute.make_fragment(4, F32)
        if how == "sizes":
            two.store(two.load() + four.load())
        if how == "store":
            two.store(four.load())
        if how == "number":
            two.store(1.0)
        if how == "truth":
            cute.copy(two, two, pred=True)
        if how == "cosize":
            cute.cosize(3)
        if how == "barrier":
            cute.arch.barrier(1)

    a = cute.make_fake_tensor("f32", (32,))
    for how, words in (
        ("sizes", "not of one size"),
        ("store", "4 values are not the elements of"),
        ("number", "'fill' writes numbers"),
        ("truth", "predicates are a tensor of truths, not True"),
        ("cosize", "3 is no tensor and no layout"),
        ("barrier", "how many threads meet"),
    ):
        with pytest.raises(cute.KernelError, match=words):
            kernel(a, how).launch(grid=(1,), block=(32,)).trace()


def test_a_barrier_left_out_is_found() -> None:
    tensors = [cute.make_fake_tensor(F16, (64, 64))] * 3
    for waits in (True, False):
        module = launched_product(*tensors, waits=waits).trace()
        (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
        assert bool(find_texpr_hazards(kernel)) != waits


@cute.kernel(results=["out"])
def softmax(x: Any, out: Any) -> None:
    """A row a block: vectors are reduced by ``ReductionOp``, those of threads in shared memory."""
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    threads = cute.arch.block_dim()[0]
    mine, to = (cute.zipped_divide(one[row, None], (4,))[None, thread] for one in (x, out))
    parts = cute.SmemAllocator().allocate_tensor(F32, threads)

    def of_row(values: Any, operation: Any, initial: float) -> Any:
        cute.arch.sync_threads()
        parts[thread] = values.reduce(operation, initial, 0)
        cute.arch.sync_threads()
        return cute.reduce(parts, operation, initial)

    largest = of_row(mine.load(), cute.ReductionOp.MAX, float("-inf"))
    powers = cute.math.exp(mine.load() - largest)
    to.store(powers / of_row(powers, cute.ReductionOp.ADD, 0.0))


def test_vectors_are_reduced() -> None:
    x = np.random.default_rng(7).standard_normal((3, 32), F32)
    out = np.empty_like(x)
    powers = np.exp(x - x.max(1, keepdims=True))
    softmax(x, out).launch(grid=(3,), block=(8,)).run()
    assert np.allclose(out, powers / powers.sum(1, keepdims=True))


def test_numbers_of_few_bits_are_computed_in_32() -> None:
    """Products of i8 and f16 do not overflow."""

    @cute.kernel(results=["c"])
    def product(a: Any, b: Any, c: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        held = cute.make_rmem_tensor(1, a.element_type)
        held[0] = a[thread]
        c[thread] = held[0] * b[thread]

    for dtype, wide in ((np.int8, np.int32), (F16, F32)):
        a = np.full(32, 120 if dtype == np.int8 else 6e4, dtype)
        c = np.empty(32, wide)
        product(a, a, c).launch(grid=(1,), block=(32,)).run()
        assert np.array_equal(c, a.astype(wide) ** 2)

    @cute.kernel(results=["c"])
    def doubled(a: Any, c: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        mine, to = (cute.local_partition(one, cute.make_layout(8), thread) for one in (a, c))
        cute.axpby(2.0, mine, 0.0, to)

    a, c = np.full(16, 6e4, F16), np.empty(16, F32)
    doubled(a, c).launch(grid=(1,), block=(8,)).run()
    assert np.array_equal(c, 2 * a.astype(F32))


def test_arithmetic_is_that_of_python() -> None:
    """Quotients of integers are no integers, and integers beside others are floating-point."""

    @cute.kernel(results=["c"])
    def mixed(a: Any, x: Any, c: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        held = cute.math.where(a[thread] > x[thread], abs(x[thread]) ** 3, 1 / a[thread])
        c[thread] = held + a[thread] / (a[thread] + 3) + a[thread] * x[thread]

    generator = np.random.default_rng(1)
    a = generator.integers(1, 9, 32, dtype=np.int32)
    x, c = 4 * generator.standard_normal(32, F32), np.empty(32, F32)
    expected = np.where(a > x, abs(x) ** 3, 1 / a) + a / (a + 3) + a * x
    mixed(a, x, c).launch(grid=(1,), block=(32,)).run()
    assert np.allclose(c, expected, rtol=1e-5)


def test_what_is_no_grid_and_no_number_is_said() -> None:
    @cute.kernel(results=["c"])
    def stores(a: Any, c: Any) -> None:
        c[0] = a.load()

    a, c = np.zeros(4, F32), np.zeros(1, F32)
    with pytest.raises(cute.KernelError, match=r"grid has 1 to 3 extents, integers .*not \(1.5,\)"):
        stores(a, c).launch(grid=(1.5,), block=(1,))
    launch = stores(a, c).launch(grid=(1,), block=(1,))
    for function in (launch.trace, launch.run):
        with pytest.raises(cute.KernelError, match=r"py:\d+: a vector of the shape 4 is no"):
            function()
    with pytest.raises(LayoutError, match="the profile 1 keeps modes"):
        cute.make_tensor(a, 4).load().reduce(cute.ReductionOp.ADD, 0.0, 1)


def test_a_run_refuses_what_recording_refuses() -> None:
    @cute.kernel(results=["c"])
    def clipped(a: Any, c: Any) -> None:
        thread, _, _ = cute.arch.thread_idx()
        c[thread] = max(a[thread], 0.0)

    a, c = np.zeros(4, F32), np.zeros(4, F32)
    with pytest.raises(cute.KernelError, match=r"\.py:\d+: Python's .* asks for an element"):
        clipped(a, c).launch(grid=(1,), block=(4,)).run()
