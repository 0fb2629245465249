"""Kernels on CuTe tensors: run, recorded, checked for hazards, and what is refused."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

import mugraph
from mugraph import cute
from mugraph.cute import _
from mugraph.dialects.te import BarrierOp, KernelOp, WaitOp
from mugraph.errors import UserError
from mugraph.passes.schedule.report_memory_access import ReportMemoryAccessPass
from mugraph.passes.texpr.analysis.access_costs import texpr_access_costs
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards
from mugraph.reading import make_context
from mugraph.runtime.library_sources import generate_sources

EXAMPLES = Path(__file__).parents[2] / "examples" / "cute"
Array = np.ndarray[Any, np.dtype[Any]]


def example(name: str) -> Any:
    """The module of an example; examples import one another."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return importlib.import_module(name)


def kernel_of(launch: cute.Launch) -> KernelOp:
    """The recorded kernel."""
    return kernel_in(launch.trace())


def kernel_in(recorded: Operation) -> KernelOp:
    """The kernel of what was recorded."""
    return next(op for op in recorded.walk() if isinstance(op, KernelOp))


def draw(shape: tuple[int, ...], dtype: Any, order: Any = "C") -> Array:
    rng = np.random.default_rng(sum(shape))
    return np.asarray(rng.standard_normal(shape), dtype, order)


def addition(m: int, n: int) -> tuple[cute.Launch, list[Array], Array]:
    a, b, c = draw((m, n), np.float32), draw((m, n), np.float32), np.zeros((m, n), np.float32)
    return example("elementwise_add").launch(a, b, c), [a, b, c], a + b


def transposition(m: int, n: int) -> tuple[cute.Launch, list[Array], Array]:
    a, b = draw((m, n), np.float32), np.zeros((n, m), np.float32)
    return example("transpose").launch(a, b), [a, b], a.T


def row_sums(layout: str) -> tuple[cute.Launch, list[Array], Array]:
    module = example("swizzle")
    x, sums = draw((256, 64), np.float16), np.zeros(256, np.float16)
    return module.launch(x, sums, getattr(module, layout)), [x, sums], x.sum(1, np.float64)


def product(
    name: str, m: int, n: int, k: int, dtype: Any, order: Any = "C", **options: Any
) -> tuple[cute.Launch, list[Array], Array]:
    a, b, c = draw((m, k), dtype, order), draw((n, k), dtype, order), draw((m, n), dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    alpha, beta = options.get("alpha", 1.0), options.get("beta", 0.0)
    exact = alpha * exact + beta * c
    return example(name).launch(a, b, c, **options), [a, b, c], exact


PROGRAMS: list[Callable[[], tuple[cute.Launch, list[Array], Array]]] = [
    lambda: addition(33, 140),
    lambda: addition(17, 31),
    lambda: transposition(64, 96),
    lambda: transposition(33, 70),
    lambda: product("sgemm_1", 64, 32, 24, np.float32, tiler=(32, 32, 8), alpha=1.5, beta=-0.5),
    lambda: product("sgemm_1", 32, 32, 16, np.float32, order="F", tiler=(32, 32, 16)),
    lambda: product("sgemm_2", 128, 128, 24, np.float32, order="F", alpha=2.0, beta=0.5),
    lambda: product(
        "gemm_sm80", 64, 64, 160, np.float16, tiler=(32, 64, 32), stages=3, warps=(2, 2)
    ),
    lambda: product(
        "gemm_sm80", 64, 32, 64, np.float16, tiler=(64, 32, 64), stages=4, warps=(2, 2)
    ),
    lambda: product("gemm_sm80", 64, 64, 96, np.float16, tiler=(64, 64, 32), warps=(2, 2)),
    lambda: product("gemm_sm90", 256, 128, 320, np.float16, tiler=(128, 64, 64), stages=2),
    lambda: product("gemm_sm90", 100, 264, 200, np.float16, tiler=(64, 256, 128), stages=2),
    lambda: row_sums("SWIZZLED"),
    lambda: row_sums("PLAIN"),
    lambda: product("gemm_predicated", 70, 50, 100, np.float16),
]
"""Examples at some sizes, several steps, and extents that no tile divides."""


def test_examples_are_short() -> None:
    """At most 40 lines, 120 where they are products."""
    others = {"elementwise_add.py", "transpose.py", "swizzle.py"}
    for file in EXAMPLES.glob("*.py"):
        assert 20 < len(file.read_text().splitlines()) <= (40 if file.name in others else 120), file


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_examples(number: int) -> None:
    """Against float64; and no two threads race."""
    launch, arrays, exact = PROGRAMS[number]()
    launch.run()
    norm = np.abs(exact).max()
    rounding = 2e-3 if arrays[-1].dtype == np.float16 else 1e-5
    np.testing.assert_allclose(arrays[-1], exact, atol=rounding * norm)
    assert find_texpr_hazards(kernel_of(launch)) == []


@cute.kernel(results=["c"])
def one_product(a: Any, b: Any, c: Any, mma: Any, loads: Any, layouts: Any) -> None:
    """A block's product: fragments by ``ldmatrix`` where one is named, else by elements."""
    thread, _y, _z = cute.arch.thread_idx()
    memory = cute.SmemAllocator()
    mine = mma.get_slice(thread)
    by_element = cute.make_tiled_copy("UniversalCopy_U16", 16, cute.Layout((8, mma.threads // 8)))
    fragments: list[Any] = []
    tiles: list[Any] = []
    for tensor, layout in ((a, layouts[0]), (b, layouts[1])):
        tiles.append(memory.allocate_tensor(tensor.dtype, layout))
        part = by_element.get_slice(thread)
        cute.copy(part.partition_S(tensor), part.partition_D(tiles[-1]))
    cute.arch.sync_threads()
    for operand, tile, name in zip("AB", tiles, loads, strict=True):
        part = getattr(mine, f"partition_{operand}")(tile)
        fragments.append(cute.make_fragment_like(part))
        if not name:
            cute.copy(part, fragments[-1])
            continue
        load = cute.make_tiled_copy_for(name, 16, mma, operand)
        lines = load.get_slice(thread)
        cute.copy(load, lines.partition_S(tile), lines.retile_D(fragments[-1]))
    sums = cute.make_fragment_of_shape(mine.partition_C(c).shape, mma.atom.c_type)
    cute.clear(sums)
    cute.gemm(mma, *fragments, sums)
    cute.copy(sums, mine.partition_C(c))


@pytest.mark.parametrize(
    ("atom", "loads", "majors"),
    [
        ("SM80_16x8x16_F32F16F16F32_TN", ("SM75_U16x8_LDSM_T", "SM75_U16x8_LDSM_T"), "MN"),
        ("SM80_16x8x16_F32F16F16F32_TN", ("SM75_U32x4_LDSM_N", "SM75_U16x4_LDSM_T"), "KN"),
        ("SM80_16x8x16_F32BF16BF16F32_TN", ("SM75_U32x4_LDSM_N", "SM75_U32x2_LDSM_N"), "KK"),
        ("SM80_16x8x16_F16F16F16F16_TN", ("SM75_U32x4_LDSM_N", "SM75_U32x4_LDSM_N"), "KK"),
        ("SM80_16x8x8_F32F16F16F32_TN", ("SM75_U32x2_LDSM_N", "SM75_U32x1_LDSM_N"), "KK"),
        ("SM80_16x8x8_F32BF16BF16F32_TN", ("", ""), "MN"),
        ("SM75_16x8x8_F32F16F16F32_TN", ("", ""), "KN"),
    ],
)
def test_instructions(atom: str, loads: tuple[str, str], majors: str) -> None:
    mma = cute.TiledMma(atom, (2, 2, 1), (32, 32, _))
    m, n, k = 64, 64, 32
    rng = np.random.default_rng(0)
    inputs, result = cute.make_fake_tensor(mma.atom.a_type, (1, 1)).dtype, mma.atom.c_type
    a, b = (rng.integers(-3, 4, (rows, k)).astype(inputs) for rows in (m, n))
    c = np.zeros((m, n), {"f16": np.float16, "f32": np.float32}[result])
    layouts = [
        cute.composition(cute.Swizzle(2, 3, 3), cute.Layout((rows, k), stride))
        for rows, stride in ((m, (k, 1) if majors[0] == "K" else (1, m)),
                             (n, (k, 1) if majors[1] == "K" else (1, n)))
    ]  # fmt: skip
    launch = one_product(a, b, c, mma, loads, layouts).launch((1,), (mma.threads,))
    launch.run()
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64).T)
    text = str(launch.trace())
    # PTX wants braces around vectors of one register, too.
    assert ("%2, %0, {%1}, %2" in text) is ("x8x8_" in atom)
    assert ("m8n8.x1.shared.b16 {%0}" in text) is ("x1_" in loads[1])


def line_of(function: Any, text: str) -> int:
    """The number of the line of a function that holds a text."""
    lines, first = inspect.getsourcelines(function)
    return first + next(at for at, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("number", [2, 4, 6, 7])
def test_a_barrier_left_out_is_reported_with_the_lines_of_python(number: int) -> None:
    launch, _arrays, _exact = PROGRAMS[number]()
    barriers = [op for op in kernel_of(launch).walk() if isinstance(op, BarrierOp)]
    assert barriers
    source = Path(inspect.getfile(launch.call.kernel.function)).read_text().splitlines()
    for place in range(len(barriers)):
        kernel = kernel_of(launch)
        barrier = [op for op in kernel.walk() if isinstance(op, BarrierOp)][place]
        barrier.detach()
        findings = find_texpr_hazards(kernel)
        assert findings, f"barrier {place} is not needed"
        for finding in findings:
            places = [
                part.split(":")[1] for part in str(finding.message).split("(")[1:] if ".py" in part
            ]
            assert len(places) == 2
            for line in places:
                text = source[int(line) - 1]
                assert "cute.copy" in text or "cute.gemm" in text or "mine(" in text


@cute.kernel(results=["c"])
def padded(a: Any, c: Any, atom: str, below: Any, waits: bool) -> None:
    """Tiles of 16 x 32 by cp.async, predicated by ``below``."""
    thread, _y, _z = cute.arch.thread_idx()
    block, _y, _z = cute.arch.block_idx()
    tile = cute.SmemAllocator().allocate_tensor("f16", cute.Layout((16, 32), (32, 1)))
    rows = cute.Layout((16, 4), (4, 1))
    load = cute.make_tiled_copy(atom, 16, rows, cute.Layout((1, 8))).get_slice(thread)
    ga, gc, places = (
        cute.local_tile(one, (16, 32), (block, 0))
        for one in (a, c, cute.make_identity_tensor(a.shape))
    )
    at = load.partition_S(places)[(0, _), _, _]
    exists = cute.transform(at, lambda coord: cute.elem_less(coord, below))
    cute.copy_if(exists, atom, load.partition_S(ga), load.partition_D(tile))
    cute.arch.cp_async_commit_group()
    if waits:
        cute.arch.cp_async_wait_group(0)
    cute.arch.sync_threads()
    cute.copy(cute.local_partition(tile, rows, thread), cute.local_partition(gc, rows, thread))


ZEROS = "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL_U128"


@pytest.mark.parametrize("below", [(20, 24), (32, 32), (17, 8), (0, 0)])
def test_copies_that_fill_zeros(below: tuple[int, int]) -> None:
    """Vectors that exist for some threads, for all, and for none."""
    a = draw(below if below[0] else (32, 32), np.float16)
    c = np.full((32, 32), np.nan, np.float16)
    launch = padded(a, c, ZEROS, below, True).launch((2,), (64,))
    assert ("te.copy_async_or_zero" in str(launch.trace())) is (below != (32, 32))
    launch.run()
    exact = np.pad(a[: below[0], : below[1]], [(0, 32 - extent) for extent in below])
    np.testing.assert_array_equal(c, exact)
    assert find_texpr_hazards(kernel_of(launch)) == []


def test_zeros_are_waited_for_and_predicates_bound_what_is_read() -> None:
    a, c = cute.make_fake_tensor("f16", (20, 24)), cute.make_fake_tensor("f16", (32, 32))
    findings = find_texpr_hazards(
        kernel_of(padded(a, c, ZEROS, (20, 24), False).launch((2,), (64,)))
    )
    line = line_of(padded.function, "cute.copy_if")
    assert findings and f"test_cute_kernels.py:{line}:" in findings[0].message
    with pytest.raises(
        cute.KernelError, match=f"{line}.*a is accessed at index 20 where block = 1"
    ):
        padded(a, c, ZEROS, (21, 24), True).launch((2,), (64,)).trace()


def test_a_copy_that_nobody_waits_for_is_reported() -> None:
    for in_flight in (None, 2):
        kernel = kernel_of(PROGRAMS[7]()[0])
        _first, wait, _last = (op for op in kernel.walk() if isinstance(op, WaitOp))
        if in_flight is not None:
            Rewriter.insert_op(WaitOp(in_flight), InsertPoint.before(wait))
        wait.detach()
        findings = find_texpr_hazards(kernel)
        assert findings
        assert all("gemm_sm80.py:" in finding.message for finding in findings)


@pytest.mark.parametrize(
    ("text", "shapes", "copies"),
    [
        ("makl,nkl->amn", ((10, 3, 5, 64), (64, 5, 64), (3, 10, 64)), "te.bulk_load"),
        ("abmkl,nkl->abmn", ((2, 2, 3, 5, 64), (64, 5, 64), (2, 2, 3, 64)), "te.bulk_load"),
        (
            "abcmkl,nkl->abcmn",  # a tensor map has five dimensions
            ((2, 2, 2, 3, 5, 64), (64, 5, 64), (2, 2, 2, 3, 64)),
            "te.copy_async_or_zero",
        ),
        ("mkl,nkl->mn", ((10, 5, 12), (64, 5, 12), (10, 64)), "te.copy_async_or_zero"),
        ("mkl,nkl->mn", ((10, 5, 3), (64, 5, 3), (10, 64)), "te.view %a"),
    ],
)
def test_tensors_of_several_modes_come_by_tma_or_by_threads(
    text: str, shapes: tuple[tuple[int, ...], ...], copies: str
) -> None:
    """By TMA where boxes say it, else by ``cp.async``, else by element."""
    tensors = [cute.make_fake_tensor("f16", shape) for shape in shapes]
    recorded = str(example("contraction").launch(text, *tensors, (64, 64), 2, 1).trace())
    ways = ("te.bulk_load", "te.copy_async_or_zero", "te.view %a")
    assert [way for way in ways if way in recorded] == [copies]


def test_bank_conflicts_are_counted_and_named() -> None:
    module = example("transpose")
    tensors = [cute.make_fake_tensor("f32", (64, 64))] * 2
    line = line_of(module.transpose.function, "tile.compose")
    for bits, wavefronts in ((5, 32), (0, 1024)):
        costs = list(texpr_access_costs(kernel_of(module.launch(*tensors, bits=bits))))
        shared = [cost for cost in costs if cost.in_shared_memory]
        assert [cost.transactions for cost in shared] == [32, wavefronts]
        assert shared[1].access.op.location.line.data == line  # type: ignore[attr-defined]
    a, b = (cute.make_fake_tensor("f16", (128, 128)) for _one in range(2))
    costs = texpr_access_costs(
        kernel_of(example("gemm_sm80").launch(a, b, a, (128, 128, 64), 2, (2, 2)))
    )
    assert all(cost.excess == 0 for cost in costs if cost.in_shared_memory)


def test_a_swizzle_saves_wavefronts(capsys: pytest.CaptureFixture[str]) -> None:
    """By ``--report-memory-access``: those of the line that reads rows, with it and without."""
    module = example("swizzle")
    line = line_of(module.row_sums.function, "tile[thread, _], row")
    x, sums = (cute.make_fake_tensor("f16", shape) for shape in ((256, 64), (256,)))
    for layout, wavefronts in ((module.SWIZZLED, 128), (module.PLAIN, 1024)):
        recorded = module.launch(x, sums, layout).trace()
        ReportMemoryAccessPass().apply(make_context(), recorded)
        rows = [row for row in capsys.readouterr().err.splitlines() if "%tile" in row]
        assert "st.shared.b128  32     128 wavefronts" in rows[0]
        assert f"ld.shared.b128  32     {wavefronts} wavefronts" in rows[1]
        assert f"swizzle.py:{line}:" in rows[1]


# --- what is refused ---


def test_gpus_that_lack_the_shared_memory() -> None:
    a = cute.make_fake_tensor("f16", (512, 512))
    launch = example("gemm_sm80").launch(a, a, a)
    sentence = (
        r"^kernel 'gemm_sm80' needs 196608 bytes of shared memory a block \(\S+py:\d+:1\), and "
        "sm_80 has 166912; use smaller tiles or fewer stages, or compile it for sm_90a or sm_100a$"
    )
    with pytest.raises(UserError, match=sentence):
        launch.trace("sm_80")
    with pytest.raises(UserError, match=sentence):
        generate_sources(launch.trace(), make_context(), ["sm_90a", "sm_80"])
    three = example("gemm_sm80").launch(a, a, a, stages=3).trace("sm_80")
    assert generate_sources(three, make_context(), ["sm_80"]).files
    with pytest.raises(UserError, match=r"has 232448; use smaller tiles or fewer stages$"):
        example("gemm_sm80").launch(a, a, a, stages=5).trace()


def recorded(body: Callable[..., None], *tensors: Any) -> None:
    cute.kernel(body)(*tensors).launch(grid=(2,), block=(64,)).trace()


def refused(body: Callable[..., None], text: str, sentence: str, *tensors: Any) -> None:
    """A kernel is refused with a sentence that begins with the line that holds a text."""
    with pytest.raises(cute.KernelError) as error:
        recorded(body, *tensors)
    message = str(error.value)
    assert f"test_cute_kernels.py:{line_of(body, text)}:" in message, message
    assert sentence in message and "\n" not in message


def test_what_python_cannot_decide() -> None:
    a = cute.make_fake_tensor("f32", (256,))

    def branches(a: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        a[thread] = 0.0 if thread < 32 else 1.0  # the branch

    def counts(a: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        for i in range(thread):  # the count
            a[i] = 0.0

    def asks(a: Any) -> None:
        a[1] = 0.0 if a[0] > 0 else 1.0  # the element

    def squares(a: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        a[thread * thread] = 0.0  # the product

    def carries(a: Any) -> None:
        stage = 0
        for k in cute.dynamic_range(4):
            a[k * 4 + stage] = 0.0
            stage = (stage + 1) % 4  # the variable

    refused(branches, "# the branch", "leaves, asks for the condition", a)
    refused(counts, "# the count", "is no number when the kernel is recorded", a)
    refused(asks, "# the element", "asks for an element of a tensor", a)
    refused(squares, "# the product", "is multiplied with the index", a)
    refused(carries, "# the variable", "'stage' is read and bound anew in a loop of the", a)


def test_variables_of_comprehensions_are_not_carried() -> None:
    @cute.kernel
    def both(a: Any) -> None:
        for k in cute.dynamic_range(4):
            parts = [cute.local_tile(one, (64,), (k,)) for one in (a, a)]
            parts[0][0] = sum(one[1] for one in parts)

    assert "te.seq" in str(both(cute.make_fake_tensor("f32", (256,))).launch((1,), (1,)).trace())


def test_what_layouts_cannot_do() -> None:
    a, b = cute.make_fake_tensor("f32", (64, 64)), cute.make_fake_tensor("f32", (64,))

    def ranks(a: Any, b: Any) -> None:
        cute.copy(cute.local_tile(a, (8, 8), (0, 0)), b)  # here

    def aligned(a: Any, b: Any) -> None:
        part = cute.local_tile(a, (1, 4), (0, 0))
        shifted = cute.Tensor(part.engine, part.layout, 1)
        cute.copy("UniversalCopy_U128", shifted, cute.make_fragment_like(part))  # here

    def no_rank(a: Any, b: Any) -> None:
        cute.gemm(a, b, a)  # here

    def threads(a: Any, b: Any) -> None:
        cute.local_partition(b, cute.Layout((8, 8)), 0)  # here

    def memory(a: Any, b: Any) -> None:
        cute.copy("SM80_CP_ASYNC_CACHEALWAYS_U32", a, cute.make_fragment_like(a))  # here

    def engine(a: Any, b: Any) -> None:
        atom = cute.tma_atom("SM90_TMA_LOAD", 64 * 32)
        cute.copy(atom, b, cute.SmemAllocator().allocate_tensor("f32", b.layout))  # here

    def matrices(a: Any, b: Any) -> None:
        fragment = cute.make_fragment_of_shape((8, 1, 1), "f16")
        tile = cute.SmemAllocator().allocate_tensor("f16", cute.Layout((8, 1, 1), (2, 0, 0)))
        cute.copy("SM75_U32x4_LDSM_N", tile, fragment)  # here

    refused(engine, "# here", "ldmatrix and stmatrix, not by SM90_TMA_LOAD", a, b)
    refused(matrices, "# here", "moves lines of 8 neighbours that begin at multiples of 8", a, b)
    refused(ranks, "# here", "copy: the source (8,8):(64,1) has 64 elements, the destination", a, a)
    refused(aligned, "# here", "moves 4 elements at once; the source", a, b)
    refused(no_rank, "# here", "gemm: B has the layout 64:1; its rank must be 2", a, b)
    refused(threads, "# here", "the threads (8,8):(1,8) have 2 modes", a, b)
    refused(memory, "# here", "copies from device to shared memory, not from global to", a, b)


def test_tiles_that_do_not_divide_a_tensor_need_predicates() -> None:
    """Also along rows, where the next element is that of the next row."""
    a = cute.make_fake_tensor("f32", (20, 20))

    def whole(a: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        block, _y, _z = cute.arch.block_idx()
        tile = cute.local_tile(a, (8, 8), (0, block + 1))
        mine = cute.local_partition(tile, cute.Layout((8, 8)), thread)
        cute.copy(mine, cute.make_fragment_like(mine))  # the copy

    def guarded(a: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        block, _y, _z = cute.arch.block_idx()
        mine, coords = (
            cute.local_partition(
                cute.local_tile(one, (8, 8), (0, block + 1)), cute.Layout((8, 8)), thread
            )
            for one in (a, cute.make_identity_tensor(a.shape))
        )
        exists = cute.transform(coords, lambda at: cute.elem_less(at, (20, 20)))
        cute.copy_if(exists, mine, cute.make_fragment_like(mine))

    refused(
        whole, "# the copy", "a is accessed at index 20 where block = 1, thread = 32; it has", a
    )
    recorded(guarded, a)


def test_memory_and_threads_have_limits() -> None:
    a = cute.make_fake_tensor("f32", (256,))

    @cute.kernel
    def large(a: Any) -> None:
        tile = cute.SmemAllocator().allocate_tensor("f32", cute.Layout(50_000))
        cute.copy(a, cute.local_tile(tile, 256, 0))

    launch = large(a).launch(grid=(1,), block=(1,))
    with pytest.raises(UserError, match=r"needs 200000 bytes .* sm_80 has 166912"):
        launch.trace("sm_80")
    launch.trace("sm_90a")
    with pytest.raises(cute.KernelError, match="a block has at most 1024 threads, not 2048"):
        large(a).launch(grid=(1,), block=(64, 32))


def test_what_threads_must_do_together() -> None:
    a = cute.make_fake_tensor("f32", (256,))

    def diverges(a: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        with cute.when(thread < 3):
            cute.arch.sync_threads()  # the barrier

    def leaves(a: Any) -> None:
        for k in cute.dynamic_range(4):
            a[k] = 0.0
            break

    refused(diverges, "# the barrier", "is for all threads of the block", a)
    with pytest.raises(cute.KernelError, match="a loop over 4 iterations is left by 'break'"):
        recorded(leaves, a)


def test_a_number_outlives_its_step() -> None:
    x = np.arange(64, dtype=np.float32)

    @cute.kernel
    def rotate(x: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        value = x[(thread + 1) % 64]
        cute.arch.sync_threads()
        x[thread] = value * 2.0 + 1.0

    launch = rotate(x).launch(grid=(1,), block=(64,))
    assert find_texpr_hazards(kernel_of(launch)) == []
    launch.run()
    np.testing.assert_array_equal(x, np.roll(np.arange(64), -1) * 2 + 1)


def test_functions_of_elements_are_those_of_numpy() -> None:
    x, y = draw((64,), np.float32), np.zeros(64, np.float32)

    @cute.kernel(results=["y"])
    def silu(x: Any, y: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        value = x[thread]
        smooth = value / (1.0 + cute.math.exp(-value))
        y[thread] = cute.math.where(value > 0.5, cute.math.minimum(smooth, 2.0), smooth)

    launch = silu(x, y).launch(grid=(1,), block=(64,))
    launch.run()
    smooth = x / (1 + np.exp(-x))
    np.testing.assert_allclose(y, np.where(x > 0.5, np.minimum(smooth, 2), smooth), rtol=1e-5)


def test_conditions_that_are_known_are_no_operators() -> None:
    @cute.kernel
    def bounded(x: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        with cute.when(thread < 64):
            x[thread] = 1.0
        with cute.when(thread >= 64):
            x[thread] = 2.0

    x = np.zeros(64, np.float32)
    launch = bounded(x).launch(grid=(1,), block=(64,))
    text = str(launch.trace())
    assert "te.if" not in text and text.count("te.bind") == 1
    launch.run()
    assert (x == 1).all()


def test_what_a_kernel_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers known beforehand have an underscore, those of threads and blocks none."""

    def shows(a: Any) -> None:
        block, _y, _z = cute.arch.block_idx()
        print(cute.local_tile(a, (4, 8), (block, 1)))
        print(cute.static_text((22, block, cute.E(0))))

    recorded(shows, cute.make_fake_tensor("f32", (8, 16)))
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["a[block * 64 + 8] o (_4,_8):(_16,_1)", "(_22,block,_1@0)"]
    text = "S<3,3,3> o _8 o (_8,_64):(_64,_1)"
    assert cute.static_text(cute.parse_layout(text)) == text


def test_slices_of_a_swizzled_tensor_keep_its_swizzle() -> None:
    """The row of a thread, at an offset that is an expression: the swizzle acts on the sum."""
    layout = cute.composition(cute.Swizzle(3, 2, 3), cute.Layout((32, 32), (32, 1)))

    @cute.kernel(results=["out"])
    def rows(x: Any, out: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        tile = cute.SmemAllocator().allocate_tensor("f32", layout)
        cute.copy(x[thread, _], tile[thread, _])
        cute.arch.sync_threads()
        cute.copy(tile[_, thread], out[_, thread])

    x, out = draw((32, 32), np.float32), np.zeros((32, 32), np.float32)
    launch = rows(x, out).launch(grid=(1,), block=(32,))
    launch.run()
    np.testing.assert_array_equal(out, x)


@cute.kernel(results=["c"])
def _kept(a: Any, mask: Any, c: Any) -> None:
    thread, _y, _z = cute.arch.thread_idx()
    block, _y, _z = cute.arch.block_idx()
    ga, gm, gc = (cute.local_tile(one, (64,), (block,)) for one in (a, mask, c))
    gc[thread] = 0.0
    with cute.when(gm[thread] & (ga[thread] > 0.25)):
        gc[thread] = ga[thread] * 2.0
        with cute.when(thread > 7):
            gc[thread] = ga[thread]


def test_conditions_on_elements() -> None:
    generator = np.random.default_rng(0)
    a, mask = generator.standard_normal(128).astype(np.float32), generator.random(128) < 0.5
    c = np.empty(128, np.float32)
    launch = _kept(a, mask, c).launch(grid=(2,), block=(64,))
    expected = np.where(mask & (a > 0.25), np.where(np.arange(128) % 64 > 7, a, 2 * a), 0)
    launch.run()
    np.testing.assert_array_equal(c, expected)


@cute.kernel(results=["b"])
def _sum_of_two(a, b):
    thread, _y, _z = cute.arch.thread_idx()
    row, column = thread // 7, thread % 7
    b[0, row, column, 0] = a[0, 0, row, column, 0] + a[0, 1, row, column, 0]


def test_a_call_takes_the_arrays_that_a_kernel_was_bound_to() -> None:
    """Whatever order extents of 1 have in the kernel's buffers."""
    a = np.random.default_rng(0).standard_normal((1, 2, 7, 7, 1)).astype(np.float32)
    b = np.empty((1, 7, 7, 1), np.float32)
    call = mugraph.compile(_sum_of_two(a, b).launch(grid=(1,), block=(49,)).trace(), arch="cpu")
    assert call(a, out=b) is b
    np.testing.assert_array_equal(b, a[:, 0] + a[:, 1])


def test_what_others_wait_for_is_not_under_a_condition_on_elements() -> None:
    def meets(a: Any) -> None:
        thread, _y, _z = cute.arch.thread_idx()
        with cute.when(a[thread] > 0.0):
            cute.arch.sync_warp()

    a = cute.make_fake_tensor("f32", (256,))
    with pytest.raises(
        cute.KernelError, match=r"'te\.barrier' stands under a condition on elements"
    ):
        recorded(meets, a)


def test_mistakes_of_a_program_are_sentences_with_its_line() -> None:
    a = cute.make_fake_tensor("f32", (64, 64))

    def halves(a: Any) -> None:
        a[0, 0.5] = 1.0  # here

    def slices(a: Any) -> None:
        a[0, 0:4] = 1.0  # here

    def gathers(a: Any) -> None:
        a[0, 0] = a[a[0, 1], 0]  # here

    def unknown(a: Any) -> None:
        cute.arch.nothing(a)  # here

    def unnamed(a: Any) -> None:
        a[0, 0] = missing  # noqa: F821  # pyright: ignore  # here

    def divides(a: Any) -> None:
        a[0, 0] = 1 / 0  # here

    def remainders(a: Any) -> None:
        a[0, 0] = a[0, 0] % 2  # here

    def clips(a: Any) -> None:
        a[0, 0] = np.clip(a[0, 1], 0.0, 1.0)  # here

    def agents(a: Any) -> None:
        cute.pipeline.Agent.Warp  # noqa: B018  # pyright: ignore  # here

    def waits(a: Any) -> None:
        cute.arch.cp_async_wait_group(cute.arch.thread_idx()[0])  # here

    def barriers(a: Any) -> None:
        cute.arch.barrier(17, 32)  # here

    refused(halves, "# here", "0.5 is no coordinate of a[_0]", a)
    refused(slices, "# here", "slice(0, 4, None) is no coordinate of a[_0]", a)
    refused(gathers, "# here", "an element of a tensor is no coordinate", a)
    refused(unknown, "# here", "'mugraph.cute.arch' has no attribute 'nothing'", a)
    refused(unnamed, "# here", "'missing' is not defined", a)
    refused(divides, "# here", "division by zero", a)
    refused(remainders, "# here", "unsupported operand type(s) for %", a)
    refused(agents, "# here", "Warp", a)
    refused(clips, "# here", "asks for an element of a tensor", a)
    refused(waits, "# here", "thread groups cannot be under way", a)
    refused(barriers, "# here", "barriers have the numbers 1 to 15, not 17", a)
    call = cute.kernel(barriers)(a)
    for grid, shown in ((4, "4"), ((0,), r"\(0,\)")):
        with pytest.raises(cute.KernelError, match=rf"py:\d+: the grid has .*, not {shown}$"):
            call.launch(grid=grid, block=(32,))
    with pytest.raises(cute.KernelError, match=r"py:\d+: kernels have no clusters .* \(2, 1\)"):
        call.launch(grid=(4,), block=(32,), cluster=(2, 1))
    call.launch(grid=(4,), block=(32,), cluster=(1, 1, 1), smem=1024)
    with pytest.raises(cute.KernelError, match=r"py:\d+: kernel 'barriers': missing a required"):
        cute.kernel(barriers)()


def test_an_uncaught_mistake_is_one_line(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from mugraph import cute\n@cute.kernel\ndef k(a):\n    a[99] = 1.0\n"
        "k(cute.make_fake_tensor('f32', (64,))).launch(grid=(1,), block=(32,)).trace()\n"
    )
    assert subprocess.run([sys.executable, str(program)], check=False).returncode == 1
    assert capfd.readouterr().err == (
        f"{program}:4: the index 99 is outside of 'a', which has 64 there\n"
    )


def test_errors_of_others_and_other_hooks_are_as_ever(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One program of them all: what is uncaught in a part of it is shown as its end would be."""
    program = tmp_path / "program.py"
    hook = "sys.excepthook = lambda kind, *_: print('other', kind)"
    program.write_text(
        f"""import sys
def shown(wrong):
    try:
        wrong()
    except Exception:
        sys.excepthook(*sys.exc_info())
{hook}
own = sys.excepthook
from mugraph import cute
assert sys.excepthook is own
import importlib, mugraph.cute.errors
sys.excepthook = sys.__excepthook__
importlib.reload(mugraph.cute.errors)
shown(lambda: 1 / 0)
shown(lambda: cute.make_fake_tensor('f32', (0,)))
{hook}
cute.make_fake_tensor('f32', (0,))
"""
    )
    assert subprocess.run([sys.executable, str(program)], check=False).returncode == 1
    shown = capfd.readouterr()
    assert shown.out == "other <class 'mugraph.dialects.cute.errors.LayoutError'>\n"
    python, ours = shown.err.split("ZeroDivisionError: division by zero\n")
    assert python.startswith("Traceback")
    assert ours.startswith(f"{program}:15: The shape 0 has the extent 0")
    assert len(ours.splitlines()) == 1
