"""What a solver of a :class:`LayoutProblem` gives: a choice, its cost, and a bound of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from mugraph.dialects.layout_problem import LayoutProblem, Literal, Role, Variable


@dataclass(frozen=True)
class Solution:
    """The layout of each tensor, by number, what it costs, and what no choice can go below.

    ``bound`` and ``broken_bound`` limit the pair of broken preferences and cost, compared in that
    order.  ``chosen`` are all variables that hold.
    """

    innermost: Mapping[int, int]
    tight: frozenset[int]
    cost: int
    broken_preferences: int
    bound: int
    broken_bound: int
    chosen: frozenset[Variable] = field(compare=False, default=frozenset())

    @property
    def is_optimal(self) -> bool:
        """Whether no choice breaks fewer preferences, or as many at less cost."""
        return (self.broken_preferences, self.cost) == (self.broken_bound, self.bound)


class UnsatisfiableLayouts(Exception):
    """No choice meets the hard constraints; ``reasons`` are those of a contradictory few."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


class StepsExhausted(Exception):
    """The steps allowed to a solver did not suffice to find any choice."""


def holds(literal: Literal, true_variables: AbstractSet[Variable]) -> bool:
    """Whether a literal holds when exactly ``true_variables`` are true."""
    return (literal.variable in true_variables) is literal.positive


def price_of(problem: LayoutProblem, true_variables: AbstractSet[Variable]) -> tuple[int, int]:
    """The preferences that an assignment breaks, and what it costs."""
    cost = sum(
        soft.weight
        for soft in problem.soft
        if all(holds(literal, true_variables) for literal in soft.when)
    )
    cost += sum(each.price(true_variables) for each in problem.bounded)
    broken = sum(
        not any(holds(literal, true_variables) for literal in preference.literals)
        for preference in problem.preferences
    )
    return broken, cost


def solution_of(
    problem: LayoutProblem,
    true_variables: AbstractSet[Variable],
    bound: tuple[int, int] | None = None,
) -> Solution:
    """An assignment that meets the hard constraints; the best there is unless a bound is given."""
    innermost = {
        variable.owner: variable.dim
        for variable in problem.variables
        if variable.role is Role.INNERMOST and variable in true_variables
    }
    tight = frozenset(
        variable.owner
        for variable in problem.variables
        if variable.role is Role.TIGHT and variable in true_variables
    )
    broken, cost = price_of(problem, true_variables)
    broken_bound, cost_bound = (broken, cost) if bound is None else bound
    everything = frozenset(true_variables)
    return Solution(innermost, tight, cost, broken, cost_bound, broken_bound, everything)


def layout_choices(problem: LayoutProblem) -> list[list[Variable]]:
    """What decides the layout of each tensor, in the order of their numbers.

    First the innermost variables of a tensor, the latest dimension first; then, as a list of one,
    whether it is tight.  Of equally good solutions the canonical one takes, list by list, the
    first innermost dimension that is possible and no tightness.
    """
    lists: dict[tuple[int, bool], list[Variable]] = {}
    laid_out: Iterable[Variable] = sorted(
        (v for v in problem.variables if v.role in (Role.INNERMOST, Role.TIGHT)),
        key=lambda v: (v.owner, v.role is Role.TIGHT, -v.dim),
    )
    for variable in laid_out:
        lists.setdefault((variable.owner, variable.role is Role.TIGHT), []).append(variable)
    return list(lists.values())
