"""What threads that do the same have begun while a block is followed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from mugraph.passes.texpr.analysis.hazards.shadow import Event
from mugraph.passes.texpr.analysis.turns import Role


@dataclass(eq=False)
class FollowedRole(Role):
    """Threads that do the same, the values of variables that they share, what they have begun."""

    values: dict[SSAValue, int]
    first: int = 0
    """The first thread of its block, of all that are followed."""
    products: list[Event] = field(default_factory=list[Event])
    product_groups: deque[list[Event]] = field(default_factory=deque[list[Event]])
    stores: list[Event] = field(default_factory=list[Event])
    store_groups: deque[list[Event]] = field(default_factory=deque[list[Event]])
    closed: int = 0
    """How many groups of copies each of its threads has closed."""
    is_fenced: bool = False
    """Whether a ``te.warpgroup_fence`` stands behind all that touched sums of products."""

    def under_way(self) -> Iterator[Event]:
        """The reads by engines that are not over."""
        for groups in (self.product_groups, self.store_groups):
            for group in groups:
                yield from group
        yield from self.products
        yield from self.stores
