"""Kernels whose warps work together: shuffles, reductions, and matrices stored by stmatrix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.emulated_texpr import TexprProgram, build_texpr, emulate_texpr
from unit import test_cute_pipeline as pipelines
from unit.test_cute_kernels import kernel_of, line_of

from mugraph import cute
from mugraph.errors import UserError
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards

F16, F32 = np.float16, np.float32


@cute.kernel(results=["y"])
def softmax(x: Any, y: Any, group: int) -> None:
    """A row by ``group`` threads, each of which has every ``group``-th element."""
    thread, _y, _z = cute.arch.thread_idx()
    block, _y, _z = cute.arch.block_idx()
    block_threads, _y, _z = cute.arch.block_dim()
    row, lane = block * (block_threads // group) + thread // group, thread % group
    source = cute.zipped_divide(x[row, None], (group,))[lane, None]
    target = cute.zipped_divide(y[row, None], (group,))[lane, None]
    held = cute.make_fragment_like(source, F32)
    cute.copy(source, held)
    values = held.load()
    largest = cute.arch.warp_reduction(
        values.reduce(cute.ReductionOp.MAX, -np.inf), cute.math.maximum, threads_in_group=group
    )
    powers = cute.math.exp(values - largest)
    total = cute.arch.warp_reduction(
        powers.reduce(cute.ReductionOp.ADD, 0.0), cute.ReductionOp.ADD, threads_in_group=group
    )
    held.store(powers / total)
    cute.copy(held, target)


@pytest.mark.parametrize("group", [32, 8])
def test_reductions_of_warps_and_of_parts(group: int) -> None:
    x = np.random.default_rng(0).standard_normal((16, 96)).astype(F16)
    y = np.zeros_like(x)
    launch = softmax(x, y, group).launch(grid=(16 * group // 64,), block=(64,))
    launch.run()
    wide = x.astype(np.float64)
    exact = np.exp(wide) / np.exp(wide).sum(1, keepdims=True)
    assert np.abs(y - exact).max() < 1e-3
    assert find_texpr_hazards(kernel_of(launch)) == []


@cute.kernel(results=["y"])
def exchanged(x: Any, y: Any, kind: str, offset: Any, clamp: Any) -> None:
    """What each thread gets."""
    thread, _y, _z = cute.arch.thread_idx()
    name = f"shuffle_sync{kind}"
    found = getattr(cute.arch, name)(x[thread], offset(thread), mask_and_clamp=clamp)
    y[thread] = found


Of = Callable[[Any], Any]
SHUFFLES: list[tuple[str, Of, int | None, Of]] = [
    ("_up", lambda _t: 3, None, lambda lane: max(lane - 3, lane if lane < 3 else 0)),
    ("_down", lambda _t: 5, None, lambda lane: lane + 5 if lane < 27 else lane),
    ("_bfly", lambda _t: 6, None, lambda lane: lane ^ 6),
    ("", lambda _t: 9, None, lambda _lane: 9),
    ("", lambda t: t % 32 // 4, None, lambda lane: lane // 4),
    ("_down", lambda _t: 3, 0x1807, lambda lane: lane + 3 if lane % 8 < 5 else lane),
    ("", lambda _t: 2, 0x181F, lambda lane: lane // 8 * 8 + 2),
    ("", lambda t: t + 1, None, lambda lane: (lane + 1) % 32),
    ("_up", lambda t: t % 4 - 1, None, lambda lane: lane - lane % 4 + (lane % 4 > 0)),
]
"""The end of a name, the offset of a thread, bounds, and the lane that a lane gets."""


@pytest.mark.parametrize(("kind", "offset", "clamp", "source"), SHUFFLES)
@pytest.mark.parametrize("dtype", [F32, np.int32])
def test_shuffles(kind: str, offset: Any, clamp: Any, source: Any, dtype: Any) -> None:
    x = np.arange(64, dtype=dtype)
    y = np.zeros_like(x)
    launch = exchanged(x, y, kind, offset, clamp).launch(grid=(1,), block=(64,))
    launch.run()
    exact = [lane // 32 * 32 + source(lane % 32) for lane in range(64)]
    np.testing.assert_array_equal(y, exact)


def test_warps_that_are_not_whole() -> None:
    """Refused when they are recorded, or reported by the check for hazards."""
    x, y = np.zeros(64, F32), np.zeros(64, F32)

    @cute.kernel(results=["y"])
    def parted(x: Any, y: Any, threads: int) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        y[thread] = 0.0
        if thread < threads:
            y[thread] = cute.arch.shuffle_sync_bfly(x[thread], 1)  # the shuffle

    def hazards(threads: int) -> list[str]:
        launch = parted(x, y, threads).launch(grid=(1,), block=(64,))
        return [one.message for one in find_texpr_hazards(kernel_of(launch))]

    assert hazards(32) == hazards(64) == []
    (message,) = hazards(48)
    line = line_of(parted.function, "# the shuffle")
    assert f"py:{line}" in message
    assert "is an instruction of 32 threads, and 16 of them come to it" in message
    parted(x, y, 32).launch(grid=(1,), block=(64,)).run()

    @cute.kernel
    def last_block(x: Any, y: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        place = cute.arch.block_idx()[0] * 32 + thread
        if place < 264:
            y[place] = cute.arch.warp_reduction(x[place], cute.ReductionOp.ADD)

    whole = np.zeros(288, F32)
    launch = last_block(whole, whole.copy()).launch(grid=(9,), block=(32,))
    found = find_texpr_hazards(kernel_of(launch))
    assert "an instruction of 32 threads, and 8 of them come to it" in found[0].message

    @cute.kernel(results=["y"])
    def elements(x: Any, y: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        if x[thread] > 0:
            y[thread] = cute.arch.shuffle_sync(x[thread], 1)

    @cute.kernel(results=["y"])
    def masked(x: Any, y: Any) -> None:
        y[0] = cute.arch.shuffle_sync(x[0], 1, mask=0xFF)

    @cute.kernel(results=["y"])
    def passes(x: Any, y: Any, value: Any, lane: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        y[thread] = cute.arch.shuffle_sync(value(x, thread), lane(x, thread))

    def passed(value: Callable[[Any, Any], Any], lane: Callable[[Any, Any], Any]) -> cute.Launch:
        return passes(x, y, value, lane).launch(grid=(1,), block=(64,))

    def own(x: Any, thread: Any) -> Any:
        return x[thread]

    for call, text in (
        (passed(own, lambda _x, _t: 32), "numbers 0 to 31, not 32"),
        (passed(own, lambda _x, _t: 1.5), "1.5 is no element and no index"),
        (passed(own, own), "is no lane, which are integers"),
        (passed(lambda x, _t: x, lambda _x, _t: 1), "is no number of a kernel"),
        (passed(lambda x, _t: x[None].load(), lambda _x, _t: 1), "a vector .* is no number"),
        (elements(x, y).launch(grid=(1,), block=(64,)), "stands under a condition on elements"),
        (
            masked(x, y).launch(grid=(1,), block=(64,)),
            "all threads of a warp take part, not .*0xff",
        ),
        (parted(x, y, 64).launch(grid=(1,), block=(48,)), "the 48 threads .* no whole warps"),
    ):
        with pytest.raises(cute.KernelError, match=text):
            call.trace()


@cute.kernel(results=["c"])
def stored(a: Any, b: Any, c: Any, mma: Any, atom: Any, layout: Any, meets: bool) -> None:
    """One tile of A B^T, which goes by stmatrix to shared memory, and from there in rows."""
    thread, _y, _z = cute.arch.thread_idx()
    mine = mma.get_slice(thread)
    ra, rb = (cute.make_fragment_like(part) for part in (mine.partition_A(a), mine.partition_B(b)))
    cute.copy(mine.partition_A(a), ra)
    cute.copy(mine.partition_B(b), rb)
    sums = mma.make_fragment_C(mine.partition_C(c), F32)
    cute.clear(sums)
    cute.gemm(mma, ra, rb, sums)
    rounded = cute.make_fragment_like(sums, F16)
    rounded.store(sums.load().to(F16))
    tile = cute.SmemAllocator().allocate_tensor(F16, layout)
    store = cute.make_tiled_copy_C(cute.make_copy_atom(atom, F16), mma)
    part = store.get_slice(thread)
    cute.copy(store, part.retile(rounded), part.partition_D(tile))  # the store
    if meets:
        cute.arch.sync_threads()
    rows = cute.make_tiled_copy(
        "UniversalCopy_U128", 16, cute.Layout((mma.threads // 4, 4), (4, 1)), cute.Layout((1, 8))
    )
    line = rows.get_slice(thread)
    held = cute.make_fragment_like(line.partition_S(tile))
    cute.copy(rows, line.partition_S(tile), held)
    cute.copy(rows, held, line.partition_D(c))


def launched(m: int, n: int, layout: Any, op: Any = None, *, meets: bool = True) -> Any:
    random = np.random.default_rng(3)
    a, b = ((random.random((rows, 32)) - 0.5).astype(F16) for rows in (m, n))
    c = np.zeros((m, n), F16)
    mma = cute.TiledMma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    atom = cute.nvgpu.warp.StMatrix8x8x16bOp(num_matrices=4) if op is None else op
    call = stored(a, b, c, mma, atom, layout, meets)
    return call.launch(grid=(1,), block=(mma.threads,)), [a, b, c]


ROWS = cute.Layout((64, 64), (64, 1))
SWIZZLED = cute.composition(cute.Swizzle(3, 3, 3), ROWS)


def test_matrices_are_stored() -> None:
    for layout in (ROWS, SWIZZLED):
        launch, (a, b, c) = launched(64, 64, layout)
        launch.run()
        exact = a.astype(np.float64) @ b.astype(np.float64).T
        assert np.abs(c - exact).max() < 5e-3
        assert "stmatrix.sync.aligned.m8n8.x4.shared.b16" in launch.text()
        assert find_texpr_hazards(kernel_of(launch)) == []


def test_stores_of_matrices_are_checked() -> None:
    launch, _tensors = launched(64, 64, ROWS, meets=False)
    message = find_texpr_hazards(kernel_of(launch))[0].message
    assert f"test_cute_warps.py:{line_of(stored.function, '# the store')}" in message
    with pytest.raises(UserError, match=r"has the instruction stmatrix.* sm_80 has not"):
        launch.trace("sm_80")
    columns = cute.Layout((64, 64))
    with pytest.raises(cute.KernelError, match="moves lines of 8 neighbours"):
        launched(64, 64, columns)[0].trace()
    two = cute.nvgpu.warp.StMatrix8x8x16bOp(num_matrices=2)
    with pytest.raises(cute.KernelError, match="store four matrices at once by stmatrix"):
        launched(64, 64, ROWS, two)[0].trace()


def test_as_cuda_on_the_emulator(tmp_path: Path) -> None:
    """Shuffles, parts of warps, stored matrices, and pipelines, in several orders of threads."""
    random = np.random.default_rng(7)
    x, rows = random.standard_normal((8, 96)).astype(F16), random.random((15, 32)).astype(F32)
    wide = np.exp(x.astype(np.float64))
    sums, lanes = np.zeros((3, 32), F32), np.arange(64, dtype=F32)
    cases: list[tuple[cute.Launch, list[Any], Any]] = [
        (softmax(x, x, 8).launch((1,), (64,)), [x], wide / wide.sum(1, keepdims=True)),
        (pipelines.scaled(rows, sums, 3, 4).launch((1,), (64,)), [rows], sum_of(rows)),
    ]
    for kind, offset, clamp, source in SHUFFLES:
        launch = exchanged(lanes, lanes, kind, offset, clamp).launch((1,), (64,))
        exact = [lane // 32 * 32 + source(lane % 32) for lane in range(64)]
        cases.append((launch, [lanes], np.array(exact)))
    for layout in (ROWS, SWIZZLED):
        launch, (a, b, _c) = launched(64, 64, layout)
        cases.append((launch, [a, b], a.astype(np.float64) @ b.astype(np.float64).T))
    for kernel, extra, threads in ((pipelines.participants, "", 160), (pipelines.states, 3, 128)):
        a, b, c, mma = pipelines.operands(64, 128, 320)
        launch = kernel(a, b, c, mma, extra).launch((1, 2), (threads,))
        cases.append((launch, [a, b], a.astype(np.float64) @ b.astype(np.float64).T))
    programs = [TexprProgram(launch.trace(), inputs) for launch, inputs, _exact in cases]
    executable = build_texpr(programs)
    for number, (program, (_launch, _inputs, exact)) in enumerate(
        zip(programs, cases, strict=True)
    ):
        for (found,) in emulate_texpr(executable, number, program, tmp_path / str(number)):
            np.testing.assert_allclose(found.reshape(exact.shape), exact, atol=5e-3)


def sum_of(rows: Any) -> Any:
    return 2 * rows.reshape(3, 5, 32).sum(1)
