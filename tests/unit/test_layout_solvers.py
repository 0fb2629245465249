"""The solvers of layout problems against each other, their limits, bounds and certificates."""

import json
import os
from pathlib import Path
from random import Random

import pytest
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr
from xdsl.dialects.func import FuncOp

from mugraph.dialects.layout_problem import LayoutProblem, Literal, Role, Variable
from mugraph.passes.mugraph.decompose_threadblock import DecomposeThreadblockPass
from mugraph.passes.mugraph.fuse_threadblock import FuseThreadblockPass
from mugraph.passes.mugraph.resolve_layout import (
    ResolveLayoutPass,
    layout_problem_of,
)
from mugraph.passes.mugraph.resolve_layout.apply_layouts import CERTIFICATE
from mugraph.passes.mugraph.resolve_layout.solution import UnsatisfiableLayouts
from mugraph.passes.mugraph.resolve_layout.solve import Solution, solve, solve_with_z3
from mugraph.passes.targets import target_named
from mugraph.reading import make_context, read_module
from mugraph.tools.import_mirage import import_mirage

EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples").glob("*.mlir"))


def innermost(owner: int, dim: int) -> Literal:
    return Literal(Variable(owner, Role.INNERMOST, dim))


def random_problem(tensors: int, seed: int, *, reach: int, tight: bool = True) -> LayoutProblem:
    """Binary operators: each relates a tensor to two of the ``reach`` tensors before it."""
    random = Random(seed)
    problem = LayoutProblem()
    for owner in range(tensors):
        rank = random.choice((2, 2, 3))
        problem.require_one([innermost(owner, dim) for dim in range(rank)])
        for dim in range(rank):
            problem.charge(random.randrange(50), innermost(owner, dim), reason="own")
        if tight and random.random() < 0.3:
            literal = Literal(Variable(owner, Role.TIGHT, 0))
            problem.charge(random.randrange(50), literal.negated(), reason="padding")
            problem.charge(random.randrange(60), literal, innermost(owner, 0), reason="misaligned")
        for _ in range(2):
            other = owner - random.randint(1, reach)
            if other < 0:
                continue
            for a in range(2):
                for b in range(2):
                    weight = random.randrange(100)
                    problem.charge(weight, innermost(owner, a), innermost(other, b), reason="pair")
            if random.random() < 0.2:
                pair = innermost(owner, 0).negated(), innermost(other, 0)
                problem.prefer_any(*pair, reason="alike")
    return problem


def frustrated_problem(tensors: int, pairs: int, seed: int) -> LayoutProblem:
    """Every pair wants its innermost dimensions the same or different, and not all can be met."""
    random = Random(seed)
    problem = LayoutProblem()
    for owner in range(tensors):
        problem.require_one([innermost(owner, dim) for dim in range(2)])
    for _ in range(pairs):
        one, other = random.sample(range(tensors), 2)
        wants_same, weight = random.random() < 0.5, random.randint(1, 1000)
        for dim in range(2):
            literal = innermost(other, 1 - dim if wants_same else dim)
            problem.charge(weight, innermost(one, dim), literal, reason="pair")
    return problem


def price(solution: Solution) -> tuple[int, int]:
    return solution.broken_preferences, solution.cost


@pytest.mark.parametrize("seed", range(6))
def test_dynamic_programming_finds_what_z3_finds(seed: int) -> None:
    problem = random_problem(12, seed, reach=4)
    solution = solve(problem)
    assert solution.is_optimal
    assert solution == solve_with_z3(problem)


@pytest.mark.parametrize("seed", range(6))
def test_tables_that_are_too_small_hand_over_to_z3(seed: int) -> None:
    problem = random_problem(12, seed, reach=8)
    assert solve(problem, table_limit=4) == solve(problem)


@pytest.mark.parametrize("seed", range(3))
def test_a_bound_is_never_above_the_optimum(seed: int) -> None:
    problem = frustrated_problem(18, 60, seed)
    optimum = solve(problem, table_limit=1 << 16)
    assert optimum.is_optimal
    for steps, entries in ((1, 4), (1000, 8), (100_000, 8), (1000, 64)):
        found = solve(problem, step_limit=steps, table_limit=entries)
        assert (found.broken_bound, found.bound) <= price(optimum) <= price(found)
        assert found.is_optimal is (price(found) == (found.broken_bound, found.bound))


def test_steps_and_not_time_limit_the_search() -> None:
    problem = frustrated_problem(60, 200, 1)
    limited = [solve(problem, step_limit=100_000, table_limit=16) for _ in range(3)]
    assert limited[0] == limited[1] == limited[2]
    assert not limited[0].is_optimal
    assert 0 < limited[0].bound < limited[0].cost


def test_what_is_as_entangled_as_encoders_and_decoders_needs_no_z3() -> None:
    """Tables of 16,384 entries, as T5 takes; Z3 has a single step."""
    problem = frustrated_problem(36, 140, 0)
    assert not solve(problem, step_limit=1, table_limit=4096).is_optimal
    assert solve(problem, step_limit=1).is_optimal


def test_a_thousand_tensors_are_solved_to_the_optimum() -> None:
    assert solve(random_problem(1000, 0, reach=3)).is_optimal


def test_parts_that_share_nothing_are_solved_apart() -> None:
    # Two problems side by side cost what they cost alone.
    alone = random_problem(10, 5, reach=4), random_problem(10, 6, reach=4)
    both = LayoutProblem()
    for offset, problem in zip((0, 100), alone, strict=True):

        def moved(literal: Literal, by: int = offset) -> Literal:
            variable = literal.variable._replace(owner=literal.variable.owner + by)
            return Literal(variable, literal.positive)

        for group in problem.exactly_one:
            both.require_one([moved(Literal(variable)) for variable in group])
        for soft in problem.soft:
            both.charge(soft.weight, *map(moved, soft.when), reason=soft.reason)
        for preference in problem.preferences:
            both.prefer_any(*map(moved, preference.literals), reason=preference.reason)
    together, first, second = solve(both), *(solve(problem) for problem in alone)
    assert together.cost == first.cost + second.cost
    assert together.innermost == {
        **first.innermost,
        **{owner + 100: dim for owner, dim in second.innermost.items()},
    }


def test_a_core_names_no_more_than_it_must() -> None:
    problem = LayoutProblem()
    for owner in range(4):
        problem.require_one([innermost(owner, dim) for dim in range(2)])
    for owner in range(3):
        same = innermost(owner, 0).negated(), innermost(owner + 1, 0)
        problem.require_any(*same, reason=f"{owner} as {owner + 1}")
    problem.require_any(innermost(0, 0), reason="0 rows")
    problem.require_any(innermost(2, 1), reason="2 columns")
    problem.require_any(innermost(3, 1), reason="3 columns")
    cores: set[tuple[str, ...]] = set()
    for _ in range(3):
        with pytest.raises(UnsatisfiableLayouts) as caught:
            solve(problem)
        cores.add(caught.value.reasons)
    assert len(cores) == 1
    assert cores <= {
        ("0 as 1", "1 as 2", "0 rows", "2 columns"),
        ("0 as 1", "1 as 2", "2 as 3", "0 rows", "3 columns"),
    }


def resolved_example(file: Path) -> FuncOp:
    module = read_module(str(file), make_context())
    for step in (DecomposeThreadblockPass(), FuseThreadblockPass()):
        step.apply(make_context(), module)
    ResolveLayoutPass().apply(make_context(), module)
    module.verify()
    return next(op for op in module.walk() if isinstance(op, FuncOp))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_are_optimal_by_two_solvers(file: Path) -> None:
    module = read_module(str(file), make_context())
    for step in (DecomposeThreadblockPass(), FuseThreadblockPass()):
        step.apply(make_context(), module)
    function = next(op for op in module.walk() if isinstance(op, FuncOp))
    problem = layout_problem_of(function, target_named("sm_90a"))
    assert solve(problem) == solve_with_z3(problem, 1 << 31)

    certificate = resolved_example(file).attributes[CERTIFICATE]
    assert isinstance(certificate, DictionaryAttr)
    assert certificate.data["status"] == StringAttr("optimal")
    assert certificate.data["cost"] == certificate.data["bound"]
    cost = certificate.data["cost"]
    assert isinstance(cost, IntegerAttr) and cost.value.data == solve(problem).cost


CORPUS = os.environ.get("MUGRAPH_CORPUS")


@pytest.mark.skipif(CORPUS is None, reason="MUGRAPH_CORPUS names no folder of saved µGraphs")
def test_saved_graphs_are_optimal_by_two_solvers() -> None:
    files = sorted(Path(CORPUS or ".").glob("*.json"))
    assert files
    for file in files:
        text = file.read_text()
        for index in range(len(json.loads(text))):
            module, _ = import_mirage(text, index)
            for step in (DecomposeThreadblockPass(), FuseThreadblockPass()):
                step.apply(make_context(), module)
            function = next(op for op in module.walk() if isinstance(op, FuncOp))
            problem = layout_problem_of(function, target_named("sm_90a"))
            solution = solve(problem)
            assert solution.is_optimal
            assert solution == solve_with_z3(problem, 1 << 31)
