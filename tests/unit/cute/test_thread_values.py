"""Who holds what of a tile, against the atoms' coordinates and vectors dealt out one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mugraph.dialects.cute import LayoutError
from mugraph.dialects.cute.atoms import PRODUCT_ATOMS, mma_atom
from mugraph.dialects.cute.chaining import holds_pairs_of_columns
from mugraph.dialects.cute.thread_values import ThreadValues, accumulator_values, linear_values

F16 = "SM80_16x8x16_F32F16F16F32_TN"
WGMMA = "SM90_64x64x16_F32F16F16_SS"


def element(held: ThreadValues, value: int, thread: int) -> tuple[int, ...]:
    """The coordinates of one value of one thread."""
    return tuple(int(along[value, thread]) for along in held.coordinates())


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", [F16, WGMMA])
@pytest.mark.parametrize("groups", [(1, 1, 1), (2, 1, 1), (2, 2, 1), (1, 2, 4)])
@pytest.mark.parametrize("extents", [(16, 8), (100, 40), (128, 128)])
def test_accumulators_are_tiles_of_instructions(
    name: str, groups: tuple[int, int, int], extents: tuple[int, int]
) -> None:
    atom = mma_atom(name)
    m, n, _ = atom.shape_mnk
    groups_m, groups_n, groups_k = groups
    held = accumulator_values(atom, groups, (groups_k, *extents))
    tiles_m, tiles_n = (
        math.ceil(math.ceil(extent / step) / count)
        for extent, step, count in zip(extents, (m, n), groups, strict=False)
    )
    assert held.values == tiles_m * tiles_n * atom.values_of_c
    assert held.threads == math.prod(groups) * atom.threads
    for thread in range(0, held.threads, 7):
        group, lane = divmod(thread, atom.threads)
        for value in range(held.values):
            tile, c = divmod(value, atom.values_of_c)
            i, j = divmod(tile, tiles_n)
            column, row = divmod(atom.c_layout(lane + atom.threads * c), m)
            expected = (
                group // (groups_m * groups_n),
                (i * groups_m + group % groups_m) * m + row,
                (j * groups_n + group // groups_m % groups_n) * n + column,
            )
            assert element(held, value, thread) == expected
            exists = expected[1] < extents[0] and expected[2] < extents[1]
            assert held.exists()[value, thread] == exists


@pytest.mark.parametrize("name", sorted(PRODUCT_ATOMS))
def test_lanes_that_share_a_row_hold_all_of_it(name: str) -> None:
    """A column, where operands are swapped."""
    atom = mma_atom(name)
    held = accumulator_values(atom, (1, 1, 1), atom.shape_mnk[:2])
    along = 0 if atom.swaps_operands else 1
    rows = held.sliced(along)
    assert rows.is_shared_by_neighbours
    row, column = held.coordinates()[1 - along], held.coordinates()[along]
    for first in np.flatnonzero(rows.is_first()):
        lanes = slice(first, first + rows.holders)
        for one in set(row[:, first].tolist()):
            columns = column[:, lanes][row[:, lanes] == one]
            assert sorted(columns.tolist()) == list(range(atom.shape_mnk[along]))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", [F16, WGMMA])
@pytest.mark.parametrize("groups", [(1, 1, 1), (2, 2, 1)])
def test_every_thread_holds_what_its_values_are_reduced_to(
    name: str, groups: tuple[int, int, int], dim: int
) -> None:
    held = accumulator_values(mma_atom(name), groups, (100, 144))
    reduced = held.sliced(dim)
    chosen = reduced.value_of(held)
    kept = 1 - dim
    np.testing.assert_array_equal(reduced.coordinates()[kept][chosen], held.coordinates()[kept])
    assert not reduced.coordinates()[dim].any()
    assert len(set(chosen.tolist())) == reduced.values


def test_positions_follow_tiles() -> None:
    held = accumulator_values(mma_atom(F16), (1, 1, 1), (32, 16))
    assert held.sliced(0).value_of(held).tolist() == [0, 1, 0, 1, 2, 3, 2, 3] * 2
    of_rows = held.sliced(1).value_of(held).tolist()
    assert of_rows == [0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3]


def test_lanes_of_a_row_may_keep_a_number_each() -> None:
    held = accumulator_values(mma_atom(WGMMA), (2, 1, 1), (128, 64))
    parts = held.sliced_by_threads(1)
    assert parts.shape == (128, 4)
    np.testing.assert_array_equal(parts.coordinates()[0], held.sliced(1).coordinates()[0])
    np.testing.assert_array_equal(parts.coordinates()[1][0], np.arange(parts.threads) % 4)
    assert parts.holders == 1


def test_rows_of_quad_pairs_have_no_lanes() -> None:
    atom = mma_atom("SM70_8x8x4_F32F16F16F32_TN")
    held = accumulator_values(atom, (1, 1, 1), atom.shape_mnk[:2])
    assert not held.sliced(1).is_shared_by_neighbours


@pytest.mark.parametrize("name", sorted(PRODUCT_ATOMS))
def test_pairs_are_those_of_the_instruction(name: str) -> None:
    atom = mma_atom(name)
    held = accumulator_values(atom, (2, 2, 1), (4 * atom.shape_mnk[0], 4 * atom.shape_mnk[1]))
    assert held.has_pairs(1) == holds_pairs_of_columns(atom)


def test_vectors_are_dealt_out_in_turn() -> None:
    held = linear_values(64, 4, (1, 0), (5, 96))
    assert held.values == 8
    for thread in (0, 23, 24, 63):
        for value in range(8):
            position = (thread + value // 4 * 64) * 4 + value % 4
            assert element(held, value, thread) == divmod(position, 96)
            assert held.exists()[value, thread] == (position < 5 * 96)


def test_runs_that_end_within_what_is_dealt_out_are_refused() -> None:
    with pytest.raises(LayoutError, match="not shared out evenly at 96"):
        linear_values(64, 8, (1, 0), (4, 96)).sliced(1)


@pytest.mark.parametrize("vector", [1, 2, 4])
@pytest.mark.parametrize("shape", [(4,), (8, 16), (2, 3, 8)])
@pytest.mark.parametrize("results", [0, 1, 2])
def test_pairs_are_values_of_one_thread(vector: int, shape: tuple[int, ...], results: int) -> None:
    """Neighbours that two threads hold are none; ``results`` 0 leaves the tile whole."""
    last = len(shape) - 1
    held = linear_values(16, vector, tuple(reversed(range(len(shape)))), shape)
    try:
        held = held.sliced(last, results) if results else held
    except LayoutError:
        pytest.skip("threads do not hold whole results")
    along = held.coordinates()[last]
    neighbours = held.values % 2 == 0 and bool(
        (along[::2] % 2 == 0).all() and (along[1::2] == along[::2] + 1).all()
    )
    assert held.has_pairs(last) == neighbours
