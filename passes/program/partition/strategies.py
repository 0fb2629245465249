"""How devices can share each operator: which shardings of operands give which of the results."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.device_cuts import DeviceCut, device_cuts, passes_parts
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.sharding import Axes, Mesh, Sharding
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.program.partition.conversions import Cost, divides


class Passing(NamedTuple):
    """Devices have parts of a combination in some operands, and so in the results."""

    operands: frozenset[int]
    combiner: Combiner


Choice = DeviceCut | Passing | None
"""What devices that differ along an axis do: share an index, pass parts, or all the same."""


class Strategy(NamedTuple):
    """One way in which devices share an operator."""

    operands: tuple[Sharding, ...]
    results: tuple[Sharding, ...]
    cost: Cost
    """Of what each device computes."""
    choices: tuple[Choice, ...]
    """What is done along each axis of the mesh."""


def strategies(op: Operation, mesh: Mesh) -> list[Strategy]:
    """All ways to share an operator; the first one is to do the same on each device."""
    cuts = device_cuts(op)
    choices: list[Choice] = [None, *cuts]
    for combiner in Combiner:
        choices += [Passing(operands, combiner) for operands in passes_parts(op, combiner)]
    total = _work(op, cuts)
    found: dict[tuple[object, object], Strategy] = {}
    for chosen in itertools.product(choices, repeat=len(mesh.shape)):
        if len({_combiner(choice) for choice in chosen} - {None}) > 1:
            continue
        shared = tuple(a for a, choice in enumerate(chosen) if isinstance(choice, DeviceCut))
        cost = Cost(*(each // mesh.size(shared) for each in total))
        for order in _orders(chosen):
            strategy = _strategy(op, chosen, order, cost)
            if strategy is not None and _divides(op, strategy, mesh):
                key = (strategy.operands, strategy.results)
                if key not in found or cost < found[key].cost:
                    found[key] = strategy
    return list(found.values())


def _combiner(choice: Choice) -> Combiner | None:
    return None if choice is None else choice.combiner


def _orders(chosen: Sequence[Choice]) -> Iterator[Axes]:
    """The orders of axes that tell something apart: those that share one index."""
    axes = range(len(chosen))
    for order in itertools.permutations(axes):
        pairs = itertools.combinations(order, 2)
        if all(one < two or chosen[one] is chosen[two] for one, two in pairs):
            yield order


def _strategy(
    op: Operation, chosen: tuple[Choice, ...], order: Axes, cost: Cost
) -> Strategy | None:
    """What devices have of operands and results; ``None`` where two indices cut a dimension."""
    operands = _shardings(op.operands, chosen, order, of_results=False)
    results = _shardings(op.results, chosen, order, of_results=True)
    if operands is None or results is None:
        return None
    return Strategy(operands, results, cost, chosen)


def _shardings(
    values: Sequence[SSAValue], chosen: Sequence[Choice], order: Axes, *, of_results: bool
) -> tuple[Sharding, ...] | None:
    found: list[Sharding] = []
    for number, value in enumerate(values):
        sharding = _sharding(value, number, chosen, order, is_result=of_results)
        if sharding is None:
            return None
        found.append(sharding)
    return tuple(found)


def _sharding(
    value: SSAValue, number: int, chosen: Sequence[Choice], order: Axes, *, is_result: bool
) -> Sharding | None:
    split: list[Axes] = [()] * len(shape_of(value.type))
    by: dict[int, Choice] = {}
    partial: list[int] = []
    combiner = Combiner.SUM
    for axis in order:
        choice = chosen[axis]
        if choice is None:
            continue
        if isinstance(choice, Passing):
            is_part, dim = is_result or number in choice.operands, None
        else:
            dim = (choice.results if is_result else choice.operands)[number]
            is_part = is_result and choice.combiner is not None
        if is_part:
            partial.append(axis)
            combiner = choice.combiner or Combiner.SUM
        if dim is not None:
            if by.setdefault(dim, choice) is not choice:
                return None
            split[dim] = (*split[dim], axis)
    return Sharding(tuple(split), tuple(sorted(partial)), combiner)


def _divides(op: Operation, strategy: Strategy, mesh: Mesh) -> bool:
    return all(
        divides(value.type, sharding, mesh)
        for values, shardings in (
            (op.operands, strategy.operands),
            (op.results, strategy.results),
        )
        for value, sharding in zip(values, shardings, strict=True)
    )


def _work(op: Operation, cuts: Sequence[DeviceCut]) -> Cost:
    """Elements of the results, times those that are combined into each.

    Only multiplications of products count as time: what one device computes of each element is
    fused with what other operators do, and takes no longer than the collective that spares it.
    """
    elements = max(math.prod(shape_of(value.type)) for value in (*op.operands, *op.results))
    combined = [
        shape_of(op.operands[number].type)[dim]
        for cut in cuts
        if cut.combiner is not None
        for number, dim in itertools.islice(
            ((n, d) for n, d in enumerate(cut.operands) if d is not None), 1
        )
    ]
    pairs = max(math.prod(shape_of(result.type)) for result in op.results) * math.prod(combined)
    return Cost(time=pairs, work=pairs) if pairs > elements else Cost(work=elements)
