"""The tiles that a block loads, and what their copies take."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import NamedTuple

from mugraph.dialects.programming_model import VECTOR_BYTES
from mugraph.passes.costs.memory import (
    BULK_ROW_BYTES,
    FEWEST_ASYNC_BYTES,
    copy_cycles,
    row_cycles,
    uneven_factor,
)

VECTORS_UNDER_WAY = 4
"""Of a thread that waits for what it loads (``kBatch`` of ``tb/copy_shifted.h``)."""
COLUMN_BYTES = 8
"""Of a row for each number of it that a thread has in f32, as warp groups share their columns."""


class Load(NamedTuple):
    """A tile that a block loads."""

    bytes: int
    """Of one tile, in whole sectors."""
    tensor_bytes: int
    looped: bool
    row_bytes: int = BULK_ROW_BYTES
    """Of a row of the tile."""
    alignment: int = VECTOR_BYTES
    """The bytes of which its rows start at multiples."""
    padding: int = 0
    """Bytes of zeros among those of the tile, where the tensor has not so many rows."""
    beside_products: bool = False
    """Whether the threads of warp groups that multiply load it themselves, as scales."""
    in_parts: bool = False
    """Whether an iteration loads a part of a line of the cache, and later ones the rest."""
    has_columns: bool = False
    """Whether it has columns of a product's result, as weights have, and not its rows."""

    @property
    def row_registers(self) -> int:
        """What a thread needs for a row, as a bias, of 16 bits: the columns that it has sums of."""
        return self.bytes // COLUMN_BYTES if self.bytes <= self.row_bytes else 0

    @property
    def waits(self) -> bool:
        """Whether threads wait for what they load, which no asynchronous copy can bring."""
        return self.alignment < FEWEST_ASYNC_BYTES


class Loading(NamedTuple):
    """What all loads of a block take, however often its loop goes around."""

    loop_bytes: int
    """Of an iteration."""
    first_bytes: int
    """Of what is loaded once."""
    tensor_bytes: int
    whole_bytes: int
    """Of tensors of which each block loads all."""
    cycles: tuple[tuple[bool, float, float], ...]
    """Of each: whether it is in the loop, and how long copies of threads and bulk copies take."""
    row_cycles: float
    """What warps that multiply take longer to read tiles of the loop that bulk copies bring."""
    waited_for: tuple[int, ...]
    """The bytes of each tile of the loop that threads wait for as they load it."""
    comes_in_bulk: bool
    """Whether bulk copies can bring all, but for what :attr:`needs_groups` says."""
    needs_groups: bool
    """Whether some tiles come with bulk copies of others only where warp groups multiply."""

    def waits(self, threads: int) -> int:
        """How often threads wait for memory in an iteration."""
        vectors = (math.ceil(each / VECTOR_BYTES / threads) for each in self.waited_for)
        return sum(math.ceil(each / VECTORS_UNDER_WAY) for each in vectors)


@lru_cache(1 << 12)
def loading_of(loads: tuple[Load, ...]) -> Loading:
    """What so many loads take together; a kernel's are asked for under many numbers of blocks."""
    return Loading(
        sum(load.bytes for load in loads if load.looped and not load.beside_products),
        sum(load.bytes for load in loads if not load.looped),
        sum(load.tensor_bytes for load in loads),
        sum(load.bytes for load in loads if load.bytes >= load.tensor_bytes),
        tuple(
            (
                load.looped,
                copy_cycles(load.bytes, load.row_bytes, bulk=False) * uneven_factor(load.alignment),
                0.0 if load.beside_products else copy_cycles(load.bytes, load.row_bytes, bulk=True),
            )
            for load in loads
        ),
        math.fsum(
            row_cycles(load.bytes, load.row_bytes)
            for load in loads
            if load.looped and not load.beside_products
        ),
        tuple(load.bytes for load in loads if load.looped and load.waits),
        all(load.alignment >= VECTOR_BYTES or load.beside_products for load in loads),
        any(load.beside_products for load in loads),
    )


class Loads(tuple[Load, ...]):
    """The loads of a block."""

    @cached_property
    def together(self) -> Loading:
        """What they take together."""
        return loading_of(self)
