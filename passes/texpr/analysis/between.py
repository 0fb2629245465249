"""Which places of a block's program control comes to between two moments, as sets of isl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)

from mugraph.dialects import te
from mugraph.passes.texpr.analysis.domains import Domain, domain_of, isl_set
from mugraph.passes.texpr.analysis.evaluate import expanded


@dataclass(frozen=True)
class Moment:
    """An operator in one iteration of the loops around it that all threads of a block share."""

    op: Operation
    names: Mapping[SSAValue, str]
    """What the variables of those loops are, as isl reads it, the outermost first."""


def between(
    place: Operation,
    conditions: Sequence[te.Conditional],
    moments: tuple[Moment, Moment],
    order: Mapping[Operation, int],
    dimensions: Sequence[str],
) -> isl.Set:
    """Where control comes to the front of an operator behind one moment and before another.

    ``conditions`` are those that control comes there under, which must hold for all threads or for
    none; ``order`` numbers operators as they stand in the text; ``dimensions`` are the names that
    the moments are stated in, and the coordinates of the result.
    """
    source, target = moments
    loops = tuple(one for one in domain_of(place).loops if not isinstance(one, te.ThreadsOp))
    names: dict[SSAValue, str] = {}
    own: list[str] = []
    for depth, loop in enumerate(loops):
        name = source.names.get(loop.variable)
        # Two moments in one iteration of a loop have what is between them in it, too.
        if own or name is None or target.names.get(loop.variable) != name:
            name = f"q{depth}"
            own.append(name)
        names[loop.variable] = name
    names |= {size: source.names[size] for size in domain_of(place).sizes}
    constraints = Domain(loops, tuple(conditions)).constraints(names)
    constraints.append(_earlier(source.names, names, order[source.op] < order[place]))
    constraints.append(_earlier(names, target.names, order[place] <= order[target.op]))
    return isl_set(dimensions, own, constraints)


def _earlier(first: Mapping[SSAValue, str], second: Mapping[SSAValue, str], in_text: bool) -> str:
    """When one iteration comes before another, or is the same and one operator before the other."""
    alternatives: list[str] = []
    equal: list[str] = []
    for variable, name in first.items():
        if variable not in second:
            break
        other = second[variable]
        if name != other:
            alternatives.append(" and ".join([*equal, f"{name} < {other}"]))
            equal.append(f"{name} = {other}")
    if in_text:
        alternatives.append(" and ".join(equal) or "0 = 0")
    return "(" + " or ".join(f"({one})" for one in alternatives or ["0 = 1"]) + ")"


def cells(pairs: isl.Set, places: Mapping[int, isl.Set]) -> Iterator[frozenset[int]]:
    """The sets of places that lie between pairs of moments, for each set some pair has just those.

    ``places`` says for which pairs each does.  Sets that hold a smaller one found before may be
    left out.
    """
    if pairs.is_empty():
        return
    open_ = pairs
    for set_ in places.values():
        open_ = open_.subtract(set_)
    if not open_.is_empty():
        yield frozenset()
        return
    (place, set_), *rest = places.items()
    yield from cells(pairs.subtract(set_), dict(rest))
    inside = cells(pairs.intersect(set_), dict(rest))
    yield from (one | {place} for one in inside)


def differs_between_blocks(condition: te.Conditional, kernel: te.KernelOp) -> bool:
    """Whether a condition may hold for some alone of the blocks that may meet."""
    found, variables = expanded(condition.map.data.results, list(condition.indices))
    if kernel.variable not in variables:
        return False
    place = variables.index(kernel.variable)
    return any(_differs(one, place, kernel.blocks_that_meet) for one in found)


def _differs(expression: AffineExpr, place: int, blocks: int) -> bool:
    """Whether an expression may not be the same for as many neighbouring blocks."""
    match expression:
        case AffineDimExpr(position):
            return position == place
        case AffineBinaryOpExpr(
            kind=AffineBinaryOpKind.FloorDiv,
            lhs=AffineDimExpr(position),
            rhs=AffineConstantExpr(divisor),
        ) if position == place:
            return divisor % blocks != 0
        case AffineBinaryOpExpr(lhs=left, rhs=right):
            return _differs(left, place, blocks) or _differs(right, place, blocks)
        case _:
            return False
