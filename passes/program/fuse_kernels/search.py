"""The search for the partition of a program into kernels that takes the least time.

The program is searched segment by segment.  Of segments that look alike, with as much of what comes
before them as a kernel can have, the steps are found once, and so is what each step takes: layers
that repeat cost little more than a walk along them.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mugraph.passes.program.fuse_kernels.groups import MOST_OPERATORS, Group, Program, bits
from mugraph.passes.program.fuse_kernels.segments import Look, Parts, look_of
from mugraph.passes.program.fuse_kernels.ways import Place, Step, Stretch, Ways

EXACT_TRIES = 256
"""Kernels that are tried before a search may end at a way that need not be the best one."""
TRIES_A_STEP, GAP_A_STEP, LARGEST_GAP = 10, 0.01, 0.5
"""What such a way may take more than the best one: for so many further tries, and at most."""
MOST_TO_SAVE = 1000.0
"""Such a part is of so many nanoseconds of a kernel at most: ways differ by launches and by what
they store, and all of them load the weights.  With parts of the whole time a layer of a step of
Qwen3-8B in fp8 lost a kernel of gate, up and SiLU, which takes 22.9 us and whose bound was 21.9: 84
us by estimate instead of 81."""
LIKE_OTHERS = 0.25
"""What a kernel that is not tried is then taken to take at least, as a part of the fastest one with
the same products, or with several of them: bounds of slow kernels are often a hundredth of their
times, and those with the same products are alike.  A bound of more than half of that is near.

With 0.35 a layer of ViT lost kernels that save 5 of 69 us by estimate."""


@dataclass
class Search:
    """The search for the partition of least time.

    ``bound`` is what a group adds to a program's time at least, infinite where it cannot be a
    kernel; ``sharper_bound`` another one, for those that may be on the best way; ``cost`` is what
    it adds, infinite where it turns out not to be one.  ``impossible`` are groups that no kernel
    has among others; it grows while bounds are asked for.  ``parts`` tells which dimensions of
    tensors are one, ``structure`` what groups have in common that are computed alike, ``kinds``
    something of it that takes less time to find, ``tried`` how many kernels have been built.
    ``try_at_once`` may try kernels whose costs are asked for next.

    Of a search that takes long the last part only shows that nothing is faster than what is known:
    after :data:`EXACT_TRIES` a kernel is not tried that could make nothing much faster, or that is
    like others which are slow.
    """

    program: Program
    bound: Callable[[Group], float]
    sharper_bound: Callable[[Group], float]
    cost: Callable[[Group], float]
    parts: Parts
    structure: Callable[[Group], Hashable]
    kinds: Callable[[Group], Hashable]
    tried: Callable[[], int] = lambda: 0
    impossible: Sequence[Group] = ()
    try_at_once: Callable[[Iterable[Group]], None] = lambda _: None
    times: dict[Group, float] = field(default_factory=dict[Group, float])
    """What each group takes that a step has, or at least takes."""
    refused: set[Group] = field(default_factory=set[Group])
    """Groups that no step has, as their bounds are infinite: they are many."""
    known: set[Group] = field(default_factory=set[Group])
    """Those whose costs were asked for."""
    filed: int = 0
    """How many groups of :attr:`times` were looked at for :attr:`of_kinds`."""
    of_kinds: dict[Hashable, list[Group]] = field(default_factory=lambda: defaultdict(list))
    """Groups by their kinds."""
    sharpened: set[Group] = field(default_factory=set[Group])
    fastest: dict[Group, float] = field(default_factory=dict[Group, float])
    """Of several products what the fastest kernel that has them takes, of those that were tried."""
    kernels: dict[Group, Group] = field(default_factory=dict[Group, Group])
    """Of what steps add, views and all, what a kernel computes."""
    stretches: dict[Look, Stretch] = field(default_factory=dict[Look, Stretch])
    looked_at: int = 0
    """Steps that were looked at, possible or not."""
    places: list[Place] = field(default_factory=list[Place])
    excluded: int = 0
    """How many impossible groups have been taken out of the others."""
    least: float | None = None
    """What the best way takes at least, where the one that was found need not be it."""

    def __post_init__(self) -> None:
        self.ways = Ways({})

    def run(self) -> list[Group]:
        """The groups, in an order in which they can run."""
        first = self.program.first_prefix()
        groups = [1 << view for view in bits(first)]
        if not self.program.units:  # there is nothing but views
            for group in groups:
                self.cost(group)
            return groups
        new = 0
        for number in range(len(self.program.segments)):
            count = len(self.stretches)
            self.places.append(self._place(number))
            if len(self.stretches) > count and number == new:
                new = number + 1
        if not self.places:
            return groups
        # Where stretches are new, most costs are asked for; a walk along the others is longer.
        way = self._refined(self.places[:new])
        if new < len(self.places):
            way = self._refined(self.places[new:])
        for place, step in way:
            group, views = place.moved(step.group), place.moved(step.views)
            groups += [group, *(1 << view for view in bits(views))]
        for group in groups:
            self.cost(group)
        return groups

    def _reach(self, number: int) -> int:
        """The first segment in which a prefix ends that a kernel of a segment may follow.

        -1 for the program's start.
        """
        size = 0
        for earlier in reversed(range(number)):
            size += self.program.size(self._own(earlier))
            if size >= MOST_OPERATORS:
                return earlier
        return -1

    def _own(self, number: int) -> Group:
        """The operators of a segment."""
        own = 0
        for unit in self.program.segments[number].units:
            own |= unit.whole
        return own

    def _place(self, number: int) -> Place:
        """The stretch that ends in a segment: an earlier one that looks like it, or a new one."""
        reach = self._reach(number)
        segments = self.program.segments
        start = segments[max(reach, 0)].start.bit_count() if len(segments) > 1 else 0
        end = len(self.program.operators)
        if number + 1 < len(segments):
            end = segments[number + 1].start.bit_count()
        sizes = [
            segment.start.bit_count() - start for segment in segments[max(reach, 0) : number + 1]
        ]
        look = (reach < 0, *sizes, *look_of(self.program, start, end, self.parts))
        if look not in self.stretches:
            self.stretches[look] = self._stretch(number, reach, start)
        return Place(self.stretches[look], start)

    def _stretch(self, number: int, reach: int, start: int) -> Stretch:
        """The steps to the prefixes that end in a segment."""
        segment = self.program.segments[number]
        prefixes = self.program.prefixes(segment.start, segment.units)
        size_of = self.program.size
        earlier: list[tuple[int, int, Group, int]] = []
        if reach < 0:
            first = self.program.segments[0].start
            earlier.append((number + 1, 0, first, size_of(first)))
        for other in range(max(reach, 0), number):
            ends = self.places[other].prefixes()
            earlier += [
                (number - other, place, prefix, size_of(prefix))
                for place, prefix in enumerate(ends)
            ]
        steps: list[list[Step]] = []
        for place, prefix in enumerate(prefixes):
            steps.append([])
            size = size_of(prefix)
            for back, before, shorter, least in earlier:
                if shorter | prefix != prefix:
                    continue
                self.looked_at += 1
                if size - least > MOST_OPERATORS:
                    continue
                added = prefix ^ shorter
                if added not in self.kernels:
                    self.kernels[added] = self._kernel(added)
                group = self.kernels[added]
                if group:
                    steps[-1].append(Step(back, before, group, added ^ group))
            earlier.append((0, place, prefix, size))
        return Stretch(start, prefixes, steps)

    def _kernel(self, added: Group) -> Group:
        """What a kernel computes of what a step adds; nothing where it cannot be one kernel."""
        group = self.program.without_loose_views(added)
        if group in self.refused:
            return 0
        if group not in self.times:
            possible = self.program.is_connected(group)
            possible = possible and all(part & ~group for part in self.impossible)
            time = self.bound(group) if possible else math.inf
            if time == math.inf:
                self.refused.add(group)
                return 0
            self.times[group] = time
        return group if self.times[group] < math.inf else 0

    @property
    def gap(self) -> float:
        """How much more than at least a kernel is taken to take that was not tried, as a part."""
        steps = max(self.tried() - EXACT_TRIES, 0) // TRIES_A_STEP
        return min(GAP_A_STEP * steps, LARGEST_GAP)

    def _assumed(self, groups: Iterable[Group]) -> dict[Group, float]:
        """What some groups take, or are taken to take where that is not known."""
        gap = self.gap
        if not gap:
            return {group: self.times[group] for group in groups}
        products, least = self.program.products, dict[Group, float]()
        assumed: dict[Group, float] = {}
        for group in groups:
            assumed[group] = time = self.times[group]
            if group not in self.known:
                own = group & products
                if own not in least:
                    least[own] = LIKE_OTHERS * self._least_with(own)
                assumed[group] = time + gap * min(time, MOST_TO_SAVE)
                if 2 * time < least[own]:
                    assumed[group] = max(assumed[group], least[own])
        return assumed

    def _not_tried(self) -> list[Group]:
        """Groups that may be kernels and are taken to take what is known of others."""
        return [
            group
            for group, time in self.times.items()
            if time < math.inf and group not in self.known
        ]

    def _least_with(self, products: Group) -> float:
        """What kernels take that were tried with some products, or with several of them."""
        parts = self.fastest.items()
        return max((time for part, time in parts if not part & ~products), default=0.0)

    def _learn(self, found: Mapping[Group, float]) -> bool:
        """Notes what kernels with several products take; whether that changes what others may."""
        before = dict(self.fastest)
        for group, time in found.items():
            products = group & self.program.products
            if products.bit_count() > 1 and time < self.fastest.get(products, math.inf):
                self.fastest[products] = time
        return self.fastest != before

    def _refined(self, places: Sequence[Place]) -> list[tuple[Place, Step]]:
        """The way of least time through what there is and places behind it, or nearly.

        Its costs are known.
        """
        self.ways.times.update(self._assumed(self.times))
        self.ways.extend(places)
        while True:
            way, gap, learned = self.ways.best(), self.gap, False
            open_ = dict.fromkeys(step.group for _, step in way if step.group not in self.known)
            if not open_:
                self.least = self._least_time() if gap else None
                return way
            bounded = [group for group in open_ if group not in self.sharpened]
            found = {group: self.sharper_bound(group) for group in bounded}
            found = {group: time for group, time in found.items() if time > self.times[group]}
            self.sharpened.update(bounded)
            if not bounded:
                self.try_at_once(open_)
                found = {group: self.cost(group) for group in self._alike(open_)}
                self.known.update(found)
                learned = self._learn(found)
            found |= self._ruled_out()
            self.times.update(found)
            if self.gap != gap or (learned and gap):
                found = dict.fromkeys((*found, *self._not_tried()))
            self.ways.change(self._assumed(found))

    def _least_time(self) -> float:
        """What the best way takes at least, by what is known of its steps."""
        ways = Ways(self.times)
        ways.extend(self.ways.places)
        return ways.time

    def _alike(self, groups: Iterable[Group]) -> list[Group]:
        """Some groups, and all that are like them: what one of them takes, each takes."""
        for group in itertools.islice(self.times, self.filed, None):
            if self.times[group] < math.inf:
                self.of_kinds[self.kinds(group)].append(group)
        self.filed = len(self.times)
        structures = {self.structure(group): self.kinds(group) for group in groups}
        return [
            group
            for structure, kinds in structures.items()
            for group in self.of_kinds[kinds]
            if self.structure(group) == structure
        ]

    def _ruled_out(self) -> dict[Group, float]:
        """No group is a kernel that has one of those that have been found not to be one."""
        new = self.impossible[self.excluded :]
        self.excluded += len(new)
        if not new:
            return {}
        return {
            group: math.inf
            for group, time in self.times.items()
            if time < math.inf and any(not part & ~group for part in new)
        }
