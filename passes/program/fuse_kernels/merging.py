"""Joins kernels of a program two by two, while that takes less time.

A partition that was found for other extents is a good one, but few rows let more operators share a
kernel than many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mugraph.passes.program.fuse_kernels.fusion import Fusion
from mugraph.passes.program.fuse_kernels.groups import Group, Program, bits


class Merge(NamedTuple):
    """Two kernels of an order as one, and the order with it."""

    group: Group
    groups: list[Group]


def _needed(program: Program, group: Group) -> Group:
    """What a group uses of others."""
    needed = 0
    for number in bits(group):
        needed |= program.needed[number]
    return needed & ~group


def merge_of(program: Program, groups: Sequence[Group], first: int, second: int) -> Merge | None:
    """Two groups of an order as one; ``None`` where others stand between them."""
    added, early, late = groups[first], list[Group](), list[Group]()
    for group in groups[first + 1 : second]:
        needed = _needed(program, group)
        if any(needed & other for other in late) or (needed & added and group & ~program.views):
            late.append(group)
        elif needed & added:
            added |= group  # a view of what the first one computes
        else:
            early.append(group)
    if any(_needed(program, groups[second]) & other for other in late):
        return None
    added |= groups[second]
    group = program.without_loose_views(added)
    views = [1 << number for number in bits(added ^ group)]
    order = [*groups[:first], *early, group, *views, *late, *groups[second + 1 :]]
    return Merge(group, order)


def _best_merge(fusion: Fusion, groups: Sequence[Group]) -> Merge | None:
    """The two kernels of which one saves most, if one does."""
    program = fusion.program
    kernels = [number for number, group in enumerate(groups) if group & ~program.views]
    best, most = None, 0.0
    for place, first in enumerate(kernels):
        for second in kernels[place + 1 :]:
            merge = merge_of(program, groups, first, second)
            if merge is None or not program.is_connected(merge.group):
                continue
            apart = fusion.cost(groups[first]) + fusion.cost(groups[second])
            if fusion.bound(merge.group) < apart - most:
                saved = apart - fusion.cost(merge.group)
                if saved > most:
                    best, most = merge, saved
    return best


def merged(fusion: Fusion, groups: Sequence[Group]) -> list[Group]:
    """The groups, of which two are joined as long as some two take longer than one."""
    found = list(groups)
    while (merge := _best_merge(fusion, found)) is not None:
        found = merge.groups
    return found
