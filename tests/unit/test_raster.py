"""The order of blocks: the choice is the least of all, and the order leaves out no block."""

from __future__ import annotations

import itertools

import pytest

from mugraph.dialects.linear_forms import LinearForm
from mugraph.passes.schedule.lower_threadblock.raster import (
    choose_raster,
    columns_together,
    growing_axis,
)


def visited(columns: int, rows: int, group: int) -> list[tuple[int, int]]:
    """The blocks in the order in which they start; twin of ``tb::grouped_block``."""
    order: list[tuple[int, int]] = []
    for place in range(columns * rows):
        at, inside = divmod(place, group * columns)
        order.append((inside // group, at * group + inside % group))
    return order


@pytest.mark.parametrize(("columns", "rows", "group"), [(4, 8, 2), (3, 6, 3), (5, 4, 4), (1, 6, 2)])
def test_every_block_is_visited_once(columns: int, rows: int, group: int) -> None:
    """The map of places to blocks is a bijection."""
    every = set(itertools.product(range(columns), range(rows)))
    order = visited(columns, rows, group)
    assert len(order) == len(every) and set(order) == every


@pytest.mark.parametrize(("columns", "rows"), [(16, 32), (32, 64), (64, 8), (7, 36)])
@pytest.mark.parametrize(("down", "across"), [(16384, 32768), (1, 1), (32768, 1024)])
def test_no_group_loads_less_in_a_first_wave(
    columns: int, rows: int, down: int, across: int
) -> None:
    """Of all groups, counted block by block."""
    wave = 132

    def loaded(group: int) -> int:
        blocks = visited(columns, rows, group)[:wave]
        return len({y for _, y in blocks}) * down + len({x for x, _ in blocks}) * across

    chosen = choose_raster((columns, rows, 1), down, across, wave)
    best = min(loaded(group) for group in range(1, rows + 1) if rows % group == 0)
    assert loaded(chosen) == best


def test_a_grid_of_one_wave_keeps_its_order() -> None:
    """Where all blocks run at once, their order makes no difference."""
    assert choose_raster((12, 11, 1), 1, 1, 132) == 1


def test_blocks_that_run_more_iterations_start_first() -> None:
    """A causal mask; a window, whose rows run equally many; one whose columns differ."""
    causal, since = LinearForm((0, 128, 0, -128), 127), LinearForm((0, -128, 0, 128), 1023)
    assert growing_axis([causal]) == growing_axis([LinearForm((0, 128, 0, -128, 1), 127)]) == 1
    assert growing_axis([LinearForm((0, 0, 128, -128), 127)]) == 2
    assert growing_axis([causal, LinearForm((0, 0, 128, -128), 127)]) is None
    assert growing_axis([causal, since]) is None
    assert growing_axis([LinearForm((1, 128, 0, -128), 127)]) is None
    assert growing_axis([LinearForm((0, 0, 0, -128, 1), -1)]) is None


@pytest.mark.parametrize(("columns", "rows", "group"), [(4, 8, 2), (6, 6, 3), (5, 4, 5), (4, 3, 1)])
def test_descending_blocks_are_all_visited(columns: int, rows: int, group: int) -> None:
    """The twin of ``tb::descending``: each place once, in a group rows from the last on."""
    order: list[tuple[int, int]] = []
    for number in range(columns * rows):
        inside = number % (group * rows)
        first = number // (group * rows) * group
        order.append((first + inside % group, rows - 1 - inside // group))
    assert set(order) == set(itertools.product(range(columns), range(rows)))
    of_first_group = [row for _, row in order[: group * rows]]
    assert of_first_group == sorted(of_first_group, reverse=True)


def test_columns_of_a_group_fit_half_the_cache() -> None:
    assert columns_together(32, 2**21, 50 * 2**20) == 8
    assert columns_together(32, 2**26, 50 * 2**20) == 1
    assert columns_together(30, 1, 50 * 2**20) == 30
