"""The choice: solves a :class:`LayoutProblem`.  Knows nothing of IR.

Three objectives, one after the other: break the fewest preferences, pay the least, and among the
choices that remain prefer, tensor by tensor in the order of their numbers, the latest dimension as
innermost (row-major).  The third makes the solution unique, so that it does not depend on the
solver or its version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from mugraph.dialects.layout_problem import (
    Clause,
    LayoutProblem,
    Literal,
    Role,
    SoftCost,
    Variable,
)


@dataclass(frozen=True)
class Solution:
    """The innermost dimension of each tensor, by number, and what it costs."""

    innermost: Mapping[int, int]
    cost: int
    broken_preferences: int


class UnsatisfiableLayouts(Exception):
    """No choice meets the hard constraints; ``reasons`` are those of a contradictory few."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


def holds(literal: Literal, true_variables: AbstractSet[Variable]) -> bool:
    """Whether a literal holds when exactly ``true_variables`` are true."""
    return (literal.variable in true_variables) is literal.positive


def is_satisfied(problem: LayoutProblem, true_variables: AbstractSet[Variable]) -> bool:
    """Whether an assignment meets every hard constraint."""
    return (
        all(any(holds(literal, true_variables) for literal in c.literals) for c in problem.clauses)
        and all(len(true_variables & {*group}) == 1 for group in problem.exactly_one)
        and all(len(true_variables & {*group}) <= 1 for group in problem.at_most_one)
    )


def solution_of(problem: LayoutProblem, true_variables: AbstractSet[Variable]) -> Solution:
    """What an assignment that meets the hard constraints chooses, breaks and costs."""
    innermost = {
        variable.owner: variable.dim
        for variable in problem.variables
        if variable.role is Role.INNERMOST and variable in true_variables
    }
    cost = sum(
        soft.weight
        for soft in problem.soft
        if all(holds(literal, true_variables) for literal in soft.when)
    )
    broken = sum(
        not any(holds(literal, true_variables) for literal in preference.literals)
        for preference in problem.preferences
    )
    return Solution(innermost, cost, broken)


def innermost_candidates(problem: LayoutProblem) -> dict[int, list[Variable]]:
    """The innermost variables of each tensor, the latest dimension first, by tensor number."""
    candidates: dict[int, list[Variable]] = {}
    for variable in sorted(
        (variable for variable in problem.variables if variable.role is Role.INNERMOST),
        key=lambda variable: (variable.owner, -variable.dim),
    ):
        candidates.setdefault(variable.owner, []).append(variable)
    return candidates


def solve_with_z3(problem: LayoutProblem) -> Solution:
    """The best choice, by Z3's weighted MaxSAT.

    A context of its own for every call: what was solved before in the process has no influence.
    Raises :class:`UnsatisfiableLayouts`.
    """
    return _Z3Encoding(problem).solve()


class _Z3Encoding:
    """A layout problem as Z3 expressions in a fresh context."""

    def __init__(self, problem: LayoutProblem) -> None:
        # Imported here because it takes longer than reading and printing a µGraph.
        self.z3: Any = import_module("z3")
        self.context: Any = self.z3.Context()
        self.problem = problem
        self.terms: dict[Variable, Any] = {
            variable: self.z3.Bool(
                f"{variable.role.value}_{variable.owner}_{variable.dim}", self.context
            )
            for variable in problem.variables
        }

    def literal(self, literal: Literal) -> Any:
        term = self.terms[literal.variable]
        return term if literal.positive else self.z3.Not(term)

    def any_of(self, literals: Sequence[Literal]) -> Any:
        return self.z3.Or(*(self.literal(literal) for literal in literals), self.context)

    def broken(self) -> list[tuple[Any, int]]:
        """Each preference that does not hold, with the weight 1."""
        return [
            (self.z3.Not(self.any_of(preference.literals)), 1)
            for preference in self.problem.preferences
        ]

    def paid(self) -> list[tuple[Any, int]]:
        """Each soft cost that is paid, with its weight."""
        return [
            (
                self.z3.And(*(self.literal(literal) for literal in soft.when), self.context),
                soft.weight,
            )
            for soft in self.problem.soft
        ]

    def out_of_order(self) -> list[tuple[Any, int]]:
        """Innermost dimensions that are not the latest.

        One of an earlier tensor weighs more than those of all later tensors together.
        """
        weighted: list[tuple[Any, int]] = []
        unit = 1
        for candidates in reversed(innermost_candidates(self.problem).values()):
            for place, variable in enumerate(candidates[1:], start=1):
                weighted.append((self.terms[variable], place * unit))
            unit *= len(candidates)
        return weighted

    def group_constraints(self) -> list[Any]:
        constraints: list[Any] = []
        for group in self.problem.exactly_one:
            constraints.append(
                self.z3.Or(*(self.terms[variable] for variable in group), self.context)
            )
        for group in (*self.problem.exactly_one, *self.problem.at_most_one):
            for index, variable in enumerate(group):
                for other in group[index + 1 :]:
                    either = (self.z3.Not(self.terms[variable]), self.z3.Not(self.terms[other]))
                    constraints.append(self.z3.Or(*either))
        return constraints

    def hard_constraints(self) -> list[Any]:
        clauses = [self.any_of(clause.literals) for clause in self.problem.clauses]
        return [*self.group_constraints(), *clauses]

    def solve(self) -> Solution:
        optimizer = self.z3.Optimize(ctx=self.context)
        optimizer.set(priority="lex")
        optimizer.add(*self.hard_constraints())
        # Z3 minimises soft constraints of different names one name after the other.
        objectives = {"broken": self.broken(), "paid": self.paid(), "order": self.out_of_order()}
        for name, terms in objectives.items():
            for term, weight in terms:
                optimizer.add_soft(self.z3.Not(term), weight, name)
        if optimizer.check() != self.z3.sat:
            raise UnsatisfiableLayouts(self.contradiction())
        return solution_of(self.problem, self.assignment(optimizer.model()))

    def assignment(self, model: Any) -> set[Variable]:
        return {
            variable
            for variable, term in self.terms.items()
            if self.z3.is_true(model.eval(term, model_completion=True))
        }

    def contradiction(self) -> list[str]:
        """The reasons of a set of clauses that contradict each other, none of them superfluous."""
        z3 = self.z3
        solver = z3.Solver(ctx=self.context)
        solver.add(*self.group_constraints())
        guards: dict[str, Any] = {}
        for clause in self.problem.clauses:
            guard = guards.setdefault(clause.reason, z3.Bool(f"clause_{len(guards)}", self.context))
            solver.add(z3.Implies(guard, self.any_of(clause.literals)))
        needed = list(guards)
        for reason in guards:
            rest = [other for other in needed if other != reason]
            if solver.check(*(guards[other] for other in rest)) == z3.unsat:
                needed = rest
        return needed


def solve_exhaustively(problem: LayoutProblem) -> Solution:
    """The best choice, by trying all; for small problems, as a check of the other solver.

    Raises :class:`UnsatisfiableLayouts`, with all reasons there are.
    """
    best = _Enumeration(problem).best
    if best is None:
        raise UnsatisfiableLayouts(list(dict.fromkeys(c.reason for c in problem.clauses)))
    return solution_of(problem, best)


@dataclass
class _Due:
    """What an enumeration checks and pays once a variable and all before it have their values."""

    clauses: list[Clause] = field(default_factory=list[Clause])
    exactly_one: list[tuple[Variable, ...]] = field(default_factory=list[tuple[Variable, ...]])
    at_most_one: list[tuple[Variable, ...]] = field(default_factory=list[tuple[Variable, ...]])
    preferences: list[Clause] = field(default_factory=list[Clause])
    soft: list[SoftCost] = field(default_factory=list[SoftCost])


class _Enumeration:
    """Depth-first search over all assignments, innermost dimensions first, latest dimension first.

    The first of equally good assignments that it meets is the canonical one.  A branch ends where
    a constraint is violated or the costs so far reach those of the best assignment yet.
    """

    def __init__(self, problem: LayoutProblem) -> None:
        self.problem = problem
        innermost = [v for group in innermost_candidates(problem).values() for v in group]
        others = [v for v in problem.variables if v.role is not Role.INNERMOST]
        self.order = innermost + sorted(others, key=lambda v: (v.role is Role.SWIZZLED, v.owner))
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
