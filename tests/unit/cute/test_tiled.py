"""Atoms and tiled operations: every element is somebody's, and the arithmetic comes out right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mugraph.dialects.cute import Layout, LayoutError, _, parse_layout
from mugraph.dialects.cute.algorithms import clear, copy
from mugraph.dialects.cute.atoms import COPY_ATOMS, MMA_ATOMS, copy_atom, mma_atom
from mugraph.dialects.cute.int_tuple import product_each, size
from mugraph.dialects.cute.tensor import make_counting_tensor, make_tensor
from mugraph.dialects.cute.tiled import TiledMma, make_tiled_copy, make_tiled_copy_for

TILED = [
    TiledMma("UniversalFMA_F32", (4, 4)),
    TiledMma("SM61_DP4A", (2, 2)),
    TiledMma("SM70_8x8x4_F32F16F16F32_NT"),
    TiledMma("SM70_8x8x4_F16F16F16F16_TN", (2, 2)),
    TiledMma("SM75_16x8x8_F32F16F16F32_TN"),
    TiledMma("SM80_8x8x4_F64F64F64F64_TN", (2, 1)),
    TiledMma("SM80_16x8x8_F32F16F16F32_TN", (2, 2)),
    TiledMma("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2), (32, 32, 16)),
    TiledMma("SM80_16x8x8_F32TF32TF32F32_TN", (1, 2)),
    TiledMma("SM80_16x8x32_S32S8U8S32_TN"),
    TiledMma("SM90_16x8x4_F64F64F64F64_TN", (2, 2), (parse_layout("(8,2,2):(2,1,16)"), _, _)),
    TiledMma("SM90_16x8x4_F64F64F64F64_TN", (1, 1, 2)),
]


def test_every_atom_covers_its_tiles() -> None:
    # Atoms of several element types share their layouts.
    covered: set[tuple[str, tuple[int, ...]]] = set()
    for atom in MMA_ATOMS.values():
        for operand in "ABC":
            layout, shape = atom.layout(operand), atom.tile_shape(operand)
            assert layout[0].size() == atom.threads == size(atom.thr_id.shape)
            if (str(layout), shape) in covered:
                continue
            covered.add((str(layout), shape))
            if atom.name.startswith("SM90_64") and layout.size() > 4096:
                # A bijection by its strides: distinct leaves make distinct digits.
                assert layout.cosize() == size(shape)
            else:
                assert set(layout.indices()) == set(range(size(shape))), (atom.name, operand)


def test_registers_per_thread() -> None:
    """A fragment fills whole 32-bit registers (or is 64-bit), as the PTX operands do."""
    from mugraph.dialects.cute.atoms.mma import ELEMENT_BITS

    for atom in MMA_ATOMS.values():
        for operand, space, element in (
            ("A", atom.a_space, atom.a_type),
            ("B", atom.b_space, atom.b_type),
            ("C", "registers", atom.c_type),
        ):
            if space == "registers" and not atom.name.startswith("UniversalFMA"):
                bits = atom.layout(operand)[1].size() * ELEMENT_BITS[element]
                assert bits % 32 == 0, (atom.name, operand)


def test_unknown_atoms_name_the_nearest() -> None:
    with pytest.raises(LayoutError, match="Did you mean SM80_16x8x16_F32F16F16F32_TN"):
        mma_atom("SM80_16x8x16_F32F16F16F32")
    with pytest.raises(LayoutError, match="Did you mean SM75_U32x4_LDSM_N"):
        copy_atom("SM75_U32x4_LDSM")


@pytest.mark.parametrize("mma", TILED, ids=str)
def test_layout_tv_agrees_with_partitioning(mma: TiledMma) -> None:
    for operand, partition in (
        ("A", "partition_a"),
        ("B", "partition_b"),
        ("C", "partition_c"),
    ):
        shape = mma.tile_shape(operand)
        layout = mma.layout_tv(operand)
        assert set(layout.indices()) == set(range(size(shape)))
        for thread in range(0, mma.thread_span, 5):
            if not _takes_part(mma, thread):
                continue
            mine = getattr(mma.get_slice(thread), partition)(make_counting_tensor(Layout(shape)))
            values = [layout(thread, value) for value in range(layout[1].size())]
            assert sorted(mine.values()) == sorted(values)


def _takes_part(mma: TiledMma, thread: int) -> bool:
    return thread in mma.thr_layout_vmnk.indices()


def _multiply(mma: TiledMma, m: int, n: int, k: int) -> None:
    """C += A * B the way the threads do it: partition, copy to fragments, one atom at a time."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (m, k)), rng.integers(-4, 5, (n, k))
    c = np.zeros((m, n), np.int64)
    tensors = {
        "A": make_tensor(a, Layout((m, k), (k, 1))),
        "B": make_tensor(b, Layout((n, k), (k, 1))),
        "C": make_tensor(c, Layout((m, n), (n, 1))),
    }
    atom, vmnk = mma.atom, mma.thr_layout_vmnk
    am, an, ak = atom.shape_mnk
    slices = {t: mma.get_slice(t) for t in vmnk.indices()}
    fragments: dict[int, tuple[Any, Any, Any]] = {}
    for thread, mine in slices.items():
        part_a = mine.partition_a(tensors["A"])
        part_b = mine.partition_b(tensors["B"])
        part_c = mine.partition_c(tensors["C"])
        frag_a = mine.make_fragment_a(part_a)
        frag_b = mine.make_fragment_b(part_b)
        frag_c = mine.make_fragment_c(part_c, np.int64)
        copy(part_a, frag_a)
        copy(part_b, frag_b)
        clear(frag_c)
        fragments[thread] = (frag_a, frag_b, frag_c)
    counts = product_each(fragments[0][0].shape)[1:] + product_each(fragments[0][1].shape)[1:2]
    rest_m, rest_k, rest_n = counts
    # Atoms along K add to the same C: their threads' sums are added at the end.
    for atom_m in range(vmnk[1].size()):
        for atom_n in range(vmnk[2].size()):
            for atom_k in range(vmnk[3].size()):
                lanes = [vmnk(v, atom_m, atom_n, atom_k) for v in range(atom.threads)]
                for i in range(rest_m):
                    for j in range(rest_n):
                        for l in range(rest_k):  # noqa: E741
                            _one_atom(atom, [fragments[t] for t in lanes], (i, j, l), (am, an, ak))
    for thread, mine in slices.items():
        part_c = mine.partition_c(tensors["C"])
        for point in range(part_c.size()):
            part_c[point] += fragments[thread][2][point]
    assert np.array_equal(c, a @ b.T)


def _one_atom(
    atom: Any, lanes: list[Any], step: tuple[int, int, int], shape: tuple[int, int, int]
) -> None:
    """The instruction: gather the operands from the lanes' registers, multiply, scatter."""
    i, j, l = step  # noqa: E741
    m, n, k = shape
    a, b = np.zeros(m * k, np.int64), np.zeros(n * k, np.int64)
    for lane, (frag_a, frag_b, _frag_c) in enumerate(lanes):
        for value in range(atom.a_layout[1].size()):
            a[atom.a_layout(lane, value)] = frag_a[value, i, l]
        for value in range(atom.b_layout[1].size()):
            b[atom.b_layout(lane, value)] = frag_b[value, j, l]
    product = (a.reshape(k, m).T @ b.reshape(k, n)).T.reshape(-1)
    for lane, (_frag_a, _frag_b, frag_c) in enumerate(lanes):
        for value in range(atom.c_layout[1].size()):
            frag_c[value, i, j] += product[atom.c_layout(lane, value)]


@pytest.mark.parametrize("mma", TILED, ids=str)
def test_tiled_multiplication(mma: TiledMma) -> None:
    m, n, k = (mma.tile_extent(axis) for axis in range(3))
    if mma.threads <= 64:
        m, n, k = 2 * m, 2 * n, 2 * k
    _multiply(mma, m, n, k)


def test_operands_in_shared_memory_are_their_own_fragments() -> None:
    """The instruction reads them through descriptors."""
    mma = TiledMma("SM90_64x64x16_F32F16F16_SS")
    mine = mma.get_slice(0)
    tile = make_counting_tensor(Layout((64, 16)))
    a, b = mine.partition_a(tile), mine.partition_b(tile)
    assert mine.make_fragment_a(a) is a and mine.make_fragment_b(b) is b


def test_tiled_mma_errors() -> None:
    with pytest.raises(LayoutError, match="no multiple of the 32"):
        TiledMma("SM90_16x8x4_F64F64F64F64_TN", (2, 2), (16, _, _))
    with pytest.raises(LayoutError, match="there is no thread 128"):
        TiledMma("SM90_16x8x4_F64F64F64F64_TN", (2, 2)).get_slice(128)
    with pytest.raises(LayoutError, match="at most 3"):
        TiledMma("UniversalFMA_F32", (1, 1, 1, 1))


# --- copies ---


def test_copy_atoms_move_every_bit_once() -> None:
    for atom in COPY_ATOMS.values():
        bits = set(range(atom.ref_bits.cosize()))
        for layout in (atom.src_bits, atom.dst_bits, atom.ref_bits):
            assert set(layout.indices()) == bits, atom.name


def test_a_copy_atom_and_elements_that_do_not_fit() -> None:
    with pytest.raises(LayoutError, match="does not move elements of 64 bits whole"):
        copy_atom("SM75_U32x1_LDSM_N").value_layouts(64)


@pytest.mark.parametrize(
    ("atom", "thr", "val"),
    [
        ("UniversalCopy_U128", Layout((16, 8), (8, 1)), Layout((1, 8))),
        ("SM80_CP_ASYNC_CACHEALWAYS_U32", Layout((32, 4)), Layout((2, 1))),
        ("UniversalCopy_U16", Layout((8, 4), (4, 1)), Layout((2, 4), (4, 1))),
    ],
)
def test_tiled_copies_copy(atom: str, thr: Layout[int], val: Layout[int]) -> None:
    tiled = make_tiled_copy(atom, 16, thr, val)
    rows, columns = (
        2 * extent.size() if isinstance(extent, Layout) else 2 * extent for extent in tiled.tiler
    )
    source = make_tensor(np.arange(rows * columns), Layout((rows, columns), (columns, 1)))
    target = make_tensor(np.full(rows * columns, -1), Layout((rows, columns)))
    for thread in range(tiled.threads):
        mine = tiled.get_slice(thread)
        copy(mine.partition_source(source), mine.partition_destination(target))
    assert target.values() == source.values()


@pytest.mark.parametrize(
    ("atom", "operand"),
    [("SM75_U32x4_LDSM_N", "A"), ("SM75_U32x2_LDSM_N", "B"), ("SM90_U32x2_STSM_N", "C")],
)
def test_matrix_loads_hand_over_the_mma_fragments(atom: str, operand: str) -> None:
    """What ldmatrix leaves in a thread (or stmatrix takes) is what the MMA wants there."""
    mma = TiledMma("SM80_16x8x16_F32F16F16F32_TN", (2, 2), (32, 32, 16))
    tiled = make_tiled_copy_for(atom, 16, mma, operand)
    side = "S" if "STSM" in atom else "D"
    registers, wanted = tiled.layout_tv(side), mma.layout_tv(operand)
    for thread in range(mma.threads):
        have = [registers(thread, value) for value in range(registers[1].size())]
        assert have == [wanted(thread, value) for value in range(wanted[1].size())]


def test_make_tiled_copy_errors() -> None:
    with pytest.raises(LayoutError, match="thread layout"):
        make_tiled_copy("UniversalCopy_U16", 16, Layout((4, 4), (1, 1)))
    with pytest.raises(LayoutError, match="no multiple of the atom's 8"):
        make_tiled_copy("UniversalCopy_U128", 16, Layout((4, 4)), Layout((1, 4)))
