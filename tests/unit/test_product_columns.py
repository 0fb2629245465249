"""Some columns of a product of warp groups: which values of a thread they are."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import f32

from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.sched.product_columns import columns_of_product, values_of_columns
from mugraph.dialects.sched.types import TileType


def product(rows: int, columns: int, atom: str, groups: tuple[int, int, int]) -> TileType:
    return TileType.of((rows, columns), f32, TiledMmaAttr(atom, groups))


@pytest.mark.parametrize("rows", [128, 256])
@pytest.mark.parametrize("first", [0, 128])
def test_a_thread_holds_columns_of_a_part_in_the_order_of_the_part(rows: int, first: int) -> None:
    whole = product(rows, 256, "SM90_64x256x16_F32F16F16_SS", (2, 1, 1))
    part = columns_of_product(whole, 128)
    assert part is not None
    assert part == product(rows, 128, "SM90_64x128x16_F32F16F16_SS", (2, 1, 1))
    values = values_of_columns(whole, part, first)
    (row, column), (own_row, own_column) = (
        each.thread_values().coordinates() for each in (whole, part)
    )
    np.testing.assert_array_equal(row[values], own_row)
    np.testing.assert_array_equal(column[values] - first, own_column)


@pytest.mark.parametrize(
    ("fragment", "columns"),
    [
        (product(64, 256, "SM90_64x128x16_F32F16F16_SS", (1, 1, 1)), 128),
        (product(64, 256, "SM90_64x256x16_F32F16F16_SS", (1, 1, 1)), 96),
        (product(64, 24, "SM90_64x24x16_F32F16F16_SS", (1, 1, 1)), 12),
        (product(64, 64, "SM80_16x8x16_F32F16F16F32_TN", (4, 1, 1)), 32),
        (product(64, 64, "SM90_64x64x16_F32F16F16_SWAPPED", (1, 1, 1)), 32),
    ],
)
def test_other_columns_have_no_such_part(fragment: TileType, columns: int) -> None:
    assert columns_of_product(fragment, columns) is None
