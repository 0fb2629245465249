"""Tiles that the blocks of a cluster load together: each sends a part of them to all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mugraph import cute
from mugraph.dialects.cute import LayoutError

SWIZZLED = cute.tile_to_shape(
    cute.composition(cute.Swizzle(3, 3, 3), cute.Layout((8, 64), (64, 1))), (16, 128, 2)
)
COLUMNS = cute.Layout((64, 32, 2), (1, 64, 2048))
MULTICAST = "SM90_TMA_LOAD_MULTICAST"


@pytest.mark.parametrize("layout", [SWIZZLED, COLUMNS])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_parts_of_blocks_are_the_tile(layout: Any, count: int) -> None:
    rows, columns, _stages = sizes(layout)
    source = np.arange(4 * rows * 3 * columns, dtype=np.float16).reshape(4 * rows, 3 * columns)
    device = cute.local_tile(
        cute.make_tensor(source, cute.Layout(source.shape, (source.shape[1], 1))),
        (rows, columns),
        (1, None),
    )
    memory = np.full(layout.cosize(), np.nan, np.float16)
    shared = cute.make_tensor(memory, layout)
    load = cute.make_tma_copy(MULTICAST, device, shared[None, None, 0].layout)
    blocks = cute.Layout(count)
    written: list[set[int]] = []
    for block in range(count):
        to, part = cute.tma_partition(load, block, blocks, shared, device)
        assert to.layout[0].size() == rows * columns // count
        before = memory.copy()
        cute.copy(load, part[None, 2], to[None, 1])
        places = set(np.flatnonzero(memory.view(np.uint16) != before.view(np.uint16)).tolist())
        # What a block sends lies together.
        assert len(places) == max(places) - min(places) + 1 == rows * columns // count
        written.append(places)
    assert len({place for one in written for place in one}) == rows * columns
    tile = source[rows : 2 * rows, 2 * columns :]
    found = np.array([[shared[i, j, 1] for j in range(columns)] for i in range(rows)])
    assert (found == tile).all()


def sizes(layout: Any) -> tuple[int, int, int]:
    """The extents of the three modes."""
    rows, columns, stages = (mode.size() for mode in layout)
    return rows, columns, stages


def test_masks_of_blocks() -> None:
    mask = cute.nvgpu.cpasync.create_tma_multicast_mask
    blocks = cute.Layout((2, 4))  # those of one column share a tile of B
    assert mask(blocks, (1, 2), 0) == 0b110000
    assert mask(blocks, (1, 2), 1) == 0b10101010


def test_what_blocks_do_not_share() -> None:
    tile = cute.Layout((64, 32), (1, 64))
    device = cute.make_tensor(np.zeros(64 * 32, np.float16), tile)
    shared = cute.make_tensor(np.zeros(64 * 32, np.float16), tile)
    for name, count, words in (
        ("SM90_TMA_LOAD", 2, "SM90_TMA_LOAD is of one block"),
        (MULTICAST, 5, "has no 5 parts in a row"),
    ):
        load = cute.make_tma_copy(name, device, tile)
        with pytest.raises(LayoutError, match=words):
            cute.tma_partition(load, 0, cute.Layout(count), shared, device)
