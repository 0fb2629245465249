"""The examples of the slides, with computed values.

Where the printed slides are wrong the test says so; ``docs/cute.md`` lists the errata.
"""

from __future__ import annotations

import numpy as np
import pytest

from mugraph.dialects.cute import (
    ComposedLayout,
    Layout,
    Swizzle,
    _,
    blocked_product,
    compatible,
    composition,
    make_layout,
    parse_layout,
    right_inverse,
    tile_to_shape,
    zipped_divide,
)
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.int_tuple import product_each
from mugraph.dialects.cute.tensor import make_counting_tensor, make_tensor
from mugraph.dialects.cute.tiled import TiledMma


def grid(text: str) -> list[list[int]]:
    layout = parse_layout(text)
    rows, columns = product_each(layout.shape)
    return [[layout(i, j) for j in range(columns)] for i in range(rows)]


def rows(text: str) -> list[list[int]]:
    return [[int(word) for word in line.split()] for line in text.strip().splitlines()]


def tv_rows(layout: Layout[int], shape: tuple[int, int], thr_id: Layout[int]) -> list[str]:
    """The table "T0V0 T0V1 ..." of a thread-value layout into a column-major tile."""
    cells = [["-"] * shape[1] for _row in range(shape[0])]
    for thread in range(layout[0].size()):
        for value in range(layout[1].size()):
            j, i = divmod(layout(thread, value), shape[0])
            cells[i][j] = f"T{thr_id(thread)}V{value}"
    return [" ".join(line) for line in cells]


# --- layouts, coordinates ---


@pytest.mark.parametrize(
    ("text", "physical"),
    [
        ("(2,3):(1,2)", "adbecf"),
        ("(2,3):(3,1)", "abcdef"),
        ("(2,3):(1,4)", "ad..be..cf"),
    ],
)
def test_logical_and_physical(text: str, physical: str) -> None:
    layout = parse_layout(text)
    letters = [["a", "b", "c"], ["d", "e", "f"]]
    for i in range(2):
        for j in range(3):
            assert physical[layout(i, j)] == letters[i][j]


def test_folding_a_tensor() -> None:
    tensor = Layout((2, 2, 2), (4, 1, 2))
    two_by_four, four_by_two = Layout((2, 4), (4, 1)), parse_layout("((2,2),2):((4,2),1)")
    physical = "abefcdgh"
    assert "".join(physical[tensor(i, j, k)] for k in (0, 1) for i in (0, 1) for j in (0, 1)) == (
        "abcdefgh"
    )
    assert [physical[two_by_four(1, j)] for j in range(4)] == list("cdgh")
    assert [[physical[four_by_two(i, j)] for j in (0, 1)] for i in range(4)] == [
        ["a", "b"],
        ["c", "d"],
        ["e", "f"],
        ["g", "h"],
    ]


def test_figure_1() -> None:
    assert grid("(4,8):(1,4)")[0] == [0, 4, 8, 12, 16, 20, 24, 28]
    assert grid("(4,8):(8,1)")[3] == [24, 25, 26, 27, 28, 29, 30, 31]
    assert grid("(4,8):(1,5)")[3] == [3, 8, 13, 18, 23, 28, 33, 38]
    assert grid("(4,(4,2)):(4,(1,16))") == rows("""
        0 1 2 3 16 17 18 19
        4 5 6 7 20 21 22 23
        8 9 10 11 24 25 26 27
        12 13 14 15 28 29 30 31""")
    # Printed: row 0 ends in 21.
    assert grid("((2,2),(4,2)):((1,8),(2,16))") == rows("""
        0 2 4 6 16 18 20 22
        1 3 5 7 17 19 21 23
        8 10 12 14 24 26 28 30
        9 11 13 15 25 27 29 31""")
    for text in ("(4,(4,2)):(4,(1,16))", "((2,2),(4,2)):((1,8),(2,16))"):
        assert compatible((4, 8), parse_layout(text).shape)


def test_hierarchical_layout() -> None:
    tensor = make_counting_tensor(parse_layout("(8,(2,2)):(2,(1,16))"))
    assert tensor[17] == tensor[1, 2] == tensor[1, (0, 1)] == 18
    assert tensor[3, _].values() == [6, 7, 22, 23]
    assert tensor[5, (_, 1)].values() == [26, 27]


def test_morton_order() -> None:
    morton1 = Layout((2, 2), (1, 2))
    morton2 = blocked_product(morton1, morton1)
    morton3 = blocked_product(morton1, morton2)
    assert str(morton3) == "((2,(2,2)),(2,(2,2))):((1,(4,16)),(2,(8,32)))"
    # Printed: rows 1, 2 and 3 hold 9, 11 and so on; row 3 starts 6 8 13.
    assert grid(str(morton3)) == rows("""
        0 2 8 10 32 34 40 42
        1 3 9 11 33 35 41 43
        4 6 12 14 36 38 44 46
        5 7 13 15 37 39 45 47
        16 18 24 26 48 50 56 58
        17 19 25 27 49 51 57 59
        20 22 28 30 52 54 60 62
        21 23 29 31 53 55 61 63""")
    tensor = make_counting_tensor(morton3)
    assert tensor[37] == tensor[5, 4] == tensor[(1, 2), (0, 2)] == 49
    assert tensor[(1, (0, 1)), (0, (0, 1))] == 49
    assert tensor[_, 2].values() == [8, 9, 12, 13, 24, 25, 28, 29]
    part = tensor[(_, 1), (_, 2)]
    assert [[part[i, j] for j in (0, 1)] for i in (0, 1)] == [[36, 38], [37, 39]]


def test_the_swizzle_atom_is_right_as_printed() -> None:
    atom = composition(Swizzle(3, 3, 3), parse_layout("((2,4,2),(8,2)):((8,64,32),(1,16))"))
    starts = [
        (0, 16), (8, 24), (72, 88), (64, 80), (144, 128), (152, 136), (216, 200), (208, 192),
        (32, 48), (40, 56), (104, 120), (96, 112), (176, 160), (184, 168), (248, 232), (240, 224),
    ]  # fmt: skip
    assert grid(str(atom)) == [
        [*range(left, left + 8), *range(right, right + 8)] for left, right in starts
    ]
    whole = tile_to_shape(atom, (128, 64))
    assert isinstance(whole, ComposedLayout) and compatible((128, 64), whole.shape)
    assert sorted(whole.indices()) == list(range(128 * 64))


# --- composition and partitioning ---


@pytest.mark.parametrize(
    "tiler",
    [
        (4, 8),
        (Layout((2, 2), (1, 4)), Layout(8, 1)),
        (Layout((2, 2), (1, 4)), Layout(8, 2)),
        (Layout(4, 2), Layout(8, 2)),
    ],
)
def test_generality_of_a_tile(tiler: tuple[object, ...]) -> None:
    tiles = zipped_divide(Layout((16, 32)), tiler)  # type: ignore[arg-type]
    assert product_each(tiles[0].shape) == (4, 8)
    assert sorted(tiles.indices()) == list(range(16 * 32))


def test_compositional_power() -> None:
    """The 4 x 6 example: ((2,2),(2,3)):((2,12),(1,4)) partitions 24 elements among 4 threads."""
    thr_val = parse_layout("((2,2),(2,3)):((2,12),(1,4))")
    assert [[thr_val(t, v) for v in range(6)] for t in range(4)] == rows("""
        0 1 4 5 8 9
        2 3 6 7 10 11
        12 13 16 17 20 21
        14 15 18 19 22 23""")
    data = make_tensor(np.arange(24) * 10, Layout(24))
    assert data.compose(thr_val)[2, _].values() == [120, 130, 160, 170, 200, 210]


def test_thread_value_pair_is_right_as_printed() -> None:
    tv = parse_layout("((2,4),(2,2)):((8,1),(4,16))")
    assert [[tv(t, v) for v in range(4)] for t in range(8)] == rows("""
        0 4 16 20
        8 12 24 28
        1 5 17 21
        9 13 25 29
        2 6 18 22
        10 14 26 30
        3 7 19 23
        11 15 27 31""")
    inverse = composition(right_inverse(tv), Layout((4, 8)))
    assert str(inverse) == "(4,(2,2,2)):(2,(8,1,16))"
    assert tv_rows(tv, (4, 8), Layout(8)) == [
        "T0V0 T0V1 T1V0 T1V1 T0V2 T0V3 T1V2 T1V3",
        "T2V0 T2V1 T3V0 T3V1 T2V2 T2V3 T3V2 T3V3",
        "T4V0 T4V1 T5V0 T5V1 T4V2 T4V3 T5V2 T5V3",
        "T6V0 T6V1 T7V0 T7V1 T6V2 T6V3 T7V2 T7V3",
    ]


# --- MMA atoms ---


def atom_rows(name: str, operand: str) -> list[str]:
    atom = mma_atom(name)
    return tv_rows(atom.layout(operand), atom.tile_shape(operand), atom.thr_id)


def transposed(table: list[str]) -> list[str]:
    return [" ".join(column) for column in zip(*[line.split() for line in table], strict=True)]


def test_volta_8x8x4() -> None:
    name = "SM70_8x8x4_F32F16F16F32_NT"
    assert transposed(atom_rows(name, "B")) == [
        " ".join([f"T{k}V{v}" for v in range(4)] + [f"T{16 + k}V{v}" for v in range(4)])
        for k in range(4)
    ]
    assert atom_rows(name, "A") == [
        " ".join(f"T{16 * half + k}V{v}" for k in range(4)) for half in (0, 1) for v in range(4)
    ]
    assert atom_rows(name, "C") == [
        "T0V0 T0V1 T2V0 T2V1 T0V4 T0V5 T2V4 T2V5",
        "T1V0 T1V1 T3V0 T3V1 T1V4 T1V5 T3V4 T3V5",
        "T0V2 T0V3 T2V2 T2V3 T0V6 T0V7 T2V6 T2V7",
        "T1V2 T1V3 T3V2 T3V3 T1V6 T1V7 T3V6 T3V7",
        "T16V0 T16V1 T18V0 T18V1 T16V4 T16V5 T18V4 T18V5",
        "T17V0 T17V1 T19V0 T19V1 T17V4 T17V5 T19V4 T19V5",
        "T16V2 T16V3 T18V2 T18V3 T16V6 T16V7 T18V6 T18V7",
        "T17V2 T17V3 T19V2 T19V3 T17V6 T17V7 T19V6 T19V7",
    ]


def test_ampere_f64() -> None:
    name = "SM80_8x8x4_F64F64F64F64_TN"
    quads = [" ".join(f"T{4 * m + k}V0" for k in range(4)) for m in range(8)]
    assert atom_rows(name, "A") == atom_rows(name, "B") == quads
    assert atom_rows(name, "C") == [
        " ".join(f"T{4 * m + n // 2}V{n % 2}" for n in range(8)) for m in range(8)
    ]


def test_ampere_16x8x8() -> None:
    """The printed traits repeat the F64 layouts; the printed tables are right."""
    name = "SM80_16x8x8_F32F16F16F32_TN"
    atom = mma_atom(name)
    assert str(atom.a_layout) == "((4,8),(2,2)):((32,1),(16,8))"
    assert str(atom.b_layout) == "((4,8),2):((16,1),8)"
    assert str(atom.c_layout) == "((4,8),(2,2)):((32,1),(16,8))"
    table = [
        " ".join(f"T{4 * (m % 8) + n // 2}V{n % 2 + 2 * (m // 8)}" for n in range(8))
        for m in range(16)
    ]
    assert atom_rows(name, "A") == atom_rows(name, "C") == table
    assert transposed(atom_rows(name, "B")) == [
        " ".join(f"T{4 * n + k // 2}V{k % 2}" for n in range(8)) for k in range(8)
    ]


def test_hopper_16x8x4_f64() -> None:
    name = "SM90_16x8x4_F64F64F64F64_TN"
    assert atom_rows(name, "A") == [
        " ".join(f"T{4 * (m % 8) + k}V{m // 8}" for k in range(4)) for m in range(16)
    ]
    assert transposed(atom_rows(name, "B")) == [
        " ".join(f"T{4 * n + k}V0" for n in range(8)) for k in range(4)
    ]


# --- tiled MMAs ---


def tiled_rows(mma: TiledMma, operand: str) -> list[str]:
    layout, shape = mma.layout_tv(operand), mma.tile_shape(operand)
    cells: list[list[set[str]]] = [[set() for _c in range(shape[1])] for _r in range(shape[0])]
    for thread in range(layout[0].size()):
        for value in range(layout[1].size()):
            j, i = divmod(layout(thread, value), shape[0])
            cells[i][j].add(f"T{thread}V{value}")
    return [" ".join(min(cell, key=lambda t: (len(t), t)) for cell in line) for line in cells]


def test_two_by_two_warps() -> None:
    mma = TiledMma("SM90_16x8x4_F64F64F64F64_TN", (2, 2))
    assert mma.tile_shape("A") == (32, 4) and mma.tile_shape("B") == (16, 4) and mma.threads == 128
    b = transposed(tiled_rows(mma, "B"))
    assert b[0] == "T0V0 T4V0 T8V0 T12V0 T16V0 T20V0 T24V0 T28V0 " + (
        "T64V0 T68V0 T72V0 T76V0 T80V0 T84V0 T88V0 T92V0"
    )
    a = tiled_rows(mma, "A")
    assert a[0] == "T0V0 T1V0 T2V0 T3V0" and a[8] == "T0V1 T1V1 T2V1 T3V1"
    assert a[16] == "T32V0 T33V0 T34V0 T35V0"
    c = tiled_rows(mma, "C")
    assert c[0].startswith("T0V0 T0V1 T1V0 T1V1") and c[8].startswith("T0V2 T0V3 T1V2 T1V3")
    assert c[0].split()[8] == "T64V0" and c[16].split()[0] == "T32V0"


def test_permuted_rows() -> None:
    """Rows m and m + 8 of an atom become neighbours: the last tables of slide "ThrMMA".

    Printed: the permutation lost its shape and strides (``Layout<_8,_2>``), and the tables of the
    slides "TiledMMA" and the first of "ThrMMA" continue the pattern of B where A and C should be.
    """
    mma = TiledMma("SM90_16x8x4_F64F64F64F64_TN", (2, 2), (parse_layout("(8,2,2):(2,1,16)"), _, _))
    a, c = tiled_rows(mma, "A"), tiled_rows(mma, "C")
    for m in range(32):
        first, value = 32 * (m // 16) + 4 * (m % 16 // 2), m % 2
        assert a[m] == " ".join(f"T{first + k}V{value}" for k in range(4))
        assert c[m].split() == [
            f"T{first + 64 * (n // 8) + n % 8 // 2}V{2 * value + n % 2}" for n in range(16)
        ]


def test_thr_mma_slide_shapes() -> None:
    mma = TiledMma("SM90_16x8x4_F64F64F64F64_TN", (2, 2))
    tensors = {
        "A": make_counting_tensor(Layout((64, 16))),
        "B": make_counting_tensor(Layout((32, 16))),
        "C": make_counting_tensor(Layout((64, 32))),
    }
    mine = mma.get_slice(0)
    assert product_each(mine.partition_a(tensors["A"]).shape) == (2, 2, 4)
    assert product_each(mine.partition_b(tensors["B"]).shape) == (1, 2, 4)
    assert product_each(mine.partition_c(tensors["C"]).shape) == (4, 2, 2)


def test_concatenation_is_the_thread_value_layout() -> None:
    values, threads = parse_layout("((2,3)):((1,4))"), parse_layout("((2,2)):((2,12))")
    assert make_layout(threads[0], values[0]) == parse_layout("((2,2),(2,3)):((2,12),(1,4))")
