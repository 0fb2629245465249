"""The way of least time through the prefixes of a program, kept while times become known."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from mugraph.passes.program.fuse_kernels.errors import NoKernelError
from mugraph.passes.program.fuse_kernels.groups import Group


class Step(NamedTuple):
    """A way from one prefix to a longer one."""

    back: int
    """How many segments before the longer one's the shorter one ends."""
    before: int
    """Its number in that segment."""
    group: Group
    """What a kernel computes."""
    views: Group
    """Views of that which others use."""


@dataclass(frozen=True)
class Stretch:
    """The prefixes that end in a segment, and the ways to each, where the first one like it is."""

    start: int
    """The number of the first operator that a step may have; prefixes have all before it."""
    prefixes: Sequence[Group]
    steps: Sequence[Sequence[Step]]

    @cached_property
    def groups(self) -> frozenset[Group]:
        """What kernels of its steps compute."""
        return frozenset(step.group for steps in self.steps for step in steps)

    @cached_property
    def reach(self) -> int:
        """How many segments before its own a step may start, at most."""
        return max((step.back for steps in self.steps for step in steps), default=0)


class Place(NamedTuple):
    """Where a stretch stands."""

    stretch: Stretch
    start: int

    def moved(self, group: Group) -> Group:
        """What a group of the stretch is here."""
        return group >> self.stretch.start << self.start

    def prefixes(self) -> list[Group]:
        """The prefixes that end here."""
        before = (1 << self.start) - 1
        return [self.moved(prefix) | before for prefix in self.stretch.prefixes]


@dataclass
class Ways:
    """The least time to each prefix of places in a row, and the last step to it."""

    times: dict[Group, float]
    """What each group takes that a step has, or at least takes."""
    places: list[Place] = field(default_factory=list[Place])
    least: list[list[float]] = field(default_factory=lambda: [[0.0]])
    """Of the prefixes that end in each place; before all of them the start."""
    last: list[list[Step | None]] = field(default_factory=list[list[Step | None]])

    def extend(self, places: Sequence[Place]) -> None:
        """Adds places behind the others."""
        for place in places:
            self.places.append(place)
            self.least.append([math.inf] * len(place.stretch.steps))
            self.last.append([None] * len(place.stretch.steps))
            for prefix, steps in enumerate(place.stretch.steps):
                self._choose(len(self.last) - 1, prefix, steps)

    def change(self, times: Mapping[Group, float]) -> None:
        """Some groups take other times than was known.

        Where times only grow, a way stays the best one until a step of it takes longer: few
        prefixes are looked at again.
        """
        is_growth = all(time >= self.times[group] for group, time in times.items())
        self.times.update(times)
        longer: list[set[int]] = [set()]
        stretches = {id(place.stretch): place.stretch for place in self.places}
        untouched = {each for each, of in stretches.items() if of.groups.isdisjoint(times)}
        for number, place in enumerate(self.places):
            own = set[int]()
            longer.append(own)
            first = max(number + 1 - place.stretch.reach, 0)
            if is_growth and id(place.stretch) in untouched and not any(longer[first:-1]):
                continue
            least = self.least[number + 1]
            for prefix, steps in enumerate(place.stretch.steps):
                step, before = self.last[number][prefix], least[prefix]
                if is_growth and not _is_changed(step, number, longer, times):
                    continue
                self._choose(number, prefix, steps)
                if least[prefix] != before:
                    own.add(prefix)

    def _choose(self, number: int, prefix: int, steps: Sequence[Step]) -> None:
        """Chooses the last step to a prefix."""
        best, best_step = math.inf, None
        for step in steps:
            back, before, group, _ = step
            time = self.least[number + 1 - back][before] + self.times[group]
            if time < best:
                best, best_step = time, step
        self.least[number + 1][prefix] = best
        self.last[number][prefix] = best_step

    @property
    def time(self) -> float:
        """What the best way takes, as far as times are known; at least that."""
        return self.least[-1][-1]

    def best(self) -> list[tuple[Place, Step]]:
        """The way of least time to the end of the last place, as far as times are known.

        Raises :class:`NoKernelError` where operators that are searched together are no kernel.
        """
        way: list[tuple[Place, Step]] = []
        number, prefix = len(self.places) - 1, len(self.places[-1].stretch.prefixes) - 1
        while number >= 0:
            step = self.last[number][prefix]
            if step is None:
                raise NoKernelError
            way.append((self.places[number], step))
            number, prefix = number - step.back, step.before
        return way[::-1]


def _is_changed(
    step: Step | None, number: int, longer: Sequence[set[int]], groups: Container[Group]
) -> bool:
    """Whether a step to a prefix of a place takes longer, or what leads to it does."""
    if step is None:
        return False
    return step.before in longer[number + 1 - step.back] or step.group in groups
