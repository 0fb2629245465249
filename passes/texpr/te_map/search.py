"""The classes of mappings of a band: what the first 32 threads do decides what all of them cost.

The threads and steps of a mapping make its instructions, each of one warp at one step.  Which
instructions there are depends on the digits of the lanes alone, those that make the thread number
up to 32: all other digits, of warps and of steps, only say which warp runs an instruction and when.
So the traffic of all mappings with the same lanes is the same, and one of each class is counted.
Within a warp the order of lanes matters only as far as shared memory serves a part of them at a
time: quarters for accesses of 16 bytes, halves for those of 8.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from mugraph.dialects.programming_model import WARP
from mugraph.passes.texpr.te_map.family import (
    BandMapping,
    Deal,
    Digit,
    Role,
    mapping_of,
    primes_of,
)

IntArray = npt.NDArray[np.int64]

MOST_CLASSES = 8000
"""The classes of a band that are counted at most; of more, those of low digits."""

_BELOW = ((None, None), *((below, None) for below in (12, 10, 8, 7, 6, 5)), (5, 4), (5, 2), (5, 0))
"""Which digits of the lanes are low: those at positions below the first number; for each, all lower
ones of its dimension but some are also of the lanes, of which the second number is the most, summed
over the digits.  Wide choices come first."""

_MOST_ORDERS = 24000
"""The same for threads that are no power of two, whose digits' order matters; they are few where
the extents are small."""

_KEPT = 64
"""Bands of like extents have the same classes; so many of them are remembered."""

DigitKey = tuple[int, int]
"""A digit: its dimension, and its position in the dimension behind the vector digit."""


@cache
def _products(radices: tuple[int, ...]) -> tuple[int, ...]:
    """The product of all numbers before each."""
    return tuple(itertools.accumulate(radices, operator.mul, initial=1))


@dataclass(frozen=True)
class LaneClass:
    """The mappings of a deal whose lanes are these digits."""

    deal: Deal
    radices: tuple[tuple[int, ...], ...]
    """The prime digits of each dimension behind the vector digit, the fastest first."""
    lanes: tuple[DigitKey, ...]
    """The digits of the lanes, the fastest first."""

    def stride(self, place: DigitKey) -> int:
        """The stride of a digit in its index."""
        dimension, position = place
        return self.deal.vector[dimension] * _products(self.radices[dimension])[position]

    def radix(self, place: DigitKey) -> int:
        """The number of values of a digit."""
        return self.radices[place[0]][place[1]]

    @cached_property
    def rest(self) -> tuple[DigitKey, ...]:
        """All other digits, the last dimension and the fastest first."""
        taken = set(self.lanes)
        return tuple(
            (dimension, position)
            for dimension in reversed(range(len(self.radices)))
            for position in range(len(self.radices[dimension]))
            if (dimension, position) not in taken
        )

    @property
    def skipped(self) -> int:
        """How many lower digits of its dimension each digit of the lanes has that are not."""
        return sum(
            (dimension, below) not in self.lanes
            for dimension, position in self.lanes
            for below in range(position)
        )

    def fits(self) -> bool:
        """Whether the deal has threads enough in each dimension for the digits of the lanes."""
        for dimension, count in enumerate(self.deal.counts):
            left = primes_of(count)
            for place in self.lanes:
                if place[0] == dimension:
                    if self.radix(place) not in left:
                        return False
                    left.remove(self.radix(place))
        return True

    def mapping(self) -> BandMapping:
        """One of the mappings: the low ones of the other digits are of warps, the high of steps."""
        threads = set(self.lanes)
        order = list(self.lanes)
        for dimension in reversed(range(len(self.radices))):
            missing = primes_of(self.deal.counts[dimension])
            for place in self.lanes:
                if place[0] == dimension:
                    missing.remove(self.radix(place))
            for place in self.rest:
                if place[0] == dimension and self.radix(place) in missing:
                    missing.remove(self.radix(place))
                    threads.add(place)
                    order.append(place)
        digits = [
            [
                Digit(radix, Role.THREAD if (dimension, position) in threads else Role.STEP)
                for position, radix in enumerate(each)
            ]
            for dimension, each in enumerate(self.radices)
        ]
        return mapping_of(self.deal, digits, order)


@dataclass(frozen=True)
class Classes:
    """The classes of mappings that are compared, and whether they are all there are."""

    found: tuple[LaneClass, ...]
    is_whole: bool

    @cached_property
    def _deals(self) -> list[Deal]:
        return list(dict.fromkeys(one.deal for one in self.found))

    def mappings(self, one: LaneClass) -> Iterator[BandMapping]:
        """Mappings of a class: one for each deal of threads that its lanes are part of."""
        for deal in self._deals:
            if deal.box == one.deal.box:
                other = replace(one, deal=deal)
                if other.fits():
                    yield other.mapping()


@lru_cache(_KEPT)
def classes_of(deals: tuple[tuple[Deal, tuple[int, ...]], ...]) -> Classes:
    """The classes of mappings of some deals, simple ones first.

    With each deal come the numbers of lanes that are served together, ascending, the last a warp.
    Where there are more than ``MOST_CLASSES``, digits of the lanes are low ones.
    """
    most = MOST_CLASSES if all(_is_binary(deal) for deal, _ in deals) else _MOST_ORDERS
    boxes: dict[object, tuple[list[Deal], tuple[int, ...]]] = {}
    for deal, parts in deals:
        boxes.setdefault((deal.box, deal.busy, parts), ([], parts))[0].append(deal)
    places = {deal: place for place, (deal, _) in enumerate(deals)}
    found: dict[object, LaneClass] = {}
    for reach, skipped in _BELOW:
        if reach != 5 and _count(deals, reach) > most:
            continue
        found = {}
        for one, together in (
            (one, parts) for some, parts in boxes.values() for one in _of_box(some, parts, reach)
        ):
            if skipped is not None and one.skipped > skipped:
                continue
            found.setdefault(_key(one, together), one)
            if len(found) > most:
                break
        else:
            return Classes(_simple_first(found, places), reach is None)
    return Classes(_simple_first(found, places), False)


def _simple_first(found: dict[object, LaneClass], places: dict[Deal, int]) -> tuple[LaneClass, ...]:
    def complexity(one: LaneClass) -> tuple[int, int]:
        return sum(position for _, position in one.lanes), places[one.deal]

    return tuple(sorted(found.values(), key=complexity))


def _is_binary(deal: Deal) -> bool:
    return deal.busy & (deal.busy - 1) == 0


def _count(deals: Sequence[tuple[Deal, tuple[int, ...]]], reach: int | None) -> int:
    """How many classes there are about, from above: of powers of two all sets of low digits."""
    counts: dict[object, int] = {}
    for deal, parts in deals:
        primes = [primes_of(extent) for _, extent in deal.box]
        digits = sum(min(len(each), reach or len(each)) for each in primes)
        lanes = len(primes_of(min(deal.busy, WARP)))
        if _is_binary(deal):
            ends = [min(part.bit_length() - 1, lanes) for part in parts]
            count = math.comb(digits, min(lanes, digits))
            for begin, end in itertools.pairwise([0, *ends]):
                count *= math.comb(lanes - begin, end - begin)
        else:
            count = math.perm(digits, min(digits, lanes + 1))
        if reach is None:
            for each in primes:
                count *= math.factorial(len(each))
                for prime in set(each):
                    count //= math.factorial(each.count(prime))
        counts[deal.box] = max(count, counts.get(deal.box, 0))
    return sum(counts.values())


def consecutive(extents: Sequence[int], threads: int, group: int) -> LaneClass:
    """The mapping of a band that ends in a fully parallel loop: consecutive threads run it.

    The last extent is that of the fully parallel loop, which takes ``group`` threads.
    """
    *outer, lanes = extents
    left = threads // group
    counts: list[int] = []
    for extent in reversed(outer):
        count = max(n for n in range(1, min(left, extent) + 1) if left % n == 0)
        counts.append(count)
        left //= count
    deal = Deal((*outer, lanes), threads, (1,) * len(extents), (*reversed(counts), group))
    radices = tuple(
        (*primes_of(count), *primes_of(steps))
        for count, steps in zip(deal.counts, deal.steps, strict=True)
    )
    order: list[DigitKey] = []
    busy = 1
    for dimension in reversed(range(len(extents))):
        for position, radix in enumerate(primes_of(deal.counts[dimension])):
            if busy == 1 or busy % WARP:
                order.append((dimension, position))
                busy *= radix
    return LaneClass(deal, radices, tuple(order))


def _key(one: LaneClass, parts: tuple[int, ...]) -> object:
    """Equal for classes of equal traffic: the lanes, in any order among those served together."""
    items = [(place[0], one.stride(place), one.radix(place)) for place in one.lanes]
    groups: list[list[tuple[int, int, int]]] = [[]]
    lanes, boundaries = 1, list(parts)
    for item in items:
        groups[-1].append(item)
        lanes *= item[2]
        while boundaries and lanes >= boundaries[0]:
            if lanes != boundaries.pop(0):
                return one.deal.box, tuple(items)
            groups.append([])
    return one.deal.box, tuple(tuple(sorted(group)) for group in groups)


def _of_box(
    deals: Sequence[Deal], parts: tuple[int, ...], reach: int | None
) -> Iterator[LaneClass]:
    """The classes of deals of one box, each with the first deal that has it."""
    if _is_binary(deals[0]):
        # Digits of 2 come first, whatever part of them is of threads.
        for radices, places in _digits(deals[0], reach):
            for deal, lanes in _binary(deals, radices, places, parts):
                yield LaneClass(deal, radices, lanes)
        return
    for deal in deals:
        for radices, places in _digits(deal, reach):
            for lanes in _sequences(deal, radices, places, ()):
                yield LaneClass(deal, radices, lanes)


def _digits(
    deal: Deal, reach: int | None
) -> Iterator[tuple[tuple[tuple[int, ...], ...], list[DigitKey]]]:
    """The radices that the digits of a deal may have, and the digits that lanes may be."""
    every = [
        [*primes_of(count), *primes_of(steps)]
        for count, steps in zip(deal.counts, deal.steps, strict=True)
    ]
    arrangements = [
        list(permutations(primes)) if reach is None else [tuple(primes)] for primes in every
    ]
    for radices in itertools.product(*arrangements):
        yield (
            radices,
            [
                (dimension, position)
                for dimension in reversed(range(len(radices)))
                for position in range(len(radices[dimension]))
                if reach is None or position < reach
            ],
        )


def permutations(items: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The distinct orders of some numbers."""
    if not items:
        yield ()
    for first in sorted(set(items)):
        rest = list(items)
        rest.remove(first)
        for others in permutations(rest):
            yield (first, *others)


def _binary(
    deals: Sequence[Deal],
    radices: Sequence[tuple[int, ...]],
    places: Sequence[DigitKey],
    parts: tuple[int, ...],
) -> Iterator[tuple[Deal, tuple[DigitKey, ...]]]:
    """The lanes of deals whose numbers of threads are powers of two: sets, part by part."""
    bits = min(deals[0].busy, WARP).bit_length() - 1
    ends = [min(part.bit_length() - 1, bits) for part in parts]
    sizes = [end - begin for begin, end in itertools.pairwise([0, *ends])]
    usable = [place for place in places if radices[place[0]][place[1]] == 2]
    most = [tuple(count.bit_length() - 1 for count in deal.counts) for deal in deals]

    @cache
    def first_with(used: tuple[int, ...]) -> Deal | None:
        for deal, limits in zip(deals, most, strict=True):
            if all(map(operator.le, used, limits)):
                return deal
        return None

    def extend(
        chosen: tuple[DigitKey, ...], left: Sequence[int]
    ) -> Iterator[tuple[Deal, tuple[DigitKey, ...]]]:
        free = [place for place in usable if place not in chosen]
        for some in itertools.combinations(free, left[0]):
            lanes = (*chosen, *some)
            dimensions = [dimension for dimension, _ in lanes]
            deal = first_with(tuple(map(dimensions.count, range(len(radices)))))
            if deal is not None and len(left) == 1:
                yield deal, lanes
            elif deal is not None:
                yield from extend(lanes, left[1:])

    yield from extend((), sizes)


def _sequences(
    deal: Deal,
    radices: Sequence[tuple[int, ...]],
    places: Sequence[DigitKey],
    chosen: tuple[DigitKey, ...],
) -> Iterator[tuple[DigitKey, ...]]:
    """The lanes of a deal of other numbers: thread digits in order, until warps repeat."""
    lanes = math.prod(radices[d][p] for d, p in chosen)
    if lanes % WARP == 0 or lanes == deal.busy:
        yield chosen
        return
    for place in places:
        if place in chosen:
            continue
        dimension, position = place
        radix = radices[dimension][position]
        left = primes_of(deal.counts[dimension])
        for d, p in chosen:
            if d == dimension:
                left.remove(radices[d][p])
        if radix in left:
            yield from _sequences(deal, radices, places, (*chosen, place))


@dataclass(frozen=True)
class Batch:
    """Classes whose digits have the same radices, and where their instructions are.

    ``lanes[class, dimension, lane]`` and ``rest[class, dimension, instruction]`` add up to indices;
    ``numbers`` are the positions of the classes among all.
    """

    deal: Deal
    numbers: IntArray
    lanes: IntArray
    rest: IntArray
    instructions: int
    """How many there are for each lane and neighbour; ``rest`` may have fewer."""


def batches_of(classes: Sequence[LaneClass], most: int) -> Iterator[Batch]:
    """The classes in batches; of instructions evenly spaced ones, ``most`` elements a class."""
    groups: dict[object, list[int]] = {}
    for number, one in enumerate(classes):
        radices = (
            tuple(map(one.radix, one.lanes)),
            tuple(map(one.radix, one.rest)),
        )
        groups.setdefault((one.deal.box, radices), []).append(number)
    for numbers in groups.values():
        some = [classes[number] for number in numbers]
        first = some[0]
        lane_radices = [first.radix(place) for place in first.lanes]
        rest_radices = [first.radix(place) for place in first.rest]
        lanes = math.prod(lane_radices)
        instructions = math.prod(rest_radices)
        width = math.prod(first.deal.vector) * (-(-lanes // WARP) * WARP)
        kept = min(instructions, max(1, most // width))
        at = np.linspace(0, instructions - 1, kept).round().astype(np.int64)
        yield Batch(
            first.deal,
            np.array(numbers),
            _indices([one.lanes for one in some], some, np.arange(lanes), lane_radices),
            _indices([one.rest for one in some], some, at, rest_radices),
            instructions,
        )


def _indices(
    places: Sequence[Sequence[DigitKey]],
    classes: Sequence[LaneClass],
    numbers: IntArray,
    radices: Sequence[int],
) -> IntArray:
    """What the digits of numbers add to the indices, ``[class, dimension, number]``."""
    dimensions = len(classes[0].radices)
    strides = np.zeros((len(classes), dimensions, len(radices)), np.int64)
    for row, (each, one) in enumerate(zip(places, classes, strict=True)):
        for column, place in enumerate(each):
            strides[row, place[0], column] = one.stride(place)
    digits = np.zeros((len(radices), len(numbers)), np.int64)
    over = 1
    for column, radix in enumerate(radices):
        digits[column] = numbers // over % radix
        over *= radix
    return strides @ digits
