"""Algorithms on tensors, of one thread and of all threads of a block together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mugraph.dialects.cute import Layout, LayoutError, Swizzle, _, composition, parse_layout
from mugraph.dialects.cute.algorithms import (
    axpby,
    call_mma,
    clear,
    copy,
    copy_if,
    gemm,
    reduce,
)
from mugraph.dialects.cute.atoms import TMA_COPIES, tma_atom
from mugraph.dialects.cute.tensor import (
    Tensor,
    local_partition,
    make_fragment_like,
    make_fragment_of_shape,
    make_identity_tensor,
    make_tensor,
    transform,
)
from mugraph.dialects.cute.tiled import TiledMma, make_tiled_copy, make_tiled_copy_for

Array = np.ndarray[Any, np.dtype[Any]]


def matrix(array: Array) -> Tensor:
    return make_tensor(array, Layout(array.shape, (array.shape[1], 1)))


def whole_numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    return rng.integers(-4, 5, shape).astype(dtype)


# --- copy_if, axpby, reduce, projections ---


def test_copy_if_copies_runs_where_a_predicate_holds() -> None:
    source, target = make_tensor(np.arange(1.0, 9.0), Layout((4, 2))), np.zeros(8)
    coords = make_identity_tensor((4, 2))
    single = transform(coords, lambda at: at[0] < 3)
    copy_if(single, source, make_tensor(target, Layout((4, 2))))
    assert target.tolist() == [1, 2, 3, 0, 5, 6, 7, 0]
    target[:] = 0
    copy_if(transform(coords[0, _], lambda at: at[1] > 0), source, make_tensor(target, Layout(8)))
    assert target.tolist() == [0, 0, 0, 0, 5, 6, 7, 8]
    with pytest.raises(LayoutError, match=r"copy: 3 predicates \(3\):\(1\) do not divide the 8"):
        three = make_tensor(np.ones(3, bool), Layout((3,)))
        copy_if(three, source, make_tensor(target, Layout(8)))


def test_axpby_and_reduce() -> None:
    x, y = make_tensor(np.arange(6.0), Layout((2, 3))), make_tensor(np.ones(6), Layout(6))
    axpby(2.0, x, -1.0, y)
    assert y.values() == [2.0 * i - 1.0 for i in range(6)]
    assert reduce(x, lambda one, other: one + other, 0.0) == 15.0
    unset = make_tensor(np.full(6, np.nan), Layout(6))
    axpby(1.0, x, 0, unset)
    assert unset.values() == x.values()
    with pytest.raises(LayoutError, match=r"axpby: x .* has 6 elements, y 4:1 4"):
        axpby(1.0, x, 0, make_tensor(np.zeros(4), Layout(4)))


def test_a_projection_leaves_a_mode_of_threads_out() -> None:
    threads = Layout((4, 2))
    rows = make_tensor(np.arange(24), Layout((8, 3)))
    for thread in range(8):
        mine = local_partition(rows, threads, thread, (1, _))
        assert mine.values() == local_partition(rows, Layout(4), thread % 4).values()
        columns = local_partition(
            make_tensor(np.arange(24), Layout((8, 3))), threads, thread, (_, 1)
        )
        assert columns.values() == [8 * k + n for k in range(3) for n in range(thread // 4, 8, 2)]
    with pytest.raises(LayoutError, match="a projection such as"):
        local_partition(make_tensor(np.arange(8), Layout(8)), threads, 0)
    with pytest.raises(LayoutError, match="projection has 3 entries, the tiler or coordinate 2"):
        local_partition(rows, threads, 0, (1, _, 1))


# --- gemm ---


def test_a_mode_in_front_is_a_batch() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 4, 5)), rng.standard_normal((3, 6, 5))
    c = np.zeros((3, 4, 6))
    gemm(*(make_tensor(x, Layout(x.shape, tuple(s // 8 for s in x.strides))) for x in (a, b, c)))
    np.testing.assert_allclose(c, a @ b.transpose(0, 2, 1))


def test_outer_products_need_no_k() -> None:
    c = make_tensor(np.zeros(6), Layout((2, 3)))
    gemm(
        make_tensor(np.array([1.0, 2.0]), Layout((2,))),
        make_tensor(np.arange(3.0), Layout((3,))),
        c,
    )
    assert c.values() == [0, 0, 1, 2, 2, 4]


def test_sums_that_share_an_element_add_up() -> None:
    """C with a stride of 0: a contraction over N as well."""
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(4, 3)
    sums = np.zeros(2)
    gemm(matrix(a), matrix(b), make_tensor(sums, Layout((2, 4), (1, 0))))
    np.testing.assert_array_equal(sums, (a @ b.T).sum(1))


def test_the_fourth_tensor_is_the_result() -> None:
    a, b, c, d = (np.arange(4.0).reshape(2, 2) for _one in range(4))
    gemm(matrix(d), matrix(a), matrix(b), matrix(c))
    np.testing.assert_array_equal(d, c + a @ b.T)


MMAS = [
    TiledMma("UniversalFMA_F32", (8, 4, 1)),
    TiledMma("SM70_8x8x4_F32F16F16F32_TN"),
    TiledMma("SM75_16x8x8_F32F16F16F32_TN", (1, 2, 1)),
    TiledMma("SM80_16x8x8_F32F16F16F32_TN", (2, 1, 1)),
    TiledMma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16)),
    TiledMma("SM80_16x8x16_F16F16F16F16_TN", (2, 1, 1), (Layout((8, 2, 2), (2, 1, 16)), _, _)),
    TiledMma("SM80_16x8x32_S32S8S8S32_TN", (1, 2, 1)),
    TiledMma("SM80_8x8x4_F64F64F64F64_TN", (2, 2, 1)),
]
DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s8": np.int8, "s32": np.int32}


@pytest.mark.parametrize("mma", MMAS, ids=str)
def test_all_threads_together_multiply_a_tile(mma: TiledMma) -> None:
    rng = np.random.default_rng(1)
    m, n, k = (2 * mma.tile_extent(axis) for axis in range(3))
    a = whole_numbers(rng, (m, k), DTYPES[mma.atom.a_type])
    b = whole_numbers(rng, (n, k), DTYPES[mma.atom.b_type])
    c = np.zeros((m, n), DTYPES[mma.atom.c_type])
    mine = mma.get_slice(np.arange(32 if mma.atom.name.startswith("SM70") else mma.threads))
    parts = mine.partition_A(matrix(a)), mine.partition_B(matrix(b))
    held = [make_fragment_like(part) for part in parts]
    for part, fragment in zip(parts, held, strict=True):
        copy(part, fragment)
    result = mine.partition_C(matrix(c))
    sums = make_fragment_of_shape(result.shape, c.dtype, result)
    clear(sums)
    for step in range(held[0].layout[2].size()):
        gemm(mma, held[0][_, _, step], held[1][_, _, step], sums)
    copy(sums, result)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64).T)


def test_one_call_of_an_instruction() -> None:
    rng = np.random.default_rng(2)
    mma = TiledMma("SM80_16x8x8_F32F16F16F32_TN")
    a, b = whole_numbers(rng, (16, 8), np.float16), whole_numbers(rng, (8, 8), np.float16)
    c = np.ones((16, 8), np.float32)
    mine = mma.get_slice(np.arange(32))
    ta, tb, tc = (
        part(matrix(x))
        for part, x in ((mine.partition_A, a), (mine.partition_B, b), (mine.partition_C, c))
    )
    call_mma(mma, ta[_, 0, 0], tb[_, 0, 0], tc[_, 0, 0])
    np.testing.assert_array_equal(c, 1 + a.astype(np.float32) @ b.astype(np.float32).T)


def test_views_of_all_threads_get_registers_for_each() -> None:
    rng = np.random.default_rng(3)
    mma = TiledMma("SM80_16x8x16_F32F16F16F32_TN", (2, 1, 1))
    a, b = whole_numbers(rng, (32, 16), np.float16), whole_numbers(rng, (8, 16), np.float16)
    c = np.zeros((32, 8), np.float32)
    mine = mma.get_slice(np.arange(64))
    parts = mine.partition_A(matrix(a)), mine.partition_B(matrix(b))
    held = [mine.make_fragment_A(parts[0]), mine.make_fragment_B(parts[1])]
    result = mine.partition_C(matrix(c))
    sums = mine.make_fragment_C(result)
    assert sums.dtype == np.float32
    for part, fragment in zip(parts, held, strict=True):
        copy(part, fragment)
    mma.call(sums[_, 0, 0], held[0][_, 0, 0], held[1][_, 0, 0], sums[_, 0, 0])
    copy(sums, result)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64).T)


def test_gemm_says_what_an_instruction_needs() -> None:
    mma = TiledMma("SM80_16x8x8_F32F16F16F32_TN")
    a, b, c = (
        make_tensor(np.zeros(64), Layout(shape)) for shape in ((4, 1, 1), (2, 1, 1), (2, 1, 1))
    )
    with pytest.raises(
        LayoutError, match="takes 4 values of C from each thread; the first mode has 2"
    ):
        gemm(mma, a, b, c)
    c = make_tensor(np.zeros(64), Layout((4, 1, 1)))
    with pytest.raises(LayoutError, match="instruction of 32 threads together; there are 1"):
        gemm(mma, a, b, c)
    with pytest.raises(LayoutError, match="gemm takes 3 tensors, perhaps behind an instruction"):
        gemm(mma, a, b)
    with pytest.raises(LayoutError, match=r"no instruction that multiplies matrices"):
        gemm(make_tiled_copy("UniversalCopy_U16", 16, Layout(4), Layout(1)), a, b, c)


# --- copies across threads ---


def test_predicates_of_several_threads_are_refused() -> None:
    x, y, holds = (make_tensor(np.ones(32, np.int8), Layout((8, 4))) for _ in range(3))
    mine = [local_partition(one, Layout((8, 1)), np.arange(8)) for one in (x, y, holds)]
    with pytest.raises(LayoutError, match="predicates are those of 8 threads together"):
        copy_if(mine[2], mine[0], mine[1])


@pytest.mark.parametrize(
    ("name", "operand"),
    [
        ("SM75_U32x4_LDSM_N", "A"),
        ("SM75_U32x2_LDSM_N", "B"),
        ("SM75_U32x4_LDSM_N", "B"),
        ("SM75_U32x1_LDSM_N", "B"),
        ("SM75_U16x8_LDSM_T", "A"),
        ("SM75_U16x4_LDSM_T", "B"),
        ("SM75_U16x8_LDSM_T", "B"),
    ],
)
def test_ldmatrix_fills_fragments_as_element_wise_copies_do(name: str, operand: str) -> None:
    mma = TiledMma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    rows, columns = (64, 48) if operand == "A" else (32, 48)
    major = (1, rows) if name.endswith("T") else (columns, 1)
    layout = composition(Swizzle(2, 3, 3), Layout((rows, columns), major))
    storage = np.arange(rows * columns).astype(np.float16)
    tensor = make_tensor(storage, layout)
    thread = np.arange(mma.threads)
    part = getattr(mma.get_slice(thread), f"partition_{operand}")(tensor)
    expected, loaded = make_fragment_like(part), make_fragment_like(part)
    copy(part, expected)
    load = make_tiled_copy_for(name, 16, mma, operand)
    mine = load.get_slice(thread)
    copy(load, mine.partition_S(tensor), mine.retile_D(loaded))
    held: list[Any] = [loaded.engine, expected.engine]
    np.testing.assert_array_equal(held[0].storage, held[1].storage)


def test_tma_copies_are_those_of_one_thread() -> None:
    atom = tma_atom("SM90_TMA_LOAD", 8 * 32 * 16)
    source, target = np.arange(256, dtype=np.int16), np.zeros(256, np.int16)
    box = composition(Swizzle(2, 3, 3), Layout((8, 32), (32, 1)))
    copy(atom, make_tensor(source, Layout((8, 32), (32, 1))), make_tensor(target, box))
    assert target[box(3, 8)] == 3 * 32 + 8 != target[3 * 32 + 8]
    for name in TMA_COPIES:
        one = tma_atom(name, 128)
        assert (one.threads, one.arch, one.name) == (1, "sm_90", name)
        assert all(layout[1].size() == 8 for layout in one.value_layouts(16))
    with pytest.raises(LayoutError, match="whole 16 bytes, not of 24 bits"):
        tma_atom("SM90_TMA_STORE", 24)
    with pytest.raises(LayoutError, match="no TMA copy 'SM90_TMA'; there are SM90_TMA_LOAD"):
        tma_atom("SM90_TMA", 128)


def test_retile_refuses_what_a_copy_cannot_move() -> None:
    mma = TiledMma("SM80_16x8x16_F32F16F16F32_TN")
    load = make_tiled_copy_for("SM75_U32x2_LDSM_N", 16, mma, "B").get_slice(0)
    with pytest.raises(LayoutError, match="no multiple of the 3 in the first mode"):
        load.retile_D(make_tensor(np.zeros(12), Layout((3, 2, 2))))
    wide = make_tiled_copy_for(
        "SM75_U32x4_LDSM_N", 16, TiledMma(mma.atom, permutation=(_, 16, _)), "B"
    )
    with pytest.raises(LayoutError, match="has no 2 tiles along mode 1"):
        wide.get_slice(0).retile_D(make_tensor(np.zeros(4), Layout((4, 1, 1))))


def test_threads_together_partition_as_each_alone() -> None:
    load = make_tiled_copy("UniversalCopy_U64", 16, Layout((8, 4), (4, 1)), Layout((1, 4)))
    tensor = make_tensor(np.arange(32 * 32), parse_layout("(32,32):(32,1)"))
    together = load.get_slice(np.arange(load.threads)).partition_S(tensor)
    assert together.places().tolist() == [
        load.get_slice(thread).partition_S(tensor).places()[0].tolist()
        for thread in range(load.threads)
    ]
