"""Which thread holds what of 8-bit products, against the formulas of the PTX ISA."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mugraph.dialects.cute.atoms import (
    MMA_ATOMS,
    WarpgroupFamily,
    WarpgroupForm,
    mma_atom,
    umma_atom,
    umma_names,
    warpgroup_family,
)
from mugraph.dialects.cute.atoms.mma import ELEMENT_BITS, WARPGROUP_FAMILIES
from mugraph.dialects.cute.errors import LayoutError

OF_BYTES = sorted(name for name in MMA_ATOMS if "_16x8x32_" in name and mma_atom(name).packed == 4)


def a_of(lane: int, i: int) -> tuple[int, int]:
    """Row and k of a_i: "Matrix Fragments for mma.m16n8k32", 8-bit types."""
    row = lane // 4 + (0 if i < 4 or 8 <= i < 12 else 8)
    return row, lane % 4 * 4 + i % 4 + (0 if i < 8 else 16)


def b_of(lane: int, i: int) -> tuple[int, int]:
    """Column and k of b_i."""
    return lane // 4, lane % 4 * 4 + i % 4 + (0 if i < 4 else 16)


def c_of(lane: int, i: int) -> tuple[int, int]:
    """Row and column of c_i."""
    return lane // 4 + (0 if i < 2 else 8), lane % 4 * 2 + i % 2


@pytest.mark.parametrize("name", OF_BYTES)
def test_warps_hold_bytes_as_ptx_says(name: str) -> None:
    atom = mma_atom(name)
    for operand, values, place in (("A", 16, a_of), ("B", 8, b_of), ("C", 4, c_of)):
        lines = atom.tile_shape(operand)[0]
        for lane in range(32):
            for value in range(values):
                along, line = divmod(atom.layout(operand)(lane + 32 * value), lines)
                assert (line, along) == place(lane, value), (operand, lane, value)


@given(st.sampled_from(WARPGROUP_FAMILIES), st.integers(0, 31), st.integers(0, 127), st.data())
def test_warp_groups_hold_sums_as_ptx_says(
    family: WarpgroupFamily, choice: int, thread: int, data: st.DataObject
) -> None:
    """ "Matrix fragments for wgmma.mma_async.m64nNk8..32", D; transposed where operands swap."""
    length = family.lengths[choice % len(family.lengths)]
    form = data.draw(st.sampled_from(family.forms))
    atom = family.atom(length, form)
    i = data.draw(st.integers(0, length // 2 - 1))
    row = 16 * (thread // 32) + thread % 32 // 4 + (8 if i // 2 % 2 else 0)
    column = 8 * (i // 4) + 2 * (thread % 4) + i % 2
    expected = (column, row) if form is WarpgroupForm.SWAPPED else (row, column)
    found = divmod(atom.c_layout(thread + 128 * i), atom.shape_mnk[0])
    assert (found[1], found[0]) == expected
    assert family.name(length, form) == atom.name == mma_atom(atom.name).name


@given(st.sampled_from(WARPGROUP_FAMILIES), st.integers(0, 127), st.integers(0, 15))
def test_warp_groups_take_a_from_registers_as_ptx_says(
    family: WarpgroupFamily, thread: int, value: int
) -> None:
    """As A of a warp's instruction: its four warps have 16 rows each, and registers of 4 bytes."""
    atom = family.atom(8, WarpgroupForm.REGISTERS)
    packed = 32 // ELEMENT_BITS[family.a_type]
    register, element = divmod(value % (4 * packed), packed)
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (register % 2)
    depth = packed * (thread % 4) + element + 4 * packed * (register // 2)
    assert divmod(atom.a_layout(thread + 128 * (value % (4 * packed))), 64) == (depth, row)


def test_what_warp_groups_multiply() -> None:
    """F32 would have to be rounded to TF32 in shared memory; what differs in width never meets."""
    for a_type, b_type in (("e4m3", "e5m2"), ("s8", "s8"), ("bf16", "bf16")):
        family = warpgroup_family(a_type, b_type)
        assert family is not None and (family.a_type, family.b_type) == (a_type, b_type)
        assert family.d_type == ("s32" if a_type == "s8" else "f32")
    for pair in (("f32", "f32"), ("e4m3", "f16"), ("f16", "bf16"), ("s8", "e4m3")):
        assert warpgroup_family(*pair) is None


@pytest.mark.parametrize(
    ("types", "columns", "longest"),
    [(("e4m3", "e4m3"), 40, 40), (("s8", "s8"), 40, 8), (("s8", "s8"), 336, 112)],
)
def test_integers_have_fewer_lengths(types: tuple[str, str], columns: int, longest: int) -> None:
    family = warpgroup_family(*types)
    assert family is not None and family.longest(columns) == longest


@given(st.sampled_from(umma_names()))
def test_blocks_share_what_is_multiplied_in_tensor_memory(name: str) -> None:
    """Each element is of one block: halves of the rows, and of the columns of B, for two."""
    atom = umma_atom(name)
    assert atom.name == name and atom.c_space == "tensor" and not atom.is_scalar
    assert atom.threads == (2 if "_2SM_" in name else 1)
    for operand in "ABC":
        layout = atom.layout(operand)
        lines, along = atom.tile_shape(operand)
        assert sorted(layout.indices()) == list(range(lines * along))
        part = lines // atom.threads
        assert all(layout(block) == block * part for block in range(atom.threads))


def test_shapes_that_tensor_memory_has_not() -> None:
    for name in ("SM100_64x12x16_F32F16F16_SS", "SM100_2SM_256x16x16_F32F16F16_SS"):
        with pytest.raises(LayoutError, match="Did you mean SM100"):
            umma_atom(name)
