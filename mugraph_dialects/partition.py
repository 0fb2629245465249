"""Which thread handles which element of an element-wise operation or a copy.

A linear partition walks the iteration domain, a tensor's extents, in a given order of dimensions,
the first one fastest, and deals out vectors of neighbouring elements to the threads in turn:
thread ``t`` owns vectors ``t``, ``t + threads``, ``t + 2 * threads`` and so on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mugraph.dialects.cute.thread_values import ThreadValues, linear_values
from mugraph.dialects.programming_model import VECTOR_BYTES

_WIDTHS = (1, 2, 4, 8, 16)
"""How many elements a thread may take at once."""


@dataclass(frozen=True)
class LinearPartition:
    """``threads`` in turn take ``vector`` elements along ``order[0]``, then ``order[1]`` ..."""

    threads: int
    vector: int
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.threads < 1 or self.vector < 1:
            raise ValueError("a linear partition needs at least one thread and one element")
        if sorted(self.order) != list(range(len(self.order))):
            raise ValueError(f"order {list(self.order)} is not a permutation of the dimensions")

    @property
    def inner(self) -> int:
        """The dimension along which neighbouring threads walk."""
        return self.order[0]

    def values_per_thread(self, shape: Sequence[int]) -> int:
        """How many elements of a tensor of this shape a thread holds, perhaps idle."""
        vectors = math.ceil(math.prod(shape) / self.vector)
        return math.ceil(vectors / self.threads) * self.vector

    def thread_values(self, shape: Sequence[int]) -> ThreadValues:
        """Which element of a tensor of this shape each value of each thread is."""
        return linear_values(self.threads, self.vector, self.order, shape)


class PartitionedOperand(NamedTuple):
    """What the choice of a partition must know of one operand."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int

    def innermost(self) -> int | None:
        """The dimension of extent over 1 and stride 1."""
        for dim, (extent, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            if extent > 1 and stride == 1:
                return dim
        return None


def iteration_order(shape: Sequence[int], inner: int) -> tuple[int, ...]:
    """``inner`` first, then the other dimensions from the last to the first."""
    return (inner, *(dim for dim in reversed(range(len(shape))) if dim != inner))


def vector_fits(operand: PartitionedOperand, shape: Sequence[int], inner: int, vector: int) -> bool:
    """Whether vectors of ``vector`` elements along ``inner`` are contiguous and aligned.

    An operand that is broadcast along ``inner`` is read once a vector and always fits.
    """
    if vector == 1:
        return True
    if vector * operand.element_bytes > VECTOR_BYTES or shape[inner] % vector:
        return False
    if operand.shape[inner] == 1:
        return True
    if operand.strides[inner] != 1:
        return False
    return all(
        stride % vector == 0
        for dim, (extent, stride) in enumerate(zip(operand.shape, operand.strides, strict=True))
        if dim != inner and extent > 1
    )


def choose_partition(
    shape: Sequence[int],
    operands: Sequence[PartitionedOperand],
    threads: int,
) -> LinearPartition:
    """The order and vector width for an operation over ``shape`` on ``operands``.

    Walks along the dimension that is innermost in most operands (the first operand wins a tie,
    so pass the destination first); then takes the widest vector, up to 16 bytes, that every
    operand allows and that still leaves work for all threads.
    """
    inner = _most_common_inner(shape, operands)
    elements = math.prod(shape)
    vector = 1
    for width in _WIDTHS[1:]:
        enough = elements >= width * threads
        if enough and all(vector_fits(operand, shape, inner, width) for operand in operands):
            vector = width
    return LinearPartition(threads, vector, iteration_order(shape, inner))


def widest_vector(operand: PartitionedOperand) -> int:
    """The most elements of an operand that a thread can take at once."""
    inner = operand.innermost()
    if inner is None:
        return 1
    return max(width for width in _WIDTHS if vector_fits(operand, operand.shape, inner, width))


def choose_move_partition(
    part: PartitionedOperand, whole: PartitionedOperand, start: Sequence[int], threads: int
) -> LinearPartition:
    """Who moves what between a whole buffer and the part of another that begins at ``start``.

    Vectors are no wider than where the part begins allows.
    """
    inside = PartitionedOperand(part.shape, whole.strides, whole.element_bytes)
    chosen = choose_partition(part.shape, [part, inside], threads)
    offset = sum(at * stride for at, stride in zip(start, whole.strides, strict=True))
    return LinearPartition(threads, math.gcd(chosen.vector, offset), chosen.order)


def choose_lanes(results: int, group: int, threads: int) -> int:
    """How many neighbouring threads share a sum of ``group`` elements, a power of two up to 32.

    As many as there are threads for ``results`` sums, but no more than elements to share.
    """
    lanes = 1
    while lanes < 32 and lanes * 2 * results <= threads and lanes * 2 <= group:
        lanes *= 2
    return lanes


def result_order(operand: PartitionedOperand) -> tuple[int, ...]:
    """The order in which threads take the results of a reduction: innermost dimension first."""
    inner = operand.innermost()
    return iteration_order(operand.shape, len(operand.shape) - 1 if inner is None else inner)


def _most_common_inner(shape: Sequence[int], operands: Sequence[PartitionedOperand]) -> int:
    votes: dict[int, int] = {}
    for operand in operands:
        inner = operand.innermost()
        if inner is not None:
            votes[inner] = votes.get(inner, 0) + 1
    if not votes:
        return len(shape) - 1
    best = max(votes.values())
    return next(inner for inner, count in votes.items() if count == best)
