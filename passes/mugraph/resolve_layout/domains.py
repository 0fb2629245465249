"""A :class:`LayoutProblem` as variables of several values and tables of costs.

Of the variables of a group at most one holds, so that the group is one choice of few values: the
innermost dimension of a tensor, say.  Constraints and costs become tables over the choices that
they mention.  One number ranks everything: broken preferences weigh more than all costs together,
costs more than the order of dimensions, and what the hard constraints forbid more than all else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.utils.disjoint_set import IntDisjointSet

from mugraph.dialects.layout_problem import LayoutProblem, Literal, Role, Variable

Table: TypeAlias = npt.NDArray[np.object_]
"""Python integers of any size, one axis a choice."""


class Factor(NamedTuple):
    """A cost table over the choices of ``scope``, in ascending order."""

    scope: tuple[int, ...]
    table: Table


class Scale(NamedTuple):
    """What one broken preference and one unit of cost count for in a table.

    ``forbidden`` is more than any assignment that the hard constraints allow.
    """

    preference: int
    cost: int
    forbidden: int

    def split(self, total: int) -> tuple[int, int]:
        """Broken preferences and cost of a total."""
        broken, rest = divmod(total, self.preference)
        return broken, rest // self.cost


@dataclass
class Domains:
    """The values of every choice (``None``: no variable of the group holds), and the tables."""

    values: list[tuple[Variable | None, ...]]
    factors: list[Factor]
    scale: Scale

    def variables_of(self, assignment: Sequence[int]) -> set[Variable]:
        """The variables that hold under an assignment, one index of a value for each choice."""
        chosen = (self.values[choice][index] for choice, index in enumerate(assignment))
        return {variable for variable in chosen if variable is not None}


def domains_of(problem: LayoutProblem) -> Domains:
    """The problem as choices and tables.

    Of equal totals there are none that differ in a tensor's layout: the innermost dimension of
    an earlier tensor weighs more than those of all later ones together that have to do with it,
    the latest dimension being the cheapest, and padded rows come before those that are not.
    """
    groups = _groups(problem)
    places = {
        variable: (choice, index)
        for choice, group in enumerate(groups)
        for index, variable in enumerate(group)
        if variable is not None
    }
    ranked = {
        choice
        for choice, group in enumerate(groups)
        if any(v is not None and v.role in (Role.INNERMOST, Role.TIGHT) for v in group)
    }
    together: dict[tuple[Literal, ...], int] = {}
    for soft in problem.soft:
        together[soft.when] = together.get(soft.when, 0) + soft.weight
    parts = _independent(problem, together, groups, places)
    ordered = [[choice for choice in part if choice in ranked] for part in parts]
    unit = 1 + sum(math.prod(len(groups[choice]) for choice in part) - 1 for part in ordered)
    costs = sum(together.values()) + 1
    scale = Scale(unit * costs, unit, unit * costs * (len(problem.preferences) + 1))
    tables = _Tables([len(group) for group in groups], places, scale)

    for clause in problem.clauses:
        tables.add([literal.negated() for literal in clause.literals], scale.forbidden)
    for preference in problem.preferences:
        tables.add([literal.negated() for literal in preference.literals], scale.preference)
    for when, weight in together.items():
        tables.add(when, weight * scale.cost)
    for group in problem.exactly_one:
        tables.add_count(group, 1, scale.forbidden)
    for group in problem.at_most_one:
        tables.add_count(group, 0, scale.forbidden)
    for part in ordered:
        step = 1
        for choice in reversed(part):
            order = np.array([place * step for place in range(len(groups[choice]))], dtype=object)
            tables.add_table((choice,), order)
            step *= len(groups[choice])
    return Domains(groups, tables.factors(), scale)


def _independent(
    problem: LayoutProblem,
    costs: Iterable[tuple[Literal, ...]],
    groups: Sequence[tuple[Variable | None, ...]],
    places: Mapping[Variable, tuple[int, int]],
) -> list[list[int]]:
    """The choices in parts that meet, if at all, in choices that are settled.

    Kernels meet in tensors of which the layout is given: numbers that rank the choices of one part
    need not grow with the number of parts.
    """
    left = [len(group) for group in groups]
    for literals in {clause.literals for clause in problem.clauses if len(clause.literals) == 1}:
        ((variable, positive),) = literals
        choice = places[variable][0]
        left[choice] = 1 if positive else left[choice] - 1
    mentioned = [
        *(clause.literals for clause in problem.clauses),
        *(preference.literals for preference in problem.preferences),
        *costs,
    ]
    connected = IntDisjointSet(size=len(groups))
    scopes = {tuple(places[variable][0] for variable, _ in literals) for literals in mentioned}
    for group in (*problem.exactly_one, *problem.at_most_one):
        scopes.add(tuple(places[variable][0] for variable in group))
    for scope in scopes:
        free = [choice for choice in scope if left[choice] > 1]
        for choice in free[1:]:
            connected.union(free[0], choice)
    return _members(connected, len(groups))


def _groups(problem: LayoutProblem) -> list[tuple[Variable | None, ...]]:
    """Disjoint groups of which one variable at most can hold; tensors in order of their numbers."""
    groups: list[tuple[Variable | None, ...]] = []
    grouped: set[Variable] = set()

    def add(variables: Iterable[Variable], values: tuple[Variable | None, ...]) -> None:
        groups.append(values)
        grouped.update(variables)

    for group in problem.exactly_one:
        if grouped.isdisjoint(group) and len(set(group)) == len(group):
            add(group, tuple(sorted(group, key=_canonical)))
    for group in problem.at_most_one:
        if grouped.isdisjoint(group) and len(set(group)) == len(group):
            add(group, (None, *sorted(group, key=_canonical)))
    for variable in problem.variables:
        if variable not in grouped:
            add([variable], (None, variable))
    return sorted(groups, key=lambda group: min(_group_key(v) for v in group if v is not None))


def _canonical(variable: Variable) -> tuple[int, str, int]:
    """The latest dimension first where the innermost one is meant."""
    dim = -variable.dim if variable.role is Role.INNERMOST else variable.dim
    return variable.owner, variable.role.value, dim


_ROLES = (Role.INNERMOST, Role.TIGHT, Role.PERMUTED)


def _group_key(variable: Variable) -> tuple[int, int, int]:
    return variable.owner, _ROLES.index(variable.role), variable.dim


class _Tables:
    """Collects what is charged, one table for each set of choices."""

    def __init__(
        self, sizes: Sequence[int], places: dict[Variable, tuple[int, int]], scale: Scale
    ) -> None:
        self.sizes = sizes
        self.places = places
        self.scale = scale
        self.tables: dict[tuple[int, ...], Table] = {}

    def table(self, scope: tuple[int, ...]) -> Table:
        if scope not in self.tables:
            shape = tuple(self.sizes[choice] for choice in scope)
            self.tables[scope] = np.zeros(shape, dtype=object)
        return self.tables[scope]

    def add_table(self, scope: tuple[int, ...], table: Table) -> None:
        self.tables[scope] = self.table(scope) + table

    def add(self, when: Iterable[Literal], weight: int) -> None:
        """Adds ``weight`` where all literals hold."""
        allowed: dict[int, set[int]] = {}
        for variable, positive in when:
            choice, index = self.places[variable]
            indices = {index} if positive else set(range(self.sizes[choice])) - {index}
            allowed[choice] = allowed.get(choice, indices) & indices
        scope = tuple(sorted(allowed))
        table = self.table(scope)
        for entry in product(*(sorted(allowed[choice]) for choice in scope)):
            table[entry] += weight

    def add_count(self, group: Sequence[Variable], least: int, weight: int) -> None:
        """Adds ``weight`` where fewer than ``least`` variables hold, or more than one."""
        scope = tuple(sorted({self.places[variable][0] for variable in group}))
        table = self.table(scope)
        for indices in product(*(range(self.sizes[choice]) for choice in scope)):
            value_of = dict(zip(scope, indices, strict=True))
            count = sum(
                value_of[choice] == index for choice, index in (self.places[v] for v in group)
            )
            if not least <= count <= 1:
                table[indices] += weight

    def factors(self) -> list[Factor]:
        """The tables that are not all 0, none of their entries over ``forbidden``."""
        forbidden: Any = self.scale.forbidden
        return [
            Factor(scope, np.asarray(np.minimum(table, forbidden), dtype=object))
            for scope, table in sorted(self.tables.items())
            if table.any()
        ]


def components(count: int, factors: Sequence[Factor]) -> list[list[int]]:
    """The choices that tables connect, each component and all of them in ascending order."""
    connected = IntDisjointSet(size=count)
    for factor in factors:
        for choice in factor.scope[1:]:
            connected.union(factor.scope[0], choice)
    return _members(connected, count)


def _members(connected: IntDisjointSet, count: int) -> list[list[int]]:
    members: dict[int, list[int]] = {}
    for choice in range(count):
        members.setdefault(connected[choice], []).append(choice)
    return list(members.values())


def total_of(factors: Iterable[Factor], assignment: Mapping[int, int]) -> int:
    """The sum of all tables under an assignment."""
    return sum(
        factor.table[tuple(assignment[choice] for choice in factor.scope)] for factor in factors
    )


def scope_of(factors: Iterable[Factor]) -> tuple[int, ...]:
    """All choices that some factor mentions."""
    return tuple(sorted(set(chain.from_iterable(factor.scope for factor in factors))))
