"""Random µGraphs, repartitioned at random: the same function, at every stage of compilation."""

from __future__ import annotations

import random

import pytest
from thorough import inputs
from xdsl.dialects.builtin import ModuleOp

from fuzz.properties import compile_checked, make_case, parse, require_same_function
from fuzz.search import WELL_FORMED, draw_case
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.passes.mugraph.retile import RetileError, retile

SEED = 3
ATTEMPTS = 12


def graphs_of(module: ModuleOp) -> list[CustomizedOp]:
    """The custom kernels of a module."""
    return [op for op in module.walk() if isinstance(op, CustomizedOp)]


def draw_plan(chooser: random.Random, graph: CustomizedOp) -> Plan:
    """Another grid, for-loop or block, or a split."""
    change = chooser.choice(("grid", "along", "forloop", "block", "split", "split"))
    grid = [chooser.choice((extent, 1, 2, 3, 2 * extent)) for extent in graph.grid_dim]
    along = tuple(chooser.choice((-1, 0, 1)) for _ in grid)
    splits, iterations = chooser.choice((2, 3, 4)), chooser.choice((1, 2))
    match change:
        case "grid":
            return Plan(grid=tuple(grid))
        case "along":
            return Plan(grid=tuple(grid), along=along)
        case "forloop":
            return Plan(forloop=chooser.choice((1, 2, 3, 4, 6, 8)))
        case "block":
            return Plan(block=(chooser.choice((32, 64, 96, 256)),))
        case _:
            forloop = chooser.choice((None, splits * iterations))
            return Plan(forloop=forloop, split_k=splits)


def retiled_at_random(text: str, seed: int) -> ModuleOp | None:
    """The µGraph with some of its kernels repartitioned; ``None`` where every attempt fails."""
    chooser = random.Random(seed)
    module = parse(text)
    changed = False
    # From the last on: a split adds kernels after its own.
    for index in reversed(range(len(graphs_of(module)))):
        for _ in range(ATTEMPTS):
            candidate = module.clone()
            graph = graphs_of(candidate)[index]
            try:
                graph.decided = draw_plan(chooser, graph)
                retile(graph)
            except RetileError as error:
                assert str(error)
                continue
            candidate.verify()
            changed = changed or str(candidate) != str(module)
            module = candidate
            break
    return module if changed else None


@pytest.mark.parametrize("number", range(inputs(8, 40)))
def test_a_retiled_mugraph_computes_the_same(number: int) -> None:
    drawn = draw_case(WELL_FORMED, SEED, number)
    if drawn is None:
        return
    module = retiled_at_random(drawn.text, number)
    if module is None:
        return
    case, own = make_case(parse(drawn.text)), make_case(module)
    # Sums are rounded in other portions: its own bounds are those of the roundings.
    case.errors[:] = [2 * max(pair) for pair in zip(case.errors, own.errors, strict=True)]
    require_same_function("--retile", module, case)
    if number % 5 == 0:
        compile_checked(str(module))


def test_many_are_retiled() -> None:
    drawn = (draw_case(WELL_FORMED, SEED, number) for number in range(inputs(12, 40)))
    retiled = [retiled_at_random(case.text, number) for number, case in enumerate(drawn) if case]
    assert sum(module is not None for module in retiled) >= len(retiled) // 2
