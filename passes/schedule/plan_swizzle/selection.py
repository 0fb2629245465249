"""The choice of a buffer's layout: the fewest wavefronts over all its accesses, then bytes.

Candidates are tried from the simplest on, and the first that meets the lower bound is taken: none
can be better.  Where none meets it, all have been counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from mugraph.dialects.cute import ComposedLayout, Layout, Swizzle
from mugraph.dialects.programming_model import LINE_BYTES
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    innermost_dimension,
    leading_strides,
    padded_strides,
    strides_of,
)
from mugraph.passes.costs.memory import BOX_WAVEFRONTS
from mugraph.passes.schedule.plan_swizzle.choose import layout_of_rows
from mugraph.passes.schedule.plan_swizzle.evaluate import (
    ideal,
    nested_wavefronts,
    strided_wavefronts,
    swizzled_wavefronts,
)
from mugraph.passes.schedule.plan_swizzle.patterns import Pattern
from mugraph.passes.schedule.plan_swizzle.space import (
    Extents,
    covers_all_paddings,
    extents_of,
    paddings,
    swizzles,
)


class Method(Enum):
    """The classes of layouts."""

    NONE = "none"
    XOR = "xor"
    SHIFT = "shift"


class Certificate(Enum):
    """Why no other layout of the space is better."""

    IDEAL = "ideal: no layout needs fewer wavefronts"
    EXHAUSTED = "every swizzle and every padding counted"
    ENUMERATED = "every swizzle and the paddings of one dimension at a time counted"
    RESTRICTED = "every layout that its operators can work with counted"
    KEPT = "kept: its accesses or its strides are not of a known kind"

    @property
    def is_proof(self) -> bool:
        """Whether no layout of the space is better."""
        return self in (Certificate.IDEAL, Certificate.EXHAUSTED, Certificate.RESTRICTED)


@dataclass(frozen=True, order=True)
class Cost:
    """Wavefronts that a block spends on a buffer, and the bytes of one stage in whole lines."""

    wavefronts: int
    line_bytes: int


class Candidate(NamedTuple):
    """A layout and what it costs."""

    method: Method
    layout: AnyLayout
    cost: Cost


class LayoutChoice(NamedTuple):
    """The chosen layout, what it is compared with, and why it is the best.

    ``given`` is the buffer's own layout; ``best`` has the best of each class that was counted.
    ``ideal`` are the wavefronts that no layout can save.
    """

    chosen: Candidate
    given: Candidate
    best: tuple[Candidate, ...]
    ideal: int
    certificate: Certificate


def _line_bytes(layout: AnyLayout, element_bytes: int) -> int:
    return -(-layout.cosize() * element_bytes // LINE_BYTES) * LINE_BYTES


class _Counter:
    """Counts all patterns of a buffer under layouts."""

    def __init__(self, patterns: Sequence[Pattern], element_bytes: int) -> None:
        self.patterns = patterns
        self.element_bytes = element_bytes

    def swizzled(
        self, method: Method, shape: Sequence[int], strides: Sequence[int], of: Sequence[Swizzle]
    ) -> list[Candidate]:
        """One candidate a swizzle over the same strides."""
        totals = np.zeros(len(of), dtype=np.int64)
        for pattern in self.patterns:
            totals += swizzled_wavefronts(pattern, strides, of)
        plain = Layout(tuple(shape), tuple(strides))
        layouts: list[AnyLayout] = [
            ComposedLayout(swizzle, 0, plain) if swizzle.bits else plain for swizzle in of
        ]
        return self._candidates(method, layouts, totals.tolist())

    def strided(self, shape: Sequence[int], strides: Sequence[Sequence[int]]) -> list[Candidate]:
        """One candidate a choice of strides."""
        totals = np.zeros(len(strides), dtype=np.int64)
        for pattern in self.patterns:
            totals += strided_wavefronts(pattern, strides)
        layouts: list[AnyLayout] = [Layout(tuple(shape), tuple(choice)) for choice in strides]
        return self._candidates(Method.SHIFT, layouts, totals.tolist())

    def one(self, layout: AnyLayout, packed: Sequence[int] | None = None) -> Candidate:
        """The candidate of any layout without a constant; one that is not packed is shifted."""
        swizzle = layout.swizzle if isinstance(layout, ComposedLayout) else Swizzle(0, 0, 0)
        strides = strides_of(layout)
        method = Method.NONE
        if swizzle.bits:
            method = Method.XOR
        elif packed is not None and strides != tuple(packed):
            method = Method.SHIFT
        shape = tuple(int(extent) for extent in base_layout(layout).flat_shape)
        return self.swizzled(method, shape, strides, [swizzle])[0]

    def any_layout(self, layout: AnyLayout) -> Candidate:
        """The candidate of a layout without a constant, of which dimensions may be nested."""
        if base_layout(layout).depth <= 1:
            return self.one(layout)
        total = sum(nested_wavefronts(pattern, layout) for pattern in self.patterns)
        method = Method.XOR if isinstance(layout, ComposedLayout) else Method.NONE
        return self._candidates(method, [layout], [total])[0]

    def _candidates(
        self, method: Method, layouts: Sequence[AnyLayout], totals: Sequence[int]
    ) -> list[Candidate]:
        return [
            Candidate(method, layout, Cost(total, _line_bytes(layout, self.element_bytes)))
            for layout, total in zip(layouts, totals, strict=True)
        ]


def choose_layout(
    layout: AnyLayout,
    shape: tuple[int, ...],
    element_bytes: int,
    patterns: Sequence[Pattern],
    *,
    every: bool = False,
) -> LayoutChoice:
    """The layout of a buffer with the fewest wavefronts over its patterns, then the fewest bytes.

    Chunks as wide as the widest access stay contiguous and aligned.  Among equals the buffer's
    dimensions packed without a swizzle come first, then the layout of rows, then swizzles of few
    bits, then small paddings.  It is never worse than ``layout``, nor than that without its
    swizzle.  ``every`` counts all classes also where an early one is ideal.
    """
    counter = _Counter(patterns, element_bytes)
    given = counter.one(layout)
    chunk = max((pattern.width for pattern in patterns), default=1)
    extents = extents_of(shape, strides_of(layout), element_bytes, chunk)
    if extents is None or not patterns:
        least = given.cost.wavefronts
        return LayoutChoice(given, given, (given,), least, Certificate.KEPT)
    packed = extents.strides()
    least = sum(ideal(pattern, packed) for pattern in patterns)
    best: dict[Method, Candidate] = {}
    chosen: Candidate | None = None
    for group in _groups(counter, extents, given):
        for candidate in group:
            known = best.get(candidate.method)
            if known is None or candidate.cost < known.cost:
                best[candidate.method] = candidate
            if chosen is None or candidate.cost < chosen.cost:
                chosen = candidate
        fewest = Cost(least, _line_bytes(Layout(shape, packed), element_bytes))
        if chosen is not None and chosen.cost == fewest and not every:
            break
    assert chosen is not None  # the first group is never empty
    if chosen.cost.wavefronts == least:
        certificate = Certificate.IDEAL
    elif covers_all_paddings(extents):
        certificate = Certificate.EXHAUSTED
    else:
        certificate = Certificate.ENUMERATED
    return LayoutChoice(chosen, given, tuple(best.values()), least, certificate)


def boxes_of(layout: AnyLayout) -> int:
    """How many boxes side by side a layout is: the second extents of its nested dimensions."""
    modes = [mode.flat_shape for mode in base_layout(layout)]
    return math.prod(math.prod(extents[1:]) for extents in modes)


def choose_among(
    layouts: Sequence[AnyLayout],
    given: AnyLayout,
    element_bytes: int,
    patterns: Sequence[Pattern],
) -> LayoutChoice:
    """The one of these layouts with the fewest wavefronts, then bytes; the first of equals.

    Of equals those come first whose dimensions are not nested.  Each box of a bulk copy beyond the
    first counts as ``BOX_WAVEFRONTS``, as often as the buffer is used.
    """
    executions = max((pattern.executions for pattern in patterns), default=1)
    counter = _Counter(patterns, element_bytes)
    plain_first = sorted(layouts, key=lambda layout: base_layout(layout).depth > 1)
    candidates = [counter.any_layout(layout) for layout in plain_first]

    def cost(candidate: Candidate) -> tuple[int, Cost]:
        more = (boxes_of(candidate.layout) - 1) * BOX_WAVEFRONTS * executions
        return candidate.cost.wavefronts + more, candidate.cost

    chosen = min(candidates, key=cost)
    now = counter.any_layout(given)
    # Chunks are contiguous in every one of the layouts, so that any strides tell the least.
    shape = tuple(mode.size() for mode in base_layout(given))
    inner = innermost_dimension(shape, leading_strides(given))
    packed = padded_strides(shape, len(shape) - 1 if inner is None else inner, element_bytes)[0]
    least = sum(ideal(pattern, packed) for pattern in patterns)
    is_ideal = chosen.cost.wavefronts == least
    certificate = Certificate.IDEAL if is_ideal else Certificate.RESTRICTED
    return LayoutChoice(chosen, now, tuple(candidates), least, certificate)


def _groups(counter: _Counter, extents: Extents, given: Candidate) -> Iterator[list[Candidate]]:
    """The candidates by class, counted only when they are asked for."""
    packed = extents.strides()
    plain = Layout(extents.shape, packed)
    yield [counter.one(plain, packed)]
    own = [given, counter.one(base_layout(given.layout), packed)]
    rows = layout_of_rows(extents.shape, packed, extents.element_bytes, extents.chunk)
    yield [counter.one(rows, packed), *own]
    every = swizzles(extents)
    if every:
        yield counter.swizzled(Method.XOR, extents.shape, packed, every)
        aligned = _aligned_strides(extents.shape, packed, counter.element_bytes)
        if aligned != packed:
            yield counter.swizzled(Method.XOR, extents.shape, aligned, every)
    choices = [extents.strides(choice) for choice in paddings(extents)]
    if choices:
        yield counter.strided(extents.shape, choices)


def _aligned_strides(
    shape: tuple[int, ...], packed: tuple[int, ...], element_bytes: int
) -> tuple[int, ...]:
    """The strides whose rows start at multiples of 16 bytes, in the packed order."""
    inner = innermost_dimension(shape, packed)
    return packed if inner is None else padded_strides(shape, inner, element_bytes)[0]
