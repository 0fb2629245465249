"""What threads hold after one product and need in the next, against the atoms' coordinates."""

import pytest

from mugraph.dialects.cute import Layout, LayoutError
from mugraph.dialects.cute.atoms import MMA_ATOMS, PRODUCT_ATOMS, MmaAtom, mma_atom
from mugraph.dialects.cute.chaining import (
    accumulator_is_operand,
    accumulators_side_by_side,
    conversion,
    held_alike,
    holds_pairs_of_columns,
    tiled_accumulator,
)
from mugraph.dialects.cute.thread_values import accumulator_values

F16 = "SM80_16x8x16_F32F16F16F32_TN"


def takes_registers(atom: MmaAtom) -> bool:
    """Whether all threads hold the left matrix, and whole accumulators side by side are one."""
    _, n, k = atom.shape_mnk
    in_registers = atom.a_space == "registers" and atom.a_layout[0].size() == atom.threads
    return in_registers and max(n, k) <= 64 and max(n, k) % min(n, k) == 0


CHAINING = [
    name for name, atom in MMA_ATOMS.items() if "SM70" not in name and takes_registers(atom)
]


@pytest.mark.parametrize("name", CHAINING)
def test_accumulators_are_operands_where_every_coordinate_agrees(name: str) -> None:
    """The proof by the algebra, against all threads and values of one operand."""
    atom = mma_atom(name)
    m, n, k = atom.shape_mnk
    depth = max(n, k)

    def place(layout: Layout[int], width: int, thread: int, value: int) -> tuple[int, int]:
        tile, within = divmod(value, m * width // atom.threads)
        column, row = divmod(layout(thread + atom.threads * within), m)
        return row, column + tile * width

    agree = all(
        place(atom.c_layout, n, thread, value) == place(atom.a_layout, k, thread, value)
        for thread in range(atom.threads)
        for value in range(m * depth // atom.threads)
    )
    assert accumulator_is_operand(atom, atom) == agree


def test_which_products_chain() -> None:
    chained = {name for name in PRODUCT_ATOMS if accumulator_is_operand(*[mma_atom(name)] * 2)}
    assert {name for name in chained if "Universal" not in name} == {
        "SM80_16x8x16_F32BF16BF16F32_TN",
        F16,
    }
    registers = mma_atom("SM90_64x64x16_F32F16F16_RS")
    assert accumulator_is_operand(registers, registers)


def test_a_conversion_says_where_everything_is() -> None:
    """TF32 takes one column of each pair first: shuffles would be needed."""
    atom = mma_atom("SM80_16x8x8_F32TF32TF32F32_TN")
    held = accumulators_side_by_side(atom, 8)
    moved = conversion(held, atom.a_layout)
    assert all(held(moved(index)) == atom.a_layout(index) for index in range(held.size()))
    assert moved != Layout(held.size(), 1)
    with pytest.raises(LayoutError, match="the same tile"):
        conversion(held, mma_atom(F16).a_layout)


@pytest.mark.parametrize("columns", [8, 64, 128, 256])
def test_warp_groups_hold_what_their_warps_along_m_would(columns: int) -> None:
    group = mma_atom(f"SM90_64x{columns}x16_F32F16F16_RS")
    assert held_alike(mma_atom(F16), (8, 1), group, (2, 1))
    assert held_alike(group, (2, 1), mma_atom("SM90_64x32x16_F32F16F16_SS"), (2, 1))
    for warps, groups in (((4, 1), (2, 1)), ((4, 2), (2, 1)), ((2, 4), (2, 1))):
        assert not held_alike(mma_atom(F16), warps, group, groups)


@pytest.mark.parametrize(
    ("warps", "groups"), [((4, 1), (1, 1)), ((8, 1), (2, 1)), ((4, 2), (1, 2))]
)
def test_alike_is_the_same_place_of_every_value(
    warps: tuple[int, int], groups: tuple[int, int]
) -> None:
    """The proof by the algebra, against all threads and values of one tile."""
    group = mma_atom("SM90_64x16x16_F32F16F16_SS")
    held = tiled_accumulator(mma_atom(F16), warps, 256, 64)
    wanted = tiled_accumulator(group, groups, 256, 64)
    agree = all(held(index) == wanted(index) for index in range(held.size()))
    assert agree == held_alike(mma_atom(F16), warps, group, groups)
    with pytest.raises(LayoutError, match="no whole accumulators"):
        tiled_accumulator(group, groups, 100, 64)


@pytest.mark.parametrize("rows", [8, 16, 40, 256])
def test_swapped_operands_hold_the_transposed_product(rows: int) -> None:
    """Every value's place is that of the instruction's own accumulator, row for column."""
    swapped = mma_atom(f"SM90_{rows}x64x16_F32F16F16_SWAPPED")
    plain = mma_atom(f"SM90_64x{rows}x16_F32F16F16_SS")
    assert swapped.shape_mnk == (rows, 64, 16)
    for index in range(plain.c_layout.size()):
        column, row = divmod(plain.c_layout(index), 64)
        assert divmod(swapped.c_layout(index), rows) == (row, column)
    assert not holds_pairs_of_columns(swapped)
    assert holds_pairs_of_columns(plain)
    # Lanes that share a row are no neighbours: chains that reduce rows are not given to it.
    held = accumulator_values(swapped, (1, 1, 1), swapped.shape_mnk[:2])
    assert not held.sliced(1).is_shared_by_neighbours
