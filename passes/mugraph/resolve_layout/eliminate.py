"""Solves choices and tables by dynamic programming over the graph of tensors.

First, values that another value of the same choice beats whatever the others are do not count
(dead-end elimination).  Then choices are eliminated one by one, fewest neighbours first: the
tables that mention a choice become one over its neighbours, of the least totals.  That is exact,
and quick while neighbourhoods stay small, as they do in µGraphs.  Where a table would have more
than ``table_limit`` entries the tables are minimised in parts (mini-buckets), which leaves a lower
bound, and an assignment that meets it or not.

All limits are counts of table entries, so that a result does not depend on the machine.
Sources: Desmet et al., "The dead-end elimination theorem", Nature 356 (1992); Dechter and Rish,
"Mini-buckets", JACM 50 (2003).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from mugraph.passes.mugraph.resolve_layout.domains import Factor, Table

TABLE_LIMIT = 1 << 16
"""Entries of one table; some 65,000 Python additions.

T5 with two layers is exact from 16,384 on, and its layouts are resolved in 4 s.  With 4,096 that
took 27 s, most of them in Z3, which could not show that nothing costs less.
"""


class Elimination(NamedTuple):
    """An assignment, by choice, and a lower bound of every assignment's total."""

    assignment: dict[int, int]
    bound: int


def drop_dominated(
    factors: Sequence[Factor], allowed: dict[int, list[int]]
) -> tuple[list[Factor], dict[int, list[int]]]:
    """The factors without the values that others beat, and the values that remain, by choice.

    ``allowed`` gives the values that the tables have, in order.  Choices of a single value vanish
    from the factors' scopes.  Of values that are equal in everything the first remains.
    """
    current = dict(enumerate(factors))
    by_choice: dict[int, set[int]] = {choice: set() for choice in allowed}
    for number, factor in current.items():
        for choice in factor.scope:
            by_choice[choice].add(number)
    remaining = {choice: list(values) for choice, values in allowed.items()}
    pending = dict.fromkeys(allowed)
    while pending:
        choice = next(iter(pending))
        del pending[choice]
        kept = _undominated([current[number] for number in sorted(by_choice[choice])], choice)
        if kept is None or len(kept) == len(remaining[choice]):
            continue
        remaining[choice] = [remaining[choice][index] for index in kept]
        for number in sorted(by_choice[choice]):
            current[number] = _sliced(current[number], choice, kept)
            for other in current[number].scope:
                if other != choice:
                    pending[other] = None
        if len(kept) == 1:
            by_choice[choice].clear()
    return list(current.values()), remaining


def _undominated(factors: Sequence[Factor], choice: int) -> list[int] | None:
    """The indices of the values that no other beats; ``None`` where no factor has a say."""
    if not factors:
        return None
    worst: Any = 0
    for factor in factors:
        rows = np.moveaxis(factor.table, factor.scope.index(choice), 0)
        rows = rows.reshape(rows.shape[0], -1)
        # worst[b, a]: how much more b can cost than a.
        worst = worst + (rows[:, None, :] - rows[None, :, :]).max(axis=2)
    kept = list(range(worst.shape[0]))
    for value in reversed(range(worst.shape[0])):
        if any(other != value and worst[other, value] <= 0 for other in kept):
            kept.remove(value)
    return kept


def _sliced(factor: Factor, choice: int, kept: Sequence[int]) -> Factor:
    axis = factor.scope.index(choice)
    if len(kept) == 1:
        scope = (*factor.scope[:axis], *factor.scope[axis + 1 :])
        taken: Any = np.take(factor.table, kept[0], axis=axis)
        return Factor(scope, np.asarray(taken, dtype=object))
    return Factor(factor.scope, np.take(factor.table, kept, axis=axis))


def elimination_order(factors: Sequence[Factor], sizes: dict[int, int]) -> list[int]:
    """Each time the choice whose neighbourhood makes the smallest table, the earliest of those."""
    neighbours: dict[int, set[int]] = {choice: set() for choice in sizes}
    for factor in factors:
        for choice in factor.scope:
            neighbours[choice].update(other for other in factor.scope if other != choice)
    weight = {choice: _entries(neighbours[choice], sizes) for choice in sorted(sizes)}
    order: list[int] = []
    while weight:
        choice = min(weight, key=weight.__getitem__)
        del weight[choice]
        order.append(choice)
        around = neighbours.pop(choice)
        for other in around:
            neighbours[other] |= around
            neighbours[other] -= {other, choice}
        for other in around:
            weight[other] = _entries(neighbours[other], sizes)
    return order


def _entries(choices: Iterable[int], sizes: dict[int, int]) -> int:
    return math.prod(sizes[choice] for choice in choices)


def eliminate(
    factors: Sequence[Factor], sizes: dict[int, int], table_limit: int = TABLE_LIMIT
) -> Elimination:
    """A good assignment to the choices of ``sizes`` and a bound; optimal where they are equal."""
    order = elimination_order(factors, sizes)
    place = {choice: index for index, choice in enumerate(order)}
    buckets: dict[int, list[Factor]] = {choice: [] for choice in order}
    bound = 0

    def file(factor: Factor) -> int:
        """Puts a factor where its first choice is eliminated; returns what has none."""
        if not factor.scope:
            return cast(int, factor.table[()])
        buckets[min(factor.scope, key=place.__getitem__)].append(factor)
        return 0

    for factor in factors:
        bound += file(factor)
    for choice in order:
        for part in _parts(buckets[choice], sizes, table_limit):
            total = _sum(part, sizes)
            least = total.table.min(axis=total.scope.index(choice))
            scope = tuple(other for other in total.scope if other != choice)
            bound += file(Factor(scope, np.asarray(least, dtype=object)))
    assignment: dict[int, int] = {}
    for choice in reversed(order):
        totals: Any = np.zeros(sizes[choice], dtype=object)
        for factor in buckets[choice]:
            index = tuple(slice(None) if c == choice else assignment[c] for c in factor.scope)
            totals = totals + factor.table[index]
        assignment[choice] = int(np.argmin(totals))
    return Elimination(assignment, bound)


def _parts(
    factors: Sequence[Factor], sizes: dict[int, int], table_limit: int
) -> list[list[Factor]]:
    """The factors in groups whose sums have at most so many entries; one group where that fits."""
    parts: list[tuple[set[int], list[Factor]]] = []
    for factor in sorted(factors, key=lambda factor: -len(factor.scope)):
        for scope, members in parts:
            if _entries(scope | set(factor.scope), sizes) <= table_limit:
                scope.update(factor.scope)
                members.append(factor)
                break
        else:
            parts.append((set(factor.scope), [factor]))
    return [members for _, members in parts]


def _sum(factors: Sequence[Factor], sizes: dict[int, int]) -> Factor:
    scope = tuple(sorted({choice for factor in factors for choice in factor.scope}))
    total: Table = np.zeros(tuple(sizes[choice] for choice in scope), dtype=object)
    for factor in factors:
        shape = tuple(sizes[choice] if choice in factor.scope else 1 for choice in scope)
        total = total + factor.table.reshape(shape)
    return Factor(scope, total)
