"""Z3 on layout problems: weighted MaxSAT, and what contradicts what.

A fresh context for every call: what was solved before in the process has no influence.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from mugraph.dialects.layout_problem import LayoutProblem, Literal, Variable
from mugraph.passes.mugraph.resolve_layout.solution import (
    Solution,
    StepsExhausted,
    UnsatisfiableLayouts,
    layout_choices,
    price_of,
    solution_of,
)

STEP_LIMIT = 2_000_000
"""Z3's own count of resources; some two seconds of work."""
LARGEST_WEIGHT = 1 << 60
"""The order of dimensions is no objective where its weights would exceed this."""


def solve_with_z3(problem: LayoutProblem, step_limit: int = STEP_LIMIT) -> Solution:
    """The best choice that Z3 finds within ``step_limit`` of its steps, and the bound it reached.

    Raises :class:`UnsatisfiableLayouts`, and :class:`StepsExhausted` where not even one choice was
    found.
    """
    chosen, bound = assignment_by_z3(problem, step_limit)
    return solution_of(problem, chosen, bound)


def assignment_by_z3(
    problem: LayoutProblem, step_limit: int
) -> tuple[set[Variable], tuple[int, int]]:
    """As :func:`solve_with_z3`: the variables that hold, and the bound."""
    return _Z3Encoding(problem).solve(step_limit)


def contradiction_of(problem: LayoutProblem) -> list[str]:
    """The reasons of a set of clauses that contradict each other, none of them superfluous.

    In the order in which the operators gave them; of several such sets always the same.
    """
    return _Z3Encoding(problem).contradiction()


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
        """Layouts that are not the canonical ones.

        One of an earlier tensor weighs more than those of all later tensors together.
        """
        weighted: list[tuple[Any, int]] = []
        unit = 1
        for choices in reversed(layout_choices(self.problem)):
            first = 1 if choices[0].role.value == "tight" else 0
            for place, variable in enumerate(choices, start=first):
                weighted.append((self.terms[variable], place * unit))
            unit *= len(choices) + first
        if unit > LARGEST_WEIGHT:
            return []
        return [(term, weight) for term, weight in weighted if weight]

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

    def solve(self, step_limit: int) -> tuple[set[Variable], tuple[int, int]]:
        optimizer = self.z3.Optimize(ctx=self.context)
        optimizer.set(priority="lex", rlimit=step_limit)
        optimizer.add(*self.hard_constraints())
        # Z3 minimises soft constraints of different names one name after the other.
        objectives = {"broken": self.broken(), "paid": self.paid(), "order": self.out_of_order()}
        handles: dict[str, Any] = {}
        for name, terms in objectives.items():
            for term, weight in terms:
                handles[name] = optimizer.add_soft(self.z3.Not(term), weight, name)
        verdict = optimizer.check()
        if verdict == self.z3.unsat:
            raise UnsatisfiableLayouts(self.contradiction())
        try:
            model = optimizer.model()
        except self.z3.Z3Exception as error:
            raise StepsExhausted from error
        chosen = self.assignment(model)
        if verdict == self.z3.sat:
            return chosen, price_of(self.problem, chosen)
        return chosen, self.bound(optimizer, handles, chosen)

    def bound(
        self, optimizer: Any, handles: dict[str, Any], chosen: set[Variable]
    ) -> tuple[int, int]:
        """Broken preferences and cost that Z3 has shown to be the least, as far as it got."""

        def lower(name: str) -> int:
            return max(0, int(optimizer.lower(handles[name]).as_long())) if name in handles else 0

        broken, cost = price_of(self.problem, chosen)
        broken_bound = min(lower("broken"), broken)
        # Z3 turns to the costs only when the preferences are settled.
        return broken_bound, min(lower("paid"), cost) if broken_bound == broken else 0

    def assignment(self, model: Any) -> set[Variable]:
        return {
            variable
            for variable, term in self.terms.items()
            if self.z3.is_true(model.eval(term, model_completion=True))
        }

    def contradiction(self) -> list[str]:
        z3 = self.z3
        solver = z3.Solver(ctx=self.context)
        solver.add(*self.group_constraints())
        guards: dict[str, Any] = {}
        for clause in self.problem.clauses:
            guard = guards.setdefault(clause.reason, z3.Bool(f"clause_{len(guards)}", self.context))
            solver.add(z3.Implies(guard, self.any_of(clause.literals)))
        solver.check(*guards.values())
        core = {guard.decl().name() for guard in solver.unsat_core()}
        needed = [reason for reason, guard in guards.items() if guard.decl().name() in core]
        for reason in tuple(needed):
            rest = [other for other in needed if other != reason]
            if solver.check(*(guards[other] for other in rest)) == z3.unsat:
                needed = rest
        return needed
