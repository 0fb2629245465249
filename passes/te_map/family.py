"""The mappings of a parallel band onto the threads of a block, and on blocks.

Along each dimension of the band an index is split into digits,
``i = vector + V * (thread + T * step)``: ``V`` neighbours that one thread takes one after another,
``T`` threads, and as many steps as are left (blocks, for a band that is spread over the grid).
The thread number has the thread digits of all dimensions in some order.  Each mapping is a CuTe
layout from (thread, vector, step) to the coordinate, and a bijection onto a box that contains the
band's, so each index comes up once; indices past the extents are left out by conditions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir.affine import AffineExpr

from mugraph.dialects.cute import Layout

VECTORS = (1, 2, 4, 8)
"""How many neighbours one thread may take."""
_MOST_ORDERED = 3
"""Dimensions of which all orders are tried."""


@dataclass(frozen=True)
class Digits:
    """The digits of one dimension's index, the fastest first."""

    vector: int
    threads: int
    steps: int


@dataclass(frozen=True)
class BandMapping:
    """How a band of some extents is dealt to ``threads`` threads."""

    extents: tuple[int, ...]
    threads: int
    digits: tuple[Digits, ...]
    order: tuple[int, ...]
    """The dimensions by the place of their thread digit in the thread number, fastest first."""

    @property
    def busy_threads(self) -> int:
        """How many threads take part."""
        return math.prod(one.threads for one in self.digits)

    @property
    def steps(self) -> int:
        """How many steps there are in all."""
        return math.prod(one.steps for one in self.digits)

    @property
    def vector_dimension(self) -> int | None:
        """The dimension of which a thread takes neighbours, if there is one."""
        return next((d for d, one in enumerate(self.digits) if one.vector > 1), None)

    @property
    def vector(self) -> int:
        """How many neighbours a thread takes."""
        return math.prod(one.vector for one in self.digits)

    def is_ragged(self, dimension: int) -> bool:
        """Whether the digits reach past the extent."""
        one = self.digits[dimension]
        return one.vector * one.threads * one.steps > self.extents[dimension]

    def thread_digit(self, dimension: int, thread: AffineExpr) -> AffineExpr:
        """The thread digit of a dimension, as an expression of the thread number."""
        stride = 1
        for one in self.order:
            if one == dimension:
                break
            stride *= self.digits[one].threads
        count = self.digits[dimension].threads
        if count == 1:
            return AffineExpr.constant(0)
        digit = thread if stride == 1 else thread // stride
        return digit if stride * count == self.threads else digit % count

    def index(
        self, dimension: int, thread: AffineExpr, step: AffineExpr, vector: AffineExpr
    ) -> AffineExpr:
        """The index along a dimension, as an expression of its digits."""
        one = self.digits[dimension]
        index = AffineExpr.constant(0)
        if one.threads > 1:
            index = self.thread_digit(dimension, thread)
        if one.steps > 1:
            index = _sum(index, step * one.threads if one.threads > 1 else step)
        if one.vector > 1:
            index = _sum(index * one.vector, vector)
        return index

    def layout(self) -> Layout[int]:
        """The CuTe layout from (thread, vector, step) to the row-major number in the padded box.

        A bijection onto ``0 .. size - 1`` where all threads are busy.
        """
        padded = [one.vector * one.threads * one.steps for one in self.digits]
        strides = [math.prod(padded[d + 1 :]) for d in range(len(padded))]
        thread_shape = [self.digits[d].threads for d in self.order]
        thread_stride = [strides[d] * self.digits[d].vector for d in self.order]
        vector = [(one.vector, s) for one, s in zip(self.digits, strides, strict=True)]
        steps = [
            (one.steps, s * one.vector * one.threads)
            for one, s in zip(self.digits, strides, strict=True)
        ]
        return Layout(
            (tuple(thread_shape), tuple(n for n, _ in vector), tuple(n for n, _ in steps)),
            (tuple(thread_stride), tuple(s for _, s in vector), tuple(s for _, s in steps)),
        )


def _sum(left: AffineExpr, right: AffineExpr) -> AffineExpr:
    return right if left == AffineExpr.constant(0) else left + right


def family(
    extents: Sequence[int], threads: int, vectors: Sequence[tuple[int, int]] = ()
) -> Iterator[BandMapping]:
    """All mappings of a band onto ``threads`` threads that keep as many busy as any.

    ``vectors`` are the (dimension, neighbours) that may be taken by one thread, beside none.
    """
    for dimension, vector in ((0, 1), *vectors):
        counts = [
            -(-extent // (vector if d == dimension else 1)) for d, extent in enumerate(extents)
        ]
        deals = list(_deals(counts, threads))
        busiest = max(math.prod(deal) for deal in deals)
        for deal in deals:
            if math.prod(deal) < busiest:
                continue
            digits = tuple(
                Digits(vector if d == dimension else 1, count, -(-counts[d] // count))
                for d, count in enumerate(deal)
            )
            for order in _orders(deal):
                yield BandMapping(tuple(extents), threads, digits, order)


def _deals(counts: Sequence[int], threads: int) -> Iterator[tuple[int, ...]]:
    """How many threads each dimension may get: divisors of ``threads``, none twice too many."""
    options = [
        [n for n in range(1, threads + 1) if threads % n == 0 and (n == 1 or n < 2 * count)]
        for count in counts
    ]
    for deal in itertools.product(*options):
        if threads % math.prod(deal) == 0:
            yield deal


def _orders(deal: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The orders of the thread digits, the last dimension fastest in the first of them."""
    wide = [d for d in reversed(range(len(deal))) if deal[d] > 1]
    idle = [d for d in reversed(range(len(deal))) if deal[d] == 1]
    if len(wide) > _MOST_ORDERED:
        yield (*wide, *idle)
        return
    for order in itertools.permutations(wide):
        yield (*order, *idle)


def identity(extents: Sequence[int], threads: int, group: int) -> BandMapping:
    """Of a band that ends in a fully parallel loop: ``group`` consecutive threads an iteration.

    The last extent is that of the fully parallel loop.
    """
    *outer, lanes = extents
    left = threads // group
    digits: list[Digits] = []
    for extent in reversed(outer):
        count = max(n for n in range(1, min(left, extent) + 1) if left % n == 0)
        digits.append(Digits(1, count, -(-extent // count)))
        left //= count
    digits.reverse()
    order = (len(outer), *reversed(range(len(outer))))
    return BandMapping((*outer, lanes), threads, (*digits, Digits(1, group, 1)), order)
