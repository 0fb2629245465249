"""What ``--resolve-layout="explain=true"`` prints: why each tensor lies as it does."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import partial
from io import StringIO
from typing import NamedTuple

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.printer import Printer

from mugraph.dialects.cute import Layout
from mugraph.dialects.layout_problem import LayoutProblem, Variable
from mugraph.dialects.tensor_types import dims, shape_of
from mugraph.passes.mugraph.resolve_layout.problem import layout_candidates, tensors_of
from mugraph.passes.mugraph.resolve_layout.solution import (
    Solution,
    UnsatisfiableLayouts,
    holds,
)
from mugraph.passes.mugraph.resolve_layout.solve import solve, solve_with_bounds


class TensorReport(NamedTuple):
    """Why one tensor has its layout.

    ``terms`` are the costs paid that this tensor's layout has a part in, by what they are for;
    one that concerns several tensors is listed with each.  ``runner_up`` is the best solution in
    which this tensor has another layout, ``None`` where there is none.
    """

    value: SSAValue
    layout: Layout
    is_fixed: bool
    terms: dict[str, int]
    runner_up: tuple[Layout, Solution] | None


def tensor_report(
    problem: LayoutProblem, solution: Solution, value: SSAValue, table_limit: int
) -> TensorReport:
    """The report of one tensor, by solving again without its choice."""
    number = problem.number_of(value)
    chosen = solution.chosen
    own = {variable for variable in problem.variables if variable.owner == number}
    terms: dict[str, int] = {}
    for soft in (*problem.soft, *problem.lower_bounds):
        concerns = any(literal.variable in own for literal in soft.when)
        if concerns and all(holds(literal, chosen) for literal in soft.when):
            terms[soft.reason] = terms.get(soft.reason, 0) + soft.weight
    return TensorReport(
        value,
        layout_chosen(problem, value, chosen),
        problem.strides_fixed_for(value) is not None,
        terms,
        _runner_up(problem, value, chosen, table_limit),
    )


def layout_chosen(problem: LayoutProblem, value: SSAValue, chosen: AbstractSet[Variable]) -> Layout:
    """The layout that a solution gives to a tensor."""
    return next(
        Layout(shape_of(value.type), strides)
        for literals, strides in layout_candidates(problem, value)
        if all(holds(literal, chosen) for literal in literals)
    )


def _runner_up(
    problem: LayoutProblem, value: SSAValue, chosen: AbstractSet[Variable], table_limit: int
) -> tuple[Layout, Solution] | None:
    candidates = layout_candidates(problem, value)
    if len(candidates) == 1:
        return None
    current = next(
        literals for literals, _ in candidates if all(holds(x, chosen) for x in literals)
    )
    clauses = list(problem.clauses)
    problem.require_any(*(literal.negated() for literal in current), reason="another layout")
    try:
        solver = partial(solve, table_limit=table_limit)
        other = solve_with_bounds(problem, solver)
    except UnsatisfiableLayouts:
        return None
    finally:
        problem.clauses[:] = clauses
    return layout_chosen(problem, value, other.chosen), other


def explanation(
    function: FuncOp, problem: LayoutProblem, solution: Solution, table_limit: int
) -> str:
    """The report of a function, a paragraph a tensor, named as they are printed."""
    printer = Printer(stream=StringIO())
    printer.print_op(function)  # gives every value the name it is printed with
    verdict = "optimal" if solution.is_optimal else f"at least {solution.bound} ps are needed"
    lines = [f"layouts of @{function.sym_name.data}: {solution.cost} ps, {verdict}"]
    seen: set[int] = set()
    for value in tensors_of(function):
        if problem.number_of(value) in seen:
            continue
        seen.add(problem.number_of(value))
        report = tensor_report(problem, solution, value, table_limit)
        name = f"%{printer.print_ssa_value(value)}"
        given = ", given" if report.is_fixed else ""
        lines.append(f"  {name} ({dims(shape_of(value.type))}): {report.layout}{given}")
        lines += [f"    {cost:>12} ps  {term}" for term, cost in report.terms.items()]
        if report.runner_up is not None:
            layout, other = report.runner_up
            more = other.cost - solution.cost
            broken = other.broken_preferences - solution.broken_preferences
            extra = f" and {broken} more preferences broken" if broken else ""
            lines.append(f"    otherwise {layout}: {more:+} ps in all{extra}")
        elif not report.is_fixed:
            lines.append("    no other layout is possible")
    return "\n".join([*lines, ""])
