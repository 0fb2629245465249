"""What threads that do the same have begun while a block is followed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import SSAValue

from mugraph.passes.texpr.analysis.hazards.clocks import IntArray
from mugraph.passes.texpr.analysis.hazards.shadow import Event
from mugraph.passes.texpr.analysis.turns import Role

_OPEN, _OVER = -1, -2
"""In the place of a group's number: no group yet, and waited for."""


class Engine:
    """Reads of an engine that threads below a number have begun: of each row its thread's group."""

    def __init__(self, threads: int) -> None:
        self._begun: list[tuple[Event, IntArray]] = []
        self._closed = np.zeros(threads, np.int64)
        """How many groups each thread has closed."""

    @property
    def under_way(self) -> list[Event]:
        """Those that are not over."""
        return [event for event, _ in self._begun]

    def begin(self, events: Sequence[Event]) -> None:
        """Threads begin these."""
        self._begun += [(one, np.full(len(one.threads), _OPEN)) for one in events]

    def commit(self, threads: IntArray) -> None:
        """Threads close the group of what each has begun since the last time."""
        for event, groups in self._begun:
            now = (groups == _OPEN) & np.isin(event.threads, threads)
            groups[now] = self._closed[event.threads[now]]
        self._closed[threads] += 1

    def finish(self, threads: IntArray, left: int) -> list[Event]:
        """Threads wait for all but the newest groups of each: what is over now."""
        for event, groups in self._begun:
            waited = groups < self._closed[event.threads] - left
            groups[waited & (groups != _OPEN) & np.isin(event.threads, threads)] = _OVER
        over = [event for event, groups in self._begun if (groups == _OVER).all()]
        self._begun = [one for one in self._begun if (one[1] != _OVER).any()]
        return over


@dataclass(eq=False)
class FollowedRole(Role):
    """Threads that do the same, the values of variables that they share, what they have begun."""

    values: dict[SSAValue, int]
    first: int = 0
    """The first thread of its block, of all that are followed."""
    products: Engine = field(init=False)
    stores: Engine = field(init=False)
    is_fenced: bool = False
    """Whether a ``te.warpgroup_fence`` stands behind all that touched sums of products."""

    def __post_init__(self) -> None:
        self.products, self.stores = (Engine(int(self.threads.max()) + 1) for _ in range(2))

    def under_way(self) -> Iterator[Event]:
        """The reads by engines that are not over."""
        yield from self.products.under_way
        yield from self.stores.under_way
