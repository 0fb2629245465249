"""Kernels by TMA, mbarriers and WGMMA: what they compute, and what is found wrong with them."""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.test_cute_kernels import draw, example, kernel_in, kernel_of
from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.ir.affine import AffineExpr, AffineMap

from mugraph import cute
from mugraph.dialects import te
from mugraph.errors import UserError
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.texpr.analysis.access_costs import texpr_access_costs
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards
from mugraph.passes.texpr.te_lower import steps_to_kernels
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter.texpr import run_texpr


def swizzled(rows: int, columns: int, bits: int = 3) -> Any:
    """A tile whose rows are contiguous along its second mode."""
    line = 8 << bits
    atom = cute.composition(cute.Swizzle(bits, 3, 3), cute.Layout((8, line), (line, 1)))
    return cute.tile_to_shape(atom, (rows, columns))


def transposed(rows: int, columns: int) -> Any:
    """A tile whose rows are contiguous along its first mode."""
    atom = cute.composition(cute.Swizzle(3, 3, 3), cute.Layout((64, 8), (1, 64)))
    return cute.tile_to_shape(atom, (rows, columns), (1, 0))


@cute.kernel(results=["c"])
def one_tile(a: Any, b: Any, c: Any, mma: Any, layouts: Any) -> None:
    """One load of A and of B, and one product of a warp group."""
    thread, _y, _z = cute.arch.thread_idx()
    memory = cute.SmemAllocator()
    tiles = [memory.allocate_tensor(a.dtype, layout) for layout in layouts]
    full = memory.allocate_array("i64")
    with cute.when(thread == 0):
        cute.arch.mbarrier_init(full, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    with cute.when(thread == 0):
        loads = [cute.make_tma_copy("SM90_TMA_LOAD", a, layout) for layout in layouts]
        cute.arch.mbarrier_arrive_and_expect_tx(full, sum(load.bytes for load in loads))
        for load, tile, tensor in zip(loads, tiles, (a, b), strict=True):
            target, source = cute.tma_partition(load, 0, cute.Layout(1), tile, tensor)
            cute.copy(load, source, target, tma_bar_ptr=full)
    cute.arch.mbarrier_wait(full, 0)
    mine = mma.get_slice(thread)
    result = mine.partition_C(c)
    sums = mine.make_fragment_C(result, "f32")
    cute.clear(sums)
    cute.warpgroup.fence()
    cute.gemm(mma, mine.partition_A(tiles[0]), mine.partition_B(tiles[1]), sums)
    cute.warpgroup.commit_group()
    cute.warpgroup.wait_group(0)
    cute.copy(sums, result)


TILES: list[tuple[tuple[int, int, int], str, int, str]] = [
    ((64, 64, 64), "f16", 3, "KK"),
    ((64, 32, 32), "f16", 2, "KK"),
    ((64, 8, 16), "bf16", 1, "KK"),
    ((64, 128, 128), "f16", 3, "KK"),
    ((64, 128, 32), "f16", 3, "MN"),
    ((64, 64, 64), "f16", 3, "KN"),
    ((128, 64, 64), "f16", 3, "KK"),
]
"""Extents, elements, swizzle, and the modes along which rows of A and B are contiguous."""


def launched_tile(
    shape: tuple[int, int, int], element: str, bits: int, majors: str
) -> tuple[cute.Launch, list[Any]]:
    m, n, k = shape
    dtype = cute.make_fake_tensor(element, (1, 1)).dtype
    tensors: list[Any] = []
    layouts: list[Any] = []
    for rows, major in zip((m, n), majors, strict=True):
        along_k = major == "K"
        tensors.append(draw((rows, k), dtype, "C" if along_k else "F"))
        layouts.append(swizzled(rows, k, bits) if along_k else transposed(rows, k))
    name = {"f16": "F32F16F16", "bf16": "F32BF16BF16"}[element]
    mma = cute.TiledMma(f"SM90_64x{n}x16_{name}_SS", (m // 64, 1, 1))
    result = np.full((m, n), np.nan, np.float32)
    call = one_tile(*tensors, result, mma, layouts)
    return call.launch((1,), (mma.threads,)), [*tensors, result]


@pytest.mark.parametrize("number", range(len(TILES)))
def test_a_tile(number: int) -> None:
    """Matrices of each major mode and swizzle, also of several boxes side by side."""
    launch, (a, b, c) = launched_tile(*TILES[number])
    assert find_texpr_hazards(kernel_of(launch)) == []
    launch.run()
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c, exact, atol=1e-4)


ORDERS = (
    te.MbarrierOp,
    te.MbarrierFenceOp,
    te.BarrierOp,
    te.NamedBarrierOp,
    te.ProxyFenceOp,
    te.BulkLoadOp,
    te.BulkCommitOp,
    te.BulkWaitOp,
    te.WarpgroupFenceOp,
    te.WarpgroupCommitOp,
    te.WarpgroupWaitOp,
)
"""What orders threads, copies and products."""


def orders_of(kernel: te.KernelOp) -> list[Operation]:
    return [op for op in kernel.walk() if isinstance(op, ORDERS)]


@cute.kernel(results=["b"])
def doubled(a: Any, b: Any, layout: Any) -> None:
    """``b = a + a``: each block loads a tile by TMA, doubles it in place, and stores it by TMA."""
    thread, _y, _z = cute.arch.thread_idx()
    m, n, _z = cute.arch.block_idx()
    memory = cute.SmemAllocator()
    tile = memory.allocate_tensor("f16", layout)
    full = memory.allocate_array("i64")
    load = cute.make_tma_copy("SM90_TMA_LOAD", a, layout)
    store = cute.make_tma_copy("SM90_TMA_STORE", b, layout)
    part = [cute.local_tile(one, (32, 64), (m, n)) for one in (a, b)]
    to, source = cute.tma_partition(load, 0, cute.Layout(1), tile, part[0])
    back, target = cute.tma_partition(store, 0, cute.Layout(1), tile, part[1])
    with cute.when(thread == 0):
        cute.arch.mbarrier_init(full, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    with cute.when(cute.arch.warp_idx() == 0), cute.arch.elect_one():
        cute.arch.mbarrier_arrive_and_expect_tx(full, load.bytes)
        cute.copy(load, source, to, tma_bar_ptr=full)
    cute.arch.mbarrier_wait(full, 0)
    mine = cute.local_partition(tile, cute.Layout((8, 16), (16, 1)), thread)
    cute.axpby(1, mine, 1, mine)
    cute.arch.fence_proxy("async.shared", space="cta")
    cute.arch.barrier(barrier_id=1, number_of_threads=128)
    with cute.when(thread == 0):
        cute.copy(store, back, target)
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0)


def launched_double(bits: int) -> tuple[cute.Launch, list[Any], Any]:
    a = draw((90, 120), np.float16)
    b = np.full_like(a, np.nan)
    launch = doubled(a, b, swizzled(32, 64, bits)).launch((3, 2), (128,))
    return launch, [a, b], 2 * a.astype(np.float64)


@pytest.mark.parametrize("bits", [3, 2, 1])
def test_tiles_go_back_by_tma(bits: int) -> None:
    """Also in several boxes of narrow rows, and of tiles that reach past the tensors' ends."""
    launch, (_a, b), exact = launched_double(bits)
    assert find_texpr_hazards(kernel_of(launch)) == []
    launch.run()
    np.testing.assert_array_equal(b, exact)


@cache
def recorded_double() -> Operation:
    """As it is recorded, to be copied."""
    return launched_double(3)[0].trace()


@pytest.mark.parametrize("number", range(len(orders_of(kernel_in(recorded_double())))))
def test_what_a_store_needs_is_reported(number: int) -> None:
    kernel = kernel_in(recorded_double().clone())
    orders_of(kernel)[number].detach()
    assert find_texpr_hazards(kernel)


def test_products_read_without_bank_conflicts() -> None:
    costs = [
        one for one in texpr_access_costs(kernel_in(recorded_ring())) if one.instruction == "wgmma"
    ]
    # Two groups, two tiles, five steps of four instructions; eight rows of 16 bytes a wavefront.
    assert sum(one.instructions for one in costs) == 2 * 2 * 2 * 5 * 4
    assert sum(one.transactions for one in costs) == 2 * 2 * 5 * 4 * 2 * 16
    assert all(one.excess == 0 for one in costs)


def ring() -> cute.Launch:
    """A ring of two stages, a producer and two warp groups, over five steps of two tiles."""
    shapes = ((128, 320), (128, 320), (128, 128))
    tensors = [cute.make_fake_tensor("f16", shape) for shape in shapes]
    return example("gemm_sm90").launch(*tensors, tiler=(128, 64, 64), stages=2, blocks=1)


@cache
def recorded_ring() -> Operation:
    """As it is recorded, to be copied."""
    return ring().trace()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", range(len(orders_of(kernel_in(recorded_ring())))))
def test_what_is_left_out_is_reported_with_the_lines_of_python(number: int) -> None:
    kernel = kernel_in(recorded_ring().clone())
    orders_of(kernel)[number].detach()
    findings = find_texpr_hazards(kernel)
    assert findings
    assert all("gemm_sm90.py:" in finding.message for finding in findings)


def test_a_wrong_phase_is_reported() -> None:
    """Each wait with the other parity: consumers read too soon, the producer waits for ever."""
    source, _first = inspect.getsourcelines(example("gemm_sm90"))
    kinds: list[set[HazardKind]] = []
    for place in range(2):
        kernel = kernel_in(recorded_ring().clone())
        wait = [op for op in kernel.walk() if isinstance(op, te.MbarrierWaitOp)][place]
        before = wait.parity_map.data
        other = AffineExpr.constant(1) - wait.parity
        wait.properties["parity_map"] = AffineMapAttr(AffineMap(before.num_dims, 0, (other,)))
        findings = find_texpr_hazards(kernel)
        kinds.append({finding.kind for finding in findings})
        assert any("mbarrier_wait" in source[line_in(one.message) - 1] for one in findings) or (
            HazardKind.IN_FLIGHT in kinds[-1]
        )
    assert HazardKind.DEADLOCK in kinds[0]
    assert HazardKind.IN_FLIGHT in kinds[1]


def line_in(message: str) -> int:
    """The first line of the example that a message names."""
    return int(message.split("gemm_sm90.py:")[1].split(":")[0])


def test_too_few_arrivals_and_bytes_are_reported() -> None:
    kernel = kernel_in(recorded_ring().clone())
    init = [op for op in kernel.walk() if isinstance(op, te.MbarrierInitOp)][1]
    init.arrivals = IntegerAttr(7, i64)
    assert find_texpr_hazards(kernel)
    kernel = kernel_in(recorded_ring().clone())
    arrive = next(op for op in kernel.walk() if isinstance(op, te.MbarrierArriveOp))
    arrive.announced = IntegerAttr(arrive.bytes + 16, i64)
    assert {finding.kind for finding in find_texpr_hazards(kernel)} == {HazardKind.DEADLOCK}


def test_what_nobody_has_waited_for_holds_nothing() -> None:
    """The interpreter gives no numbers for tiles and sums that are still on their way."""
    for left_out, sentence in (
        (te.MbarrierWaitOp, "nothing has written"),
        (te.WarpgroupWaitOp, "nothing has written"),
    ):
        launch, (a, b, _c) = launched_tile(*TILES[0])
        function = launch.trace().body.block.first_op
        assert isinstance(function, FuncOp)
        next(op for op in function.walk() if isinstance(op, left_out)).detach()
        with pytest.raises(UserError, match=sentence):
            run_texpr(function, [a, b])


def test_threads_that_wait_for_ever_are_an_error() -> None:
    launch, (a, b, _c) = launched_tile(*TILES[0])
    function = launch.trace().body.block.first_op
    assert isinstance(function, FuncOp)
    next(op for op in function.walk() if isinstance(op, te.MbarrierArriveOp)).detach()
    with pytest.raises(UserError, match=r"wait for ever: 'te.mbarrier_wait' \(.*sm90.py"):
        run_texpr(function, [a, b])


def test_warps_meet_in_roles_of_their_own() -> None:
    """Each of two warps turns its numbers round through shared memory, one of them twice."""

    @cute.kernel
    def turned(x: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        tile = cute.SmemAllocator().allocate_tensor("f32", cute.Layout(64))
        warp, lane = cute.arch.warp_idx(), cute.arch.lane_idx()
        tile[thread] = x[thread]
        cute.arch.sync_warp()
        x[thread] = tile[warp * 32 + 31 - lane]
        with cute.when(warp == 1):
            cute.arch.sync_warp()
            tile[thread] = x[thread]
            cute.arch.sync_warp()
            x[thread] = tile[warp * 32 + 31 - lane]

    x = np.arange(64, dtype=np.float32)
    launch = turned(x).launch((1,), (64,))
    assert find_texpr_hazards(kernel_of(launch)) == []
    launch.run()
    np.testing.assert_array_equal(x, [*range(31, -1, -1), *range(32, 64)])
    for number in range(3):
        kernel = kernel_of(launch)
        orders_of(kernel)[number].detach()
        assert find_texpr_hazards(kernel), number


@pytest.mark.parametrize("fenced", [True, False])
def test_copies_overtake_loads_without_a_fence(fenced: bool) -> None:
    """A stage that threads have loaded from, and that they hand back by an arrival alone."""

    @cute.kernel(results=["b"])
    def passed(a: Any, b: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        memory = cute.SmemAllocator()
        tile = memory.allocate_tensor("f32", cute.Layout((1, 32), (32, 1)))
        full, empty = (memory.allocate_array("i64", name=name) for name in ("full", "empty"))
        load = cute.make_tma_copy("SM90_TMA_LOAD", a, tile.layout)
        with cute.when(thread == 0):
            cute.arch.mbarrier_init(full, 1)
            cute.arch.mbarrier_init(empty, 32)
            cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()
        with cute.when(thread == 32):
            for k in cute.dynamic_range(4):
                cute.arch.mbarrier_wait(empty, (k + 1) % 2)
                cute.arch.mbarrier_arrive_and_expect_tx(full, load.bytes)
                row = cute.local_tile(a, (1, 32), (k, 0))
                to, source = cute.tma_partition(load, 0, cute.Layout(1), tile, row)
                cute.copy(load, source, to, tma_bar_ptr=full)
        with cute.when(thread < 32):
            for k in cute.dynamic_range(4):
                cute.arch.mbarrier_wait(full, k % 2)
                b[k, thread] = tile[0, thread]
                if fenced:
                    cute.arch.fence_proxy()
                cute.arch.mbarrier_arrive(empty)

    a, b = draw((4, 32), np.float32), np.zeros((4, 32), np.float32)
    launch = passed(a, b).launch((1,), (64,))
    kinds = {finding.kind for finding in find_texpr_hazards(kernel_of(launch))}
    assert kinds == (set() if fenced else {HazardKind.MISSING_FENCE})
    launch.run()
    np.testing.assert_array_equal(b, a)


def test_text_reads_back() -> None:
    from xdsl.parser import Parser

    from mugraph.reading import make_context

    text = ring().text()
    module = Parser(make_context(), text).parse_module()
    module.verify()
    assert str(module) == str(ring().trace())


# --- what is refused ---


@pytest.mark.parametrize(("arch", "others"), [("sm_80", "sm_90a"), ("sm_100a", "sm_90a")])
def test_gpus_that_lack_the_instructions(arch: str, others: str) -> None:
    with pytest.raises(UserError, match=rf"kernel 'gemm_sm90' .*{arch} has not; compile.*{others}"):
        ring().trace(arch)
    with pytest.raises(UserError, match="has not; compile it for"):
        steps_to_kernels(only_function(ring().trace()), arch)


def refused(body: Any, text: str, sentence: str, *tensors: Any) -> None:
    with pytest.raises(cute.KernelError) as error:
        cute.kernel(body)(*tensors).launch(grid=(1,), block=(128,)).trace()
    message = str(error.value)
    place, line = message.split(": ")[0].split(":")
    assert place.endswith("test_cute_sm90.py")
    assert text in Path(__file__).read_text().splitlines()[int(line) - 1], message
    assert sentence in message and "\n" not in message, message


def test_what_copies_cannot_do() -> None:
    a = cute.make_fake_tensor("f16", (64, 96))

    def sent(a: Any, layout: Any, tile: Any, **barrier: Any) -> None:
        """Sends the tile, by all threads: refused before anyone could ask whether that is right."""
        memory = cute.SmemAllocator()
        full = memory.allocate_array("i64")
        shared = memory.allocate_tensor("f16", layout)
        load = cute.make_tma_copy(barrier.pop("name", "SM90_TMA_LOAD"), a, layout)
        to, source = cute.tma_partition(load, 0, cute.Layout(1), shared, tile)
        cute.copy(load, source, to, **(barrier or {"tma_bar_ptr": full}))

    def odd(a: Any) -> None:
        sent(a, swizzled(64, 64), cute.local_tile(a, (64, 64), (0, 0)))

    def plain(a: Any) -> None:
        tile = cute.local_tile(a, (64, 32), (0, 0))
        sent(a, cute.Layout((64, 32), (40, 1)), tile)

    def unpaid(a: Any) -> None:
        tile = cute.local_tile(a, (64, 64), (0, 0))
        sent(a, swizzled(64, 64), tile, tma_bar_ptr=None)

    def chosen(a: Any) -> None:
        tile = cute.local_tile(a, (64, 64), (0, 0))
        sent(a, swizzled(64, 64), tile, tma_bar_ptr=None, pred=tile)

    def several(a: Any) -> None:
        tile = cute.local_tile(a, (64, 64), (0, 0))
        sent(a, swizzled(64, 64), tile, name="SM90_TMA_LOAD_MULTICAST")

    def numbered(a: Any) -> None:
        full = cute.SmemAllocator().allocate_array("i64", 2)
        cute.arch.mbarrier_wait(full + 2, 0)  # here

    def third(a: Any) -> None:
        full = cute.SmemAllocator().allocate_array("i64", 2)
        cute.arch.mbarrier_wait(full, 2)  # here

    text = "cute.copy(load"
    narrow = cute.make_fake_tensor("f16", (64, 100))
    refused(odd, text, "stride along dimension 0 is 200 bytes, not a multiple of 16", narrow)
    refused(plain, text, "a tile takes 64 boxes, more than 32", a)
    refused(unpaid, text, "counts its bytes at an mbarrier: give 'tma_bar_ptr'", a)
    refused(chosen, text, "TMA takes no predicates", a)
    refused(several, text, "sends to the blocks of a cluster, which kernels do not have", a)
    refused(numbered, "# here", "mbarrier 2 of 'barriers', which has 2", a)
    refused(third, "# here", "phases are known by their parity, 0 or 1, not by 2", a)


def test_what_products_cannot_read() -> None:
    a, mma = cute.make_fake_tensor("f16", (64, 64)), cute.TiledMma("SM90_64x64x16_F32F16F16_SS")

    def straight(a: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        tile = cute.SmemAllocator().allocate_tensor("f16", cute.Layout((64, 64), (64, 1)))
        mine = mma.get_slice(thread)
        sums = mine.make_fragment_C(mine.partition_C(a), "f32")
        cute.gemm(mma, mine.partition_A(tile), mine.partition_B(tile), sums)  # here

    def device(a: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        mine = mma.get_slice(thread)
        sums = mine.make_fragment_C(mine.partition_C(a), "f32")
        cute.gemm(mma, mine.partition_A(a), mine.partition_B(a), sums)  # here

    refused(straight, "# here", "read buffers swizzled by S<3,3,3>", a)
    refused(device, "# here", "reads A from shared memory, not from global memory", a)
