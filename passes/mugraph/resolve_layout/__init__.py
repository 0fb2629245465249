"""``--resolve-layout``: every tensor of a µGraph gets a layout.

Analysis, choice and rewrite are :mod:`problem`, :mod:`solve` and :mod:`rewrite`; what layouts cost
on a target is in :mod:`exact`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.passes.each import TargetPass
from mugraph.passes.mugraph.resolve_layout import custom_costs as custom_costs
from mugraph.passes.mugraph.resolve_layout.apply_layouts import (
    apply_layouts,
    attach_certificate,
    is_resolved,
)
from mugraph.passes.mugraph.resolve_layout.eliminate import TABLE_LIMIT
from mugraph.passes.mugraph.resolve_layout.exact import charge_exact_costs
from mugraph.passes.mugraph.resolve_layout.explain_layouts import explanation
from mugraph.passes.mugraph.resolve_layout.problem import build_layout_problem, is_mugraph
from mugraph.passes.mugraph.resolve_layout.solve import (
    Solution,
    StepsExhausted,
    UnsatisfiableLayouts,
    solve,
    solve_with_bounds,
    solve_with_z3,
)
from mugraph.passes.mugraph.resolve_layout.z3_solver import STEP_LIMIT
from mugraph.passes.targets import Target

SolverName = Literal["dynamic-programming", "z3"]
DEFAULT_SOLVER: SolverName = "dynamic-programming"


def layout_problem_of(function: FuncOp, target: Target) -> LayoutProblem:
    """The layout problem of a function on a target."""
    problem = build_layout_problem(function)
    charge_exact_costs(problem, function, target)
    return problem


def solution_or_failure(function: FuncOp, problem: LayoutProblem, options: Limits) -> Solution:
    """The best layouts; raises ``PassFailedException`` where there are none, or none is found."""
    name = function.sym_name.data
    solver = (
        partial(solve_with_z3, step_limit=options.step_limit)
        if options.solver == "z3"
        else partial(solve, step_limit=options.step_limit, table_limit=options.table_limit)
    )
    try:
        return solve_with_bounds(problem, solver)
    except UnsatisfiableLayouts as error:
        raise PassFailedException(
            f"--resolve-layout: no layouts of @{name} meet all requirements, because "
            f"{', and '.join(error.reasons)}; change a layout in the signature"
        ) from error
    except StepsExhausted as error:
        raise PassFailedException(
            f"--resolve-layout: no layouts of @{name} were found in {options.step_limit} steps of "
            "the solver; allow more with step-limit, or fix layouts in the signature"
        ) from error


def shortfall(function: FuncOp, problem: LayoutProblem, solution: Solution) -> str:
    """How far layouts may be from the best, and why that is not known better."""
    broken = solution.broken_preferences - solution.broken_bound
    text = f"layouts of @{function.sym_name.data} cost {solution.cost} ps, and no others less "
    text += f"than {solution.bound} ps"
    if broken:
        text = f"other layouts of @{function.sym_name.data} may break {broken} preferences less"
    operators = list(dict.fromkeys(name for each in problem.bounded for name in each.operators))
    if not operators:
        return f"{text}; step-limit and table-limit allow a longer search"
    others = f" and {len(operators) - 1} more" if len(operators) > 1 else ""
    return f"{text}; {operators[0]}{others} can be laid out in too many ways to count them together"


class Limits(NamedTuple):
    """Which solver, and what it may spend: entries of one table, and steps of Z3."""

    table_limit: int = TABLE_LIMIT
    step_limit: int = STEP_LIMIT
    solver: SolverName = DEFAULT_SOLVER


@dataclass(frozen=True)
class ResolveLayoutPass(TargetPass):
    """Gives every DTensor and STensor the layout under which the kernels cost least.

    Chosen is the innermost dimension of each tensor; the strides follow from it, the first
    dimension of extent over 1 padded to 16 bytes.  A layout that a type already has stays, and
    inputs without one are row-major and contiguous; results without one are free.

    A layout costs what accesses take on ``arch``: sectors, wavefronts left after the best swizzle,
    instructions, waiting, and bytes of shared memory.  Rows of shared tensors may also be left
    unpadded.  The function gets ``mugraph.layout_certificate``: the cost, a bound that no
    choice can go below, and ``optimal`` where they are equal.  ``solver`` is
    ``dynamic-programming``, which leaves to Z3 what is too entangled for it, or ``z3`` for all of
    it; both give the same cost.  ``step-limit`` and ``table-limit`` limit them, in steps and not in
    time.  ``explain=true`` prints, to standard error, the
    choice of every tensor, what it costs by term, and the best that is possible without it.

    The µGraph must not have been scheduled: modules with a ``sched.kernel`` are left as they are,
    and so are functions without ``kn`` operators, but for a ``builtin.unrealized_conversion_cast``
    of what they pass to a µGraph or get from it.  It may be fused or not.  All extents are static.

    Before::

        func.func @f(%x: tensor<6x9xf16>) -> tensor<6x9xf16> {
          %y = kn.exp %x : tensor<6x9xf16> -> tensor<6x9xf16>
          func.return %y : tensor<6x9xf16>
        }

    After::

        func.func @f(%x: tensor<6x9xf16, #cute.layout<(6,9):(9,1)>>)
            -> tensor<6x9xf16, #cute.layout<(6,9):(16,1)>> {
          %y = kn.exp %x : ...
          func.return %y : tensor<6x9xf16, #cute.layout<(6,9):(16,1)>>
        }
    """

    name = "resolve-layout"

    explain: bool = False
    step_limit: int = STEP_LIMIT
    table_limit: int = TABLE_LIMIT
    solver: SolverName = DEFAULT_SOLVER

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Resolves the layouts of every µGraph of the module."""
        if any(inner.name == "sched.kernel" for inner in op.walk()):
            return
        target = self.target
        limits = Limits(self.table_limit, self.step_limit, self.solver)
        for function in tuple(op.walk()):
            if isinstance(function, FuncOp) and is_mugraph(function):
                self._resolve(function, target, limits)

    def _resolve(self, function: FuncOp, target: Target, limits: Limits) -> None:
        if is_resolved(function) and not self.explain:
            return
        problem = layout_problem_of(function, target)
        solution = solution_or_failure(function, problem, limits)
        if self.explain:
            sys.stderr.write(explanation(function, problem, solution, limits.table_limit))
        if not solution.is_optimal:
            print(f"--{self.name}: note: {shortfall(function, problem, solution)}", file=sys.stderr)
        if not is_resolved(function):
            apply_layouts(function, problem, solution)
            attach_certificate(function, solution)


@dataclass(frozen=True)
class ExplainLayoutPass(ResolveLayoutPass):
    """Resolves layouts as ``--resolve-layout`` does and says why, on standard error.

    For every tensor: the choice, its cost by term, and the runner-up, which is the cheapest
    solution in which this tensor is laid out otherwise.  Tensors that have layouts already keep
    them.  Options are those of ``--resolve-layout``.
    """

    name = "explain-layout"

    explain: bool = True
