"""The choice: solves a :class:`LayoutProblem`.  Knows nothing of IR.

Three objectives, one after the other: break the fewest preferences, pay the least, and among the
choices that remain prefer, tensor by tensor in the order of their numbers, the latest dimension as
innermost (row-major) and padded rows.  The third makes the solution unique, so that it does not
depend on the solver or its version.

The problem falls into parts that have nothing to do with each other.  Each is solved by dynamic
programming (:mod:`eliminate`) or, where it is too entangled for that, by Z3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from mugraph.dialects.layout_problem import LayoutProblem, Literal, Variable
from mugraph.passes.mugraph.resolve_layout.domains import (
    Domains,
    Factor,
    components,
    domains_of,
    scope_of,
    total_of,
)
from mugraph.passes.mugraph.resolve_layout.eliminate import (
    TABLE_LIMIT,
    Elimination,
    drop_dominated,
    eliminate,
)
from mugraph.passes.mugraph.resolve_layout.solution import (
    Solution,
    StepsExhausted,
    UnsatisfiableLayouts,
    price_of,
    solution_of,
)
from mugraph.passes.mugraph.resolve_layout.z3_solver import (
    STEP_LIMIT,
    assignment_by_z3,
    contradiction_of,
    solve_with_z3,
)

__all__ = [
    "Solution",
    "StepsExhausted",
    "UnsatisfiableLayouts",
    "solve",
    "solve_with_bounds",
    "solve_with_z3",
]


def solve(
    problem: LayoutProblem, step_limit: int = STEP_LIMIT, table_limit: int = TABLE_LIMIT
) -> Solution:
    """The best choice, or the best found within the limits, and its bound.

    ``table_limit`` is the number of entries that a table of the dynamic programming may have,
    ``step_limit`` that of Z3's steps for all parts that exceed it together.  Raises
    :class:`UnsatisfiableLayouts`, and :class:`StepsExhausted` where no choice was found.
    """
    domains = domains_of(problem)
    scale = domains.scale
    allowed = {choice: list(range(len(values))) for choice, values in enumerate(domains.values)}
    factors, allowed = drop_dominated(domains.factors, allowed)
    assignment = {choice: values[0] for choice, values in allowed.items()}
    constant = total_of((factor for factor in factors if not factor.scope), {})
    bound = scale.split(constant)
    if constant >= scale.forbidden:
        raise UnsatisfiableLayouts(contradiction_of(problem))
    hard: list[tuple[list[int], int, Elimination]] = []
    for choices, part in _parts_of(len(allowed), factors):
        found = eliminate(part, {choice: len(allowed[choice]) for choice in choices}, table_limit)
        if found.bound >= scale.forbidden:
            raise UnsatisfiableLayouts(contradiction_of(problem))
        total = total_of(part, found.assignment)
        assignment |= {choice: allowed[choice][index] for choice, index in found.assignment.items()}
        if total == found.bound:
            bound = _sum_of(bound, scale.split(found.bound))
        else:
            hard.append((choices, total, found))
    for choices, total, found in hard:
        own = restricted(problem, domains, allowed, choices)
        is_needed = total >= scale.forbidden
        chosen, least = _z3_assignment(own, step_limit // len(hard), is_needed)
        bound = _sum_of(bound, max(least, scale.split(found.bound)))
        if chosen is not None and price_of(own, chosen) < scale.split(total):
            assignment |= domains.assignment_of(chosen, choices)
    chosen = domains.variables_of([assignment[choice] for choice in range(len(assignment))])
    return solution_of(problem, chosen, min(bound, price_of(problem, chosen)))


def solve_with_bounds(
    problem: LayoutProblem, solver: Callable[[LayoutProblem], Solution]
) -> Solution:
    """What a solver gives, also where of some costs only lower bounds are known.

    Layouts are chosen by the bounds; what they cost is counted.
    """
    if not problem.bounded:
        return solver(problem)
    soft = [*problem.soft, *problem.lower_bounds]
    found = solver(replace(problem, soft=soft, lower_bounds=[], bounded=[]))
    return solution_of(problem, found.chosen, (found.broken_bound, found.bound))


def _sum_of(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


def _parts_of(count: int, factors: Sequence[Factor]) -> list[tuple[list[int], list[Factor]]]:
    """The components of the choices that factors connect, each with its factors."""
    parts = components(count, [factor for factor in factors if factor.scope])
    part_of = {choice: number for number, part in enumerate(parts) for choice in part}
    grouped: list[list[Factor]] = [[] for _ in parts]
    for factor in factors:
        if factor.scope:
            grouped[part_of[factor.scope[0]]].append(factor)
    return [(list(scope_of(group)), group) for group in grouped if group]


def _z3_assignment(
    problem: LayoutProblem, step_limit: int, is_needed: bool
) -> tuple[set[Variable] | None, tuple[int, int]]:
    """What Z3 finds and its bound; no assignment where it finds none and none is needed."""
    try:
        return assignment_by_z3(problem, step_limit)
    except StepsExhausted:
        if is_needed:
            raise
        return None, (0, 0)


def restricted(
    problem: LayoutProblem, domains: Domains, allowed: dict[int, list[int]], choices: Sequence[int]
) -> LayoutProblem:
    """The problem of some choices alone.

    Variables of values that are not ``allowed`` are false; those of other choices are what the
    only value left makes them.
    """
    part = LayoutProblem(problem.costs)
    inside = set(choices)

    def truth(literal: Literal) -> bool | None:
        choice, index = domains.place_of(literal.variable)
        if index not in allowed[choice]:
            return not literal.positive
        return literal.positive if len(allowed[choice]) == 1 else None

    def touches(literals: Iterable[Literal]) -> bool:
        return any(domains.place_of(literal.variable)[0] in inside for literal in literals)

    def undecided(literals: Iterable[Literal]) -> tuple[Literal, ...]:
        return tuple(literal for literal in literals if truth(literal) is None)

    for clause in problem.clauses:
        if touches(clause.literals) and not any(truth(literal) for literal in clause.literals):
            part.require_any(*undecided(clause.literals), reason=clause.reason)
    for preference in problem.preferences:
        literals = preference.literals
        if touches(literals) and not any(truth(literal) for literal in literals):
            part.prefer_any(*undecided(literals), reason=preference.reason)
    together: dict[tuple[Literal, ...], int] = {}
    for soft in problem.soft:
        if touches(soft.when) and all(truth(literal) is not False for literal in soft.when):
            when = undecided(soft.when)
            together[when] = together.get(when, 0) + soft.weight
    for when, weight in together.items():
        part.charge(weight, *when, reason="all costs")
    for group in problem.exactly_one:
        literals = [Literal(variable) for variable in group]
        # A value left of a choice with one is settled and no longer a variable.
        if touches(literals) and not any(truth(literal) for literal in literals):
            part.require_one(undecided(literals))
    for group in problem.at_most_one:
        literals = [Literal(variable) for variable in group]
        if touches(literals):
            part.require_at_most_one(undecided(literals))
    return part
