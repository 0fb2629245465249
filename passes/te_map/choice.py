"""The mapping of each band and the swizzle of each shared buffer, of least traffic together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from mugraph.dialects.cute import ComposedLayout, Layout
from mugraph.dialects.cute.swizzle import Swizzle
from mugraph.dialects.te import BufferType, Space
from mugraph.dialects.tensor_types import element_bytes_of, row_major_strides
from mugraph.passes.analysis.texpr.evaluate import addresses_of_numbers, swizzled
from mugraph.passes.te_map.bands import Band
from mugraph.passes.te_map.cost import Cost, MappedBand, Place, places_of
from mugraph.passes.te_map.family import VECTORS, BandMapping, simple_family

_TRIED_TOGETHER = 64
"""Choices of swizzles that are all tried; where there are more, one buffer at a time changes."""
_ROUNDS = 3

Swizzles = dict[SSAValue, Swizzle | None]


@dataclass
class _Option:
    """One mapping of a group of bands, and what is known of its costs."""

    mapping: BandMapping
    device: Cost
    shared: list[tuple[MappedBand, Place, npt.NDArray[np.int64], int]]
    known: dict[tuple[SSAValue, Swizzle | None], Cost] = field(
        default_factory=dict[tuple[SSAValue, Swizzle | None], Cost]
    )

    def cost(self, swizzles: Swizzles) -> Cost:
        """The traffic and the instructions under these swizzles."""
        traffic, instructions = self.device
        for buffer in dict.fromkeys(place.buffer for _, place, _, _ in self.shared):
            key = (buffer, swizzles.get(buffer))
            if key not in self.known:
                self.known[key] = self._shared(*key)
            traffic += self.known[key][0]
            instructions += self.known[key][1]
        return traffic, instructions

    def _shared(self, buffer: SSAValue, swizzle: Swizzle | None) -> Cost:
        traffic = instructions = 0.0
        for mapped, place, numbers, width in self.shared:
            if place.buffer is not buffer:
                continue
            addresses = addresses_of_numbers(place.type, numbers)
            if swizzle is not None:
                if width > 1 << swizzle.base:
                    return math.inf, math.inf
                addresses = swizzled(addresses, swizzle.bits, swizzle.base, swizzle.shift)
            cost = mapped.cost(place, addresses, width)
            traffic, instructions = traffic + cost[0], instructions + cost[1]
        return traffic, instructions


@dataclass(frozen=True)
class Choice:
    """What was chosen for the bands of a kernel, and what it costs."""

    mappings: tuple[BandMapping, ...]
    swizzles: Swizzles
    cost: Cost


def choose(
    groups: Sequence[Sequence[Band]],
    candidates: Sequence[Sequence[BandMapping]],
    spaces: dict[SSAValue, Space],
) -> Choice:
    """One mapping a group of bands: the least sectors and wavefronts, then instructions.

    The first of several equal ones is taken.
    """
    options = [
        [_option(group, mapping, spaces) for mapping in mappings]
        for group, mappings in zip(groups, candidates, strict=True)
    ]
    buffers = list(
        dict.fromkeys(
            place.buffer
            for group in options
            for option in group
            for _, place, _, _ in option.shared
        )
    )
    choices = {buffer: swizzles_for(place_type(buffer)) for buffer in buffers}

    def best(swizzles: Swizzles) -> tuple[Cost, tuple[int, ...]]:
        total, picked = (0.0, 0.0), list[int]()
        for group in options:
            costs = [option.cost(swizzles) for option in group]
            index = min(range(len(costs)), key=costs.__getitem__)
            picked.append(index)
            total = (total[0] + costs[index][0], total[1] + costs[index][1])
        return total, tuple(picked)

    found: Swizzles = dict.fromkeys(buffers)
    cost, picked = best(found)
    if math.prod(len(one) for one in choices.values()) <= _TRIED_TOGETHER:
        for combination in itertools.product(*choices.values()):
            tried = dict(zip(buffers, combination, strict=True))
            other = best(tried)
            if other[0] < cost:
                (cost, picked), found = other, tried
    else:
        for _, buffer in itertools.product(range(_ROUNDS), buffers):
            for swizzle in choices[buffer]:
                tried = {**found, buffer: swizzle}
                other = best(tried)
                if other[0] < cost:
                    (cost, picked), found = other, tried
    mappings = tuple(group[i].mapping for group, i in zip(options, picked, strict=True))
    return Choice(mappings, found, cost)


def place_type(buffer: SSAValue) -> BufferType:
    """The type of a buffer."""
    assert isinstance(buffer.type, BufferType)
    return buffer.type


def _option(
    group: Sequence[Band], mapping: BandMapping, spaces: Mapping[SSAValue, Space]
) -> _Option:
    traffic = instructions = 0.0
    shared: list[tuple[MappedBand, Place, npt.NDArray[np.int64], int]] = []
    for band in group:
        mapped = MappedBand(band, mapping)
        for place in places_of(band, dict(spaces)):
            numbers = mapped.numbers(place)
            width = mapped.width(place)
            if spaces[place.buffer] is Space.SHARED:
                shared.append((mapped, place, numbers, width))
            else:
                cost = mapped.cost(place, addresses_of_numbers(place.type, numbers), width)
                traffic, instructions = traffic + cost[0], instructions + cost[1]
    return _Option(mapping, (traffic, instructions), shared)


def candidates_of(
    group: Sequence[Band], threads: int, spaces: Mapping[SSAValue, Space], most_items: int | None
) -> list[BandMapping]:
    """The family of mappings of a group of bands of equal extents.

    Neighbours are tried along dimensions in which an access is contiguous, as many as divide the
    extent.  ``most_items`` bounds from below the threads that there must be work for.
    """
    band = group[0]
    extents = band.extents
    vectors: list[tuple[int, int]] = []
    for dimension, extent in enumerate(extents):
        for vector in VECTORS[1:]:
            if extent % vector or math.prod(extents) // vector < (most_items or threads):
                continue
            digits = next(simple_family(extents, threads, [(dimension, vector)]), None)
            if digits is not None and any(
                _is_wider(one, dimension, vector, threads, spaces) for one in group
            ):
                vectors.append((dimension, vector))
    return list(simple_family(extents, threads, vectors))


def _is_wider(
    band: Band, dimension: int, vector: int, threads: int, spaces: Mapping[SSAValue, Space]
) -> bool:
    mapping = next(
        one
        for one in simple_family(band.extents, threads, [(dimension, vector)])
        if one.digits[dimension].vector == vector
    )
    mapped = MappedBand(band, mapping)
    return any(
        place.is_direct and mapped.width(place) > 1 for place in places_of(band, dict(spaces))
    )


def swizzles_for(type_: BufferType) -> list[Swizzle | None]:
    """The swizzles of a row-major buffer that are tried, none first.

    They move chunks of 4 or 16 bytes within rows of at most 128, by bits of higher places.
    """
    found: list[Swizzle | None] = [None]
    if type_.layout != BufferType.of(type_.get_shape(), type_.element_type).layout:
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


def swizzled_layout(type_: BufferType, swizzle: Swizzle) -> ComposedLayout:
    """The layout of a row-major buffer under a swizzle."""
    shape = type_.get_shape()
    return ComposedLayout(swizzle, 0, Layout(tuple(shape), tuple(row_major_strides(shape))))
