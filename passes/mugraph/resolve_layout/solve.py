"""The choice: solves a :class:`LayoutProblem`.  Knows nothing of IR.

Three objectives, one after the other: break the fewest preferences, pay the least, and among the
choices that remain prefer, tensor by tensor in the order of their numbers, the latest dimension as
innermost (row-major) and padded rows.  The third makes the solution unique, so that it does not
depend on the solver or its version.

The problem falls into parts that have nothing to do with each other.  Each is solved by dynamic
programming (:mod:`eliminate`); where one is too entangled for that, Z3 solves the problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.passes.mugraph.resolve_layout.domains import (
    Factor,
    components,
    domains_of,
    scope_of,
    total_of,
)
from mugraph.passes.mugraph.resolve_layout.eliminate import (
    TABLE_LIMIT,
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
    ``step_limit`` that of Z3's steps, which works on the problem where one exceeds it.  Raises
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
    is_exact = is_found = True
    for choices, part in _parts_of(len(allowed), factors):
        found = eliminate(part, {choice: len(allowed[choice]) for choice in choices}, table_limit)
        if found.bound >= scale.forbidden:
            raise UnsatisfiableLayouts(contradiction_of(problem))
        total = total_of(part, found.assignment)
        is_exact, is_found = is_exact and total == found.bound, is_found and total < scale.forbidden
        assignment |= {choice: allowed[choice][index] for choice, index in found.assignment.items()}
        bound = _sum_of(bound, scale.split(found.bound))
    chosen = domains.variables_of([assignment[choice] for choice in range(len(assignment))])
    if not is_exact:
        try:
            other, least = assignment_by_z3(problem, step_limit)
        except StepsExhausted:
            if not is_found:
                raise
        else:
            bound = max(bound, least)
            if not is_found or price_of(problem, other) < price_of(problem, chosen):
                chosen = other
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
