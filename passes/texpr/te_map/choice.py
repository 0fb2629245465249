"""The mapping of each band and the swizzle of each shared buffer, of least traffic together."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from mugraph.dialects import te
from mugraph.dialects.cute import ComposedLayout, Layout
from mugraph.dialects.cute.swizzle import Swizzle
from mugraph.dialects.sched.mappings import swizzled
from mugraph.dialects.tensor_types import element_bytes_of, row_major_strides
from mugraph.passes.texpr.analysis.evaluate import addresses_of_numbers
from mugraph.passes.texpr.te_map.bands import Band
from mugraph.passes.texpr.te_map.cost import (
    BandAccess,
    Counter,
    FloatArray,
    places_of,
    served_together,
    width_of,
)
from mugraph.passes.texpr.te_map.family import VECTORS, BandMapping, Deal, deals
from mugraph.passes.texpr.te_map.search import Classes, LaneClass, batches_of, classes_of

_ELEMENTS = 1 << 20
"""The elements of an access that are counted, all classes of a band together, at least ..."""
_ELEMENTS_OF_CLASS = 1 << 8
"""... and at least these of each class."""
_FIRST = 48
"""The most promising classes, which are looked at before the others."""
_TIES = 256
"""Classes of equal cost among which the simplest mapping is looked for."""

Swizzles = dict[SSAValue, Swizzle | None]
Cost = tuple[float, float]
"""Sectors and wavefronts, then instructions; of all iterations of a band."""
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MappingChoice:
    """What was chosen for the bands of a kernel, and what it costs."""

    mappings: tuple[BandMapping, ...]
    classes: tuple[LaneClass, ...]
    """Which class of each group they are of."""
    swizzles: Swizzles
    cost: Cost
    is_least: bool
    """Whether it was compared with all of the family, every instruction counted."""


class _Group:
    """Bands of one mapping, the classes of it, and what each costs."""

    def __init__(
        self, bands: Sequence[Band], classes: Classes, spaces: Mapping[SSAValue, te.Space]
    ) -> None:
        self.bands = bands
        self.classes = classes
        self.most = max(_ELEMENTS_OF_CLASS, _ELEMENTS // len(classes.found))
        self.places = {band.loops[0]: places_of(band, dict(spaces)) for band in bands}
        self.shared = list(
            dict.fromkeys(
                place.buffer
                for places in self.places.values()
                for place in places
                if spaces[place.buffer] is te.Space.SHARED
            )
        )
        self.is_exact = classes.is_whole
        self.device: FloatArray = np.zeros((len(classes.found), 2))
        least: FloatArray = np.zeros((len(classes.found), 2))
        for counter, numbers in self.counters(range(len(classes.found))):
            self.is_exact &= counter.is_exact
            for place in self.places[counter.band.loops[0]]:
                width = width_of(counter.band, place, counter.batch.deal.vector)
                if place.buffer in self.shared:
                    least[numbers] += counter.least(place, width)
                else:
                    addresses = addresses_of_numbers(place.type, counter.numbers(place))
                    self.device[numbers] += counter.cost(place, addresses, width)
        self.bound: FloatArray = self.device + least

    def counters(self, chosen: Sequence[int]) -> Iterator[tuple[Counter, IntArray]]:
        """A counter for each band and batch of some classes, and their positions in ``chosen``."""
        classes = [self.classes.found[number] for number in chosen]
        for batch in batches_of(classes, self.most):
            for band in self.bands:
                places = self.places[band.loops[0]]
                yield Counter(band, places, batch, self.most), batch.numbers

    def in_shared(
        self, chosen: Sequence[int], choices: Mapping[SSAValue, Sequence[Swizzle | None]]
    ) -> dict[SSAValue, FloatArray]:
        """What accesses to each shared buffer cost, ``[swizzle, class, 2]``."""
        tables = {
            buffer: np.zeros((len(choices[buffer]), len(chosen), 2)) for buffer in self.shared
        }
        for counter, numbers in self.counters(chosen):
            known: dict[Hashable, FloatArray] = {}
            for place in self.places[counter.band.loops[0]]:
                if place.buffer not in tables:
                    continue
                width = width_of(counter.band, place, counter.batch.deal.vector)
                kind = (place.kind_of_cost, width)
                if kind not in known:
                    known[kind] = _costs(counter, place, width, choices[place.buffer])
                tables[place.buffer][:, numbers] += known[kind]
        return tables


def _costs(
    counter: Counter, place: BandAccess, width: int, swizzles: Sequence[Swizzle | None]
) -> FloatArray:
    """What an access to shared memory costs, ``[swizzle, class, 2]``."""
    plain = addresses_of_numbers(place.type, counter.numbers(place))
    costs: FloatArray = np.full((len(swizzles), len(counter.batch.numbers), 2), math.inf)
    for row, swizzle in enumerate(swizzles):
        if swizzle is None:
            costs[row] = counter.cost(place, plain, width)
        elif width <= 1 << swizzle.base:
            moved = swizzled(swizzled_layout(place.type, swizzle), plain)
            costs[row] = counter.cost(place, moved, width)
    return costs


def choose(
    groups: Sequence[Sequence[Band]],
    candidates: Sequence[Classes],
    spaces: Mapping[SSAValue, te.Space],
) -> MappingChoice:
    """One mapping a group of bands: the least sectors and wavefronts, then instructions.

    Of equal ones one of the fewest digits is taken; no swizzle rather than one.  Exact: classes and
    swizzles are left out only where a bound says that they cannot be better.
    """
    options = [_Group(*pair, spaces) for pair in zip(groups, candidates, strict=True)]
    buffers = list(dict.fromkeys(buffer for group in options for buffer in group.shared))
    choices = {buffer: swizzles_for(place_type(buffer)) for buffer in buffers}
    first = [_order(group.bound)[:_FIRST].tolist() for group in options]
    search = _Search(options, first, buffers, choices, None)
    floors = [group.bound.min(axis=0) for group in options]
    kept: list[list[int]] = []
    for group, floor in zip(options, floors, strict=True):
        room = np.array(search.cost) - (np.sum(floors, axis=0) - floor)
        kept.append(np.flatnonzero(_at_most(group.bound, room)).tolist())
    if any(set(some) - set(many) for some, many in zip(kept, first, strict=True)):
        search = _Search(options, kept, buffers, choices, search)
    mappings: list[tuple[BandMapping, LaneClass]] = []
    for group, some, costs in zip(options, search.chosen, search.costs(), strict=True):
        ties = np.flatnonzero(_at_most(costs, costs[_order(costs)[0]]))[:_TIES]
        classes = [group.classes.found[some[int(at)]] for at in ties]
        found = [(mapping, one) for one in classes for mapping in group.classes.mappings(one)]
        mappings.append(min(found, key=lambda pair: pair[0].complexity))
    is_least = all(group.is_exact for group in options)
    chosen, classes = zip(*mappings, strict=True) if mappings else ((), ())
    return MappingChoice(chosen, classes, search.swizzles, search.cost, is_least)


class _Search:
    """The best swizzles of all buffers together with some classes of each group, by branching."""

    def __init__(
        self,
        options: Sequence[_Group],
        chosen: Sequence[Sequence[int]],
        buffers: Sequence[SSAValue],
        choices: Mapping[SSAValue, Sequence[Swizzle | None]],
        before: _Search | None,
    ) -> None:
        self.chosen = chosen
        self.buffers = buffers
        self.choices = choices
        self.device = [
            group.device[np.array(some)] for group, some in zip(options, chosen, strict=True)
        ]
        self.tables = [
            group.in_shared(some, choices) for group, some in zip(options, chosen, strict=True)
        ]
        # What is left to pay at least once some of the buffers have their swizzles.
        self.left = [
            [
                sum(
                    (table[one].min(axis=0) for one in buffers[done:] if one in table),
                    start=np.zeros_like(device),
                )
                for done in range(len(buffers) + 1)
            ]
            for device, table in zip(self.device, self.tables, strict=True)
        ]
        self.cost: Cost = (math.inf, math.inf) if before is None else before.cost
        self.swizzles: Swizzles = {} if before is None else before.swizzles
        self._extend(0, self.device, {})

    def costs(self) -> list[FloatArray]:
        """What each class costs under the best swizzles."""
        return [
            device
            + sum(
                (
                    table[one][list(self.choices[one]).index(self.swizzles[one])]
                    for one in self.buffers
                    if one in table
                ),
                start=np.zeros_like(device),
            )
            for device, table in zip(self.device, self.tables, strict=True)
        ]

    def _extend(self, done: int, current: Sequence[FloatArray], swizzles: Swizzles) -> None:
        bound = self._least(done, current)
        if not _is_less(bound, self.cost):
            return
        if done == len(self.buffers):
            self.cost, self.swizzles = bound, swizzles
            return
        buffer = self.buffers[done]
        for row, swizzle in enumerate(self.choices[buffer]):
            costs = [
                one + table[buffer][row] if buffer in table else one
                for one, table in zip(current, self.tables, strict=True)
            ]
            self._extend(done + 1, costs, {**swizzles, buffer: swizzle})

    def _least(self, done: int, current: Sequence[FloatArray]) -> Cost:
        traffic = instructions = 0.0
        for one, left in zip(current, self.left, strict=True):
            total = one + left[done]
            best = total[_order(total)[0]]
            traffic, instructions = traffic + float(best[0]), instructions + float(best[1])
        return traffic, instructions


def _order(costs: FloatArray) -> npt.NDArray[np.intp]:
    """The rows by traffic, then instructions; equal ones in their order."""
    return np.lexsort((costs[:, 1].round(6), costs[:, 0].round(6)))


def _is_less(one: Cost, other: Cost) -> bool:
    return (round(one[0], 6), round(one[1], 6)) < (round(other[0], 6), round(other[1], 6))


def _at_most(costs: FloatArray, limit: FloatArray) -> npt.NDArray[np.bool_]:
    """The rows that are not more, up to what rounding makes of sums."""
    slack = 1e-6 + 1e-12 * abs(limit[0]) if math.isfinite(limit[0]) else 0.0
    below = costs[:, 0] < limit[0] - slack
    equal = np.abs(costs[:, 0] - limit[0]) <= slack
    found: npt.NDArray[np.bool_] = below | (equal & (costs[:, 1] <= limit[1] + 1e-6))
    return found


def place_type(buffer: SSAValue) -> te.BufferType:
    """The type of a buffer."""
    return cast(te.BufferType, buffer.type)


def candidates_of(
    group: Sequence[Band], threads: int, spaces: Mapping[SSAValue, te.Space], most_items: int | None
) -> Classes:
    """The classes of mappings of a group of bands of equal extents.

    Neighbours are tried along dimensions in which an access is contiguous, as many as divide the
    extent.  ``most_items`` bounds from below the threads that there must be work for.
    """
    extents = group[0].extents
    vectors: list[tuple[int, int]] = []
    for dimension, extent in enumerate(extents):
        for vector in VECTORS[1:]:
            if extent % vector or math.prod(extents) // vector < (most_items or threads):
                continue
            if any(_is_wider(one, dimension, vector, spaces) for one in group):
                vectors.append((dimension, vector))
    found: list[tuple[Deal, tuple[int, ...]]] = []
    for deal in deals(extents, threads, vectors):
        parts = {
            part
            for band in group
            for part in served_together(band, deal.vector, places_of(band, dict(spaces)))
        }
        found.append((deal, tuple(sorted(parts))))
    return classes_of(tuple(found))


def only(one: LaneClass) -> Classes:
    """A mapping that nothing else is compared with."""
    return Classes((one,), True)


def _is_wider(band: Band, dimension: int, vector: int, spaces: Mapping[SSAValue, te.Space]) -> bool:
    widths = [vector if d == dimension else 1 for d in range(len(band.extents))]
    return any(
        place.is_direct and width_of(band, place, widths) > 1
        for place in places_of(band, dict(spaces))
    )


def swizzles_for(type_: te.BufferType) -> list[Swizzle | None]:
    """The swizzles of a row-major buffer that are tried, none first.

    They move chunks of 4 or 16 bytes within rows of at most 128, by bits of higher places.
    """
    found: list[Swizzle | None] = [None]
    if type_.layout != te.BufferType.of(type_.get_shape(), type_.element_type).layout:
        return found
    size = element_bytes_of(type_)
    elements = type_.elements
    if elements & (elements - 1):
        return found
    places = elements.bit_length() - 1
    for chunk in (16, 4):
        base = max(0, (chunk // size).bit_length() - 1)
        widest = (128 // chunk).bit_length() - 1
        for bits in range(widest, 1, -1):
            for shift in range(bits, places - base - bits + 1):
                found.append(Swizzle(bits, base, shift))
    return found


def swizzled_layout(type_: te.BufferType, swizzle: Swizzle) -> ComposedLayout:
    """The layout of a row-major buffer under a swizzle."""
    shape = type_.get_shape()
    return ComposedLayout(swizzle, 0, Layout(tuple(shape), tuple(row_major_strides(shape))))
