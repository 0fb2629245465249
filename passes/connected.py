"""Things that share something, directly or through others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Thing = TypeVar("Thing")


def connected(
    things: Iterable[Thing], keys_of: Callable[[Thing], Iterable[Hashable]]
) -> list[list[Thing]]:
    """Groups of things: those of one key are in one group, in the order given."""
    groups: list[tuple[list[Thing], set[Hashable]]] = []
    for thing in things:
        mine = ([thing], set(keys_of(thing)))
        apart: list[tuple[list[Thing], set[Hashable]]] = []
        for group in groups:
            if group[1] & mine[1]:
                mine = ([*group[0], *mine[0]], group[1] | mine[1])
            else:
                apart.append(group)
        groups = [*apart, mine]
    return [group for group, _ in groups]
