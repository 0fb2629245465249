"""The mappings of a parallel band onto the threads of a block, and on blocks: digit permutations.

Along each dimension of the band an index is split into digits of a mixed radix.  The fastest may be
a *vector* digit: neighbours that one thread takes one after another.  Each other digit belongs to
the thread number or to the steps (blocks, for a band that is spread over the grid); the thread
number has its digits, of all dimensions, in any order.  Each mapping is a CuTe layout from
(thread, vector, step) to the coordinate, and a bijection onto a box that contains the band's, so
each index comes up once; indices past the extents are left out by conditions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from xdsl.ir.affine import AffineExpr

from mugraph.dialects.cute import Layout

VECTORS = (1, 2, 4, 8)
"""How many neighbours one thread may take."""


class Role(Enum):
    """Who runs the values of a digit."""

    VECTOR = "vector"
    THREAD = "thread"
    STEP = "step"


@dataclass(frozen=True)
class Digit:
    """A digit of an index: how many values it has, and whose it is."""

    radix: int
    role: Role


@dataclass(frozen=True)
class Digits:
    """The digits of one dimension's index, the fastest first; a vector digit comes first."""

    parts: tuple[Digit, ...]

    def count(self, role: Role) -> int:
        """How many values the digits of a role have together."""
        return math.prod(one.radix for one in self.parts if one.role is role)

    @property
    def vector(self) -> int:
        """How many neighbours a thread takes."""
        return self.count(Role.VECTOR)

    @property
    def threads(self) -> int:
        """How many threads there are along the dimension."""
        return self.count(Role.THREAD)

    @property
    def steps(self) -> int:
        """How many steps there are along the dimension."""
        return self.count(Role.STEP)

    @property
    def size(self) -> int:
        """The extent, padded."""
        return math.prod(one.radix for one in self.parts)

    def placed(self, role: Role) -> list[tuple[int, int]]:
        """Stride and radix of each digit of a role, the fastest first."""
        found: list[tuple[int, int]] = []
        stride = 1
        for one in self.parts:
            if one.role is role:
                found.append((stride, one.radix))
            stride *= one.radix
        return found


@dataclass(frozen=True)
class BandMapping:
    """How a band of some extents is dealt to ``threads`` threads."""

    extents: tuple[int, ...]
    threads: int
    digits: tuple[Digits, ...]
    order: tuple[tuple[int, int], ...]
    """The thread digits by their place in the thread number, fastest first: the dimension, and
    which of its thread digits."""

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

    @cached_property
    def thread_strides(self) -> dict[tuple[int, int], int]:
        """The stride of each thread digit in the thread number."""
        found: dict[tuple[int, int], int] = {}
        stride = 1
        for place in self.order:
            found[place] = stride
            dimension, which = place
            stride *= self.digits[dimension].placed(Role.THREAD)[which][1]
        return found

    def is_ragged(self, dimension: int) -> bool:
        """Whether the digits reach past the extent."""
        return self.digits[dimension].size > self.extents[dimension]

    def step_radices(self, dimension: int) -> list[int]:
        """The radix of each step digit of a dimension, fastest first."""
        return [radix for _, radix in self.digits[dimension].placed(Role.STEP)]

    def index(
        self,
        dimension: int,
        thread: AffineExpr,
        steps: Sequence[AffineExpr],
        vector: AffineExpr,
    ) -> AffineExpr:
        """The index along a dimension: of the thread number, its step digits and its neighbour."""
        digits = self.digits[dimension]
        width = digits.vector
        index = AffineExpr.constant(0)
        for which, (stride, radix) in enumerate(digits.placed(Role.THREAD)):
            over = self.thread_strides[dimension, which]
            digit = thread if over == 1 else thread // over
            digit = digit if over * radix == self.threads else digit % radix
            index += digit * (stride // width)
        for (stride, _), step in zip(digits.placed(Role.STEP), steps, strict=True):
            index += step * (stride // width)
        return index * width + vector if width > 1 else index

    def layout(self) -> Layout[int]:
        """The CuTe layout from (thread, vector, step) to the row-major number in the padded box.

        A bijection onto ``0 .. size - 1``.
        """
        padded = [one.size for one in self.digits]
        strides = [math.prod(padded[d + 1 :]) for d in range(len(padded))]
        modes: list[list[tuple[int, int]]] = [[], [], []]
        for dimension, which in self.order:
            stride, radix = self.digits[dimension].placed(Role.THREAD)[which]
            modes[0].append((radix, stride * strides[dimension]))
        for mode, role in ((1, Role.VECTOR), (2, Role.STEP)):
            for dimension, one in enumerate(self.digits):
                modes[mode] += [(r, s * strides[dimension]) for s, r in one.placed(role)]
        filled = [mode or [(1, 0)] for mode in modes]
        return Layout(
            tuple(tuple(radix for radix, _ in mode) for mode in filled),
            tuple(tuple(stride for _, stride in mode) for mode in filled),
        )

    @property
    def complexity(self) -> int:
        """How many digits there are: what the index expressions take to compute."""
        return sum(len(one.parts) for one in self.digits)


@dataclass(frozen=True)
class Deal:
    """How many neighbours, threads and steps each dimension has; their digits are still open."""

    extents: tuple[int, ...]
    threads: int
    vector: tuple[int, ...]
    counts: tuple[int, ...]
    """The threads of each dimension."""

    @property
    def busy(self) -> int:
        """How many threads take part."""
        return math.prod(self.counts)

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The steps of each dimension."""
        return tuple(
            -(-extent // (vector * count))
            for extent, vector, count in zip(self.extents, self.vector, self.counts, strict=True)
        )

    @cached_property
    def box(self) -> tuple[tuple[int, int], ...]:
        """The neighbours of each dimension, and its extent over them, padded."""
        return tuple(
            (vector, count * steps)
            for vector, count, steps in zip(self.vector, self.counts, self.steps, strict=True)
        )


def deals(
    extents: Sequence[int], threads: int, vectors: Sequence[tuple[int, int]] = ()
) -> list[Deal]:
    """All deals onto ``threads`` threads that keep as many busy as any with these neighbours.

    ``vectors`` are the (dimension, neighbours) that may be taken by one thread, beside none.
    """
    found: list[Deal] = []
    for dimension, vector in ((0, 1), *vectors):
        widths = tuple(vector if d == dimension else 1 for d in range(len(extents)))
        counts = [-(-extent // width) for extent, width in zip(extents, widths, strict=True)]
        dealt = list(_deals(counts, threads))
        busiest = max(math.prod(deal) for deal in dealt)
        found += [
            Deal(tuple(extents), threads, widths, deal)
            for deal in dealt
            if math.prod(deal) == busiest
        ]
    return found


def _deals(counts: Sequence[int], threads: int) -> Iterator[tuple[int, ...]]:
    """How many threads each dimension may get: divisors of ``threads``, none twice too many."""
    options = [
        [n for n in range(1, threads + 1) if threads % n == 0 and (n == 1 or n < 2 * count)]
        for count in counts
    ]
    for deal in itertools.product(*options):
        if threads % math.prod(deal) == 0:
            yield deal


def primes_of(number: int) -> list[int]:
    """The prime factors, ascending."""
    found: list[int] = []
    factor = 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found


def mapping_of(
    deal: Deal, digits: Sequence[Sequence[Digit]], order: Sequence[tuple[int, int]]
) -> BandMapping:
    """The mapping of these digits, neighbours in both the index and the number they make joined.

    ``digits`` are those of each dimension behind the vector digit, ``order`` the thread digits as
    (dimension, position in ``digits``) by their place in the thread number.
    """
    follows = dict(itertools.pairwise(order))
    parts: list[tuple[Digit, ...]] = []
    heads: dict[tuple[int, int], tuple[int, int]] = {}
    for dimension, each in enumerate(digits):
        joined: list[Digit] = []
        if deal.vector[dimension] > 1:
            joined.append(Digit(deal.vector[dimension], Role.VECTOR))
        threads = 0
        for position, digit in enumerate(each):
            at = (dimension, position)
            before = each[position - 1] if position else None
            together = (
                before is not None
                and before.role is digit.role
                and (digit.role is Role.STEP or follows.get((dimension, position - 1)) == at)
            )
            if together:
                joined[-1] = Digit(joined[-1].radix * digit.radix, digit.role)
                continue
            if digit.role is Role.THREAD:
                heads[at] = (dimension, threads)
                threads += 1
            joined.append(digit)
        parts.append(tuple(joined))
    return BandMapping(
        deal.extents,
        deal.threads,
        tuple(Digits(one) for one in parts),
        tuple(heads[at] for at in order if at in heads),
    )
