"""Pipelines as in NVIDIA's CuTe DSL: products by TMA and WGMMA, and rows that threads fill."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from unit.test_cute_kernels import kernel_of, line_of

from mugraph import cute
from mugraph.cute import _, cutlass, pipeline
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards

F16, F32 = np.float16, np.float32
TILER = (64, 64, 64)
STAGES = 3


def tiles(a: Any, b: Any, c: Any, stages: int, tiler: Any = TILER) -> Any:
    """Shared memory, and what TMA and WGMMA take of it."""
    m, n, _z = cute.arch.block_idx()
    kinds = cute.nvgpu.warpgroup.SmemLayoutAtomKind
    atom = cute.nvgpu.warpgroup.make_smem_layout_atom(kinds.K_SW128, F16)
    memory = cute.SmemAllocator()
    copies: list[Any] = []
    shared: list[Any] = []
    for tensor, rows, coord in ((a, tiler[0], (m, _)), (b, tiler[1], (n, _))):
        layout = cute.tile_to_shape(atom, (rows, tiler[2], stages), order=(0, 1, 2))
        held = memory.allocate_tensor(F16, layout, 1024)
        load, whole = cute.nvgpu.cpasync.make_tiled_tma_atom(
            cute.nvgpu.cpasync.CopyBulkTensorTileG2SOp(),
            tensor,
            cute.slice_(layout, (None, None, 0)),
            (rows, tiler[2]),
        )
        part = cute.local_tile(whole, (rows, tiler[2]), coord)
        to, source = cute.nvgpu.cpasync.tma_partition(
            load, 0, cute.make_layout(1), cute.group_modes(held, 0, 2), cute.group_modes(part, 0, 2)
        )
        copies.append((load, source, to))
        shared.append(held)
    return copies, shared, cute.local_tile(c, tiler[:2], (m, n))


def pipe_of(copies: Any, stages: int, warps: int) -> Any:
    thread_group = pipeline.Agent.Thread
    return pipeline.PipelineTmaAsync.create(
        num_stages=stages,
        producer_group=pipeline.CooperativeGroup(thread_group),
        consumer_group=pipeline.CooperativeGroup(thread_group, warps),
        tx_count=sum(load.bytes for load, _source, _to in copies),
    )


@cute.kernel(results=["c"])
def participants(a: Any, b: Any, c: Any, mma: Any, without: str) -> None:
    """One warp loads, four multiply."""
    thread, _y, _z = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    copies, (sa, sb), gc = tiles(a, b, c, STAGES)
    steps = cute.size(copies[0][1], mode=[1])
    producer, consumer = pipe_of(copies, STAGES, 4).make_participants()
    if warp == 4:
        for k in cutlass.range(steps):
            handle = producer.acquire_and_advance()
            for load, source, to in copies:
                cute.copy(load, source[None, k], to[None, handle.index], tma_bar_ptr=handle.barrier)
            handle.commit()
        producer.tail()
    else:
        mine = mma.get_slice(thread)
        ra, rb = (
            mma.make_fragment_A(mine.partition_A(sa)),
            mma.make_fragment_B(mine.partition_B(sb)),
        )
        sums = cute.make_rmem_tensor(mma.partition_shape_C(TILER[:2]), F32)
        sums.fill(0.0)
        for _k in cutlass.range(steps):
            handle = consumer.wait_and_advance()
            cute.nvgpu.warpgroup.fence()
            at = (None, None, None, handle.index)
            cute.gemm(mma, sums, ra[at], rb[at], sums)
            cute.nvgpu.warpgroup.commit_group()
            if without != "the wait":
                cute.nvgpu.warpgroup.wait_group(0)
            if without != "the release":
                handle.release()
        cute.nvgpu.warpgroup.wait_group(0)
        cute.basic_copy(sums, mine.partition_C(gc))


@cute.kernel(results=["c"])
def states(a: Any, b: Any, c: Any, mma: Any, stages: int) -> None:
    """All warps multiply; one also loads, steps ahead."""
    thread, _y, _z = cute.arch.thread_idx()
    warp = cute.arch.warp_idx()
    copies, (sa, sb), gc = tiles(a, b, c, stages)
    steps = cute.size(copies[0][1], mode=[1])
    pipe = pipe_of(copies, stages, 4)
    kinds = pipeline.PipelineUserType
    writes = pipeline.make_pipeline_state(kinds.Producer, stages)
    reads = pipeline.make_pipeline_state(kinds.Consumer, stages)
    released = pipeline.make_pipeline_state(kinds.Consumer, stages)

    def send() -> None:
        pipe.producer_acquire(writes)
        for load, source, to in copies:
            barrier = pipe.producer_get_barrier(writes)
            cute.copy(load, source[_, writes.count], to[_, writes.index], tma_bar_ptr=barrier)
        pipe.producer_commit(writes)
        writes.advance()

    ahead = min(stages - 1, steps)
    if warp == 0:
        for _k in cutlass.range(ahead):
            send()
    mine = mma.get_slice(thread)
    ra, rb = mma.make_fragment_A(mine.partition_A(sa)), mma.make_fragment_B(mine.partition_B(sb))
    sums = cute.make_rmem_tensor(mma.partition_shape_C(TILER[:2]), F32)
    sums.fill(0.0)
    for k in cutlass.range(steps):
        pipe.consumer_wait(reads, pipe.consumer_try_wait(reads))
        cute.nvgpu.warpgroup.fence()
        cute.gemm(mma, sums, ra[_, _, _, reads.index], rb[_, _, _, reads.index], sums)
        cute.nvgpu.warpgroup.commit_group()
        cute.nvgpu.warpgroup.wait_group(0)
        pipe.consumer_release(released)
        reads.advance()
        released.advance()
        if warp == 0 and k + ahead < steps:
            send()
    cute.basic_copy(sums, mine.partition_C(gc))


def operands(m: int, n: int, k: int) -> Any:
    random = np.random.default_rng(m + n + k)
    a, b = ((random.random((rows, k)) - 0.5).astype(F16) for rows in (m, n))
    op = cute.nvgpu.warpgroup.MmaF16BF16Op(F16, F32, (64, 64, 16))
    return a, b, np.zeros((m, n), F32), cute.make_tiled_mma(op)


def right(a: Any, b: Any, c: Any) -> bool:
    return bool(np.abs(c - a.astype(np.float64) @ b.astype(np.float64).T).max() < 5e-3)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("steps", [1, 2, 3, 8])
def test_products_through_a_pipeline(steps: int) -> None:
    for kernel, extra, threads in ((participants, "", 160), (states, STAGES, 128)):
        a, b, c, mma = operands(64, 128, 64 * steps)
        launch = kernel(a, b, c, mma, extra).launch(grid=(1, 2), block=(threads,))
        launch.run()
        assert right(a, b, c), kernel
        assert find_texpr_hazards(kernel_of(launch)) == [], kernel


@pytest.mark.parametrize(
    ("without", "message"),
    [("the wait", "no .warpgroup.wait_group. covers it"), ("the release", "wait for ever")],
)
def test_missing_steps_are_reported(without: str, message: str) -> None:
    a, b, c, mma = operands(64, 64, 64 * 8)
    launch = participants(a, b, c, mma, without).launch(grid=(1,), block=(160,))
    (found, *_others) = find_texpr_hazards(kernel_of(launch))
    assert re.search(message, found.message), found.message
    assert "test_cute_pipeline.py:" in found.message


@cute.kernel(results=["y"])
def scaled(x: Any, y: Any, rounds: int, stages: int, fault: str = "") -> None:
    """32 threads read rows and double them, 32 others add them up; each thread arrives."""
    thread, _y, _z = cute.arch.thread_idx()
    tile = cute.SmemAllocator().allocate_tensor(F32, cute.Layout((32, stages)))
    group = pipeline.CooperativeGroup(pipeline.Agent.Thread, 32)
    pipe = pipeline.PipelineAsync.create(
        num_stages=stages, producer_group=group, consumer_group=group
    )
    producer, consumer = pipe.make_participants()
    rows = x.shape[0] // rounds
    if thread < 32:
        for turn in cutlass.range(rounds):
            for k in cutlass.range(rows):
                handle = producer.acquire_and_advance()
                if fault in ("commits first", "commits twice"):
                    handle.commit()
                tile[thread, handle.index] = 2.0 * x[turn * rows + k, thread]
                if fault != "commits first":
                    handle.commit()
    else:
        total = cute.make_rmem_tensor((1,), F32)
        for turn in cutlass.range(rounds):
            total[0] = 0.0
            for _k in cutlass.range(rows):
                handle = consumer.wait_and_advance()
                if fault == "releases first":
                    handle.release()
                total[0] += tile[63 - thread, handle.index]
                if fault not in ("releases first", "never releases"):
                    handle.release()
            y[turn, 63 - thread] = total[0]


@pytest.mark.parametrize("stages", [1, 4, 16])
def test_threads_fill_a_pipeline(stages: int) -> None:
    """Also one of more stages than there are rows."""
    x, y = np.random.default_rng(0).random((15, 32)).astype(F32), np.zeros((3, 32), F32)
    launch = scaled(x, y, 3, stages).launch(grid=(1,), block=(64,))
    launch.run()
    np.testing.assert_allclose(y, 2 * x.reshape(3, 5, 32).sum(1), rtol=1e-5)
    assert find_texpr_hazards(kernel_of(launch)) == []


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("commits first", "writes tile.* reads tile.* neither a barrier nor an mbarrier orders"),
        ("commits twice", "may have ended too: it may wait for ever"),
        ("releases first", "reads tile.* writes tile.* neither a barrier nor an mbarrier orders"),
        ("never releases", "threads wait for ever"),
    ],
)
def test_wrong_steps_of_threads_are_reported(fault: str, message: str) -> None:
    x, y = np.zeros((15, 32), F32), np.zeros((3, 32), F32)
    launch = scaled(x, y, 3, 4, fault).launch(grid=(1,), block=(64,))
    found = [one.message for one in find_texpr_hazards(kernel_of(launch))]
    assert any(re.search(message, one) for one in found), found
    assert "test_cute_pipeline.py:" in found[0]


def test_states_that_are_not_known() -> None:
    x = cute.make_fake_tensor("f32", (64,))

    def use(body: Any, text: str, marked: str) -> None:
        with pytest.raises(cute.KernelError, match=text) as error:
            cute.kernel(body)(x).launch(grid=(1,), block=(64,)).trace()
        assert f"test_cute_pipeline.py:{line_of(body, marked)}:" in str(error.value)

    def parted(x: Any) -> None:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 4)
        if cute.arch.warp_idx() == 0:
            state.advance()
        x[0] = state.index + 0.0  # the use

    def now_and_then(x: Any) -> None:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 4)
        for k in cutlass.range(8):
            if k % 2 == 0:  # the condition
                state.advance()

    def in_some_iterations(x: Any) -> None:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 64)
        for _tile in cutlass.range(3):
            for k in cutlass.range(4):
                if k + 1 < 4:
                    x[state.count] = 1.0  # the next tile
                    state.advance()

    def of_half_a_thread(x: Any) -> None:
        half: Any = 0.5
        group = pipeline.CooperativeGroup(pipeline.Agent.Thread, half)
        pipeline.PipelineAsync.create(num_stages=2, producer_group=group, consumer_group=group)

    def clusters(x: Any) -> None:
        group = pipeline.CooperativeGroup(pipeline.Agent.Thread)
        pipeline.PipelineAsync.create(
            num_stages=2,
            producer_group=group,
            consumer_group=group,
            cta_layout_vmnk=cute.make_layout((1, 2, 1, 1)),  # the cluster
        )

    def of_no_group(x: Any) -> None:
        one: Any = 1
        pipeline.PipelineAsync.create(num_stages=2, producer_group=one, consumer_group=one)

    def of_no_bytes(x: Any) -> None:
        group = pipeline.CooperativeGroup(pipeline.Agent.Thread)
        pipeline.PipelineTmaAsync.create(num_stages=2, producer_group=group, consumer_group=group)

    def of_another(x: Any) -> None:
        group = pipeline.CooperativeGroup(pipeline.Agent.Thread, 64)
        pipe = pipeline.PipelineAsync.create(
            num_stages=2, producer_group=group, consumer_group=group
        )
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 4)
        pipe.consumer_wait(state)  # the state

    def of_no_stages(x: Any) -> None:
        pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 0)

    def of_elements(x: Any) -> None:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 4)
        if x[0] > 0:  # the element
            state.advance()

    def of_never(x: Any) -> None:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 4)
        with cute.when(cute.arch.thread_idx()[0] > 64):  # never
            state.advance()

    def of_itself(x: Any) -> None:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 4)
        for _k in cutlass.range(3):
            for _l in range(1 if "* 2" in str(state.count) else 2):
                state.advance()

    use(of_elements, "advanced under a condition on elements", "# the element")
    use(of_never, "advanced under a condition that never holds", "# never")
    with pytest.raises(cute.KernelError, match="advance them equally often in each iteration"):
        cute.kernel(of_itself)(x).launch(grid=(1,), block=(64,)).trace()
    use(in_some_iterations, "other threads or iterations use it", "# the next tile")
    use(of_half_a_thread, "the number of arrivals is known .*, not 0.5", "PipelineAsync.create")
    use(of_no_group, "expected a CooperativeGroup, got 1", "PipelineAsync.create")
    use(of_no_bytes, "tx_count is 0", "PipelineTmaAsync.create")
    use(of_another, "a state of 4 stages is none of a pipeline of 2", "# the state")
    use(of_no_stages, "has no state of 0 stages", "make_pipeline_state")

    def untouched(x: Any) -> None:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 4)
        for _k in cutlass.range(1001):
            state.advance()
        if cute.arch.thread_idx()[0] < 32:
            for place in cutlass.range(5):
                x[place] = 1.0
        x[state.index] = 2.0

    cute.kernel(untouched)(x).launch(grid=(1,), block=(64,)).trace()

    def outlives(x: Any) -> None:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, 4)
        for _k in cutlass.range(8):
            state.advance()
        assert (state.index, state.phase, state.count) == (0, 1, 8)
        for _k in cutlass.range(6):
            x[state.clone().count] = 0.0
            for _l in cutlass.range(3):
                state.advance()
            state.advance()
        assert state.count == 32

    cute.kernel(outlives)(x).launch(grid=(1,), block=(64,)).trace()
    use(clusters, "is a cluster, which kernels do not have", "PipelineAsync.create")
    use(parted, "advanced under a condition, and other threads", "# the use")
    use(now_and_then, "advance it in each iteration", "# the condition")


def test_what_is_printed_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Though the kernel is recorded until the steps of loops are known."""

    @cute.kernel
    def shows(x: Any) -> None:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 4)
        for _tile in cutlass.range(3):
            for _k in cutlass.range(5):
                print("stage", state.count, end=";")
                state.advance()
        x[64 * len([print("end", state.count)])] = 0.0

    with pytest.raises(cute.KernelError, match="the index 64 is outside"):
        shows(np.zeros(64, F32)).launch(grid=(1,), block=(64,)).trace()
    assert capsys.readouterr().out == "stage 0;end 15\n"
    shows(np.zeros(65, F32)).launch(grid=(1,), block=(64,)).trace()
    assert capsys.readouterr().out == "stage k * 5 + k;end 15\n"


@cute.kernel(results=["y"])
def copied(x: Any, y: Any, stages: int, waits: bool) -> None:
    """Rows times 2, by tiles of 8 rows that one warp stores by TMA."""
    thread, _y, _z = cute.arch.thread_idx()
    shape = (8, 64)
    layout = cute.make_ordered_layout((*shape, stages), order=(1, 0, 2))
    tiles = cute.SmemAllocator().allocate_tensor(F32, layout)
    store, whole = cute.nvgpu.cpasync.make_tiled_tma_atom(
        cute.nvgpu.cpasync.CopyBulkTensorTileS2GOp(), y, cute.select(layout, mode=[0, 1]), shape
    )
    group = pipeline.CooperativeGroup(pipeline.Agent.Thread)
    pipe = pipeline.PipelineTmaStore.create(num_stages=stages, producer_group=group)
    for k in cutlass.range(x.shape[0] // 8):
        stage = k % stages
        if thread < 32 and waits:
            pipe.producer_acquire()
        cute.arch.sync_threads()
        for row in range(8):
            tiles[row, thread, stage] = 2.0 * x[8 * k + row, thread]
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.sync_threads()
        if thread < 32:
            to = cute.local_tile(whole, shape, (k, 0))
            cute.copy(
                store,
                *cute.tma_partition(store, 0, cute.make_layout(1), tiles[None, None, stage], to),
            )
            pipe.producer_commit()
    if thread < 32:
        pipe.producer_tail()


def test_tiles_are_stored_through_a_pipeline() -> None:
    x = np.random.default_rng(2).random((40, 64)).astype(F32)
    y = np.zeros_like(x)
    launch = copied(x, y, 2, True).launch(grid=(1,), block=(64,))
    launch.run()
    np.testing.assert_array_equal(y, 2 * x)
    assert find_texpr_hazards(kernel_of(launch)) == []
    other = copied(x, y, 2, False).launch(grid=(1,), block=(64,))
    assert (
        "no 'cp_async_bulk_wait_group' covers it" in find_texpr_hazards(kernel_of(other))[0].message
    )
