"""Threads that do the same while a block is followed, and what they have begun."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.te.points import Rows
from mugraph.passes.texpr.analysis.hazards.shadow import Event

Course: TypeAlias = Generator[Operation]
"""What a role does; it gives the operator that it waits at, and is asked again later."""


@dataclass(eq=False)
class Role:
    """Threads that do the same, and what they have begun."""

    threads: Rows
    values: dict[SSAValue, int]
    course: Course = field(init=False)
    waits_at: Operation | None = None
    products: list[Event] = field(default_factory=list[Event])
    product_groups: deque[list[Event]] = field(default_factory=deque[list[Event]])
    stores: list[Event] = field(default_factory=list[Event])
    store_groups: deque[list[Event]] = field(default_factory=deque[list[Event]])
    closed: int = 0
    """How many groups of copies each of its threads has closed."""
    met: dict[int, int] = field(default_factory=dict[int, int])
    """How often it has come to each barrier; 0 is that of the block."""
    is_fenced: bool = False
    """Whether a ``te.warpgroup_fence`` stands behind all that touched sums of products."""

    def under_way(self) -> Iterator[Event]:
        """The reads by engines that are not over."""
        for groups in (self.product_groups, self.store_groups):
            for group in groups:
                yield from group
        yield from self.products
        yield from self.stores
