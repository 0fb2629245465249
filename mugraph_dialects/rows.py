"""Which thread holds which row of a linear partition, once a dimension has been reduced.

A *row* is a run of neighbours along the innermost dimension of a linear partition: the whole
dimension, or one of several equal runs of it.  Every thread that holds an element of a row holds
the row's value, so that what is computed of rows is at hand wherever their elements are.  The
threads that share a row are its *lanes*, neighbours in a block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mugraph.dialects.cute.thread_values import ThreadValues
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.programming_model import WARP


@dataclass(frozen=True)
class LinearRows:
    """The rows of ``shape`` under ``partition``, ``results`` of them along ``dim``.

    Raises ``ValueError`` where rows are not shared out evenly: ``dim`` must be the innermost
    dimension of the partition, and threads must hold whole vectors of a row, the same number of
    each of their rows.  Of a single row some threads may hold fewer than others.
    """

    partition: LinearPartition
    shape: tuple[int, ...]
    dim: int
    results: int

    def __post_init__(self) -> None:
        threads, vector = self.partition.threads, self.partition.vector
        if self.dim != self.partition.inner:
            raise ValueError(
                f"rows along dimension {self.dim} are not runs of neighbours in order "
                f"{list(self.partition.order)}"
            )
        if self.shape[self.dim] % self.results or self.extent % vector:
            raise ValueError(
                f"{self.shape[self.dim]} elements are not {self.results} rows of whole vectors of "
                f"{vector}"
            )
        vectors = self.extent // vector
        if self.count > 1 and vectors % threads and threads % vectors:
            raise ValueError(
                f"{vectors} vectors a row are not shared out evenly among {threads} threads"
            )

    @property
    def extent(self) -> int:
        """The elements of a row."""
        return self.shape[self.dim] // self.results

    @property
    def count(self) -> int:
        """How many rows there are."""
        return math.prod(self.shape) // self.extent

    @property
    def lanes(self) -> int:
        """How many threads share a row."""
        vectors, threads = self.extent // self.partition.vector, self.partition.threads
        return vectors if vectors <= threads and threads % vectors == 0 else threads

    @property
    def rounds(self) -> int:
        """How many vectors of each of its rows a thread holds, perhaps some past its end."""
        return math.ceil(self.extent / self.partition.vector / self.lanes)

    @property
    def values(self) -> int:
        """How many rows a thread holds, perhaps some past the last one."""
        return self.thread_values().values

    @property
    def warps(self) -> int:
        """How many warps share a row; 1 where its lanes lie in one."""
        return max(1, self.lanes // WARP)

    @property
    def combines(self) -> bool:
        """Whether the lanes of a row can combine what they hold.

        They are a power of two within a warp, or whole warps.
        """
        lanes = self.lanes
        return lanes % WARP == 0 or (lanes < WARP and lanes & (lanes - 1) == 0)

    def thread_values(self) -> ThreadValues:
        """Which row each value of each thread is."""
        return self.partition.thread_values(self.shape).sliced(self.dim, self.results)

    def rows_of(self) -> npt.NDArray[np.int64]:
        """The row of each value of each thread, ``[values, threads]``, -1 past the last one."""
        held = self.thread_values()
        row = np.zeros((held.values, held.threads), dtype=np.int64)
        for dim in reversed(self.partition.order):
            row = row * held.shape[dim] + held.coordinates()[dim]
        return np.where(held.exists(), row, -1)

    def result_shape(self) -> tuple[int, ...]:
        """The extents of the rows' values."""
        shape = list(self.shape)
        shape[self.dim] = self.results
        return tuple(shape)


def rows_like(
    partition: LinearPartition, shape: Sequence[int], result: Sequence[int]
) -> LinearRows | None:
    """The rows of which a tensor of extents ``result`` holds the values; ``None`` if not even."""
    dim = partition.inner
    differs = any(
        one != other for at, (one, other) in enumerate(zip(shape, result, strict=True)) if at != dim
    )
    if differs or shape[dim] % result[dim]:
        return None
    try:
        return LinearRows(partition, tuple(shape), dim, result[dim])
    except ValueError:
        return None
