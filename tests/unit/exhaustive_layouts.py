"""Trying all layouts: what the solvers are held against, on small problems."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from mugraph.dialects.layout_problem import Clause, LayoutProblem, Role, SoftCost, Variable
from mugraph.passes.mugraph.resolve_layout.solution import (
    Solution,
    UnsatisfiableLayouts,
    holds,
    layout_choices,
    solution_of,
)


def solve_exhaustively(problem: LayoutProblem) -> Solution:
    """The best choice, by trying all; for small problems, as a check of the other solver.

    Raises :class:`UnsatisfiableLayouts`, with all reasons there are.
    """
    best = _Enumeration(problem).best
    if best is None:
        raise UnsatisfiableLayouts(list(dict.fromkeys(c.reason for c in problem.clauses)))
    return solution_of(problem, best)


def is_satisfied(problem: LayoutProblem, true_variables: AbstractSet[Variable]) -> bool:
    """Whether an assignment meets every hard constraint."""
    return (
        all(any(holds(literal, true_variables) for literal in c.literals) for c in problem.clauses)
        and all(len(true_variables & {*group}) == 1 for group in problem.exactly_one)
        and all(len(true_variables & {*group}) <= 1 for group in problem.at_most_one)
    )


@dataclass
class _Due:
    """What an enumeration checks and pays once a variable and all before it have their values."""

    clauses: list[Clause] = field(default_factory=list[Clause])
    exactly_one: list[tuple[Variable, ...]] = field(default_factory=list[tuple[Variable, ...]])
    at_most_one: list[tuple[Variable, ...]] = field(default_factory=list[tuple[Variable, ...]])
    preferences: list[Clause] = field(default_factory=list[Clause])
    soft: list[SoftCost] = field(default_factory=list[SoftCost])


class _Enumeration:
    """Depth-first search over all assignments, layouts of tensors first, latest dimension first.

    The first of equally good assignments that it meets is the canonical one.  A branch ends where
    a constraint is violated or the costs so far reach those of the best assignment yet.
    """

    def __init__(self, problem: LayoutProblem) -> None:
        self.problem = problem
        laid_out = [variable for group in layout_choices(problem) for variable in group]
        others = [v for v in problem.variables if v not in set(laid_out)]
        self.order = laid_out + sorted(others, key=lambda v: v.owner)
        place = {variable: index for index, variable in enumerate(self.order)}
        # The last entry is for what mentions no variable at all; Python's index -1 finds it.
        self.due = [_Due() for _ in range(len(self.order) + 1)]

        def due_at(variables: Iterable[Variable]) -> _Due:
            return self.due[max((place[variable] for variable in variables), default=-1)]

        for clause in problem.clauses:
            due_at(literal.variable for literal in clause.literals).clauses.append(clause)
        for preference in problem.preferences:
            due_at(literal.variable for literal in preference.literals).preferences.append(
                preference
            )
        for soft in problem.soft:
            due_at(literal.variable for literal in soft.when).soft.append(soft)
        for group in problem.exactly_one:
            due_at(group).exactly_one.append(group)
        for group in problem.at_most_one:
            due_at(group).at_most_one.append(group)
        self.bound: tuple[int, int] | None = None
        self.best: frozenset[Variable] | None = None
        self._settle(-1, set(), (0, 0))

    def _settle(self, index: int, chosen: set[Variable], paid: tuple[int, int]) -> None:
        """Checks and pays what is due after the variable at ``index``, then goes on."""
        due = self.due[index]
        if not (
            all(any(holds(x, chosen) for x in clause.literals) for clause in due.clauses)
            and all(sum(v in chosen for v in group) == 1 for group in due.exactly_one)
            and all(sum(v in chosen for v in group) <= 1 for group in due.at_most_one)
        ):
            return
        broken, cost = paid
        for preference in due.preferences:
            broken += not any(holds(x, chosen) for x in preference.literals)
        for soft in due.soft:
            cost += soft.weight if all(holds(x, chosen) for x in soft.when) else 0
        if self.bound is not None and (broken, cost) >= self.bound:
            return
        if index + 1 == len(self.order):
            self.bound, self.best = (broken, cost), frozenset(chosen)
            return
        variable = self.order[index + 1]
        for value in (True, False) if variable.role is Role.INNERMOST else (False, True):
            if value:
                self._settle(index + 1, chosen | {variable}, (broken, cost))
            else:
                self._settle(index + 1, chosen, (broken, cost))
